"""The index of a stream's archive: its chunks, the files they are in, and retention.

A file, a *segment*, has chunks one after another, up to a size; a chunk is never split. Segments are numbered.
Retention drops whole segments, the oldest first. The last segment stays, so that the next offset is always known.

After a restart chunks are found by their heads, from one to the next. The chunks that were written last may be
incomplete if the node died meanwhile: the next chunk overwrites them, and the journal still has their messages. Any
other fault is damage.

Invariants: chunks follow each other without a gap in their offsets, within and across segments.

Not here: the bytes of chunks (`broker.streams.chunk`), writing them (`broker.streams.archiver`), the journal's part of
a stream (`broker.streams.tail`).
"""

from bisect import bisect_right
from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.archive import ArchiveFiles
from warren.broker.model.replica_contents import PositionSpan
from warren.broker.streams.chunk import HEADER_BYTES, Chunk, ChunkHead
from warren.broker.streams.offsets import offset_of
from warren.errors import InvariantBroken, StoreError

SEGMENT_BYTES: Final = 500_000_000
"""The default size of a segment."""


@final
class ArchivedChunk:
    """The place and the head of a chunk."""

    def __init__(self, segment: i64, at: i64, head: ChunkHead) -> None:
        self.segment: i64 = segment
        self.at: i64 = at
        self.length: i64 = head.length
        self.first: i64 = offset_of(head.first_position)
        self.count: i64 = head.count
        self.first_position: i64 = head.first_position
        self.first_ms: i64 = head.first_ms
        self.last_ms: i64 = head.last_ms
        self.body_bytes: i64 = head.body_bytes
        self.bodies_at: i64 = head.bodies_at()

    def end(self) -> i64:
        return self.first + self.count

    def last_position(self) -> i64:
        return self.first_position + self.count - 1


@final
class ArchiveIndex:
    """The chunks of one stream's archive."""

    def __init__(self, segment_bytes: i64 = SEGMENT_BYTES) -> None:
        self.segment_bytes: i64 = segment_bytes
        self.size_bytes: i64 = 0
        # the bytes of message bodies
        self.body_bytes: i64 = 0
        self._begins_with: i64 = 0
        self._chunks: list[ArchivedChunk] = []
        # the first offset of each chunk, for lookups
        self._firsts: list[int] = []
        # the size of each segment, in order
        self._sizes: dict[int, int] = {}
        # the segment with an incomplete chunk at its end, and the offset of that chunk; segment 0 if there is none
        self.torn: tuple[i64, i64] = (0, 0)

    def empty(self) -> bool:
        return not self._chunks

    def first(self) -> i64:
        """The lowest offset. There must be a chunk."""
        return self._chunks[0].first

    def end(self) -> i64:
        """The offset behind the last chunk; that of the first chunk to come if there is none."""
        return self._chunks[-1].end() if self._chunks else self._begins_with

    def begin_with(self, offset: i64) -> None:
        """The first chunk will begin with this offset."""
        self._begins_with = offset

    def segment_count(self) -> int:
        return len(self._sizes)

    def place(self) -> tuple[i64, i64]:
        """The segment of the next chunk, and the offset in it."""
        if self.torn[0] != 0:
            return self.torn
        if not self._sizes:
            return 1, 0
        number = max(self._sizes)
        size = self._sizes[number]
        return (number + 1, 0) if size >= self.segment_bytes else (number, size)

    def add(self, segment: i64, at: i64, head: ChunkHead) -> None:
        """Add the next chunk; a `StoreError` if it does not follow the last one."""
        chunk = ArchivedChunk(segment, at, head)
        if self._chunks and chunk.first != self.end():
            raise StoreError(f"offset {self.end()} is missing: a chunk begins with {chunk.first}")
        self.torn = (0, 0)
        self._chunks.append(chunk)
        self._firsts.append(int(chunk.first))
        self._sizes[int(segment)] = int(at + chunk.length)
        self.size_bytes += chunk.length
        self.body_bytes += chunk.body_bytes

    def describe_gap(self, offset: i64) -> str:
        """The fault of an offset that neither the archive nor the journal has."""
        segment, at = self.place()
        return f"offset {offset} is missing: segment {segment} of the stream is damaged at byte {at}"

    def with_offset(self, offset: i64) -> ArchivedChunk | None:
        """The chunk with this offset."""
        index = bisect_right(self._firsts, int(offset)) - 1
        if index < 0 or offset >= self._chunks[index].end():
            return None
        return self._chunks[index]

    # -- by position

    def last_position(self) -> i64:
        """The position of the last message; 0 if there is none."""
        return self._chunks[-1].last_position() if self._chunks else 0

    def first_position(self) -> i64:
        """The position of the first message; 0 if there is none."""
        return self._chunks[0].first_position if self._chunks else 0

    def from_position(self, position: i64) -> ArchivedChunk | None:
        """The first chunk with this position or a higher one."""
        low, high = 0, len(self._chunks)
        while low < high:
            middle = (low + high) // 2
            if self._chunks[middle].last_position() < position:
                low = middle + 1
            else:
                high = middle
        return self._chunks[low] if low < len(self._chunks) else None

    def has_position(self, position: i64) -> bool:
        chunk = self.from_position(position)
        return chunk is not None and chunk.first_position <= position

    def spans(self) -> list[PositionSpan]:
        """All positions, in order; spans do not touch."""
        spans: list[PositionSpan] = []
        for chunk in self._chunks:
            if spans and spans[-1].last + 1 == chunk.first_position:
                spans[-1].last = chunk.last_position()
            else:
                spans.append(PositionSpan(chunk.first_position, chunk.last_position()))
        return spans

    def forget_to(self, position: i64) -> list[int]:
        """Drop the segments without a position above this one; the last segment stays."""
        gone: list[int] = []
        while len(self._sizes) > 1:
            oldest = min(self._sizes)
            if self._last_position_in(oldest) > position:
                break
            self._forget(oldest)
            gone.append(oldest)
        return gone

    def _last_position_in(self, segment: int) -> i64:
        last: i64 = 0
        for chunk in self._chunks:
            if chunk.segment != segment:
                break
            last = chunk.last_position()
        return last

    def clear(self) -> list[int]:
        """Drop all segments. The next chunk may begin with any offset."""
        gone = sorted({*self._sizes, int(self.torn[0])} - {0})
        self.torn = (0, 0)
        self._chunks = []
        self._firsts = []
        self._sizes = {}
        self.size_bytes = 0
        self.body_bytes = 0
        return gone

    # -- by time

    def arrived_from(self, arrived_ms: i64) -> ArchivedChunk | None:
        """The first chunk with a message that arrived at this time or later."""
        low, high = 0, len(self._chunks)
        while low < high:
            middle = (low + high) // 2
            if self._chunks[middle].last_ms < arrived_ms:
                low = middle + 1
            else:
                high = middle
        return self._chunks[low] if low < len(self._chunks) else None

    def expire(self, bytes_max: i64, before_ms: i64, now_ms: i64) -> list[int]:
        """Drop segments beyond a total size (-1: no limit), and those whose messages all arrived before a time."""
        gone: list[int] = []
        while len(self._sizes) > 1:
            oldest = min(self._sizes)
            too_many = 0 <= bytes_max < self.size_bytes
            if not too_many and self._last_ms(oldest, now_ms) >= before_ms:
                break
            self._forget(oldest)
            gone.append(oldest)
        return gone

    def _last_ms(self, segment: int, now_ms: i64) -> i64:
        """The time of the last message in the oldest segment."""
        last: i64 = 0
        for chunk in self._chunks:
            if chunk.segment != segment:
                break
            last = max(last, chunk.last_ms)
        if last > now_ms:
            # the clock has been set back since; the messages arrived before all that came after them
            for chunk in self._chunks:
                last = min(last, chunk.last_ms)
        return last

    def _forget(self, segment: int) -> None:
        count = 0
        while self._chunks[count].segment == segment:
            self.body_bytes -= self._chunks[count].body_bytes
            count += 1
        del self._chunks[:count]
        del self._firsts[:count]
        self.size_bytes -= self._sizes.pop(segment)

    def check(self) -> None:
        """Raise `InvariantBroken` if chunks and segments do not add up. Linear in segments."""
        if len(self._firsts) != len(self._chunks) or self.size_bytes != sum(self._sizes.values()):
            raise InvariantBroken(f"an archive of {len(self._chunks)} chunks in {self.size_bytes} bytes")
        if self._chunks and int(self._chunks[-1].segment) != max(self._sizes):
            raise InvariantBroken(f"the last chunk of an archive is not in its last segment, {max(self._sizes)}")


