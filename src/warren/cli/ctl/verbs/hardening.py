"""check_hardening: the points of `docs/hardening.md`, each judged good, weak or cannot tell.

Facts come from the HTTP API. Modes of files come from this machine, if the node runs on it or `--data` names its
directory. No password is tried: the hash of the default user is compared here, so the check causes no failed login.

Not here: what each point is good for (`docs/hardening.md`), health (`health_checks`).
"""

import ipaddress
import os
import stat
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from warren.broker.access.passwords import is_password, is_slow
from warren.cli.ctl.api import OK, Failure, failed
from warren.cli.ctl.verb import Rows, Verb, VerbCall

NOT_ALL_GOOD: Final = 1
GOOD: Final = "good"
WEAK: Final = "weak"
UNKNOWN: Final = "cannot tell"

DEFAULT_NAME: Final = "guest"
ALL_NAMES: Final = (".*", "^.*", ".*$", "^.*$")
OLD_TLS: Final = ("tlsv1", "tlsv1.1")
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
PASSWORD_BYTES_MIN: Final = 8
DISK_LIMIT_BYTES_MIN: Final = 10**9
MEMORY_SHARE_MAX: Final = 0.8
# the log events about refused logins are warnings
LEVELS_WITH_WARNINGS: Final = ("debug", "info", "notice", "warning")
METADATA_FILES: Final = ("metadata.db", "metadata.db-wal")

Row = dict[str, Any]


@dataclass(frozen=True)
class Point:
    """The verdict on one point; `advice` is empty if the point is good."""

    name: str
    verdict: str
    found: str
    advice: str = ""

    def row(self) -> dict[str, object]:
        return {"verdict": self.verdict, "point": self.name, "found": self.found, "advice": self.advice}


@dataclass(frozen=True)
class Facts:
    """What the API tells about the node; `data_dir` is empty if its files are not on this machine."""

    settings: Row
    listeners: list[Row]
    users: list[Row]
    permissions: list[Row]
    vhosts: list[str]
    connected: set[str]
    parameters: list[Row]
    data_dir: str
    config_files: list[str]


def check_hardening(call: VerbCall) -> Rows:
    points = judge(_facts(call))
    exit_code = OK if all(point.verdict == GOOD for point in points) else NOT_ALL_GOOD
    return Rows(["verdict", "point", "found", "advice"], [point.row() for point in points], exit_code=exit_code)


def _facts(call: VerbCall) -> Facts:
    api = call.api
    settings = api.find("warren", "settings")
    if settings is None:
        raise failed("this server does not tell its settings over HTTP")
    overview = api.get("overview", columns="node,listeners")
    if overview["node"] != call.node:
        raise failed(f"{api.url} is {overview['node']}; give the address of {call.node} with --http")
    node = api.get("nodes", call.node, columns="db_dir,config_files")
    is_here = _is_loopback(api.host) or bool(call.own("data"))
    return Facts(
        settings,
        [listener for listener in overview["listeners"] if listener["node"] == call.node],
        api.get("users"),
        api.get("permissions"),
        [vhost["name"] for vhost in api.get("vhosts", columns="name")],
        {row["user"] for row in api.pages("connections", columns=["user", "protocol"]) if _is_amqp(row)},
        api.get("parameters"),
        str(call.own("data") or node["db_dir"]) if is_here else "",
        list(node["config_files"]) if is_here else [],
    )


def _is_amqp(connection: Row) -> bool:
    """Requests over HTTP and bridges on the node have direct connections."""
    return str(connection.get("protocol", "")).startswith("AMQP")


def judge(facts: Facts) -> list[Point]:
    return [
        _default_password(facts),
        _default_user_elsewhere(facts),
        _administrators(facts),
        _permissions(facts),
        _password_hashes(facts),
        _password_rules(facts.settings),
        _encrypted(facts, "amqp", "AMQP over TLS", "set listeners.ssl.default = 5671 and listeners.tcp = none"),
        _encrypted(facts, "http", "HTTP over TLS", "set management.ssl.port = 15671 without management.tcp.port"),
        _tls_versions(facts.settings),
        _metrics(facts),
        _peer_port(facts.settings),
        _etcd(facts.settings),
        _proxy_headers(facts.settings),
        _host_names(facts.settings),
        _origins(facts.settings),
        _data_directory(facts),
        _configuration_file(facts),
        _parameter_key(facts),
        _memory_limit(facts.settings),
        _disk_limit(facts.settings),
        _log_level(facts.settings),
    ]


