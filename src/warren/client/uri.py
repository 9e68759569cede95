"""AMQP URIs: hosts, login, and options of the connection.

    amqp://user:password@host:port,host:port/vhost?heartbeat=30&connection_attempts=3

Option names and units are those of RabbitMQ's URIs and of pika: `connection_timeout` is in milliseconds, all others in
seconds. A percent sign escapes: `%2F` is the virtual host `/`. Without a path, or with an empty one, the virtual host
is `/` too.

Invariant: no error quotes the URL, because it contains a password.

Not here: connecting (`client.connection`).
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import parse_qsl, unquote

from warren.client.errors import UriError
from warren.client.machine.settings import AS_SUGGESTED, EXTERNAL, PLAIN

Value = TypeVar("Value")

DEFAULT_PORTS: Mapping[str, int] = {"amqp": 5672, "amqps": 5671}
MECHANISMS: Mapping[str, str] = {"plain": PLAIN, "external": EXTERNAL}
VERIFY: Mapping[str, bool] = {"verify_peer": True, "verify_none": False}
TLS_OPTIONS = ("cacertfile", "certfile", "keyfile", "verify", "server_name_indication")
OPTIONS = (
    "auth_mechanism",
    "channel_max",
    "connection_attempts",
    "connection_timeout",
    "frame_max",
    "heartbeat",
    "retry_delay",
    *TLS_OPTIONS,
)


@dataclass(frozen=True)
class BrokerAddress:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class ConnectionTarget:
    """The contents of a URL."""

    addresses: tuple[BrokerAddress, ...]
    tls: bool = False
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    vhost: str = "/"
    mechanism: str = PLAIN
    heartbeat_s: int = AS_SUGGESTED
    channel_max: int = 0
    frame_max: int = 0
    connection_attempts: int = 1
    retry_delay_s: float = 2.0
    connection_timeout_s: float = 10.0
    cacertfile: str = ""
    certfile: str = ""
    keyfile: str = ""
    verify: bool = True
    server_name: str = ""


def parse_uri(url: str) -> ConnectionTarget:
    """Parse a URL, or raise `UriError`."""
    scheme, separator, rest = url.strip().partition("://")
    if not separator or scheme.lower() not in DEFAULT_PORTS:
        raise UriError("an AMQP URL begins with amqp:// or amqps://")
    if "#" in rest:
        raise UriError("an AMQP URL has no fragment; a # in a password is written %23")
    tls = scheme.lower() == "amqps"
    before, _, query = rest.partition("?")
    authority, _, path = before.partition("/")
    login, _, hosts = authority.rpartition("@")
    if "/" in path:
        raise UriError("the virtual host of an AMQP URL is one name; a / in it is written %2F")
    user, _, password = login.partition(":")
    options = _options(query, tls)
    return ConnectionTarget(
        addresses=tuple(_address(each, DEFAULT_PORTS[scheme.lower()]) for each in hosts.split(",")),
        tls=tls,
        user=_text(user) if login else "guest",
        password=_text(password) if login else "guest",
        vhost=_text(path) or "/",
        mechanism=_choice(options, "auth_mechanism", MECHANISMS, PLAIN),
        heartbeat_s=_number(options, "heartbeat", AS_SUGGESTED, 0, 65_535),
        channel_max=_number(options, "channel_max", 0, 0, 65_535),
        frame_max=_number(options, "frame_max", 0, 4096, 0x7FFFFFFF),
        connection_attempts=_number(options, "connection_attempts", 1, 1, 1_000_000),
        retry_delay_s=_seconds(options, "retry_delay", 2.0),
        connection_timeout_s=_number(options, "connection_timeout", 10_000, 1, 86_400_000) / 1000,
        cacertfile=options.get("cacertfile", ""),
        certfile=options.get("certfile", ""),
        keyfile=options.get("keyfile", ""),
        verify=_choice(options, "verify", VERIFY, True),
        server_name=options.get("server_name_indication", ""),
    )


def _address(text: str, default_port: int) -> BrokerAddress:
    host, port = text, ""
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            raise UriError("a host in brackets is an IPv6 address, and only a port may follow it")
        port = port[1:]
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    elif ":" in text:
        raise UriError("an IPv6 address in a URL is written in brackets")
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        # an unescaped / or ? in a password puts a part of it here, so it is not quoted
        raise UriError("a port is a number from 1 to 65535; special characters before the host are escaped")
    return BrokerAddress(_text(host) or "localhost", int(port) if port else default_port)


def _options(query: str, tls: bool) -> dict[str, str]:
    # a plus sign is literal: the values are paths and numbers, not a form
    query = query.replace("+", "%2B")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), errors="strict")
    except ValueError as error:
        raise UriError("the options of a URL are name=value, with & between them") from error
    options: dict[str, str] = {}
    for name, value in pairs:
        if name not in OPTIONS and "@" in query:
            # an unescaped ? in a password puts a part of it here, so it is not quoted
            raise UriError("unknown option in the URL; a ? in a password is written %3F")
        if name not in OPTIONS:
            raise UriError(f"unknown option {name!r} in the URL{_hint(name)}")
        if name in options:
            raise UriError(f"option {name} is given twice in the URL")
        if name in TLS_OPTIONS and not tls:
            raise UriError(f"option {name} needs amqps://")
        options[name] = value
    return options


def _hint(name: str) -> str:
    nearest = difflib.get_close_matches(name, OPTIONS, 1, 0.0)
    return f"; did you mean {nearest[0]}?"


def _number(options: Mapping[str, str], name: str, default: int, lowest: int, highest: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()) or not lowest <= int(text) <= highest:
        raise UriError(f"option {name} is a whole number from {lowest} to {highest}, not {text!r}")
    return int(text)


def _seconds(options: Mapping[str, str], name: str, default: float) -> float:
    text = options.get(name)
    if text is None:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86_400:
        raise UriError(f"option {name} is a number of seconds from 0 to 86400, not {text!r}")
    return seconds


def _choice(options: Mapping[str, str], name: str, choices: Mapping[str, Value], default: Value) -> Value:
    text = options.get(name)
    if text is None:
        return default
    if text.lower() not in choices:
        raise UriError(f"option {name} is {' or '.join(choices)}, not {text!r}")
    return choices[text.lower()]


def _text(escaped: str) -> str:
    try:
        return unquote(escaped, errors="strict")
    except UnicodeDecodeError as error:
        raise UriError("an escape in the URL is not UTF-8") from error
