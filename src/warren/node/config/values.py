"""Parsers of values: numbers within bounds, sizes with units, addresses, words of a list.

Each parser returns the value or raises `ValueError` with the words that complete "KEY … must be".

Two families of units, as in RabbitMQ: a *byte size* (`frame_max = 128KB`) always counts in 1,024; an
*information size* (`vm_memory_high_watermark.absolute = 2GB`) counts in 1,000, unless it says KiB, MiB, GiB, or K, M,
G.

Not here: which key takes which (`node.config.keys`).
"""

import ipaddress
import math
import re
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from warren.broker.cluster.addresses import NodeAddress, parse_address, parse_node
from warren.broker.model.name_pattern import NamePattern
from warren.node.key_settings import is_trusted_url
from warren.node.listeners import ListenAddress

_BYTE_SIZE = re.compile(r"(\d+)(|[kmg]b)", re.IGNORECASE)
_INFORMATION_SIZE = re.compile(r"(\d+)\s?(|[kmgt](?:|b|ib))", re.IGNORECASE)
_URL_PATH = re.compile(r"/|(?:/[A-Za-z0-9._~-]+)+/?")
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}
_DAY_MS = 24 * 3600 * 1000


def text(value: str) -> str:
    return value


def name(value: str) -> str:
    if not value:
        raise ValueError("a name, not empty")
    return value


def node(value: str) -> NodeAddress:
    """The address of the node of this name."""
    return parse_node(value)


def endpoint(value: str) -> str:
    """`HOST:PORT` of a service that is not a node."""
    found = parse_address(value)
    if not value.endswith(f":{found.port}"):
        raise ValueError("HOST:PORT")
    return str(found)


def network(value: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """One address, or a network."""
    try:
        return ipaddress.ip_network(value, strict=False)
    except ValueError:
        raise ValueError("an IP address, or a network like 10.0.0.0/24") from None


def trusted_url(value: str) -> str:
    """An address whose answers no machine on the way can change."""
    if not is_trusted_url(value):
        raise ValueError("a URL with https, or with http and a host name of this machine")
    return value


def web_address(value: str) -> str:
    """The address of a web server, to which parameters are added."""
    parts = urlsplit(value)
    try:
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or not value.isascii() or " " in value or "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("a URL like https://auth.example.com/user, without a user, a query and a fragment")
    return value


def url_path(value: str) -> str:
    """A path without encoded characters."""
    if not _URL_PATH.fullmatch(value):
        raise ValueError("a path like /metrics")
    return value


def expression(value: str) -> str:
    if NamePattern(value).fault:
        raise ValueError(f"a regular expression ({NamePattern(value).fault})")
    return value


def whole_number(least: int, most: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        if not value.isascii() or not value.isdigit() or not least <= int(value) <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return int(value)

    return parse


def timeout_ms(value: str) -> int:
    """Milliseconds; 0 and RabbitMQ's words for it mean no timeout, which is 0."""
    if value in ("undefined", "infinity"):
        return 0
    if not value.isascii() or not value.isdigit() or len(value) > 12:
        raise ValueError("a number of milliseconds, or 0 for no timeout")
    return int(value)


def patience_ms(value: str) -> int:
    """A time to wait for a client: a day at most, also for RabbitMQ's `infinity`."""
    if value == "infinity":
        return _DAY_MS
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= _DAY_MS:
        raise ValueError(f"a number of milliseconds from 1 to {_DAY_MS}, or infinity")
    return int(value)


def one_of(words: Iterable[str]) -> Callable[[str], str]:
    known = list(words)

    def parse(value: str) -> str:
        if value not in known:
            raise ValueError(f"one of {', '.join(known)}")
        return value

    return parse


def truth(value: str) -> bool:
    return one_of(("true", "false"))(value) == "true"


def ratio(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1:
        raise ValueError("a fraction from 0 to 1, like 0.4")
    return number


def factor(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise ValueError("a number of 0 or more, like 1.5")
    return number


def byte_size(least: int, most: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        found = _BYTE_SIZE.fullmatch(value)
        size = int(found[1]) * 1024 ** _POWERS.get(found[2][:1].lower(), 0) if found else -1
        if size != 0 and not least <= size <= most:
            raise ValueError(f"a size from {least} to {most} bytes, like 131072 or 128KB, or 0 for no limit")
        return size

    return parse


def information_size(value: str) -> int:
    found = _INFORMATION_SIZE.fullmatch(value)
    if found is None:
        raise ValueError("a size, like 1073741824, 512MiB or 2GB")
    unit = found[2].lower()
    thousand = 1000 if len(unit) == 2 else 1024
    return int(found[1]) * int(thousand ** _POWERS.get(unit[:1], 0))


def address(value: str) -> ListenAddress:
    """`PORT`, `HOST:PORT`, `[IPV6]:PORT`, or RabbitMQ's `IPV6:PORT`; an empty host or `*` is every interface."""
    host, _, port = value.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not port.isascii() or not port.isdigit() or int(port) > 65535 or any(c.isspace() for c in host):
        raise ValueError("PORT or HOST:PORT, with a port from 0 to 65535")
    return ListenAddress("" if host == "*" else host, int(port))
