"""The index of a segment: the offset of every message, by queue and position. In memory while the segment is written, a
file once it is sealed.

::

    header     8 bytes "WARRENIX", u32 version, u32 queue_count, i64 segment number, i64 row count
    directory  queue_count x (i64 queue_id, i64 first_row, i64 row_count), sorted by queue_id
    rows       i64 position, u32 offset, u32 length, u32 body_bytes, u8 priority, u8 kind, u16 0
    end        u32 crc32 of everything before

Offset and length are those of the whole record. A reader needs the header, the directory and the rows of one queue;
the checksum is for readers of the whole file.

Invariants: the rows of a queue stand together, sorted by position. Positions are positive, so rows sort as bytes.

Not here: which messages are alive (`broker.journal.removed_positions`), reading files (`node.disk`).
"""

from typing import Final, final
from zlib import crc32

from librt.strings import BytesWriter, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from warren.broker.journal.records import signed_word, unsigned_at
from warren.errors import StoreError

ROW_BYTES: Final[i64] = 24
INDEX_HEADER_BYTES: Final[i64] = 32
DIRECTORY_ROW_BYTES: Final[i64] = 24
INDEX_VERSION: Final[i64] = 1
INDEX_MAGIC: Final = b"WARRENIX"
CRC_BYTES: Final[i64] = 4

GAP_BYTES: Final[i64] = 4 * 1024
"""Records that are no further apart are read in one piece."""


@final
class _QueueRows:
    """The rows of one queue, in the order of writing."""

    def __init__(self, queue_id: i64) -> None:
        self.queue_id: i64 = queue_id
        self.out: BytesWriter = BytesWriter()
        self.last_position: i64 = 0
        self.in_order: bool = True

    def sorted(self) -> bytes:
        """The rows sorted by position. The order is kept: compaction is rare, and reads are frequent."""
        rows = self.out.getvalue()
        if self.in_order:
            return rows
        step = int(ROW_BYTES)
        rows = b"".join(sorted([rows[at : at + step] for at in range(0, len(rows), step)]))
        self.out = BytesWriter()
        self.out.write(rows)
        self.last_position = read_i64_be(rows, len(rows) - ROW_BYTES)
        self.in_order = True
        return rows


