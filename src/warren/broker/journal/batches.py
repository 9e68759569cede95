"""What one turn writes: the messages in the order they came, then the marks.

A batch counts as a whole or not at all: its first record says how long it is, and recovery drops a batch that is not
complete. Nothing of such a batch was ever confirmed. So the order within a batch is a matter of convenience, but for
messages and notes of what a queue remembers besides: they stand in the order in which they came.

A message that several queues store one after another becomes one record: it stays open until another message comes.

Not here: which file a batch goes to and when that is full (`broker.journal.journal`), the records' bytes
(`broker.journal.records`).

Stepping through a segment from batch to batch, and judging the place where it stops making sense.

A batch counts as a whole. Where something is no batch, the question is whether a batch was flushed there once:

- Every batch says how far the journal was known to be on disk when it was written, so any such word from behind the
  place answers it; so does a checkpoint that knows where the segment ends.
- A segment gets its name when its first batch is on disk. So if that one is damaged, and another stands behind it, it
  is damage, too.
- Nothing says so: a *torn tail*, which was never confirmed.

Of the batches that were flushed last, with nothing written behind them, nobody can tell.

Not here: what the records mean (`broker.journal.recovery`).
"""

from typing import Final, final
from zlib import crc32

from librt.strings import BytesWriter, read_i64_be
from mypy_extensions import i64

from warren.broker.journal.records import (
    HEADER_BYTES,
    LAST_KIND,
    MESSAGE,
    PAGED,
    SEGMENT_HEADER_BYTES,
    SYNCED,
    TRIPLE_BYTES,
    RecordScanner,
    next_opening,
    segment_header,
    synced_after,
    write_copy_record,
    write_mark,
    write_message_record,
    write_payload_record,
    write_triple,
)
from warren.broker.journal.segment_index import SegmentIndex
from warren.broker.model.message import Message

TRIPLES_MAX: Final[i64] = 60_000
OPENING_BYTES: Final[i64] = HEADER_BYTES + 2 * TRIPLE_BYTES
"""The record every batch begins with."""


@final
class JournalBatch:
    """The records of the turn that is under way."""

    def __init__(self) -> None:
        self._segment: i64 = 0
        self._offset: i64 = 0
        self._rows: SegmentIndex = SegmentIndex()
        # the batch as it will be, but that the beginning is written when all is known
        self._messages: BytesWriter = BytesWriter()
        self._beginning_bytes: i64 = 0
        self._marks: BytesWriter = BytesWriter()
        self._notes_bytes: i64 = 0
        # the record that may get further placements
        self._open: Message | None = None
        self._placements: BytesWriter = BytesWriter()
        self._placed: i64 = 0

    def begin(self, segment: i64, offset: i64, rows: SegmentIndex) -> None:
        """The next batch goes to this place."""
        self._segment = segment
        self._offset = offset
        self._rows = rows
        self._messages = BytesWriter()
        self._beginning_bytes = max(SEGMENT_HEADER_BYTES - offset, 0) + OPENING_BYTES
        self._messages.write(bytes(int(self._beginning_bytes)))
        self._marks = BytesWriter()
        self._notes_bytes = 0

    def empty(self) -> bool:
        return self._open is None and len(self._messages) == self._beginning_bytes and len(self._marks) == 0

    def place(self, queue_id: i64, message: Message, position: i64, expires_at_ms: i64) -> None:
        """A queue stores a message."""
        if self._open is not message or self._placed == TRIPLES_MAX:
            self.close_record()
            self._open = message
        write_triple(self._placements, queue_id, position, expires_at_ms)
        self._placed += 1

    def close_record(self) -> None:
        """Write the open record."""
        message = self._open
        if message is None:
            return
        self._open = None
        placements, count = self._placements.getvalue(), self._placed
        self._placements = BytesWriter()
        self._placed = 0
        kind = MESSAGE if message.persistent else PAGED
        offset: i64 = self._offset + len(self._messages)
        length = write_message_record(self._messages, self._segment, kind, placements, count, message)
        self._add_rows(placements, count, offset, length, message.body_bytes, message.priority, kind)

    def put(
        self,
        queue_id: i64,
        position: i64,
        priority: i64,
        expires_at_ms: i64,
        persistent: bool,
        body_bytes: i64,
        payload: bytes,
        payload_crc: i64,
    ) -> None:
        """A queue stores a message whose payload somebody else has made."""
        if self._open is not None:
            self.close_record()
        messages = self._messages
        kind = MESSAGE if persistent else PAGED
        offset: i64 = self._offset + len(messages)
        length = write_payload_record(
            messages, self._segment, kind, priority, queue_id, position, expires_at_ms, payload, payload_crc
        )
        self._rows.add(queue_id, position, offset, length, body_bytes, priority, kind)

    def copy(
        self, kind: i64, priority: i64, placements: bytes, count: i64, body_bytes: i64, payload: bytes, crc: i64
    ) -> None:
        """Write a record again that stands in another segment."""
        self.close_record()
        offset: i64 = self._offset + len(self._messages)
        length = write_copy_record(self._messages, self._segment, kind, priority, placements, count, payload, crc)
        self._add_rows(placements, count, offset, length, body_bytes, priority, kind)

    def mark(self, kind: i64, triples: bytes, priority: i64 = 0) -> None:
        """Write what is to be remembered, three numbers each."""
        count: i64 = len(triples) // TRIPLE_BYTES
        at: i64 = 0
        while at < count:
            several = min(count - at, TRIPLES_MAX)
            part = triples if several == count else triples[at * TRIPLE_BYTES : (at + several) * TRIPLE_BYTES]
            write_mark(self._marks, self._segment, kind, priority, part, several)
            at += several

    def note(self, kind: i64, triples: bytes, payload: bytes) -> None:
        """Write something to be remembered that is not numbers alone, behind the messages that came before it."""
        self.close_record()
        count: i64 = len(triples) // TRIPLE_BYTES
        length = write_copy_record(self._messages, self._segment, kind, 0, triples, count, payload, crc32(payload))
        self._notes_bytes += length

    def finish(self, batch_no: i64, synced_segment: i64, synced_offset: i64, incarnation: i64) -> bytes:
        """The bytes to write, with the segment's header if they are its first."""
        self.close_record()
        out = self._messages
        out.write(self._marks.getvalue())
        size: i64 = OPENING_BYTES + len(out) - self._beginning_bytes
        opening = BytesWriter()
        write_triple(opening, synced_segment, synced_offset, incarnation)
        write_triple(opening, size, batch_no, 0)
        beginning = BytesWriter()
        if self._offset == 0:
            beginning.write(segment_header(int(self._segment), int(incarnation)))
        write_mark(beginning, self._segment, SYNCED, 0, opening.getvalue(), 2)
        at: i64 = 0
        while at < self._beginning_bytes:
            out[at] = beginning[at]
            at += 1
        return out.getvalue()

    def overhead_bytes(self) -> i64:
        """How much of the batch, once it is finished, is not messages."""
        return OPENING_BYTES + len(self._marks) + self._notes_bytes

    def _add_rows(
        self, placements: bytes, count: i64, offset: i64, length: i64, body_bytes: i64, priority: i64, kind: i64
    ) -> None:
        index: i64 = 0
        while index < count:
            at: i64 = index * TRIPLE_BYTES
            queue_id = read_i64_be(placements, at)
            position = read_i64_be(placements, at + 8)
            self._rows.add(queue_id, position, offset, length, body_bytes, priority, kind)
            index += 1


