"""What goes out over one run of a link, as it is gathered in a turn.

Acks gather in a range as long as each follows the one before; any other record closes the range first, so that
everything arrives in the order in which it was done.

A node's link to itself carries records like any other, but messages go from hand to hand: their records have no
content. What is large and made of bytes already, the steps of rings, goes as a piece of its own, which is not copied.

Not here: what is sent and why (`remote.link`, `remote.hosting`), records (`remote.records`).
"""

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.model.message import Message
from warren.remote import records
from warren.remote.envelopes import EnvelopeWriter

PIECE_BYTES_MIN: Final[i64] = 4096
"""Bytes that are there already and are fewer than this are copied; others go as they are."""


@final
class Outgoing:
    """One direction of one link; `own` if it leads from a node to itself."""

    def __init__(self, own: bool) -> None:
        self._own: bool = own
        # pieces, and what comes behind them
        self._pieces: list[bytes] = []
        self._out: BytesWriter = BytesWriter()
        # messages that go from hand to hand
        self._messages: list[Message] = []
        # the bytes of the pieces, or of those messages
        self._apart_bytes: i64 = 0
        self._envelopes: EnvelopeWriter = EnvelopeWriter()
        # acks that are not written yet; none if the first is 0
        self._acked_first: i64 = 0
        self._acked_last: i64 = 0

    def any(self) -> bool:
        return len(self._out) > 0 or len(self._pieces) > 0 or self._acked_first != 0

    def size_bytes(self) -> i64:
        return len(self._out) + self._apart_bytes

    # -- writing

    def writer(self) -> BytesWriter:
        """Where to write the next record."""
        if self._acked_first != 0:
            words = [int(self._acked_first), int(self._acked_last)]
            self._acked_first = 0
            records.write_words(self._out, records.ACKED, 0, words)
        return self._out

    def message(self, kind: i64, flags: i64, number: i64, message: Message) -> None:
        out = self.writer()
        if self._own:
            self._hand_over(out, kind, flags, number, message, 0)
        else:
            envelope_no = self._envelopes.number(out, message.envelope)
            records.write_message(out, kind, flags, envelope_no, number, message)

    def message_with_word(self, kind: i64, flags: i64, number: i64, message: Message, word: i64) -> None:
        out = self.writer()
        if self._own:
            self._hand_over(out, kind, flags, number, message, word)
        else:
            envelope_no = self._envelopes.number(out, message.envelope)
            records.write_with_word(out, kind, flags, envelope_no, number, message, word)

    def _hand_over(self, out: BytesWriter, kind: i64, flags: i64, number: i64, message: Message, word: i64) -> None:
        records.write_message_head(out, kind, flags, number, word)
        self._messages.append(message)
        self._apart_bytes += len(message.content)

    def ring(self, head: bytes, data: bytes) -> None:
        """What members of a ring tell each other."""
        out = self.writer()
        records.begin(out, records.RING, 0, records.HEAD_BYTES + len(head) + len(data))
        out.write(head)
        if len(data) < PIECE_BYTES_MIN:
            out.write(data)
        else:
            self._pieces.append(out.getvalue())
            self._pieces.append(data)
            self._apart_bytes += len(data)
            self._out = BytesWriter()

    def ack(self, number: i64) -> None:
        """A delivery was dealt with."""
        if self._acked_first != 0:
            if number == self._acked_last + 1:
                self._acked_last = number
                return
            self.writer()
        self._acked_first = number
        self._acked_last = number

    # -- what was gathered

    def take(self) -> list[bytes]:
        """All of it, in order; nothing is left."""
        data = self.writer().getvalue()
        pieces, self._pieces = self._pieces, []
        if data:
            pieces.append(data)
            self._out = BytesWriter()
        self._apart_bytes = 0
        return pieces

    def take_messages(self) -> list[Message]:
        """Those whose records were taken."""
        messages, self._messages = self._messages, []
        return messages
