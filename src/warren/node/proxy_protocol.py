"""The PROXY protocol, version 1 and 2: its header, the load balancers that send it, and reading it from a socket.

    version 1   PROXY TCP4 192.0.2.7 198.51.100.1 50112 5672 CR LF       one line, 107 bytes at most
    version 2   twelve bytes of signature, version and command, family, the length of what follows;
                both addresses, both ports, and extensions, which are passed over

A balancer may speak for itself (`LOCAL`, health checks) or not know the client (`UNKNOWN`, other families than TCP over
IP). Then the addresses of the socket count.

The protocol forbids guessing. So the configuration says who sends a header: all clients, or only the named balancers. A
connection that must send a header and does not is refused. A header from any other host is refused too, as bytes that
are not of the listener's protocol.

Local clients may do more than others (`loopback_users`). A loopback address in a header from another machine belongs to
that machine, so it is ignored and the balancer's own address counts.

Invariant: `wanted` is never more than what is still missing of the header. A reader that reads no more than that leaves
the bytes behind the header, which may be TLS, in the socket.

Not here: accepting (`node.listeners`).
"""

import asyncio
import ipaddress
import socket
import struct
from dataclasses import dataclass

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
LINE_BYTES_MAX = 107
BODY_BYTES_MAX = 4096

_LINE_START = b"PROXY "
_LINE_END = b"\r\n"
_HEAD_BYTES = 16
_LOCAL, _PROXY = 0x20, 0x21
_FAMILIES = {0x11: struct.Struct(">4s4sHH"), 0x21: struct.Struct(">16s16sHH")}
_WORDS: dict[str, type[ipaddress.IPv4Address] | type[ipaddress.IPv6Address]] = {
    "TCP4": ipaddress.IPv4Address,
    "TCP6": ipaddress.IPv6Address,
}
_PORT_MAX = 65535

Place = tuple[str, int]


class ProxyHeaderRefused(Exception):
    """The bytes are no valid header; the text says why."""


@dataclass(frozen=True)
class ProxiedAddresses:
    """The client's address, and the balancer's address that it connected to."""

    peer: Place
    local: Place


class ProxyHeaderReader:
    """Parses a header that arrives in pieces no larger than `wanted`."""

    def __init__(self) -> None:
        self._bytes = b""
        # how many bytes are missing at least; 0 when the header is complete
        self.wanted = len(SIGNATURE)
        # the addresses in the header, if it has any, once it is complete
        self.ends: ProxiedAddresses | None = None

    @property
    def begun(self) -> bool:
        return bool(self._bytes)

    def feed(self, data: bytes) -> None:
        """Raises `ProxyHeaderRefused` as soon as the bytes cannot become a header."""
        self._bytes += data
        if self._bytes.startswith(SIGNATURE):
            self._feed_binary()
        elif self._bytes.startswith(_LINE_START):
            self._feed_line()
        elif not (SIGNATURE.startswith(self._bytes) or _LINE_START.startswith(self._bytes)):
            raise ProxyHeaderRefused(f"it begins with {self._bytes[:12]!r}, which is no PROXY header")
        else:
            self.wanted = len(SIGNATURE) - len(self._bytes)

    def _feed_line(self) -> None:
        line = self._bytes
        if line.endswith(_LINE_END):
            self.wanted = 0
            self.ends = _of_line(line[: -len(_LINE_END)])
        elif len(line) >= LINE_BYTES_MAX or b"\n" in line:
            raise ProxyHeaderRefused(f"its line does not end within {LINE_BYTES_MAX} bytes")
        else:
            self.wanted = 1 if line.endswith(b"\r") else 2

    def _feed_binary(self) -> None:
        have = len(self._bytes)
        if have < _HEAD_BYTES:
            self.wanted = _HEAD_BYTES - have
            return
        command, family, length = struct.unpack_from(">BBH", self._bytes, len(SIGNATURE))
        if command not in (_LOCAL, _PROXY):
            raise ProxyHeaderRefused(f"its version and command are {command:#04x}, which the protocol does not have")
        if length > BODY_BYTES_MAX:
            raise ProxyHeaderRefused(
                f"it is to have {length} bytes of addresses and extensions, more than {BODY_BYTES_MAX}"
            )
        self.wanted = _HEAD_BYTES + length - have
        if self.wanted == 0 and command == _PROXY:
            self.ends = _of_binary(family, self._bytes[_HEAD_BYTES:])


def _of_line(line: bytes) -> ProxiedAddresses | None:
    words = line.decode("ascii", "replace").split(" ")
    if words[1] == "UNKNOWN":
        return None
    if words[1] not in _WORDS or len(words) != 6:
        raise ProxyHeaderRefused("its line is not PROXY, TCP4 or TCP6, two addresses and two ports")
    source, target = (_text(_packed(words[1], word)) for word in words[2:4])
    return ProxiedAddresses((source, _port(words[4])), (target, _port(words[5])))


def _packed(kind: str, word: str) -> bytes:
    try:
        # Python reads the scope of an address too, with any characters in it; it means nothing on another machine
        if "%" in word:
            raise ValueError
        return _WORDS[kind](word).packed
    except ValueError:
        raise ProxyHeaderRefused(f"its addresses are not of {kind}") from None


def _port(word: str) -> int:
    if not word.isascii() or not word.isdigit() or len(word) > 5 or int(word) > _PORT_MAX:
        raise ProxyHeaderRefused(f"its ports are not two numbers up to {_PORT_MAX}")
    return int(word)


def _of_binary(family: int, body: bytes) -> ProxiedAddresses | None:
    shape = _FAMILIES.get(family)
    if shape is None:
        return None
    if len(body) < shape.size:
        raise ProxyHeaderRefused(f"its addresses have {len(body)} bytes instead of {shape.size}")
    source, target, source_port, target_port = shape.unpack_from(body)
    return ProxiedAddresses((_text(source), source_port), (_text(target), target_port))


def _text(packed: bytes) -> str:
    address = ipaddress.ip_address(packed)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class LoadBalancers:
    """The balancers of one kind of listener."""

    # empty: every host
    networks: tuple[Network, ...] = ()

    def include(self, host: str) -> bool:
        """Whether a connection from that host must send a header."""
        return not self.networks or self.name(host)

    def name(self, host: str) -> bool:
        """Whether the host is one of the named balancers."""
        address = _address(host)
        return address is not None and any(address in network for network in self.networks)


def trusted_addresses(ends: ProxiedAddresses | None, balancer: str) -> ProxiedAddresses | None:
    """The addresses to trust in this host's header; None: those of the socket."""
    if ends is None or not _is_loopback(ends.peer[0]) or _is_loopback(balancer):
        return ends
    return None


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return address is not None and address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


class ClosedBeforeHeader(Exception):
    """The connection was closed before its first byte: a port check."""


async def read_proxy_header(
    loop: asyncio.AbstractEventLoop, accepted: socket.socket, balancer: str, patience_s: float
) -> ProxiedAddresses | None:
    """The addresses that this host's header names; None if it names none. Raises `ProxyHeaderRefused`,
    `ClosedBeforeHeader` or `OSError`."""
    reader = ProxyHeaderReader()
    try:
        async with asyncio.timeout(patience_s):
            while reader.wanted:
                data = await loop.sock_recv(accepted, reader.wanted)
                if not data:
                    raise ProxyHeaderRefused("it ended before its end") if reader.begun else ClosedBeforeHeader
                reader.feed(data)
    except TimeoutError:
        raise ProxyHeaderRefused(f"it did not come within {patience_s:g} s") from None
    return trusted_addresses(reader.ends, balancer)
