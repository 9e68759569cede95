"""Every key of a configuration file: the supported ones, those of RabbitMQ that have no effect, and those that are
refused.

A key that asks for security, and has no effect here, stops the node: an operator who writes it relies on it. The
exception is a value that holds anyway (`HOLDS_ANYWAY`).

`SUPPORTED_KEYS` says which setting a key fills and how its text is parsed. A key that ends in `.*` is a family
(`listeners.tcp.default`, `listeners.tcp.1`): the rest of the key and the value go to a list, in order.

Not here: the settings themselves (`node.config.settings`).
"""

import difflib
from collections.abc import Callable, Collection, Iterator

from warren.broker.access.passwords import ALGORITHMS
from warren.broker.model.settings import NODE_KINDS
from warren.broker.policies.keys import MASTER_LOCATORS
from warren.node.config import values
from warren.node.config.authentication_settings import AUTH_BACKENDS
from warren.node.config.cluster_settings import DISCOVERY_BACKENDS, PARTITION_HANDLINGS, RECOVERIES, WITNESS
from warren.node.config.http_auth_settings import CACHE_MODULES, HTTP_BACKENDS
from warren.node.http_auth import GET, POST
from warren.node.key_settings import ALGORITHMS as TOKEN_ALGORITHMS
from warren.node.logs import FORMATS, LEVELS
from warren.node.tls import TLS_VERSIONS

Parser = Callable[[str], object]

ACCEPT_EVERYTHING = "rabbit_credential_validator_accept_everything"
MIN_PASSWORD_LENGTH = "rabbit_credential_validator_min_password_length"
PASSWORD_REGEXP = "rabbit_credential_validator_password_regexp"
CREDENTIAL_VALIDATORS = (ACCEPT_EVERYTHING, MIN_PASSWORD_LENGTH, PASSWORD_REGEXP)