def _default_password(facts: Facts) -> Point:
    name = "default password"
    likely = {DEFAULT_NAME, facts.settings["default_user"]}
    weak = [user["name"] for user in facts.users if user["name"] in likely and _is_default(user)]
    if weak:
        advice = f"warren ctl change_password {weak[0]}, or delete the user"
        return Point(name, WEAK, f"{_names(weak)}: the password is {DEFAULT_NAME}", advice)
    return Point(name, GOOD, f"no default user has the password {DEFAULT_NAME}")


def _is_default(user: Row) -> bool:
    return is_password(DEFAULT_NAME, user["hashing_algorithm"], b64decode(user["password_hash"]))


def _default_user_elsewhere(facts: Facts) -> Point:
    name = "default user from elsewhere"
    if all(user["name"] != DEFAULT_NAME for user in facts.users):
        return Point(name, GOOD, f"there is no user {DEFAULT_NAME}")
    if DEFAULT_NAME in facts.settings["loopback_users"]:
        return Point(name, GOOD, f"{DEFAULT_NAME} may log in from the node's machine only")
    advice = f"warren ctl delete_user {DEFAULT_NAME}, or remove loopback_users from the configuration"
    return Point(name, WEAK, f"{DEFAULT_NAME} may log in from every address", advice)


def _administrators(facts: Facts) -> Point:
    name = "administrators"
    every = _administrator_names(facts)
    busy = sorted(facts.connected & set(every))
    if busy:
        advice = "give applications users without tags (warren ctl add_user, set_permissions)"
        return Point(name, WEAK, f"AMQP clients are logged in as administrators: {_names(busy)}", advice)
    return Point(name, GOOD, f"no AMQP client is logged in as an administrator; administrators: {_names(every)}")


def _administrator_names(facts: Facts) -> list[str]:
    return [user["name"] for user in facts.users if "administrator" in user["tags"]]


def _permissions(facts: Facts) -> Point:
    name = "permissions"
    entered: dict[str, set[str]] = {}
    for row in facts.permissions:
        if all(row[kind] in ALL_NAMES for kind in ("configure", "write", "read")):
            entered.setdefault(row["user"], set()).add(row["vhost"])
    powerful = set(_administrator_names(facts))
    weak = sorted(user for user, vhosts in entered.items() if vhosts >= set(facts.vhosts) and user not in powerful)
    if weak:
        advice = "limit the expressions to the names that the user needs (warren ctl set_permissions)"
        return Point(name, WEAK, f"all permissions in all virtual hosts: {_names(weak)}", advice)
    return Point(name, GOOD, "no user but administrators has all permissions in all virtual hosts")


def _password_hashes(facts: Facts) -> Point:
    name = "password hashes"
    module = facts.settings["password_hashing_module"]
    weak = [user["name"] for user in facts.users if user["password_hash"] and not is_slow(user["hashing_algorithm"])]
    if not is_slow(module):
        advice = "remove password_hashing_module from the configuration, then set the passwords again"
        return Point(name, WEAK, f"new passwords get the quick hash {module}", advice)
    if weak:
        advice = "set these passwords again (warren ctl change_password)"
        return Point(name, WEAK, f"quick hashes: {_names(weak)}", advice)
    return Point(name, GOOD, "every password has a slow hash")


def _password_rules(settings: Row) -> Point:
    name = "password rules"
    least, pattern = settings["credential_validator.min_length"], settings["credential_validator.regexp"]
    if pattern:
        return Point(name, GOOD, "new passwords must match credential_validator.regexp")
    if least >= PASSWORD_BYTES_MIN:
        return Point(name, GOOD, f"new passwords have at least {least} bytes")
    advice = (
        "set credential_validator.validation_backend = rabbit_credential_validator_min_password_length "
        "and credential_validator.min_length = 12"
    )
    found = f"a new password may have only {least} bytes" if least > 1 else "a new password may have a single byte"
    return Point(name, WEAK, found, advice)


def _encrypted(facts: Facts, protocol: str, name: str, advice: str) -> Point:
    plain = _open_addresses(facts, (protocol,))
    if plain:
        return Point(name, WEAK, f"passwords pass in plain text at {_names(plain)}", advice)
    return Point(name, GOOD, "no listener without TLS is reachable from elsewhere")


def _tls_versions(settings: Row) -> Point:
    name = "TLS versions"
    found = {*settings["ssl_options.versions"], *settings["management.ssl.versions"]}
    old = [version for version in OLD_TLS if version in found]
    if old:
        advice = "name tlsv1.2 and tlsv1.3 alone in ssl_options.versions.* and management.ssl.versions.*"
        return Point(name, WEAK, f"the configuration names {_names(old)}", advice)
    return Point(name, GOOD, "the configuration names no version below 1.2")


