"""The hello of a link between nodes: both sides of it, and its bytes, without the socket.

::

    dialler                                              accepter
       │ opening: versions, nonce, purpose, facts ──────────► │  versions fit?
       │ ◄──────────── opening: versions, nonce, purpose, facts │
       │  versions fit? the node I meant? not myself?          │
       │ proof ─────────────────────────────────────────────► │  right? not myself? my cluster? a member? its only one?
       │ ◄──────────────────────────────────────────── welcome │  from here on the bytes are the link's
       │  right?                                                │
    either may send a refusal, a sentence, in place of its next message, and both then know why there is no link.

**The proof.** Both nodes have the same cookie, which never crosses the wire. A proof is the HMAC-SHA256, under the
cookie, of the prover's role, of the channel and of both openings, octet for octet: both nonces, both names, the purpose
and all other facts. So none of these can be changed on the way, and a proof is worthless

- in another conversation, because the other side's nonce is part of it;
- for the other role: an accepter's proof is not valid as a dialler's;
- sent back to its sender. A stranger that a node dials may dial that node in turn, repeat its opening, and pass each
  side the other's messages; then both openings are the node's own. A node therefore refuses its own name and its own
  nonce before it proves anything;
- on another channel: with TLS, the channel is the digest of the handshake, so a man in the middle with a certificate of
  the right authority gains nothing by passing proofs on.

**The order.** The dialler proves itself first. Any program can connect to the accepter, so before that the accepter
proves nothing, and sends nothing about members, clusters or duplicates. Without TLS an attacker that can change packets
can still take over a link after its hello; TLS between nodes prevents that.

**Refusals, and the side that refuses.** Versions that do not overlap: by the side that notices first. The dialler
refuses a node other than the one it meant, itself, and a node of another cluster, by an opening that is not proved yet;
a forged opening is refused as well. The accepter refuses a wrong cookie, then itself, another cluster, a node that is
not a member, and a name that another node has. A node that dials again from the same process, or from the same address
in a later incarnation, is not another node: it has lost the link that this side still has.

**Purposes.** `link`: the bytes that follow are the link's. `knock`: a member asks to be dialled; nothing follows.
`join`: a node that is not a member yet sends a request; its cluster is not checked. `ask`: a member passes requests of
operators on, and is answered.

**Bytes.** ::

    header     "WARREN", one octet: the version of the format, 1
    message    one octet: its kind; two: the length of its body; the body
    opening    lowest and highest version (2, 2), nonce (32), purpose, name, incarnation (8), cluster id, address, kind,
               silence in milliseconds (4); a text is one octet of length and UTF-8

Each side sends the header once, before its first message. A proof has 32 octets; a refusal is a sentence. Header,
frame, refusal and the fields of an opening never change, so that incompatible versions can still say so; an opening may
get more fields at its end. A stranger costs one buffer of `BODY_BYTES_MAX`; the shell limits the time.

Not here: sockets and deadlines (`node.peers`), the members (`KnownPeers` is implemented by `node.peers`).
"""

import hmac
from abc import abstractmethod
from typing import Final, final

from mypy_extensions import mypyc_attr

from warren.broker.model.settings import DISC, NODE_KINDS

HEADER: Final = b"WARREN\x01"
OPENING: Final = 1
PROOF: Final = 2
WELCOME: Final = 3
REFUSAL: Final = 4

BODY_BYTES_MAX: Final = 2048
REFUSAL_BYTES_MAX: Final = 1000
NONCE_BYTES: Final = 32
PROOF_BYTES: Final = 32

LINK: Final = "link"
JOIN: Final = "join"
KNOCK: Final = "knock"
ASK: Final = "ask"
PURPOSES: Final = (LINK, JOIN, KNOCK, ASK)

LOWEST_VERSION: Final = 2
HIGHEST_VERSION: Final = 2

_TEXT_BYTES_MAX: Final = 255
_FRAME_HEAD_BYTES: Final = 3


@final
class PeerIdentity:
    """The facts of a node; `silence_ms` is the time without a message after which it gives a link up."""

    def __init__(
        self,
        name: str,
        incarnation: int,
        cluster_id: str,
        address: str,
        kind: str = DISC,
        silence_ms: int = 3000,
        lowest_version: int = LOWEST_VERSION,
        highest_version: int = HIGHEST_VERSION,
    ) -> None:
        self.name: str = name
        self.incarnation: int = incarnation
        self.cluster_id: str = cluster_id
        self.address: str = address
        self.kind: str = kind
        self.silence_ms: int = silence_ms
        self.lowest_version: int = lowest_version
        self.highest_version: int = highest_version

    def is_same_incarnation(self, other: "PeerIdentity") -> bool:
        """Whether both are the same process."""
        return self.incarnation == other.incarnation and self.address == other.address


