"""Addresses of nodes as text: `HOST:PORT`, and `NAME@HOST:PORT` as operators name nodes.

The port may be left out if it is the usual one. An IPv6 address stands in brackets.

Not here: resolving host names (`node.cluster.agent`), identities of nodes (`broker.cluster.hello`).
"""

from typing import Final, final

PEER_PORT: Final = 25672


@final
class PeerAddress:
    """A host and a port to dial."""

    def __init__(self, host: str, port: int) -> None:
        self.host: str = host
        self.port: int = port

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PeerAddress) and (self.host, self.port) == (other.host, other.port)

    def __hash__(self) -> int:
        return hash((self.host, self.port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __repr__(self) -> str:
        return f"PeerAddress({self.host!r}, {self.port})"


def parse_address(text: str) -> PeerAddress:
    """`HOST`, `HOST:PORT` or `[IPV6]:PORT`; `ValueError` has the words that complete "must be"."""
    host, port = text, str(PEER_PORT)
    bracketed, closing, behind = text.partition("]")
    if bracketed.startswith("[") and closing:
        host, port = bracketed[1:], behind[1:] if behind.startswith(":") else "" if behind else port
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    if not host or not _is_plain(host) or not port.isascii() or not port.isdigit() or not 0 < int(port[:6]) <= 65535:
        raise ValueError("HOST or HOST:PORT, with a port from 1 to 65535")
    return PeerAddress(host, int(port))


@final
class NodeAddress:
    """A node's name and address."""

    def __init__(self, name: str, address: PeerAddress) -> None:
        self.name: str = name
        self.address: PeerAddress = address

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeAddress) and (self.name, self.address) == (other.name, other.address)

    def __hash__(self) -> int:
        return hash((self.name, self.address))


def parse_node(text: str) -> NodeAddress:
    """`NAME@HOST` or `NAME@HOST:PORT`; the port is no part of the node's name."""
    name, _, where = text.partition("@")
    if not name or not _is_plain(name) or not where:
        raise ValueError("a node, like warren@HOST or warren@HOST:PORT")
    try:
        address = parse_address(where)
    except ValueError:
        raise ValueError("a node, like warren@HOST or warren@HOST:PORT") from None
    return NodeAddress(f"{name}@{address.host}", address)


def _is_plain(text: str) -> bool:
    return text.isprintable() and not any(character in " @/[]" for character in text)