def _metrics(facts: Facts) -> Point:
    name = "metrics"
    if facts.settings["prometheus.authentication.enabled"]:
        plain = _open_addresses(facts, ("http/prometheus",))
        if plain:
            advice = "set prometheus.tcp.ip = 127.0.0.1, and scrape /metrics over HTTPS"
            return Point(name, WEAK, f"the login of a scrape passes in plain text at {_names(plain)}", advice)
        return Point(name, GOOD, "every scrape needs a login")
    reachable = _open_addresses(facts, ("http", "https", "http/prometheus"))
    if reachable:
        advice = "set prometheus.authentication.enabled = true"
        return Point(name, WEAK, f"/metrics needs no login at {_names(reachable)}", advice)
    return Point(name, GOOD, "metrics are not reachable from elsewhere")


def _peer_port(settings: Row) -> Point:
    name = "peer port"
    listening = settings["cluster.listeners"]
    reachable = [address for address in listening if not _is_loopback(address.rpartition(":")[0].strip("[]"))]
    if not reachable:
        return Point(name, GOOD, "the port for other nodes is not reachable from elsewhere")
    if settings["cluster.tls.certfile"]:
        return Point(name, GOOD, f"nodes speak TLS at {_names(reachable)}")
    advice = "set cluster.tls.*, or --peer 127.0.0.1:25672 on a node that is alone"
    return Point(name, WEAK, f"messages between nodes pass in plain text at {_names(reachable)}", advice)


def _etcd(settings: Row) -> Point:
    name = "etcd"
    external = settings["cluster.etcd.endpoints"]
    if not external:
        return Point(name, GOOD, "the etcd members of nodes demand certificates, and nodes refuse unsafe versions")
    if not settings["cluster.etcd.tls.cacertfile"]:
        advice = "set cluster.etcd.tls.cacertfile, certfile and keyfile"
        return Point(name, WEAK, f"the node speaks without TLS to {_names(external)}", advice)
    advice = "compare etcd --version on these machines with docs/hardening.md"
    return Point(name, UNKNOWN, f"the version of the etcd at {_names(external)}", advice)


def _proxy_headers(settings: Row) -> Point:
    name = "PROXY headers"
    if not settings["proxy_protocol"] and not settings["management.proxy_protocol"]:
        return Point(name, GOOD, "no listener expects them")
    if settings["proxy_protocol.from"]:
        return Point(name, GOOD, f"they are accepted from {_names(settings['proxy_protocol.from'])}")
    advice = "name the load balancers in proxy_protocol.from.*"
    return Point(name, WEAK, "every client can name an address of its choice", advice)


def _host_names(settings: Row) -> Point:
    name = "host names"
    if "*" in settings["management.allow_hosts"]:
        advice = "name the hosts in management.allow_hosts.* instead of *"
        return Point(name, WEAK, "a page of any site can reach the HTTP API through a browser on this machine", advice)
    return Point(name, GOOD, f"clients on this machine use localhost, {_names(settings['management.allow_hosts'])}")


def _origins(settings: Row) -> Point:
    name = "origins"
    if "*" in settings["management.cors.allow_origins"]:
        advice = "name the sites in management.cors.allow_origins.* instead of *"
        return Point(name, WEAK, "pages of every site may use the HTTP API", advice)
    others = _names(settings["management.cors.allow_origins"])
    return Point(name, GOOD, f"sites other than the node whose pages may use the HTTP API: {others}")


def _data_directory(facts: Facts) -> Point:
    name = "data directory"
    if not facts.data_dir:
        return Point(name, UNKNOWN, "it is on another machine", "run this command there, or give --data DIR")
    paths = [facts.data_dir, *(os.path.join(facts.data_dir, file) for file in METADATA_FILES)]
    modes = {path: mode for path in paths if (mode := _mode(path)) is not None}
    if facts.data_dir not in modes:
        return Point(name, UNKNOWN, f"there is no directory {facts.data_dir}", "give the directory with --data DIR")
    open_to_others = [f"{path} has mode {mode:o}" for path, mode in modes.items() if mode & OTHERS]
    if open_to_others:
        return Point(name, WEAK, _names(open_to_others), "chmod go-rwx, or start the node again, which does that")
    return Point(name, GOOD, f"{facts.data_dir} is for its owner alone")