SUPPORTED_KEYS: dict[str, tuple[str, Parser]] = {
    "auth_backends.*": ("auth_backends", values.one_of(AUTH_BACKENDS)),
    "auth_cache.cache_module": ("auth_cache.cache_module", values.one_of(CACHE_MODULES)),
    "auth_cache.cache_refusals": ("auth_cache.cache_refusals", values.truth),
    "auth_cache.cache_ttl": ("auth_cache.cache_ttl", values.whole_number(1, 86_400_000)),
    "auth_cache.cached_backend": ("auth_cache.cached_backend", values.one_of(HTTP_BACKENDS)),
    "auth_cache.cached_backend.authn": ("auth_cache.cached_backend.authn", values.one_of(HTTP_BACKENDS)),
    "auth_cache.cached_backend.authz": ("auth_cache.cached_backend.authz", values.one_of(HTTP_BACKENDS)),
    "auth_http.connection_timeout": ("auth_http.connection_timeout", values.whole_number(1, 600_000)),
    "auth_http.http_method": ("auth_http.http_method", values.one_of((GET, POST))),
    "auth_http.request_timeout": ("auth_http.request_timeout", values.whole_number(1, 600_000)),
    "auth_http.resource_path": ("auth_http.resource_path", values.web_address),
    "auth_http.ssl_options.cacertfile": ("auth_http_tls.cacertfile", values.name),
    "auth_http.ssl_options.certfile": ("auth_http_tls.certfile", values.name),
    "auth_http.ssl_options.hostname_verification": ("auth_http.hostname_verification", values.one_of(("wildcard",))),
    "auth_http.ssl_options.keyfile": ("auth_http_tls.keyfile", values.name),
    "auth_http.ssl_options.password": ("auth_http_tls.password", values.text),
    "auth_http.ssl_options.verify": ("auth_http.verify", values.one_of(("verify_peer",))),
    "auth_http.ssl_options.versions.*": ("auth_http_tls_versions", values.one_of(TLS_VERSIONS)),
    "auth_http.topic_path": ("auth_http.topic_path", values.web_address),
    "auth_http.user_path": ("auth_http.user_path", values.web_address),
    "auth_http.vhost_path": ("auth_http.vhost_path", values.web_address),
    "auth_mechanisms.*": ("auth_mechanisms", values.name),
    "auth_oauth2.additional_scopes_key": ("oauth2.additional_scopes_key", values.name),
    "auth_oauth2.algorithms.*": ("oauth2.algorithms", values.one_of(TOKEN_ALGORITHMS)),
    "auth_oauth2.default_key": ("oauth2.default_key", values.name),
    "auth_oauth2.https.cacertfile": ("oauth2.cacertfile", values.name),
    "auth_oauth2.https.hostname_verification": ("oauth2.hostname_verification", values.one_of(("wildcard",))),
    "auth_oauth2.https.peer_verification": ("oauth2.peer_verification", values.one_of(("verify_peer",))),
    "auth_oauth2.issuer": ("oauth2.issuer", values.trusted_url),
    "auth_oauth2.jwks_url": ("oauth2.jwks_url", values.trusted_url),
    "auth_oauth2.preferred_username_claims.*": ("oauth2.username_claims", values.name),
    "auth_oauth2.resource_server_id": ("oauth2.resource_server_id", values.name),
    "auth_oauth2.scope_aliases.*": ("oauth2.scope_aliases", values.name),
    "auth_oauth2.scope_prefix": ("oauth2.scope_prefix", values.text),
    "auth_oauth2.signing_keys.*": ("oauth2.signing_keys", values.name),
    "auth_oauth2.verify_aud": ("oauth2.verify_aud", values.truth),
    "channel_max": ("channel_max", values.whole_number(0, 65535)),
    "cluster.cookie": ("cluster.cookie", values.text),
    "cluster.cookie_file": ("cluster.cookie_file", values.name),
    "cluster.etcd.binary": ("etcd.binary", values.name),
    "cluster.etcd.client_port": ("etcd.client_port", values.whole_number(0, 65535)),
    "cluster.etcd.endpoints.*": ("etcd.endpoints", values.endpoint),
    "cluster.etcd.host": ("etcd.host", values.name),
    "cluster.etcd.password": ("etcd.password", values.text),
    "cluster.etcd.peer_port": ("etcd.peer_port", values.whole_number(0, 65535)),
    "cluster.etcd.tls.cacertfile": ("etcd_tls.cacertfile", values.name),
    "cluster.etcd.tls.certfile": ("etcd_tls.certfile", values.name),
    "cluster.etcd.tls.keyfile": ("etcd_tls.keyfile", values.name),
    "cluster.etcd.user": ("etcd.user", values.name),
    "cluster.tls.cacertfile": ("peer_tls.cacertfile", values.name),
    "cluster.tls.certfile": ("peer_tls.certfile", values.name),
    "cluster.tls.keyfile": ("peer_tls.keyfile", values.name),
    "cluster.tls.password": ("peer_tls.password", values.text),
    "cluster_formation.classic_config.nodes.*": ("cluster.nodes", values.node),
    "cluster_formation.dns.hostname": ("cluster.dns_hostname", values.name),
    "cluster_formation.node_type": ("cluster.node_type", values.one_of((*NODE_KINDS, WITNESS))),
    "cluster_formation.peer_discovery_backend": ("cluster.discovery", values.one_of(DISCOVERY_BACKENDS)),
    "cluster_partition_handling": ("cluster.partition_handling", values.one_of(PARTITION_HANDLINGS)),
    "cluster_partition_handling.pause_if_all_down.nodes.*": ("cluster.pause_nodes", values.name),
    "cluster_partition_handling.pause_if_all_down.recover": ("cluster.pause_recovery", values.one_of(RECOVERIES)),
    "collect_statistics_interval": ("sample_interval_ms", values.whole_number(100, 3_600_000)),
    "consumer_timeout": ("consumer_timeout_ms", values.timeout_ms),
    "consumer_timeout_action": ("consumer_timeout_action", values.one_of(("close", "requeue"))),
    "credential_validator.min_length": ("password.bytes_min", values.whole_number(1, 255)),
    "credential_validator.regexp": ("password.pattern", values.expression),
    "credential_validator.validation_backend": ("credential_validator", values.one_of(CREDENTIAL_VALIDATORS)),
    "default_pass": ("default_pass", values.text),
    "default_permissions.configure": ("default_configure", values.expression),
    "default_permissions.read": ("default_read", values.expression),
    "default_permissions.write": ("default_write", values.expression),
    "default_user": ("default_user", values.name),
    "default_user_tags.*": ("default_user_tags", values.truth),
    "default_vhost": ("default_vhost", values.name),
    "definitions.import_backend": ("definitions.backend", values.one_of(("local_filesystem",))),
    "definitions.local.path": ("definitions.path", values.name),
    "disk_free_limit.absolute": ("disk_limit_absolute_bytes", values.information_size),
    "disk_free_limit.relative": ("disk_limit_relative", values.factor),
    "frame_max": ("frame_max", values.byte_size(4096, 2**31 - 1)),
    "handshake_timeout": ("handshake_timeout_ms", values.patience_ms),
    "heartbeat": ("heartbeat_s", values.whole_number(0, 65535)),
    "initial_frame_max": ("initial_frame_max", values.byte_size(4096, 65536)),
    "listeners.ssl": ("ssl_listeners_none", values.one_of(("none",))),
    "listeners.ssl.*": ("ssl_listeners", values.address),
    "listeners.tcp": ("tcp_listeners_none", values.one_of(("none",))),
    "listeners.tcp.*": ("tcp_listeners", values.address),
    "load_definitions": ("load_definitions", values.name),
    "log.channel.level": ("log.channel.level", values.one_of(LEVELS)),
    "log.connection.level": ("log.connection.level", values.one_of(LEVELS)),
    "log.console.formatter": ("log.console.formatter", values.one_of(FORMATS)),
    "log.console.level": ("log.console.level", values.one_of(LEVELS)),
    "log.default.level": ("log.level", values.one_of(LEVELS)),
    "log.federation.level": ("log.federation.level", values.one_of(LEVELS)),
    "log.level": ("log.level", values.one_of(LEVELS)),
    "log.mirroring.level": ("log.mirroring.level", values.one_of(LEVELS)),
    "log.queue.level": ("log.queue.level", values.one_of(LEVELS)),
    "log.upgrade.level": ("log.upgrade.level", values.one_of(LEVELS)),
    "loopback_users": ("loopback_users_none", values.one_of(("none",))),
    "loopback_users.*": ("loopback_users", values.truth),
    "management.allow_hosts.*": ("allowed_hosts", values.name),
    "management.cors.allow_origins.*": ("cors_origins", values.name),
    "management.cors.max_age": ("cors_max_age_s", values.whole_number(0, 86400)),
    "management.disable_basic_auth": ("pages.disable_basic_auth", values.truth),
    "management.http.max_body_size": ("http.body_bytes_max", values.whole_number(1, 2**31 - 1)),
    "management.listener.ip": ("http.ip", values.name),
    "management.listener.port": ("http.port", values.whole_number(0, 65535)),
    "management.listener.ssl": ("http.listener_ssl", values.truth),
    "management.listener.ssl_opts.cacertfile": ("https_tls.cacertfile", values.name),
    "management.listener.ssl_opts.certfile": ("https_tls.certfile", values.name),
    "management.listener.ssl_opts.keyfile": ("https_tls.keyfile", values.name),
    "management.load_definitions": ("management.load_definitions", values.name),
    "management.oauth_client_id": ("pages.client_id", values.name),
    "management.oauth_client_secret": ("pages.client_secret", values.text),
    "management.oauth_enabled": ("pages.enabled", values.truth),
    "management.oauth_initiated_logon_type": ("pages.initiated_logon_type", values.one_of(("sp_initiated",))),
    "management.oauth_metadata_url": ("pages.metadata_url", values.trusted_url),
    "management.oauth_provider_url": ("pages.provider_url", values.trusted_url),
    "management.oauth_scopes": ("pages.scopes", values.name),
    "management.proxy_protocol": ("management.proxy_protocol", values.truth),
    "management.ssl.cacertfile": ("https_tls.cacertfile", values.name),
    "management.ssl.certfile": ("https_tls.certfile", values.name),
    "management.ssl.fail_if_no_peer_cert": ("https_tls.fail_if_no_peer_cert", values.truth),
    "management.ssl.ip": ("https.ip", values.name),
    "management.ssl.keyfile": ("https_tls.keyfile", values.name),
    "management.ssl.password": ("https_tls.password", values.text),
    "management.ssl.port": ("https.port", values.whole_number(0, 65535)),
    "management.ssl.verify": ("https_tls.verify", values.one_of(("verify_peer", "verify_none"))),
    "management.ssl.versions.*": ("https_tls_versions", values.one_of(TLS_VERSIONS)),
    "management.tcp.idle_timeout": ("http.idle_timeout_ms", values.patience_ms),
    "management.tcp.ip": ("http.ip", values.name),
    "management.tcp.port": ("http.port", values.whole_number(0, 65535)),
    "management.tcp.request_timeout": ("http.request_timeout_ms", values.patience_ms),
    "max_message_size": ("max_message_size", values.whole_number(1, 536_870_912)),
    "memory_monitor_interval": ("memory_interval_ms", values.whole_number(100, 3_600_000)),
    "mirroring_sync_batch_size": ("sync_batch_count", values.whole_number(1, 999_999)),
    "mirroring_sync_max_throughput": ("sync_bytes_per_s", values.information_size),
    "net_ticktime": ("cluster.silence_s", values.whole_number(1, 3600)),
    "password_hashing_module": ("password_hashing_module", values.one_of(ALGORITHMS)),
    "prometheus.authentication.enabled": ("prometheus.authentication", values.truth),
    "prometheus.path": ("prometheus.path", values.url_path),
    "prometheus.return_per_object_metrics": ("prometheus.per_object", values.truth),
    "prometheus.tcp.ip": ("prometheus.ip", values.name),
    "prometheus.tcp.port": ("prometheus.port", values.whole_number(0, 65535)),
    "proxy_protocol": ("proxy_protocol", values.truth),
    "proxy_protocol.from.*": ("proxy_protocol.from", values.network),
    "queue_master_locator": ("queue_master_locator", values.one_of(MASTER_LOCATORS)),
    "ssl_cert_login_from": (
        "cert_login_from",
        values.one_of(("distinguished_name", "common_name", "subject_alternative_name", "subject_alt_name")),
    ),
    "ssl_cert_login_san_index": ("cert_login_san_index", values.whole_number(0, 1000)),
    "ssl_cert_login_san_type": ("cert_login_san_type", values.one_of(("dns", "ip", "email", "uri"))),
    "ssl_handshake_timeout": ("ssl_handshake_timeout_ms", values.patience_ms),
    "ssl_options.cacertfile": ("tls.cacertfile", values.name),
    "ssl_options.certfile": ("tls.certfile", values.name),
    "ssl_options.fail_if_no_peer_cert": ("tls.fail_if_no_peer_cert", values.truth),
    "ssl_options.keyfile": ("tls.keyfile", values.name),
    "ssl_options.password": ("tls.password", values.text),
    "ssl_options.verify": ("tls.verify", values.one_of(("verify_peer", "verify_none"))),
    "ssl_options.versions.*": ("tls_versions", values.one_of(TLS_VERSIONS)),
    "total_memory_available_override_value": ("total_memory_bytes", values.information_size),
    "trace_files.directory": ("traces.directory", values.name),
    "trace_files.rotation.count": ("traces.pieces_max", values.whole_number(1, 10_000)),
    "trace_files.rotation.size": ("traces.piece_bytes", values.information_size),
    "vm_memory_high_watermark": ("watermark_relative", values.ratio),
    "vm_memory_high_watermark.absolute": ("watermark_absolute_bytes", values.information_size),
    "vm_memory_high_watermark.relative": ("watermark_relative", values.ratio),
    "vm_memory_high_watermark_paging_ratio": ("paging_ratio", values.factor),
}