HEAD_BYTES: Final = 64
assert HEAD_BYTES == HEADER_BYTES

CHUNKS_AT_ONCE_MAX: Final = 4
"""The most chunks in one write. Any of them may be incomplete if the node died before the flush."""


def recover_archive_index(files: ArchiveFiles, stream_id: int, segment_bytes: i64) -> ArchiveIndex:
    """Find the chunks of a stream; a `StoreError` if one is missing."""
    catalog = ArchiveIndex(segment_bytes)
    segments = files.segments(stream_id)
    if segments:
        # the journal drops the messages of these chunks, so they must survive a power loss
        files.secure(stream_id, segments[-1])
    for segment in segments:
        _find_chunks(files, stream_id, segment, segment == segments[-1], catalog)
    return catalog


def _find_chunks(files: ArchiveFiles, stream_id: int, segment: int, last: bool, catalog: ArchiveIndex) -> None:
    size = files.size(stream_id, segment)
    heads: list[tuple[int, ChunkHead]] = []
    at, fault = 0, ""
    while at < size and not fault:
        try:
            head = ChunkHead(files.read(stream_id, segment, at, HEAD_BYTES))
            if at + int(head.length) > size:
                raise StoreError("a chunk is cut short")
            heads.append((at, head))
            at += int(head.length)
        except StoreError as error:
            fault = str(error)
    if fault and not last:
        raise StoreError(f"{fault}: segment {segment} of the stream at byte {at}")
    if last:
        whole = _whole_count(files, stream_id, segment, heads)
        if whole < len(heads):
            fault, at = "not whole", heads[whole][0]
            heads = heads[:whole]
    for start, found in heads:
        catalog.add(segment, start, found)
    if fault:
        catalog.torn = (segment, at)


def _whole_count(files: ArchiveFiles, stream_id: int, segment: int, heads: list[tuple[int, ChunkHead]]) -> int:
    """How many chunks precede the first incomplete one, which can only be among the last few."""
    first = max(0, len(heads) - CHUNKS_AT_ONCE_MAX)
    for index, (at, head) in enumerate(heads[first:], first):
        try:
            Chunk(files.read(stream_id, segment, at, int(head.length)))
        except StoreError:
            return index
    return len(heads)