def _configuration_file(facts: Facts) -> Point:
    name = "configuration file"
    if not facts.data_dir:
        return Point(name, UNKNOWN, "it is on another machine", "run this command there")
    if not facts.config_files:
        return Point(name, GOOD, "there is none")
    modes = {path: _mode(path) for path in facts.config_files}
    missing = [path for path, mode in modes.items() if mode is None]
    if missing:
        return Point(name, UNKNOWN, f"{_names(missing)} is not on this machine", "run this command on that machine")
    weak = [path for path, mode in modes.items() if mode is not None and mode & stat.S_IRWXO]
    if weak:
        return Point(name, WEAK, f"every user of the machine can read or change {_names(weak)}", "chmod o-rwx")
    return Point(name, GOOD, "it is not for every user of the machine")


def _mode(path: str) -> int | None:
    """None if there is no such file. A file that this user may not look for is not for others."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except PermissionError:
        return 0
    except OSError:
        return None


def _parameter_key(facts: Facts) -> Point:
    name = "key of parameters"
    secret = [f"{row['component']} {row['name']}" for row in facts.parameters if _has_password(row["value"])]
    if not secret:
        return Point(name, GOOD, "no parameter holds a password")
    cookie = facts.settings["cluster.cookie_file"]
    if not facts.data_dir:
        return Point(name, UNKNOWN, f"whether {cookie} is in the data directory", "run this command on that machine")
    if cookie and _is_below(cookie, facts.data_dir):
        advice = "move the cookie out of the data directory (cluster.cookie_file), so that a backup lacks it"
        return Point(name, WEAK, f"the key of {_names(secret)} is derived from {cookie}, beside the data", advice)
    return Point(name, GOOD, "passwords in parameters are encrypted, and the key is not in the data directory")


def _is_below(path: str, directory: str) -> bool:
    above = os.path.realpath(directory)
    return os.path.commonpath([os.path.realpath(path), above]) == above


def _has_password(value: object) -> bool:
    """Whether a URI with a password is somewhere in the value of a parameter."""
    if isinstance(value, dict):
        return any(map(_has_password, value.values()))
    if isinstance(value, list):
        return any(map(_has_password, value))
    try:
        return isinstance(value, str) and bool(urlsplit(value).password)
    except ValueError:
        return False


def _memory_limit(settings: Row) -> Point:
    name = "memory limit"
    share = settings["vm_memory_high_watermark.absolute"] / settings["total_memory_available_override_value"]
    found = f"publishers wait above {share:.0%} of the memory"
    if share > MEMORY_SHARE_MAX:
        return Point(name, WEAK, found, "set vm_memory_high_watermark.relative = 0.4")
    return Point(name, GOOD, found)


def _disk_limit(settings: Row) -> Point:
    name = "disk limit"
    limit_bytes = settings["disk_free_limit.absolute"]
    found = f"publishers wait below {limit_bytes / 10**9:.2f} GB of free space"
    if limit_bytes < DISK_LIMIT_BYTES_MIN:
        return Point(name, WEAK, found, "set disk_free_limit.absolute = 2GB")
    return Point(name, GOOD, found)


def _log_level(settings: Row) -> Point:
    name = "log level"
    keys = ("log.connection.level", "log.default.level")
    silent = [f"{key} = {settings[key]}" for key in keys if settings[key] not in LEVELS_WITH_WARNINGS]
    if silent:
        return Point(name, WEAK, f"refused logins are not logged: {_names(silent)}", "set the level info or warning")
    return Point(name, GOOD, "refused logins are logged")


def _open_addresses(facts: Facts, protocols: tuple[str, ...]) -> list[str]:
    """The addresses of listeners for these protocols that are not loopback."""
    return [
        f"{row['ip_address']}:{row['port']}"
        for row in facts.listeners
        if row["protocol"] in protocols and not _is_loopback(row["ip_address"])
    ]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _names(names: Sequence[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _check_data(call: VerbCall) -> None:
    given = call.own("data")
    if given is not None and not os.path.isdir(given):
        raise Failure(NOT_ALL_GOOD, f"Error:\n{given} is not a directory")


VERB: Final = Verb(
    "check_hardening",
    "Checks that a node is set up as docs/hardening.md advises; exit code 1 if a point is weak or unknown",
    check_hardening,
    "[--data <dir>] [--timeout <timeout>]",
    "check_hardening --formatter json",
    "Checking how node {node} is hardened ...",
    switches={"data": str},
    check=_check_data,
)
