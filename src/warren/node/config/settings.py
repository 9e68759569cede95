"""A node's settings: the configuration file, overridden by the environment, overridden by flags.

The file has one `key = value` a line, as in `rabbitmq.conf`. `#` starts a comment anywhere; a value in single or double
quotes may contain one. The last value of a repeated key counts.

An environment variable is `WARREN_` and the key in capitals, with two underscores for a dot:
`WARREN_LISTENERS__TCP__DEFAULT=5673`, `WARREN_DEFAULT_USER=alice`. The flags of `warren serve` have their own variables
(`WARREN_AMQP`, `WARREN_DATA`, …), which the command line reads. An unknown variable is reported, not refused: container
platforms invent variables from service names.

Everything is checked before the node opens anything. A `ConfigError` is one sentence that names the line, the variable
or the flag.

As in RabbitMQ, a log category is logged from its own level, or from the common one, and never below the level of the
console.

Not here: the keys (`node.config.keys`), the values (`node.config.values`).
"""

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from warren.broker.access.passwords import SCRYPT
from warren.broker.access.users import ADMINISTRATOR
from warren.broker.cluster.addresses import PEER_PORT
from warren.broker.model.settings import BrokerSettings, PasswordRules
from warren.errors import ConfigError
from warren.node.config import values
from warren.node.config.authentication_settings import authentication_settings, token_key_settings
from warren.node.config.cluster_settings import ClusterSettings, cluster_settings
from warren.node.config.http_auth_settings import http_auth_settings
from warren.node.config.http_settings import HttpSettings, http_settings, load_balancers_of
from warren.node.config.keys import (
    ACCEPT_EVERYTHING,
    HOLDS_ANYWAY,
    MIN_PASSWORD_LENGTH,
    PASSWORD_REGEXP,
    SUPPORTED_KEYS,
    find_supported,
    is_ignored,
    is_known,
    nearest_key,
    refusal,
)
from warren.node.http_auth import HttpAuthSettings
from warren.node.key_settings import KeySettings
from warren.node.listeners import ListenAddress
from warren.node.logs import CATEGORIES, DEFAULT, LEVELS, PLAINTEXT
from warren.node.proxy_protocol import LoadBalancers
from warren.node.resources import (
    DEFAULT_DISK_LIMIT_BYTES,
    DEFAULT_MEMORY_WATERMARK,
    MEASURE_MEMORY_EVERY_S,
    total_memory_bytes,
)
from warren.node.tls import CertificateUserName, TlsSettings