KEY_FAMILIES: list[str] = [entry.removesuffix("*") for entry in SUPPORTED_KEYS if entry.endswith(".*")]

IGNORED_KEYS: frozenset[str] = frozenset(
    [
        "aws.*",
        "background_gc_enabled",
        "background_gc_target_interval",
        "classic_queue.default_version",
        "cluster_formation.*",
        "cluster_keepalive_interval",
        "cluster_name",
        "collect_statistics",
        "connection_max",
        "default_worker_pool_size",
        "definitions.*",
        "delegate_count",
        "distribution.*",
        "erlang.*",
        "event_exchange.*",
        "amqp1_0.*",
        "log.channel.*",
        "log.connection.*",
        "log.console",
        "log.console.*",
        "log.default.*",
        "log.dir",
        "log.exchange",
        "log.exchange.*",
        "log.federation.*",
        "log.file",
        "log.file.*",
        "log.journald",
        "log.journald.*",
        "log.mirroring.*",
        "log.queue.*",
        "log.ra.*",
        "log.syslog",
        "log.syslog.*",
        "log.upgrade.*",
        "management.*",
        "management_agent.*",
        "message_store_shutdown_timeout",
        "mnesia_table_loading_retry_limit",
        "mnesia_table_loading_retry_timeout",
        "motd_file",
        "mqtt.*",
        "num_acceptors.*",
        "product.*",
        "prometheus.*",
        "queue_index_embed_msgs_below",
        "queue_leader_locator",
        "quorum_queue.*",
        "raft.*",
        "reverse_dns_lookups",
        "socket_writer.*",
        "ssl_allow_poodle_attack",
        "ssl_options.bypass_pem_cache",
        "ssl_options.hibernate_after",
        "ssl_options.log_alert",
        "ssl_options.reuse_session",
        "stomp.*",
        "stream.*",
        "sysmon_handler.*",
        "tcp_listen_options",
        "tcp_listen_options.*",
        "vhost_restart_strategy",
        "vm_memory_calculation_strategy",
        "web_mqtt.*",
        "web_stomp.*",
        "hipe_compile",
    ]
)