@final
class SegmentIndex:
    """The rows of one segment."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self._queues: dict[int, _QueueRows] = {}
        # the queue that got the last row: the next row is mostly for the same queue
        self._last: _QueueRows | None = None

    def add(
        self, queue_id: i64, position: i64, offset: i64, length: i64, body_bytes: i64, priority: i64, kind: i64
    ) -> None:
        queue = self._last
        if queue is None or queue.queue_id != queue_id:
            queue = self._queue_rows(queue_id)
            self._last = queue
        if position < queue.last_position:
            queue.in_order = False
        queue.last_position = position
        out = queue.out
        write_i64_be(out, position)
        write_i64_be(out, signed_word(offset) << 32 | length)
        write_i64_be(out, signed_word(body_bytes) << 32 | priority << 24 | kind << 16)
        self.count += 1

    def _queue_rows(self, queue_id: i64) -> _QueueRows:
        queue = self._queues.get(int(queue_id))
        if queue is None:
            queue = _QueueRows(queue_id)
            self._queues[int(queue_id)] = queue
        return queue

    def rows_of(self, queue_id: i64) -> bytes:
        """The rows of one queue, sorted by position."""
        queue = self._queues.get(int(queue_id))
        return b"" if queue is None else queue.sorted()

    def encode(self, number: int) -> bytes:
        """The index file of the segment with this number."""
        out = BytesWriter()
        out.write(INDEX_MAGIC)
        write_i64_be(out, INDEX_VERSION << 32 | len(self._queues))
        write_i64_be(out, number)
        write_i64_be(out, self.count)
        queue_ids = sorted(self._queues)
        first_row: i64 = 0
        for queue_id in queue_ids:
            row_count: i64 = len(self._queues[queue_id].out) // ROW_BYTES
            write_i64_be(out, queue_id)
            write_i64_be(out, first_row)
            write_i64_be(out, row_count)
            first_row += row_count
        assert first_row == self.count
        for queue_id in queue_ids:
            out.write(self._queues[queue_id].sorted())
        crc: i64 = crc32(out.getvalue())
        write_i32_be(out, i32(signed_word(crc)))
        return out.getvalue()


def row_position(rows: bytes, i: i64) -> i64:
    return read_i64_be(rows, i * ROW_BYTES)


def row_offset(rows: bytes, i: i64) -> i64:
    return unsigned_at(rows, i * ROW_BYTES + 8)


def row_length(rows: bytes, i: i64) -> i64:
    return unsigned_at(rows, i * ROW_BYTES + 12)


def row_body_bytes(rows: bytes, i: i64) -> i64:
    return unsigned_at(rows, i * ROW_BYTES + 16)


def row_priority(rows: bytes, i: i64) -> i64:
    return rows[i * ROW_BYTES + 20]


def row_kind(rows: bytes, i: i64) -> i64:
    return rows[i * ROW_BYTES + 21]


def first_row_from(rows: bytes, position: i64) -> i64:
    """The first row at or above this position; the number of rows if there is none."""
    low: i64 = 0
    high: i64 = len(rows) // ROW_BYTES
    while low < high:
        middle: i64 = (low + high) >> 1
        if read_i64_be(rows, middle * ROW_BYTES) < position:
            low = middle + 1
        else:
            high = middle
    return low


def pieces_of(rows: bytes, chosen: list[int]) -> tuple[list[tuple[int, int]], list[int]]:
    """The pieces of a segment to read for some rows, each its offset and length; and the piece of each row."""
    pieces: list[tuple[int, int]] = []
    piece_of: list[int] = []
    start: i64 = -1
    end: i64 = -1
    for index in chosen:
        # compacted records do not lie in the order of their positions
        offset = row_offset(rows, index)
        if start >= 0 and not end <= offset <= end + GAP_BYTES:
            pieces.append((int(start), int(end - start)))
            start = -1
        if start < 0:
            start = offset
        end = offset + row_length(rows, index)
        piece_of.append(len(pieces))
    pieces.append((int(start), int(end - start)))
    return pieces, piece_of


def directory_bytes(header: bytes) -> int:
    """The size of the directory behind the header of an index file."""
    if len(header) < INDEX_HEADER_BYTES or header[:8] != INDEX_MAGIC:
        raise StoreError("not an index of a segment")
    version = unsigned_at(header, 8)
    if version != INDEX_VERSION:
        raise StoreError(f"an index of another version, {version}")
    return int(unsigned_at(header, 12) * DIRECTORY_ROW_BYTES)


def find_rows(header_and_directory: bytes, queue_id: int) -> tuple[int, int]:
    """The offset and the size of a queue's rows in the file; two zeros if it has none."""
    wanted: i64 = queue_id
    size: i64 = directory_bytes(header_and_directory)
    rows_start: i64 = INDEX_HEADER_BYTES + size
    if len(header_and_directory) < rows_start:
        raise StoreError("an index whose directory is cut short")
    low: i64 = 0
    high: i64 = size // DIRECTORY_ROW_BYTES
    while low < high:
        middle: i64 = (low + high) >> 1
        at: i64 = INDEX_HEADER_BYTES + middle * DIRECTORY_ROW_BYTES
        found: i64 = read_i64_be(header_and_directory, at)
        if found == wanted:
            first_row: i64 = read_i64_be(header_and_directory, at + 8)
            row_count: i64 = read_i64_be(header_and_directory, at + 16)
            return int(rows_start + first_row * ROW_BYTES), int(row_count * ROW_BYTES)
        if found < wanted:
            low = middle + 1
        else:
            high = middle
    return 0, 0


def check_index(data: bytes, number: int) -> None:
    """Raise `StoreError` unless this is the complete and intact index of that segment."""
    rows_start: i64 = INDEX_HEADER_BYTES + directory_bytes(data)
    size: i64 = len(data)
    if size < rows_start + CRC_BYTES:
        raise StoreError("an index that is cut short")
    crc: i64 = crc32(data[: size - CRC_BYTES])
    if crc != unsigned_at(data, size - CRC_BYTES):
        raise StoreError("an index that is damaged")
    if size != rows_start + read_i64_be(data, 24) * ROW_BYTES + CRC_BYTES:
        raise StoreError("an index whose size is not what it says")
    found: i64 = read_i64_be(data, 16)
    if found != number:
        raise StoreError(f"an index of segment {found}")


def rows_in(data: bytes, queue_id: int) -> bytes:
    """The rows of one queue in a complete index file."""
    start, size = find_rows(data, queue_id)
    return data[start : start + size]


def queue_ids(data: bytes) -> list[int]:
    """The queues that have rows in a complete index file, in order."""
    end = int(INDEX_HEADER_BYTES) + directory_bytes(data)
    return [int(read_i64_be(data, at)) for at in range(int(INDEX_HEADER_BYTES), end, int(DIRECTORY_ROW_BYTES))]
