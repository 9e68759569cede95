"""What two nodes say to each other before they trust each other, as bytes.

    header     "WARREN", one octet: the form of what follows, 1
    message    one octet: which; two: the length of its body; the body

Each side sends the header once, in front of its first message. An *opening* says who a node claims to be; a *proof* is
32 octets; a *refusal* is a sentence. Header, frame, refusal and the fields of an opening stay as they are for ever, so
that versions that cannot work together can still say so; an opening may get more fields at its end.

    opening    lowest and highest version (2, 2), nonce (32), purpose, name, incarnation (8), cluster id, address, kind,
               silence in milliseconds (4); a text is one octet of length and UTF-8

Nobody is asked to remember more than one message of `BODY_BYTES_MAX`.

Not here: who says what when, and what makes it trustworthy (`cluster.hello`).
"""

from typing import Final, final

from warren.model.settings import DISC, NODE_KINDS

HEADER: Final = b"WARREN\x01"
OPENING: Final = 1
PROOF: Final = 2
WELCOME: Final = 3
REFUSAL: Final = 4

BODY_BYTES_MAX: Final = 2048
SENTENCE_BYTES_MAX: Final = 1000
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
class Facts:
    """What a node says of itself; `silence_ms` is how long it bears to hear nothing."""

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

    def is_same_run(self, other: "Facts") -> bool:
        """Whether both are one process."""
        return self.incarnation == other.incarnation and self.address == other.address


@final
class Opening:
    """A node's first message: what it wants, a number never used before, and who it is."""

    def __init__(self, purpose: str, nonce: bytes, facts: Facts) -> None:
        self.purpose: str = purpose
        self.nonce: bytes = nonce
        self.facts: Facts = facts

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


def decode_opening(body: bytes) -> Opening:
    """`ValueError` says what is wrong with it."""
    reader = _Reader(body)
    lowest, highest = reader.number(2), reader.number(2)
    nonce = reader.octets(NONCE_BYTES)
    purpose = reader.text()
    name, incarnation, cluster_id = reader.text(), reader.number(8), reader.text()
    address, kind, silence_ms = reader.text(), reader.text(), reader.number(4)
    if not name or not address:
        raise ValueError("it does not say who it is")
    if lowest > highest:
        raise ValueError("its versions are the wrong way round")
    if kind not in NODE_KINDS:
        raise ValueError("it is of an unknown kind")
    return Opening(purpose, nonce, Facts(name, incarnation, cluster_id, address, kind, silence_ms, lowest, highest))


def frame(kind: int, body: bytes) -> bytes:
    return bytes((kind,)) + len(body).to_bytes(2, "big") + body


def refusal(sentence: str) -> bytes:
    return frame(REFUSAL, sentence.encode("utf-8", "replace")[:SENTENCE_BYTES_MAX])


def sentence_of(body: bytes) -> str:
    """The sentence of a refusal, as much of it as makes sense."""
    text = body[:SENTENCE_BYTES_MAX].decode("utf-8", "ignore")
    return "".join(character for character in text if character.isprintable())


@final
class Incoming:
    """Bytes on their way to becoming messages."""

    def __init__(self) -> None:
        self._buffer: bytes = b""
        self._header_seen: bool = False

    def add(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> tuple[int, bytes] | None:
        """Kind and body of the next message; None while it is not all there, `ValueError` if it never will be."""
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
        """What came behind the last message; the buffer is empty from then on."""
        rest = self._buffer
        self._buffer = b""
        return rest

    def _take_header(self) -> bool:
        """Whether it is all there; a wrong one is known by its first wrong octet."""
        begun = self._buffer[: len(HEADER)]
        if not HEADER.startswith(begun):
            raise ValueError("it does not speak the protocol between nodes")
        if len(begun) < len(HEADER):
            return False
        self._buffer = self._buffer[len(HEADER) :]
        self._header_seen = True
        return True


@final
class _Reader:
    """Fields of a body, one after another."""

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