_NO_BACKEND = "users are Warren's own, and it cannot ask others about them"
_WEAKER_TLS = "TLS would be less strict than it asks for"

REFUSED_KEYS: dict[str, str] = {
    "auth_cache.*": "answers would not be kept as it asks for",
    "auth_http.*": "the web server would not be asked as it says",
    "auth_ldap.*": _NO_BACKEND,
    "auth_oauth2.*": "tokens would not be checked as it asks for",
    "management.csp.*": "the pages have a policy of their own, which cannot be changed",
    "management.hsts.*": "browsers would not be told to use TLS",
    "management.listener.ssl_opts.*": _WEAKER_TLS,
    "management.login_session_timeout": "the pages would not ask for the password again",
    "management.oauth_disable_basic_auth": "the HTTP API would accept passwords all the same",
    "management.oauth_resource_servers.*": "the pages know one resource server",
    "management.oauth_response_type": "the pages use the authorization code flow alone",
    "management.ssl.*": _WEAKER_TLS,
    "prometheus.authentication.*": "the metrics would be given to everybody",
    "prometheus.ssl.*": "the metrics would be sent without TLS",
    "ssl_options": _WEAKER_TLS,
    "ssl_options.*": _WEAKER_TLS,
    "trust_store.*": "certificates are trusted by ssl_options.cacertfile alone",
}
"""Keys that ask for security, and what would happen if they were ignored."""