WHOLE: Final = "whole"
TORN: Final = "torn"
DAMAGED: Final = "damaged"


@final
class BatchScanner:
    """Steps from batch to batch; after `next()` answered False, `ending` tells why, and `bad` where."""

    def __init__(self, data: bytes, number: i64, known_end: i64 = 0) -> None:
        """`known_end`: where the segment's last batch ends, if that is known; what follows is not looked at."""
        self.data: bytes = data
        self.number: i64 = number
        # the batch, and the first of its records but for its opening
        self.start: i64 = SEGMENT_HEADER_BYTES
        self.records: i64 = SEGMENT_HEADER_BYTES
        self.end: i64 = SEGMENT_HEADER_BYTES
        # records of it whose payload is not what was written
        self.bad_payloads: list[int] = []
        # up to here, this segment says, it was known to be flushed
        self.synced: i64 = 0
        self.ending: str = ""
        self.bad: i64 = 0
        self._known_end: i64 = known_end
        self._limit: i64 = known_end if known_end > 0 else len(data)

    def next(self) -> bool:
        data, number = self.data, self.number
        start = self.end
        self.start = start
        self.bad_payloads = []
        if start >= self._limit:
            self.bad = start
            self.ending = WHOLE
            return False
        opening = RecordScanner(data, number, start)
        if not opening.next() or opening.kind != SYNCED or opening.count != 2 or opening.a(1) < opening.end - start:
            return self._end_at(start)
        if opening.a(0) == number:
            self.synced = max(self.synced, opening.b(0))
        end: i64 = start + opening.a(1)
        scanner = RecordScanner(data, number, opening.end)
        while scanner.end < end and scanner.next():
            if not scanner.intact():
                self.bad_payloads.append(int(scanner.at))
        if scanner.end != end or scanner.short:
            return self._end_at(scanner.at)
        if self.bad_payloads and not self._was_flushed(self.bad_payloads[0]):
            return self._end_at(self.bad_payloads[0])
        self.records = opening.end
        self.end = end
        return True

    def step_over(self) -> None:
        """Go on with the next batch behind the damage, if there is one."""
        resume = next_opening(self.data, self.number, self.bad + 1)
        self.end = self._limit if resume < 0 else min(resume, self._limit)

    def _end_at(self, bad: i64) -> bool:
        self.bad = bad
        if self._was_flushed(bad):
            self.ending = DAMAGED
        else:
            self.ending = TORN if has_nonzero_from(self.data, self.start) else WHOLE
        return False

    def _was_flushed(self, bad: i64) -> bool:
        """Whether the batch at `start`, which is not whole, was on disk once."""
        start = self.start
        if self._known_end > 0:
            return True
        if start == SEGMENT_HEADER_BYTES and next_opening(self.data, self.number, start + 1) >= 0:
            return True
        return max(self.synced, synced_after(self.data, self.number, bad)) > start


def has_nonzero_from(data: bytes, at: i64) -> bool:
    """Whether there is anything but zeros."""
    return len(data[at:].lstrip(b"\0")) > 0


def next_record(data: bytes, number: i64, at: i64, end: i64) -> RecordScanner | None:
    """The first whole record that begins at `at` or behind it, wherever that is; None if there is none before `end`."""
    while at + HEADER_BYTES <= end:
        # most bytes cannot begin a record: its length has few digits, and it is of a known kind
        if data[at + 4] == 0 and 0 < data[at + 16] <= LAST_KIND:
            scanner = RecordScanner(data, number, at)
            if scanner.next() and scanner.end <= end:
                return scanner
        at += 1
    return None