_SETTING = re.compile(
    r"""\s* (?P<key>[^\s=\#]+) \s* = \s*
        (?: '(?P<single>[^']*)' | "(?P<double>[^"]*)" | (?P<bare>[^\#]*?) )
        \s* (?:\#.*)?""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class RawSetting:
    """A key, its value as text, and its place for error messages."""

    key: str
    value: str
    where: str


def read_settings_file(path: str) -> list[RawSetting]:
    """The settings of a file; `ConfigError` names the file, the line and the reason."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise ConfigError(f"the configuration file {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"the configuration file {path} is not UTF-8 text") from error
    return parse_settings(text, path)


def parse_settings(text: str, path: str) -> list[RawSetting]:
    """The settings of a text, in order."""
    settings: list[RawSetting] = []
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        if not settings and stripped[0] in "[{%":
            raise ConfigError(
                f"{path} line {number} is in RabbitMQ's classic Erlang format, which Warren does not read; "
                "write it as key = value lines"
            )
        settings.append(_setting(line, f"{path} line {number}"))
    return settings


def _setting(line: str, where: str) -> RawSetting:
    found = _SETTING.fullmatch(line)
    if found is None:
        raise ConfigError(f"{where} is not of the form key = value")
    value = next(text for text in found.group("single", "double", "bare") if text is not None)
    if not value and found["bare"] is not None:
        raise ConfigError(f"{where} gives {found['key']} no value")
    return RawSetting(found["key"], value, where)


@dataclass
class LogSettings:
    """The level of each log category, and the format of a line."""

    levels: dict[str, str] = field(default_factory=dict)
    form: str = PLAINTEXT


def log_settings(values: Mapping[str, Any]) -> LogSettings:
    """From the file and the environment."""
    console = values.get("log.console.level", "debug")
    common = values.get("log.level", "info" if "log.console.level" not in values else console)
    chosen = {DEFAULT: common} | {
        category: values[f"log.{category}.level"] for category in CATEGORIES if f"log.{category}.level" in values
    }
    levels = {category: max(console, level, key=LEVELS.__getitem__) for category, level in chosen.items()}
    return LogSettings(levels, values.get("log.console.formatter", PLAINTEXT))


ENVIRONMENT_PREFIX = "WARREN_"
_FLAGS = ("NAME", "DATA", "AMQP", "HTTP", "PEER", "CONFIG", "JOIN", "RAM", "STOPPED")
FLAG_VARIABLES = frozenset(f"WARREN_{flag}" for flag in _FLAGS)
_NOT_FOR_THE_NODE = ("WARREN_CLIENT_", "WARREN_COMPILED", "WARREN_TEST_")
DEFAULT_AMQP_PORT = 5672
DEFAULT_DATA_DIRECTORY = "var"
TLS_HANDSHAKE_TIMEOUT_MS = 5000

_BROKER_FIELDS = (
    "default_user",
    "default_pass",
    "default_vhost",
    "default_configure",
    "default_write",
    "default_read",
    "password_hashing_module",
    "frame_max",
    "channel_max",
    "heartbeat_s",
    "handshake_timeout_ms",
    "max_message_size",
    "consumer_timeout_ms",
    "consumer_timeout_action",
    "paging_ratio",
    "queue_master_locator",
    "sync_batch_count",
    "sync_bytes_per_s",
)


@dataclass(frozen=True)
class NodeFlags:
    """The flags of the command line; empty where not given."""

    name: str = ""
    data: str = ""
    amqp: str = ""
    http: str = ""
    peer: str = ""
    config: str = ""
    join: tuple[str, ...] = ()
    ram: bool = False
    witness: bool = False
    stopped: bool = False


@dataclass
class NodeSettings:
    """All settings of a node."""

    broker: BrokerSettings
    tcp_listeners: list[ListenAddress] = field(default_factory=list)
    ssl_listeners: list[ListenAddress] = field(default_factory=list)
    http: HttpSettings = field(default_factory=HttpSettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    # of the authentication backend oauth2
    token_keys: KeySettings = field(default_factory=KeySettings)
    # of the authentication backend http
    http_auth: HttpAuthSettings = field(default_factory=HttpAuthSettings)
    data_dir: str = DEFAULT_DATA_DIRECTORY
    config_file: str = ""
    # start in the stopped state
    stopped: bool = False
    tls: TlsSettings = field(default_factory=TlsSettings)
    tls_handshake_timeout_ms: int = TLS_HANDSHAKE_TIMEOUT_MS
    certificate_naming: CertificateUserName = field(default_factory=CertificateUserName)
    # the balancers that send a PROXY header to the AMQP listeners; None: there are none
    balancers: LoadBalancers | None = None
    memory_total_bytes: int = 0
    memory_limit_bytes: int = 0
    memory_interval_s: float = MEASURE_MEMORY_EVERY_S
    disk_limit_bytes: int = DEFAULT_DISK_LIMIT_BYTES
    log: LogSettings = field(default_factory=LogSettings)
    # imported, in this order, before clients are accepted
    definition_paths: list[str] = field(default_factory=list)
    without_effect: list[str] = field(default_factory=list)
    unknown_variables: list[str] = field(default_factory=list)


class _RawValues:
    """Values by the setting they fill; of a family, by member."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.families: dict[str, dict[str, Any]] = {}
        self.without_effect: list[str] = []

    def take(self, setting: RawSetting) -> None:
        found = find_supported(setting.key)
        if found is None:
            self._take_other(setting)
            return
        entry, member = found
        name, parse = SUPPORTED_KEYS[entry]
        try:
            value = parse(setting.value)
        except ValueError as error:
            raise ConfigError(f"{setting.where}: {setting.key} must be {error}, not {setting.value!r}") from error
        if member:
            self.families.setdefault(name, {})[member] = value
        else:
            self.values[name] = value

    def _take_other(self, setting: RawSetting) -> None:
        reason = refusal(setting.key, setting.value)
        if reason:
            raise ConfigError(f"{setting.where}: {setting.key} has no effect in Warren: {reason}; remove the line")
        if setting.key in HOLDS_ANYWAY:
            return
        if not is_ignored(setting.key):
            suggestion = nearest_key(setting.key)
            hint = f"; did you mean {suggestion}?" if suggestion else ""
            raise ConfigError(f"{setting.where}: unknown key {setting.key}{hint}")
        if setting.key not in self.without_effect:
            self.without_effect.append(setting.key)

    def members(self, name: str) -> list[Any]:
        return list(self.families.get(name, {}).values())


def read_settings(flags: NodeFlags, environment: Mapping[str, str]) -> NodeSettings:
    """The settings of a node, from all three sources."""
    gathered = _RawValues()
    for setting in read_settings_file(flags.config) if flags.config else []:
        gathered.take(setting)
    unknown_variables = _take_environment(gathered, environment)
    settings = NodeSettings(
        broker=_broker_settings(gathered, flags),
        token_keys=token_key_settings(gathered.values, gathered.families),
        http_auth=http_auth_settings(gathered.values, gathered.families),
        tcp_listeners=_tcp_listeners(gathered, flags),
        ssl_listeners=_ssl_listeners(gathered),
        http=_http_settings(gathered, flags),
        cluster=_cluster_settings(gathered, flags),
        data_dir=flags.data or DEFAULT_DATA_DIRECTORY,
        config_file=flags.config,
        stopped=flags.stopped,
        tls=_tls_settings(gathered),
        certificate_naming=_certificate_naming(gathered),
        balancers=load_balancers_of("proxy_protocol", gathered.values, gathered.families),
        memory_total_bytes=_total_memory_bytes(gathered),
        memory_limit_bytes=_memory_limit_bytes(gathered),
        memory_interval_s=gathered.values.get("memory_interval_ms", MEASURE_MEMORY_EVERY_S * 1000) / 1000,
        disk_limit_bytes=_disk_limit_bytes(gathered),
        log=log_settings(gathered.values),
        definition_paths=_definition_paths(gathered),
        without_effect=gathered.without_effect,
        unknown_variables=unknown_variables,
    )
    settings.broker.partition_handling = settings.cluster.partition_handling
    settings.broker.pause_nodes = settings.cluster.pause_nodes
    settings.broker.pause_recovery = settings.cluster.pause_recovery
    settings.tls_handshake_timeout_ms = gathered.values.get(
        "ssl_handshake_timeout_ms", min(TLS_HANDSHAKE_TIMEOUT_MS, settings.broker.handshake_timeout_ms)
    )
    if not settings.tcp_listeners and not settings.ssl_listeners:
        raise ConfigError("listeners.tcp = none leaves nothing to listen on; set listeners.ssl.default or --amqp")
    return settings


def _take_environment(gathered: _RawValues, environment: Mapping[str, str]) -> list[str]:
    """Take the variables that are keys; returns the others."""
    unknown: list[str] = []
    for variable in sorted(environment):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable.startswith(_NOT_FOR_THE_NODE):
            continue
        if variable in FLAG_VARIABLES:
            continue
        key = variable.removeprefix(ENVIRONMENT_PREFIX).replace("__", ".").lower()
        if is_known(key):
            gathered.take(RawSetting(key, environment[variable], f"environment variable {variable}"))
        else:
            unknown.append(variable)
    return unknown


def _broker_settings(gathered: _RawValues, flags: NodeFlags) -> BrokerSettings:
    chosen = {name: gathered.values[name] for name in _BROKER_FIELDS if name in gathered.values}
    chosen.setdefault("password_hashing_module", SCRYPT)
    mechanisms = gathered.members("auth_mechanisms")
    if not mechanisms:
        mechanisms = ["PLAIN", "AMQPLAIN", *(["EXTERNAL"] if _ssl_listeners(gathered) else [])]
    settings = BrokerSettings(
        node_name=_node_name(flags.name),
        default_user_tags=_default_user_tags(gathered),
        starts_empty=bool(_definition_paths(gathered)),
        loopback_users=_loopback_users(gathered),
        auth_mechanisms=mechanisms,
        **chosen,
    )
    settings.password_rules = _password_rules(gathered)
    settings.authentication = authentication_settings(gathered.values, gathered.families)
    return settings


def _password_rules(gathered: _RawValues) -> PasswordRules:
    """As in RabbitMQ, the key of the chosen validator counts alone."""
    chosen = gathered.values.get("credential_validator", ACCEPT_EVERYTHING)
    rules = {"bytes_min": MIN_PASSWORD_LENGTH, "pattern": PASSWORD_REGEXP}
    keys = {"bytes_min": "credential_validator.min_length", "pattern": "credential_validator.regexp"}
    given = {name: gathered.values[f"password.{name}"] for name in rules if f"password.{name}" in gathered.values}
    for name, validator in rules.items():
        if name in given and chosen != validator:
            raise ConfigError(
                f"{keys[name]} has no effect without credential_validator.validation_backend = {validator}"
            )
        if name not in given and chosen == validator:
            raise ConfigError(f"credential_validator.validation_backend = {validator} needs {keys[name]}")
    return PasswordRules(**given)


def _node_name(given: str) -> str:
    if any(character.isspace() for character in given) or given.count("@") > 1 or given.startswith("@"):
        raise ConfigError(f"--name must be NAME or NAME@HOST, without spaces, not {given!r}")
    name, _, host = given.partition("@")
    return f"{name or 'warren'}@{host or socket.gethostname().partition('.')[0]}"


def _default_user_tags(gathered: _RawValues) -> list[str]:
    named = gathered.families.get("default_user_tags")
    # as in RabbitMQ, naming any tag replaces the default
    return [ADMINISTRATOR] if named is None else [tag for tag, given in named.items() if given]


def _loopback_users(gathered: _RawValues) -> list[str]:
    if "loopback_users_none" in gathered.values:
        return []
    named = gathered.families.get("loopback_users")
    # as in RabbitMQ, naming any user replaces the default
    return ["guest"] if named is None else [user for user, only_loopback in named.items() if only_loopback]


def _tcp_listeners(gathered: _RawValues, flags: NodeFlags) -> list[ListenAddress]:
    if flags.amqp:
        return [_flag_address("--amqp", flags.amqp)]
    if "tcp_listeners_none" in gathered.values:
        return []
    return gathered.members("tcp_listeners") or [ListenAddress("", DEFAULT_AMQP_PORT)]


def _ssl_listeners(gathered: _RawValues) -> list[ListenAddress]:
    return [] if "ssl_listeners_none" in gathered.values else gathered.members("ssl_listeners")


def _http_settings(gathered: _RawValues, flags: NodeFlags) -> HttpSettings:
    flag = _flag_address("--http", flags.http) if flags.http else None
    amqp_host = _flag_address("--amqp", flags.amqp).host if flags.amqp else ""
    return http_settings(gathered.values, gathered.families, flag, amqp_host)


def _cluster_settings(gathered: _RawValues, flags: NodeFlags) -> ClusterSettings:
    """Without `--peer`, the peer port is on the host of `--amqp`, and free if that is."""
    peer = _flag_address("--peer", flags.peer) if flags.peer else None
    amqp = _flag_address("--amqp", flags.amqp) if flags.amqp else ListenAddress("", DEFAULT_AMQP_PORT)
    default = ListenAddress(amqp.host, PEER_PORT if amqp.port else 0)
    data_dir = flags.data or DEFAULT_DATA_DIRECTORY
    return cluster_settings(gathered.values, gathered.families, data_dir, peer or default, flags)


def _flag_address(flag: str, value: str) -> ListenAddress:
    try:
        return values.address(value)
    except ValueError as error:
        raise ConfigError(f"{flag} must be {error}, not {value!r}") from error


def _tls_settings(gathered: _RawValues) -> TlsSettings:
    chosen = {name.removeprefix("tls."): value for name, value in gathered.values.items() if name.startswith("tls.")}
    verify_peer = chosen.pop("verify", "verify_none") == "verify_peer"
    return TlsSettings(**chosen, verify_peer=verify_peer, versions=gathered.members("tls_versions"))


def _certificate_naming(gathered: _RawValues) -> CertificateUserName:
    login_from = gathered.values.get("cert_login_from", "distinguished_name")
    return CertificateUserName(
        login_from="subject_alternative_name" if login_from == "subject_alt_name" else login_from,
        alternative_name_type=gathered.values.get("cert_login_san_type", "dns"),
        alternative_name_index=gathered.values.get("cert_login_san_index", 0),
    )


def _definition_paths(gathered: _RawValues) -> list[str]:
    named = ("load_definitions", "management.load_definitions", "definitions.path")
    return list(dict.fromkeys(gathered.values[name] for name in named if name in gathered.values))


def _memory_limit_bytes(gathered: _RawValues) -> int:
    given = gathered.values
    if "watermark_absolute_bytes" in given and "watermark_relative" not in given:
        return max(1, cast(int, given["watermark_absolute_bytes"]))
    total_bytes = _total_memory_bytes(gathered)
    # as in RabbitMQ, a watermark of 0 blocks all publishers; it does not mean no limit
    return max(1, int(total_bytes * given.get("watermark_relative", DEFAULT_MEMORY_WATERMARK)))


def _disk_limit_bytes(gathered: _RawValues) -> int:
    given = gathered.values
    if "disk_limit_relative" in given:
        return int(_total_memory_bytes(gathered) * given["disk_limit_relative"])
    return cast(int, given.get("disk_limit_absolute_bytes", DEFAULT_DISK_LIMIT_BYTES))


def _total_memory_bytes(gathered: _RawValues) -> int:
    return cast(int, gathered.values.get("total_memory_bytes")) or total_memory_bytes()