@final
class HelloOpening:
    """A node's first message: purpose, nonce and facts."""

    def __init__(self, purpose: str, nonce: bytes, facts: PeerIdentity) -> None:
        self.purpose: str = purpose
        self.nonce: bytes = nonce
        self.facts: PeerIdentity = facts

    def encode(self) -> bytes:
        facts = self.facts
        return b"".join(
            [
                facts.lowest_version.to_bytes(2, "big"),
                facts.highest_version.to_bytes(2, "big"),
                self.nonce,
                _text(self.purpose),
                _text(facts.name),
                facts.incarnation.to_bytes(8, "big"),
                _text(facts.cluster_id),
                _text(facts.address),
                _text(facts.kind),
                facts.silence_ms.to_bytes(4, "big"),
            ]
        )


def decode_opening(body: bytes) -> HelloOpening:
    """Raises a `ValueError` with the fault."""
    reader = _FieldReader(body)
    lowest, highest = reader.number(2), reader.number(2)
    nonce = reader.octets(NONCE_BYTES)
    purpose = reader.text()
    name, incarnation, cluster_id = reader.text(), reader.number(8), reader.text()
    address, kind, silence_ms = reader.text(), reader.text(), reader.number(4)
    if not name or not address:
        raise ValueError("it does not give its name")
    if lowest > highest:
        raise ValueError("its versions are the wrong way round")
    if kind not in NODE_KINDS:
        raise ValueError("it is of an unknown kind")
    return HelloOpening(
        purpose, nonce, PeerIdentity(name, incarnation, cluster_id, address, kind, silence_ms, lowest, highest)
    )


def frame(kind: int, body: bytes) -> bytes:
    return bytes((kind,)) + len(body).to_bytes(2, "big") + body


def refusal(sentence: str) -> bytes:
    return frame(REFUSAL, sentence.encode("utf-8", "replace")[:REFUSAL_BYTES_MAX])


def refusal_text(body: bytes) -> str:
    """The sentence of a refusal, without unprintable characters."""
    text = body[:REFUSAL_BYTES_MAX].decode("utf-8", "ignore")
    return "".join(character for character in text if character.isprintable())


