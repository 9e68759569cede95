"""Two hello machines coupled in memory, and the nodes they speak for.

Not here: sockets (`tests/unit/node/peers`).
"""

import hmac

from warren.broker.cluster.hello import LINK, NONCE_BYTES, TALKING, AcceptHello, DialHello, KnownPeers, PeerIdentity

COOKIE = b"a cookie of enough letters"
HARE = PeerIdentity("warren@hare", 7, "burrow", "hare:25672")
MOLE = PeerIdentity("warren@mole", 3, "burrow", "mole:25672", silence_ms=2000)
DIALLED_NONCE = b"d" * NONCE_BYTES
ACCEPTED_NONCE = b"a" * NONCE_BYTES


class Village(KnownPeers):
    """All nodes are members except strangers; links are those that are set."""

    def __init__(self, *strangers: str) -> None:
        self.strangers = strangers
        self.links: dict[str, PeerIdentity] = {}

    def is_member(self, name: str) -> bool:
        return name not in self.strangers

    def connected(self, name: str) -> PeerIdentity | None:
        return self.links.get(name)


def dialler(
    own: PeerIdentity = HARE,
    cookie: bytes = COOKIE,
    purpose: str = LINK,
    meant: str = "",
    channel: bytes = b"",
    nonce: bytes = DIALLED_NONCE,
) -> DialHello:
    return DialHello(own, cookie, nonce, purpose, meant, channel)


def accepter(
    own: PeerIdentity = MOLE,
    cookie: bytes = COOKIE,
    village: Village | None = None,
    channel: bytes = b"",
    nonce: bytes = ACCEPTED_NONCE,
) -> AcceptHello:
    return AcceptHello(own, cookie, nonce, village or Village(), channel)


def couple(dialling: DialHello, accepting: AcceptHello) -> list[bytes]:
    """Let the two talk until both are silent; all messages, in turns."""
    said = [dialling.start()]
    while said[-1]:
        speaks = accepting if len(said) % 2 else dialling
        said.append(speaks.receive(said[-1]))
    return said[:-1]


def still_talking(*hellos: DialHello | AcceptHello) -> bool:
    return all(hello.state == TALKING for hello in hellos)


def diallers_proof(dialled: bytes, accepted: bytes) -> bytes:
    """The expected proof of a dialler with the cookie and without TLS."""
    parts = [b"warren: the dialler", b"", dialled, accepted]
    return hmac.digest(COOKIE, b"".join(len(part).to_bytes(4, "big") + part for part in parts), "sha256")