HOLDS_ANYWAY: dict[str, str] = {
    "auth_http.ssl_options": "none",
    "auth_http.ssl_options.client_renegotiation": "false",
    "auth_http.ssl_options.fail_if_no_peer_cert": "true",
    "auth_http.ssl_options.secure_renegotiate": "true",
    "auth_oauth2.https.crl_check": "false",
    "prometheus.authentication.enabled": "false",
    "management.ssl.client_renegotiation": "false",
    "management.ssl.honor_cipher_order": "true",
    "management.ssl.secure_renegotiate": "true",
    "ssl_options": "none",
    "ssl_options.client_renegotiation": "false",
    "ssl_options.honor_cipher_order": "true",
    "ssl_options.secure_renegotiate": "true",
}
"""Keys of that kind with the value that needs nothing."""


def refusal(key: str, value: str) -> str:
    """Why the node must not start with this key and value; empty if it may."""
    if key in IGNORED_KEYS or HOLDS_ANYWAY.get(key) == value:
        return ""
    return next((REFUSED_KEYS[one] for one in _patterns(key, REFUSED_KEYS)), "")


def find_supported(key: str) -> tuple[str, str] | None:
    """The entry of `SUPPORTED_KEYS` for a key, and the text in place of a family's star."""
    for family in KEY_FAMILIES:
        if key.startswith(family) and key != family:
            return f"{family}*", key.removeprefix(family)
    return (key, "") if key in SUPPORTED_KEYS else None


def is_known(key: str) -> bool:
    return find_supported(key) is not None or is_ignored(key) or any(_patterns(key, REFUSED_KEYS))


def is_ignored(key: str) -> bool:
    return any(_patterns(key, IGNORED_KEYS))


def _patterns(key: str, known: Collection[str]) -> Iterator[str]:
    """The entries that match the key: itself, or one that ends in a star."""
    parts = key.split(".")
    candidates = [key, *(".".join([*parts[:length], "*"]) for length in range(1, len(parts)))]
    return (one for one in candidates if one in known)


def nearest_key(key: str) -> str:
    """The known key most like this one; empty if none is."""
    known = [entry.removesuffix(".*") for entry in (*SUPPORTED_KEYS, *sorted(IGNORED_KEYS), *REFUSED_KEYS)]
    family, _, member = key.rpartition(".")
    for wanted, rest in ((key, ""), (family, f".{member}")):
        found = difflib.get_close_matches(wanted, known, n=1, cutoff=0.75)
        if found:
            return found[0] + rest
    return ""
