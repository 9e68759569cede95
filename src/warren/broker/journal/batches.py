"""Batches: the records that one turn writes, and the scanner that steps through a segment from batch to batch.

Messages come first, in the order in which they were stored, then the marks. A batch counts as a whole: its first
record, the opening, has the batch's length, and recovery drops an incomplete batch. Nothing in an incomplete batch was
ever confirmed. A message that several queues store one after another becomes one record, which stays open until
another message follows.

Where the scanner finds no batch, the question is whether a batch was flushed there once:

- Every opening says how far the journal was flushed when it was written. An opening behind the place can therefore
  prove that the place was flushed. So does a checkpoint that has the end of the segment.
- A segment gets its name when its first batch is flushed. So if the first batch is damaged and another batch follows,
  the place was flushed.
- Otherwise it is a *torn tail*, which was never confirmed.

Batches that were flushed last, with nothing written behind them, cannot be told from a torn tail.

Not here: the file of a batch and its size (`broker.journal.journal`), the bytes of records (`broker.journal.records`),
the meaning of records (`broker.journal.recovery`).
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
"""The size of the opening."""

KEPT_BYTES_MAX: Final[i64] = 4 * 1024 * 1024
"""The buffers of a larger batch are released. Others serve the next batch, which need not grow them again."""


@final
class JournalBatch:
    """The records of the current turn."""

    def __init__(self) -> None:
        self._segment: i64 = 0
        self._offset: i64 = 0
        self._rows: SegmentIndex = SegmentIndex()
        # the batch; its opening is written at the end, when its length is known
        self._messages: BytesWriter = BytesWriter()
        self._beginning_bytes: i64 = 0
        self._marks: BytesWriter = BytesWriter()
        self._notes_bytes: i64 = 0
        # the record that may get more placements
        self._open: Message | None = None
        self._placements: BytesWriter = BytesWriter()
        self._placed: i64 = 0

    def begin(self, segment: i64, offset: i64, rows: SegmentIndex) -> None:
        """Begin the batch that goes to this offset of a segment."""
        assert self._open is None
        self._segment = segment
        self._offset = offset
        self._rows = rows
        if len(self._messages) > KEPT_BYTES_MAX:
            self._messages = BytesWriter()
            self._marks = BytesWriter()
        self._messages.truncate(0)
        self._marks.truncate(0)
        self._beginning_bytes = max(SEGMENT_HEADER_BYTES - offset, 0) + OPENING_BYTES
        self._messages.write(bytes(int(self._beginning_bytes)))
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
        self._placements.truncate(0)
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
        """A queue stores a message of which it has the encoded payload."""
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
        """Write a record of another segment again."""
        self.close_record()
        offset: i64 = self._offset + len(self._messages)
        length = write_copy_record(self._messages, self._segment, kind, priority, placements, count, payload, crc)
        self._add_rows(placements, count, offset, length, body_bytes, priority, kind)

    def mark(self, kind: i64, triples: bytes, priority: i64 = 0) -> None:
        """Write marks, each a triple of numbers."""
        count: i64 = len(triples) // TRIPLE_BYTES
        at: i64 = 0
        while at < count:
            several = min(count - at, TRIPLES_MAX)
            part = triples if several == count else triples[at * TRIPLE_BYTES : (at + several) * TRIPLE_BYTES]
            write_mark(self._marks, self._segment, kind, priority, part, several)
            at += several

    def note(self, kind: i64, triples: bytes, payload: bytes) -> None:
        """Write a mark with a payload, behind the messages stored before it."""
        self.close_record()
        count: i64 = len(triples) // TRIPLE_BYTES
        length = write_copy_record(self._messages, self._segment, kind, 0, triples, count, payload, crc32(payload))
        self._notes_bytes += length

    def finish(self, batch_no: i64, synced_segment: i64, synced_offset: i64, incarnation: i64) -> bytes:
        """The bytes to write; they begin with the segment header if they are the first of their segment."""
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
        """The bytes of a finished batch that are not messages."""
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
    """Steps from batch to batch. After `next()` returned False, `ending` tells why, and `bad` where."""

    def __init__(self, data: bytes, number: i64, known_end: i64 = 0) -> None:
        """`known_end`: the end of the segment's last batch, if it is known; later bytes are ignored."""
        self.data: bytes = data
        self.number: i64 = number
        # the batch, and its first record behind the opening
        self.start: i64 = SEGMENT_HEADER_BYTES
        self.records: i64 = SEGMENT_HEADER_BYTES
        self.end: i64 = SEGMENT_HEADER_BYTES
        # the offsets of its records with a damaged payload
        self.bad_payloads: list[int] = []
        # the openings say that this segment was flushed up to here
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
        """Skip the damage: continue with the next batch, if there is one."""
        resume = next_opening(self.data, self.number, self.bad + 1)
        self.end = self._limit if resume < 0 else min(resume, self._limit)
        assert self.end > self.start, "each step goes on"

    def _end_at(self, bad: i64) -> bool:
        self.bad = bad
        if self._was_flushed(bad):
            self.ending = DAMAGED
        else:
            self.ending = TORN if has_nonzero_from(self.data, self.start) else WHOLE
        return False

    def _was_flushed(self, bad: i64) -> bool:
        """Whether the incomplete batch at `start` was flushed once."""
        start = self.start
        if self._known_end > 0:
            return True
        if start == SEGMENT_HEADER_BYTES and next_opening(self.data, self.number, start + 1) >= 0:
            return True
        return max(self.synced, synced_after(self.data, self.number, bad)) > start


def has_nonzero_from(data: bytes, at: i64) -> bool:
    return len(data[at:].lstrip(b"\0")) > 0


def next_record(data: bytes, number: i64, at: i64, end: i64) -> RecordScanner | None:
    """The first intact record at or behind `at`, at any byte; None if there is none before `end`."""
    while at + HEADER_BYTES <= end:
        # most bytes cannot begin a record: the first octet of its length is 0, and its kind is known
        if data[at + 4] == 0 and 0 < data[at + 16] <= LAST_KIND:
            scanner = RecordScanner(data, number, at)
            if scanner.next() and scanner.end <= end:
                return scanner
        at += 1
    return None
