"""A survey of a stream's files for offline commands, and placeholder chunks for lost messages.

Every chunk is read and checked, while a start checks only the last few. So damage that no reader has met yet is found
here. The end of the last segment may have been written when the node died: then the journal still has those messages.
If it does not, that is damage like any other, and intact chunks behind it count.

An offset always means the same message, and there is no gap. So a salvaged stream has a message without a body, with
the header `x-warren-lost`, in place of each lost one.

Not here: the start (`broker.streams.archive_index`), the output (`cli.journal_report`), writing the files
(`node.disk.offline_streams`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.archive import ArchiveFiles
from warren.broker.model.message import Envelope, Message
from warren.broker.streams.archive_index import CHUNKS_AT_ONCE_MAX
from warren.broker.streams.chunk import CHANNEL, FRAME_BYTES, HEADER_BYTES, Chunk, ChunkBuilder, ChunkHead
from warren.broker.streams.tail import CHUNK_MESSAGES
from warren.errors import StoreError
from warren.wire.frames import content_frames
from warren.wire.properties import Properties, encode_header_payload

MAGIC_BYTES: Final = b"WCHK"
"""The bytes of `broker.streams.chunk.MAGIC`."""
LOOKED_AT_BYTES: Final = 1 << 20


@final
class ChunkPlace:
    """The place and the offsets of a chunk."""

    def __init__(self, at: int, head: ChunkHead) -> None:
        self.at: int = at
        self.length: int = int(head.length)
        self.last_position: int = int(head.first_position + head.count - 1)
        self.last_ms: int = int(head.last_ms)
        self.first: int = int(head.first_offset())
        self.end: int = int(head.first_offset() + head.count)


@final
class ArchiveSurvey:
    """One segment of a stream."""

    def __init__(self, files: ArchiveFiles, stream_id: int, segment: int) -> None:
        self.number: int = segment
        self.file_bytes: int = files.size(stream_id, segment)
        # the intact chunks
        self.chunks: list[ChunkPlace] = []
        # the offsets of damaged chunks, and of bytes that are no chunk
        self.damaged_at: list[int] = []
        # the offset of a torn end; -1 if there is none
        self.torn_at: int = -1
        self._read(files, stream_id)

    def tail(self) -> str:
        """The state of the segment in a few words."""
        if self.damaged_at:
            return f"damaged at byte {self.damaged_at[0]}"
        return "clean" if self.torn_at < 0 else f"torn at byte {self.torn_at}"

    def _read(self, files: ArchiveFiles, stream_id: int) -> None:
        at: int = 0
        while at < self.file_bytes:
            try:
                head = ChunkHead(files.read(stream_id, self.number, at, int(HEADER_BYTES)))
            except StoreError:
                self.damaged_at.append(at)
                at = self._next_chunk(files, stream_id, at + 1)
                continue
            try:
                Chunk(files.read(stream_id, self.number, at, int(head.length)))
                self.chunks.append(ChunkPlace(at, head))
            except StoreError:
                self.damaged_at.append(at)
            at += int(head.length)

    def _next_chunk(self, files: ArchiveFiles, stream_id: int, at: int) -> int:
        """The offset of the next intact chunk that follows the earlier ones; the end of the file if there is none."""
        end = self.chunks[-1].end if self.chunks else 0
        while at < self.file_bytes:
            found = files.read(stream_id, self.number, at, LOOKED_AT_BYTES).find(MAGIC_BYTES)
            if found < 0:
                # the magic may begin in the last bytes
                at += LOOKED_AT_BYTES - len(MAGIC_BYTES) + 1
                continue
            at += found
            try:
                head = ChunkHead(files.read(stream_id, self.number, at, int(HEADER_BYTES)))
                if head.first_offset() >= end:
                    Chunk(files.read(stream_id, self.number, at, int(head.length)))
                    return at
            except StoreError:
                pass
            at += 1
        return self.file_bytes

    def find_torn_end(self, end: int, rest: list[tuple[int, int]]) -> None:
        """Take damage among the last few chunks as a torn end, if the journal has the messages.

        `end`: the offset behind the segments before; `rest`: the journal's ranges of offsets.
        """
        if not self.damaged_at:
            return
        begin = self.damaged_at[0]
        before = [one for one in self.chunks if one.at < begin]
        if before:
            end = before[-1].end
        is_in_journal = any(first <= end < behind for first, behind in rest)
        if is_in_journal and len(self.chunks) - len(before) + len(self.damaged_at) <= CHUNKS_AT_ONCE_MAX:
            self.torn_at = begin
            self.damaged_at = []
            self.chunks = before


@final
class StreamSurvey:
    """All segments of a stream."""

    def __init__(self, files: ArchiveFiles, stream_id: int, rest: list[tuple[int, int]]) -> None:
        """`rest`: the journal's ranges of offsets, each the first and the one behind the last."""
        self._rest: list[tuple[int, int]] = rest
        self.segments: list[ArchiveSurvey] = [
            ArchiveSurvey(files, stream_id, number) for number in files.segments(stream_id)
        ]
        if self.segments:
            before = [chunk for segment in self.segments[:-1] for chunk in segment.chunks]
            # a stream without chunks begins with the journal's messages
            end = before[-1].end if before else rest[0][0] if rest else 0
            self.segments[-1].find_torn_end(end, rest)

    def chunks(self) -> list[ChunkPlace]:
        return [chunk for segment in self.segments for chunk in segment.chunks]

    def missing(self, end: int) -> list[tuple[int, int]]:
        """The ranges of missing offsets of a stream that ended before this offset."""
        found: list[tuple[int, int]] = []
        kept = [(chunk.first, chunk.end) for chunk in self.chunks()]
        at = kept[0][0] if kept else 0
        for first, behind in sorted(kept + self._rest):
            if first > at:
                found.append((at, first))
            at = max(at, behind)
        if at < end:
            found.append((at, end))
        return found


LOST_HEADER: Final = "x-warren-lost"


def placeholder_chunks(first_position: i64, count: i64, arrived_ms: i64, stream: str) -> list[bytes]:
    """Chunks of so many placeholder messages, with one time of arrival."""
    payload = encode_header_payload(Properties(headers={LOST_HEADER: True}, delivery_mode=2), 0)
    content = content_frames(payload, b"", CHANNEL, FRAME_BYTES)
    message = Message(Envelope("", stream), content, CHANNEL, 0, FRAME_BYTES, True)
    chunks: list[bytes] = []
    position: i64 = first_position
    end: i64 = first_position + count
    while position < end:
        builder = ChunkBuilder()
        while position < end and builder.count < CHUNK_MESSAGES:
            builder.add(position, arrived_ms, message)
            position += 1
        chunks.append(builder.finish())
    return chunks
