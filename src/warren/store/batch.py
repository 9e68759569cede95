"""What one turn writes: the messages in the order they came, then the marks.

A batch counts as a whole or not at all: its first record says how long it is, and recovery drops a batch that is not
complete. Nothing of such a batch was ever confirmed. So the order within a batch is a matter of convenience, but for
messages and notes of what a queue remembers besides: they stand in the order in which they came.

A message that several queues store one after another becomes one record: it stays open until another message comes.

Not here: which file a batch goes to and when that is full (`store.journal`), the records' bytes (`store.records`).
"""

from typing import Final, final
from zlib import crc32

from librt.strings import BytesWriter, read_i64_be
from mypy_extensions import i64

from warren.model.message import Message
from warren.store.index import SegmentRows
from warren.store.records import (
    HEADER_BYTES,
    MESSAGE,
    PAGED,
    SEGMENT_HEADER_BYTES,
    SYNCED,
    TRIPLE_BYTES,
    segment_header,
    write_copy_record,
    write_mark,
    write_message_record,
    write_payload_record,
    write_triple,
)

TRIPLES_MAX: Final[i64] = 60_000
OPENING_BYTES: Final[i64] = HEADER_BYTES + 2 * TRIPLE_BYTES
"""The record every batch begins with."""


@final
class Batch:
    """The records of the turn that is under way."""

    def __init__(self) -> None:
        self._segment: i64 = 0
        self._offset: i64 = 0
        self._rows: SegmentRows = SegmentRows()
        # the batch as it will be, but that the beginning is written when all is known
        self._messages: BytesWriter = BytesWriter()
        self._beginning_bytes: i64 = 0
        self._marks: BytesWriter = BytesWriter()
        self._notes_bytes: i64 = 0
        # the record that may get further placements
        self._open: Message | None = None
        self._placements: BytesWriter = BytesWriter()
        self._placed: i64 = 0

    def begin(self, segment: i64, offset: i64, rows: SegmentRows) -> None:
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
