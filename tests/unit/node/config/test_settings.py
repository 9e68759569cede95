"""A node's settings from a file, the environment and flags."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warren.errors import ConfigError
from warren.node.config.keys import HOLDS_ANYWAY, IGNORED_KEYS, REFUSED_KEYS, SUPPORTED_KEYS
from warren.node.config.settings import LogSettings, NodeFlags, NodeSettings, read_settings
from warren.node.listeners import ListenAddress
from warren.node.resources import total_memory_bytes

Read = Callable[..., NodeSettings]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def settings(text: str = "", environment: dict[str, str] | None = None, **flags: str) -> NodeSettings:
        file = tmp_path / "my.conf"
        file.write_text(text)
        return read_settings(NodeFlags(config=str(file), **flags), environment or {})

    return settings


def broker_of(settings: NodeSettings, field: str) -> Any:
    return getattr(settings.broker, field)


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("default_user = alice", "default_user", "alice"),
        ("default_pass = secret", "default_pass", "secret"),
        ("default_vhost = sales", "default_vhost", "sales"),
        ("default_user_tags.monitoring = true", "default_user_tags", ["monitoring"]),
        ("default_user_tags.administrator = false", "default_user_tags", []),
        ("default_permissions.configure = ^a", "default_configure", "^a"),
        ("default_permissions.write = ^b", "default_write", "^b"),
        ("default_permissions.read = ''", "default_read", ""),
        (
            "password_hashing_module = rabbit_password_hashing_sha512",
            "password_hashing_module",
            "rabbit_password_hashing_sha512",
        ),
        ("frame_max = 64KB", "frame_max", 65536),
        ("frame_max = 0", "frame_max", 0),
        ("channel_max = 128", "channel_max", 128),
        ("heartbeat = 0", "heartbeat_s", 0),
        ("heartbeat = 20", "heartbeat_s", 20),
        ("handshake_timeout = 3000", "handshake_timeout_ms", 3000),
        ("handshake_timeout = infinity", "handshake_timeout_ms", 86_400_000),
        ("max_message_size = 1000000", "max_message_size", 1_000_000),
        ("consumer_timeout = 60000", "consumer_timeout_ms", 60_000),
        ("consumer_timeout = undefined", "consumer_timeout_ms", 0),
        ("consumer_timeout_action = requeue", "consumer_timeout_action", "requeue"),
        ("loopback_users = none", "loopback_users", []),
        ("loopback_users.guest = false", "loopback_users", []),
        ("loopback_users.guest = true\nloopback_users.bob = true", "loopback_users", ["guest", "bob"]),
        ("loopback_users.a.b = true", "loopback_users", ["a.b"]),
        ("auth_mechanisms.1 = PLAIN", "auth_mechanisms", ["PLAIN"]),
        ("auth_mechanisms.1 = EXTERNAL\nauth_mechanisms.2 = PLAIN", "auth_mechanisms", ["EXTERNAL", "PLAIN"]),
        ("heartbeat = 20\nheartbeat = 30", "heartbeat_s", 30),
        ("vm_memory_high_watermark_paging_ratio = 0.75", "paging_ratio", 0.75),
        ("vm_memory_high_watermark_paging_ratio = 1.1", "paging_ratio", 1.1),
    ],
)
def test_a_key_of_the_file_fills_the_brokers_setting(read: Read, line: str, field: str, value: object) -> None:
    assert broker_of(read(line), field) == value


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("listeners.tcp.default = 5673", "tcp_listeners", [ListenAddress("", 5673)]),
        (
            "listeners.tcp.1 = 127.0.0.1:5672\nlisteners.tcp.2 = ::1:5672",
            "tcp_listeners",
            [ListenAddress("127.0.0.1", 5672), ListenAddress("::1", 5672)],
        ),
        ("listeners.tcp = none\nlisteners.ssl.default = 5671", "tcp_listeners", []),
        ("listeners.ssl.default = 5671", "ssl_listeners", [ListenAddress("", 5671)]),
        ("listeners.ssl = none\nlisteners.ssl.default = 5671", "ssl_listeners", []),
        ("vm_memory_high_watermark.absolute = 2GB", "memory_limit_bytes", 2_000_000_000),
        ("vm_memory_high_watermark = 0.5\ntotal_memory_available_override_value = 1000", "memory_limit_bytes", 500),
        (
            "vm_memory_high_watermark.relative = 0.5\nvm_memory_high_watermark.absolute = 7\n"
            "total_memory_available_override_value = 1k",
            "memory_limit_bytes",
            512,
        ),
        ("disk_free_limit.absolute = 1GB", "disk_limit_bytes", 1_000_000_000),
        ("disk_free_limit.absolute = 0", "disk_limit_bytes", 0),
        ("disk_free_limit.relative = 1.5\ntotal_memory_available_override_value = 1000", "disk_limit_bytes", 1500),
        (
            "disk_free_limit.relative = 2\ndisk_free_limit.absolute = 7\ntotal_memory_available_override_value = 1k",
            "disk_limit_bytes",
            2048,
        ),
        ("memory_monitor_interval = 2500", "memory_interval_s", 2.5),
        ("log.level = debug", "log", LogSettings({"default": "debug"})),
        ("log.default.level = error", "log", LogSettings({"default": "error"})),
        ("log.console.level = warning", "log", LogSettings({"default": "warning"})),
        ("log.console.level = debug", "log", LogSettings({"default": "debug"})),
        ("log.console.level = warning\nlog.level = debug", "log", LogSettings({"default": "warning"})),
        ("log.connection.level = error", "log", LogSettings({"default": "info", "connection": "error"})),
        (
            "log.console.level = error\nlog.queue.level = debug\nlog.channel.level = none",
            "log",
            LogSettings({"default": "error", "queue": "error", "channel": "none"}),
        ),
        ("log.console.formatter = json", "log", LogSettings({"default": "info"}, "json")),
        ("load_definitions = a.json\nmanagement.load_definitions = b.json", "definition_paths", ["a.json", "b.json"]),
        (
            "definitions.import_backend = local_filesystem\ndefinitions.local.path = definitions.d",
            "definition_paths",
            ["definitions.d"],
        ),
        ("handshake_timeout = 2000", "tls_handshake_timeout_ms", 2000),
        ("handshake_timeout = 20000", "tls_handshake_timeout_ms", 5000),
        ("ssl_handshake_timeout = 20000", "tls_handshake_timeout_ms", 20_000),
    ],
)
def test_a_key_of_the_file_fills_the_nodes_setting(read: Read, line: str, field: str, value: object) -> None:
    assert getattr(read(line), field) == value


def test_tls_and_the_name_in_a_certificate_are_set_together(read: Read) -> None:
    settings = read(
        "listeners.ssl.default = 5671\nssl_options.cacertfile = ca.pem\nssl_options.certfile = cert.pem\n"
        "ssl_options.keyfile = key.pem\nssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true\n"
        "ssl_options.password = word\nssl_options.versions.1 = tlsv1.3\nssl_cert_login_from = subject_alt_name\n"
        "ssl_cert_login_san_type = email\nssl_cert_login_san_index = 1\n"
    )
    tls = settings.tls
    assert (tls.cacertfile, tls.certfile, tls.keyfile, tls.password) == ("ca.pem", "cert.pem", "key.pem", "word")
    assert (tls.verify_peer, tls.fail_if_no_peer_cert, tls.versions) == (True, True, ["tlsv1.3"])
    naming = settings.certificate_naming
    assert naming.login_from == "subject_alternative_name"
    assert (naming.alternative_name_type, naming.alternative_name_index) == ("email", 1)
    assert broker_of(settings, "auth_mechanisms") == ["PLAIN", "AMQPLAIN", "EXTERNAL"]


def test_without_any_setting_a_node_is_as_rabbitmq_is(read: Read) -> None:
    settings = read()
    assert settings.tcp_listeners == [ListenAddress("", 5672)]
    assert settings.ssl_listeners == []
    assert settings.memory_limit_bytes == int(total_memory_bytes() * 0.4)
    assert settings.disk_limit_bytes == 50_000_000
    assert broker_of(settings, "paging_ratio") == 0.5
    assert broker_of(settings, "loopback_users") == ["guest"]
    assert broker_of(settings, "default_user_tags") == ["administrator"]
    assert broker_of(settings, "password_hashing_module") == "warren_password_hashing_scrypt"
    assert broker_of(settings, "auth_mechanisms") == ["PLAIN", "AMQPLAIN"]
    assert broker_of(settings, "node_name") == f"warren@{os.uname().nodename.partition('.')[0]}"


@pytest.mark.parametrize(
    ("name", "whole"), [("rabbit@one", "rabbit@one"), ("hare", f"hare@{os.uname().nodename.partition('.')[0]}")]
)
def test_a_name_without_a_host_gets_this_ones(read: Read, name: str, whole: str) -> None:
    assert broker_of(read(name=name), "node_name") == whole


def test_the_environment_overrides_the_file_and_flags_override_both(read: Read) -> None:
    text = "listeners.tcp.default = 1001\nheartbeat = 10\n"
    environment = {"WARREN_LISTENERS__TCP__DEFAULT": "1002", "WARREN_HEARTBEAT": "20", "HEARTBEAT": "30"}
    settings = read(text, environment)
    assert settings.tcp_listeners == [ListenAddress("", 1002)]
    assert broker_of(settings, "heartbeat_s") == 20
    assert read(text, environment, amqp="127.0.0.1:0").tcp_listeners == [ListenAddress("127.0.0.1", 0)]


def test_how_mirrors_catch_up_has_rabbitmqs_keys(read: Read) -> None:
    assert (broker_of(read(), "sync_batch_count"), broker_of(read(), "sync_bytes_per_s")) == (4096, 0)
    settings = read("mirroring_sync_batch_size = 100\nmirroring_sync_max_throughput = 50MB")
    assert broker_of(settings, "sync_batch_count") == 100
    assert broker_of(settings, "sync_bytes_per_s") == 50_000_000
    with pytest.raises(ConfigError, match="mirroring_sync_batch_size must be a whole number from 1 to 999999"):
        read("mirroring_sync_batch_size = 0")


def test_the_core_gets_the_setting_for_the_place_of_queues(read: Read) -> None:
    assert broker_of(read(), "queue_master_locator") == "client-local"
    assert broker_of(read("queue_master_locator = min-masters"), "queue_master_locator") == "min-masters"


def test_a_variable_that_is_no_key_is_reported_and_does_no_harm(read: Read) -> None:
    settings = read("", {"WARREN_PORT_5672_TCP": "tcp://10.0.0.1:5672", "WARREN_AMQP": "x", "WARREN_COMPILED": "0"})
    assert settings.unknown_variables == ["WARREN_PORT_5672_TCP"]


def test_rabbitmqs_other_keys_are_accepted_and_named(read: Read) -> None:
    settings = read(
        "cluster_name = sales\nmqtt.listeners.tcp.1 = 1883\nquorum_queue.x = 1\nlog.file = false\n"
        "cluster_name = again\n",
    )
    assert settings.without_effect == [
        "cluster_name",
        "mqtt.listeners.tcp.1",
        "quorum_queue.x",
        "log.file",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hartbeat = 5", "line 1: unknown key hartbeat; did you mean heartbeat?"),
        (
            "\nlisteners.tpc.default = 5672",
            "line 2: unknown key listeners.tpc.default; did you mean listeners.tcp.default?",
        ),
        ("ssl_cert_login = x", "line 1: unknown key ssl_cert_login; did you mean ssl_cert_login_from?"),
        ("zzz = 1", "line 1: unknown key zzz"),
        ("heartbeat = often", "line 1: heartbeat must be a whole number from 0 to 65535, not 'often'"),
        (
            "listeners.tcp.1 = x",
            "line 1: listeners.tcp.1 must be PORT or HOST:PORT, with a port from 0 to 65535, not 'x'",
        ),
        ("ssl_options.verify = yes", "line 1: ssl_options.verify must be one of verify_peer, verify_none, not 'yes'"),
        (
            "disk_free_limit.relative = -1",
            "line 1: disk_free_limit.relative must be a number of 0 or more, like 1.5, not '-1'",
        ),
        (
            "default_permissions.write = [a",
            "line 1: default_permissions.write must be a regular expression"
            " (missing terminating ] for character class), not '[a'",
        ),
        ("consumer_timeout_action = drop", "line 1: consumer_timeout_action must be one of close, requeue, not 'drop'"),
    ],
)
def test_a_mistake_in_the_file_is_one_sentence_that_names_the_line(read: Read, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        read(text)
    assert str(refusal.value).endswith(f"my.conf {sentence}")


def test_a_mistake_in_the_environment_names_the_variable(read: Read) -> None:
    with pytest.raises(ConfigError) as refusal:
        read("", {"WARREN_FRAME_MAX": "12"})
    assert str(refusal.value).startswith("environment variable WARREN_FRAME_MAX: frame_max must be a size from 4096")


@pytest.mark.parametrize("flag", ["amqp", "http", "peer"])
def test_a_mistake_in_a_flag_names_the_flag(read: Read, flag: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        read(**{flag: "nowhere"})
    assert str(refusal.value) == f"--{flag} must be PORT or HOST:PORT, with a port from 0 to 65535, not 'nowhere'"


@pytest.mark.parametrize("name", ["a b", "@host", "a@b@c"])
def test_a_name_that_is_none_is_refused(read: Read, name: str) -> None:
    with pytest.raises(ConfigError, match="--name must be"):
        read(name=name)


def test_a_node_that_would_listen_nowhere_is_refused(read: Read) -> None:
    with pytest.raises(ConfigError, match="leaves nothing to listen on"):
        read("listeners.tcp = none")


def test_a_key_acts_or_is_without_effect_or_is_refused() -> None:
    assert set(SUPPORTED_KEYS) & IGNORED_KEYS == set()
    assert set(REFUSED_KEYS) & (set(SUPPORTED_KEYS) | IGNORED_KEYS) == set()


@pytest.mark.parametrize(
    "line",
    [
        "auth_ldap.servers.1 = ldap.example.com",
        "auth_http.ssl_options.depth = 2",
        "auth_oauth2.discovery_endpoint_path = /elsewhere",
        "auth_cache.cache_module_args = []",
        "trust_store.directory = /etc/trusted",
        "ssl_options.depth = 2",
        "ssl_options.ciphers.1 = ECDHE-ECDSA-AES256-GCM-SHA384",
        "ssl_options.honor_cipher_order = false",
        "management.ssl.depth = 1",
        "management.oauth_response_type = token",
        "management.hsts.policy = max-age=31536000",
        "prometheus.ssl.port = 15691",
    ],
)
def test_a_setting_that_asks_for_security_in_vain_stops_the_node(read: Read, line: str) -> None:
    key, _, value = line.partition(" = ")
    with pytest.raises(ConfigError, match=rf"my\.conf line 1: {re.escape(key)} has no effect in Warren: .*; remove"):
        read(line)
    variable = f"WARREN_{key.replace('.', '__').upper()}"
    with pytest.raises(ConfigError, match=f"environment variable {variable}: {re.escape(key)} has no effect"):
        read("", {variable: value})


@pytest.mark.parametrize("backend", ["ldap", "unheard-of"])
def test_a_backend_of_users_that_does_not_exist_stops_the_node(read: Read, backend: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(f"auth_backends.1 = internal\nauth_backends.2.authn = {backend}")
    assert str(refused.value).endswith(
        "my.conf line 2: auth_backends.2.authn must be one of internal, rabbit_auth_backend_internal, oauth2, "
        f"rabbit_auth_backend_oauth2, http, rabbit_auth_backend_http, cache, rabbit_auth_backend_cache, not '{backend}'"
    )


@pytest.mark.parametrize("line", [f"{key} = {value}" for key, value in HOLDS_ANYWAY.items()])
def test_a_demand_that_holds_anyway_is_accepted_without_a_warning(read: Read, line: str) -> None:
    assert read(line).without_effect == []


BACKEND = "credential_validator.validation_backend = rabbit_credential_validator"


@pytest.mark.parametrize(
    ("lines", "length", "pattern"),
    [
        ("", 0, ""),
        (f"{BACKEND}_accept_everything", 0, ""),
        (f"{BACKEND}_min_password_length\ncredential_validator.min_length = 30", 30, ""),
        (f"{BACKEND}_password_regexp\ncredential_validator.regexp = ^[A-Z]", 0, "^[A-Z]"),
    ],
)
def test_the_chosen_validator_says_what_passwords_must_have(read: Read, lines: str, length: int, pattern: str) -> None:
    assert read(lines).broker.password_rules == (length, pattern)


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (f"{BACKEND}_min_password_length", "needs credential_validator.min_length"),
        (f"{BACKEND}_password_regexp", "needs credential_validator.regexp"),
        ("credential_validator.min_length = 8", "credential_validator.min_length has no effect without"),
        (f"{BACKEND}_min_password_length\ncredential_validator.min_length = 0", "a whole number from 1 to 255"),
        (f"{BACKEND}_password_regexp\ncredential_validator.regexp = [a", "must be a regular expression"),
        ("credential_validator.validation_backend = mine", "must be one of rabbit_credential_validator_accept"),
        ("credential_validator.length = 8", "unknown key credential_validator.length"),
    ],
)
def test_an_incomplete_validator_stops_the_node(read: Read, lines: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(lines)
    assert sentence in str(refused.value)


def test_data_is_kept_in_var_by_default(read: Read) -> None:
    assert read().data_dir == "var"
    assert read(data="elsewhere").data_dir == "elsewhere"
