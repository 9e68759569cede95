"""Exchange and routing key go over a link once, and by a number from then on.

Each direction has its own table. The writer numbers envelopes from 0 in the order of their first use; when the table
is full, the next one is number 0 again, which tells the reader to begin anew, too.

Invariant: the reader knows every number that the writer uses, because definitions go over the same link before.

Not here: the messages that carry the numbers (`remote.records`).
"""

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.errors import PeerFault
from warren.model.message import Envelope
from warren.remote.records import ENVELOPE, RecordReader, write_text
from warren.wire.values import ArgumentReader, write_longlong, write_shortstr

ENVELOPES_MAX: Final[i64] = 4096
COPY_KEYS_MAX: Final[i64] = 1 << 20


@final
class EnvelopeWriter:
    """Numbers envelopes, and defines them as they come."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._last: Envelope | None = None
        self._last_no: i64 = 0

    def number(self, out: BytesWriter, envelope: Envelope) -> i64:
        """The number of an envelope, defined if it is not yet."""
        if envelope is self._last:
            return self._last_no
        key = envelope.tail
        if envelope.copy_keys:
            copies = [copy.encode("utf-8", "surrogateescape") for copy in envelope.copy_keys]
            key += b"".join([bytes([len(copy)]) + copy for copy in copies])
        found = self._numbers.get(key)
        number: i64 = self._define(out, envelope, key) if found is None else i64(found)
        self._last = envelope
        self._last_no = number
        return number

    def _define(self, out: BytesWriter, envelope: Envelope, key: bytes) -> i64:
        if len(self._numbers) >= ENVELOPES_MAX:
            self._numbers = {}
        number: i64 = len(self._numbers)
        self._numbers[key] = int(number)
        payload = BytesWriter()
        write_longlong(payload, int(number))
        payload.write(envelope.tail)
        write_longlong(payload, len(envelope.copy_keys))
        for copy in envelope.copy_keys:
            write_shortstr(payload, copy)
        write_text(out, ENVELOPE, 0, payload.getvalue())
        return number


@final
class EnvelopeTable:
    """What the other node's numbers mean."""

    def __init__(self) -> None:
        self._envelopes: list[Envelope] = []

    def define(self, arguments: ArgumentReader) -> None:
        number = arguments.longlong()
        exchange, routing_key = arguments.shortstr(), arguments.shortstr()
        count: i64 = arguments.longlong()
        if count < 0 or count > COPY_KEYS_MAX:
            raise PeerFault(f"an envelope with {count} copies")
        copy_keys: list[str] = []
        while len(copy_keys) < count:
            copy_keys.append(arguments.shortstr())
        if number == 0:
            self._envelopes = []
        if number != len(self._envelopes) or number >= ENVELOPES_MAX:
            raise PeerFault(f"envelope {number} is out of order")
        self._envelopes.append(Envelope(exchange, routing_key, copy_keys))

    def of(self, reader: RecordReader) -> Envelope:
        """The envelope of the message at hand."""
        number = reader.envelope_no
        if number >= len(self._envelopes):
            raise PeerFault(f"nobody has defined envelope {number}")
        return self._envelopes[number]