@final
class HelloReader:
    """Splits received bytes into messages."""

    def __init__(self) -> None:
        self._buffer: bytes = b""
        self._header_seen: bool = False

    def add(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> tuple[int, bytes] | None:
        """Kind and body of the next message; None while it is incomplete; a `ValueError` if it is invalid."""
        if not self._header_seen and not self._take_header():
            return None
        buffer = self._buffer
        if len(buffer) < _FRAME_HEAD_BYTES:
            return None
        length = int.from_bytes(buffer[1:_FRAME_HEAD_BYTES], "big")
        if length > BODY_BYTES_MAX:
            raise ValueError("its message is too long")
        end = _FRAME_HEAD_BYTES + length
        if len(buffer) < end:
            return None
        self._buffer = buffer[end:]
        return buffer[0], buffer[_FRAME_HEAD_BYTES:end]

    def rest(self) -> bytes:
        """Take the bytes behind the last message."""
        rest = self._buffer
        self._buffer = b""
        return rest

    def _take_header(self) -> bool:
        """Whether the header is complete. A wrong one is refused at its first wrong octet."""
        begun = self._buffer[: len(HEADER)]
        if not HEADER.startswith(begun):
            raise ValueError("it does not speak the protocol between nodes")
        if len(begun) < len(HEADER):
            return False
        self._buffer = self._buffer[len(HEADER) :]
        self._header_seen = True
        return True


@final
class _FieldReader:
    """Reads the fields of a body in order."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes = body
        self._at: int = 0

    def octets(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._body):
            raise ValueError("its opening is cut short")
        taken = self._body[self._at : end]
        self._at = end
        return taken

    def number(self, count: int) -> int:
        return int.from_bytes(self.octets(count), "big")

    def text(self) -> str:
        octets = self.octets(self.number(1))
        try:
            text = octets.decode()
        except UnicodeDecodeError:
            raise ValueError("its opening is not text") from None
        if not text.isprintable():
            raise ValueError("its opening is not text")
        return text


def _text(text: str) -> bytes:
    octets = text.encode()
    if len(octets) > _TEXT_BYTES_MAX:
        raise ValueError(f"{text[:40]}... is longer than {_TEXT_BYTES_MAX} bytes")
    return bytes((len(octets),)) + octets


TALKING: Final = "talking"
AGREED: Final = "agreed"
REFUSED: Final = "refused"

_DIALLER: Final = b"warren: the dialler"
_ACCEPTER: Final = b"warren: the accepter"


@mypyc_attr(allow_interpreted_subclasses=True)
class KnownPeers:
    """The other nodes, as a node knows them."""

    @abstractmethod
    def is_member(self, name: str) -> bool:
        """Whether the cluster has a node of this name."""

    @abstractmethod
    def connected(self, name: str) -> PeerIdentity | None:
        """The node of this name that has a link."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Hello:
    """One side of a hello. `receive` takes bytes and returns those to send, until `state` is no longer TALKING.

    AGREED: `peer` is proved, for `purpose`, and `rest` has the first bytes behind the hello. REFUSED: `reason` is a
    sentence, from the peer if `by_peer`.
    """

    def __init__(self, own: PeerIdentity, cookie: bytes, nonce: bytes, channel: bytes) -> None:
        assert cookie
        assert len(nonce) == NONCE_BYTES
        self.state: str = TALKING
        self.purpose: str = ""
        self.peer: PeerIdentity | None = None
        self.version: int = 0
        self.reason: str = ""
        self.by_peer: bool = False
        self.rest: bytes = b""
        self._own: PeerIdentity = own
        self._cookie: bytes = cookie
        self._nonce: bytes = nonce
        self._channel: bytes = channel
        self._incoming: HelloReader = HelloReader()
        self._own_opening: bytes = b""
        self._peer_opening: bytes = b""

    def receive(self, data: bytes) -> bytes:
        """Handle received bytes; the bytes to answer."""
        if self.state != TALKING:
            return b""
        self._incoming.add(data)
        answers: list[bytes] = []
        while self.state == TALKING:
            try:
                message = self._incoming.next()
            except ValueError as error:
                # a peer with another protocol gets no answer
                self._end(f"the other side was not understood: {error}")
                break
            if message is None:
                break
            answers.append(self._take(message[0], message[1]))
        if self.state == AGREED:
            self.rest = self._incoming.rest()
        return b"".join(answers)

    @abstractmethod
    def _take(self, kind: int, body: bytes) -> bytes:
        """Handle a message; the bytes to answer."""

    def _take_refusal(self, body: bytes) -> bytes:
        self.by_peer = True
        self._end(refusal_text(body) or "no reason was given")
        return b""

    def _take_opening(self, body: bytes) -> str:
        """Take the peer's opening; the reason for a refusal, or empty."""
        try:
            opening = decode_opening(body)
        except ValueError as error:
            return f"{self._own.name} did not understand the other side: {error}"
        own, peer = self._own, opening.facts
        self._peer_opening = body
        self.peer = peer
        self.purpose = opening.purpose
        self.version = min(own.highest_version, peer.highest_version)
        if self.version < max(own.lowest_version, peer.lowest_version):
            return f"{_versions(peer)}, {_versions(own)}"
        if opening.nonce == self._nonce:
            return f"{own.name} was sent its own challenge"
        return ""

    def _refuse(self, reason: str) -> bytes:
        self._end(reason)
        return refusal(reason)

    def _end(self, reason: str) -> None:
        self.state = REFUSED
        self.reason = reason

    def _proof(self, role: bytes, dialler_opening: bytes, accepter_opening: bytes) -> bytes:
        parts = [role, self._channel, dialler_opening, accepter_opening]
        return hmac.digest(self._cookie, b"".join(len(part).to_bytes(4, "big") + part for part in parts), "sha256")


@final
class DialHello(Hello):
    """The side that dialled; `meant` is the expected node, empty if it is unknown."""

    def __init__(
        self, own: PeerIdentity, cookie: bytes, nonce: bytes, purpose: str, meant: str = "", channel: bytes = b""
    ) -> None:
        super().__init__(own, cookie, nonce, channel)
        assert purpose in PURPOSES
        self._meant: str = meant
        self._wanted: str = purpose
        self._own_opening = HelloOpening(purpose, nonce, own).encode()

    def start(self) -> bytes:
        """The first bytes to send."""
        return HEADER + frame(OPENING, self._own_opening)

    def _take(self, kind: int, body: bytes) -> bytes:
        if kind == REFUSAL:
            return self._take_refusal(body)
        if kind == OPENING and self.peer is None:
            return self._answer(body)
        if kind == WELCOME and self.peer is not None and len(body) == PROOF_BYTES:
            return self._be_welcomed(self.peer, body)
        return self._refuse(f"{self._own.name} was sent something out of turn")

    def _answer(self, body: bytes) -> bytes:
        reason = self._take_opening(body) or self._objection()
        if reason:
            return self._refuse(reason)
        return frame(PROOF, self._proof(_DIALLER, self._own_opening, self._peer_opening))

    def _objection(self) -> str:
        own, peer = self._own, self.peer
        assert peer is not None
        if peer.name == own.name:
            return f"both nodes are called {own.name}"
        if self._meant and peer.name != self._meant:
            return f"{own.name} wants {self._meant}, but reached {peer.name}"
        if self.purpose != self._wanted:
            return f"{own.name} was answered about something else"
        return _other_cluster(own, peer, self.purpose)

    def _be_welcomed(self, peer: PeerIdentity, proof: bytes) -> bytes:
        if not hmac.compare_digest(proof, self._proof(_ACCEPTER, self._own_opening, self._peer_opening)):
            return self._refuse(f"{peer.name} has not proved that it has the cookie of {self._own.name}")
        self.state = AGREED
        return b""


@final
class AcceptHello(Hello):
    """The side that accepted."""

    def __init__(
        self, own: PeerIdentity, cookie: bytes, nonce: bytes, known_peers: KnownPeers, channel: bytes = b""
    ) -> None:
        super().__init__(own, cookie, nonce, channel)
        self._known_peers: KnownPeers = known_peers

    def _take(self, kind: int, body: bytes) -> bytes:
        if kind == REFUSAL:
            return self._take_refusal(body)
        if kind == OPENING and self.peer is None:
            return HEADER + self._answer(body)
        if kind == PROOF and self.peer is not None and len(body) == PROOF_BYTES:
            return self._judge(self.peer, body)
        reason = f"{self._own.name} was sent something out of turn"
        return self._refuse(reason) if self._own_opening else HEADER + self._refuse(reason)

    def _answer(self, body: bytes) -> bytes:
        reason = self._take_opening(body)
        if not reason and self.purpose not in PURPOSES:
            reason = f"{self._own.name} does not know the purpose of the request"
        if reason:
            return self._refuse(reason)
        self._own_opening = HelloOpening(self.purpose, self._nonce, self._own).encode()
        return frame(OPENING, self._own_opening)

    def _judge(self, peer: PeerIdentity, proof: bytes) -> bytes:
        if not hmac.compare_digest(proof, self._proof(_DIALLER, self._peer_opening, self._own_opening)):
            return self._refuse(f"{peer.name} and {self._own.name} do not have the same cookie")
        reason = self._objection(peer)
        if reason:
            return self._refuse(reason)
        self.state = AGREED
        return frame(WELCOME, self._proof(_ACCEPTER, self._peer_opening, self._own_opening))

    def _objection(self, peer: PeerIdentity) -> str:
        own = self._own
        if peer.name == own.name:
            return f"both nodes are called {own.name}"
        reason = _other_cluster(own, peer, self.purpose)
        if reason:
            return reason
        if self.purpose != JOIN and not self._known_peers.is_member(peer.name):
            return f"{peer.name} is not a member of the cluster of {own.name}"
        known = self._known_peers.connected(peer.name)
        if known is not None and not _has_replaced(peer, known):
            return (
                f"another node called {peer.name}, at {known.address} in its run {known.incarnation}, "
                f"is connected to {own.name}"
            )
        return ""


def _has_replaced(peer: PeerIdentity, known: PeerIdentity) -> bool:
    """Whether the link to `known` is lost, because the same process or its next incarnation dials again."""
    return peer.is_same_incarnation(known) or (peer.address == known.address and peer.incarnation > known.incarnation)


def _other_cluster(own: PeerIdentity, peer: PeerIdentity, purpose: str) -> str:
    if purpose == JOIN or peer.cluster_id == own.cluster_id:
        return ""
    return f"{peer.name} is of {_cluster(peer)}, {own.name} of {_cluster(own)}"


def _cluster(facts: PeerIdentity) -> str:
    return f"the cluster {facts.cluster_id}" if facts.cluster_id else "no cluster"


def _versions(facts: PeerIdentity) -> str:
    spoken = f"versions {facts.lowest_version} to {facts.highest_version}"
    return f"{facts.name} speaks {spoken} of the protocol between nodes"
