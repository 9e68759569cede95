"""The readers of a stream: each has an offset, and the chunks of the archive it needs in memory.

A reader is in the archive or in the tail. It reads the archive a chunk at a time, each a *block*, and asks for the next
blocks ahead. Blocks in memory count as held by the node. A reader whose chunk was dropped before it was read continues
with the first chunk that is left.

- `MessageReader` delivers one message after another. It asks for the next chunk when it is halfway through its current
  one. A publisher may give a message a filter value (header `x-stream-filter-value`). A reader with filter values
  (`x-stream-filter`) gets messages with one of them, and messages without a value if it asks for them
  (`x-stream-match-unfiltered`).
- `ChunkReader` delivers whole chunks (`x-stream-chunks`), for clients that read much and fast. The body of a delivery
  is a chunk as in `broker.streams.chunk`; its headers have the first offset (`x-stream-offset`) and the number of
  messages (`x-stream-count`). The first chunk is the one with the wanted offset. Committed messages that are in no
  archived chunk yet are made into one for the delivery, so a reader always reaches the committed end. Without bodies
  (`x-stream-bodies: false`) a chunk is read and delivered up to its bodies. Only the head of a chunk is checked; its
  checksum is left to the client, because it costs more than everything else together.
- `OffsetProbe` (`x-stream-probe`) gets one delivery without a body. Its headers have the lowest offset
  (`x-stream-first`), the offset behind the last committed message (`x-stream-end`), and the offset that its own
  argument `x-stream-offset` resolves to.

Not here: the bytes of delivered messages (`broker.streams.chunk`), chunks for the archive (`broker.streams.tail`), the
order of readers and offsets stored by probes (`broker.streams.stream_readers`).
"""

from abc import abstractmethod
from typing import Final, final

from librt.strings import read_i32_be
from mypy_extensions import i64

from warren.broker.model.archive import Archive, ArchiveReadWaiter
from warren.broker.model.message import Entry, Envelope, Message
from warren.broker.model.ports import ConsumerPort, QueuePort
from warren.broker.model.stream_partitions import PARTITION_HEADER, partition_index
from warren.broker.model.turn import Turn
from warren.broker.streams.archive_index import ArchivedChunk, ArchiveIndex
from warren.broker.streams.chunk import CHANNEL, FRAME_BYTES, Chunk, ChunkHead, message_in
from warren.broker.streams.offsets import FIRST, LAST, OFFSET_ARGUMENT, StartOffset
from warren.broker.streams.tail import StreamTail
from warren.errors import PRECONDITION_FAILED, ChannelFault, InvariantBroken, StoreError
from warren.wire.field_tables import Long, Table
from warren.wire.frames import content_frames
from warren.wire.properties import Properties, encode_header_payload, find_header
from warren.wire.property_scan import FIXED_BYTES, PropertyScan


@final
class ReaderSource:
    """The stream, its archive and its index, as all its readers use them."""

    def __init__(self, stream: QueuePort, turn: Turn, catalog: ArchiveIndex, archive: Archive) -> None:
        self.stream: QueuePort = stream
        # the partition's number; -1 if the stream is not a partition
        self.partition: i64 = partition_index(stream)
        self.turn: Turn = turn
        self.catalog: ArchiveIndex = catalog
        self.archive: Archive = archive

    def first(self, tail: StreamTail) -> i64:
        """The lowest offset of the stream."""
        return tail.first if self.catalog.empty() else self.catalog.first()


@final
class ArchiveBlock(ArchiveReadWaiter):
    """A chunk of the archive that a reader asked for, or the part before its bodies."""

    def __init__(self, source: ReaderSource, archived: ArchivedChunk, length: i64) -> None:
        self.archived: ArchivedChunk = archived
        self.data: bytes = b""
        self.error: str = ""
        self._source: ReaderSource = source
        self._chunk: Chunk | None = None
        self._awaited: bool = True
        source.archive.read(archived.segment, archived.at, length, self)

    def is_read(self) -> bool:
        return not self._awaited

    def archive_read(self, data: bytes, error: str) -> None:
        assert self._awaited, "a read has one answer"
        self._awaited = False
        self.data = data
        self.error = error
        self._source.turn.held_bytes += len(data)
        self._source.stream.wake()

    def chunk(self) -> Chunk:
        """The checked chunk; a `StoreError` if it is damaged."""
        if self._chunk is None:
            self._chunk = Chunk(self.data)
        return self._chunk

    def release(self) -> None:
        if self._awaited:
            self._source.archive.withdraw(self)
        self._source.turn.held_bytes -= len(self.data)
        self.data = b""
        self._chunk = None


class Reader:
    """One consumer's offset and blocks."""

    def __init__(self, consumer: ConsumerPort, start: StartOffset, source: ReaderSource) -> None:
        self.consumer: ConsumerPort = consumer
        # the next offset; -1 until it is found
        self.offset: i64 = start.offset
        # the damage that ends the reader
        self.damage: str = ""
        self._start: StartOffset = start
        self._source: ReaderSource = source
        # in order; the reader is in the first one
        self._blocks: list[ArchiveBlock] = []

    @abstractmethod
    def entry(self, tail: StreamTail) -> Entry | None:
        """The next entry; None if there is none yet."""

    def block_bytes(self, archived: ArchivedChunk) -> i64:
        """The number of bytes of a chunk to read."""
        return archived.length

    def close(self) -> None:
        """Release all blocks."""
        for block in self._blocks:
            block.release()
        self._blocks = []

    def check(self) -> None:
        """Raise `InvariantBroken` if its blocks do not follow each other."""
        for before, block in zip(self._blocks, self._blocks[1:], strict=False):
            if block.archived.first != before.archived.end():
                raise InvariantBroken(f"a reader has blocks up to {before.archived.end()}, then {block.archived.first}")

    def has_blocks(self) -> bool:
        """Whether it has or awaits blocks of the archive."""
        return len(self._blocks) > 0

    # -- the start offset

    def find(self, tail: StreamTail) -> bool:
        """Whether the offset is known. For a time a chunk may have to be read."""
        if self.offset >= 0:
            return True
        if self._start.arrived_ms >= 0:
            return self._find_time(tail, self._start.arrived_ms)
        if self._start.name == FIRST:
            self.offset = self._source.first(tail)
        elif self._start.name == LAST:
            self.offset = max(self._source.first(tail), tail.committed - 1)
        else:
            self.offset = tail.committed
        return True

    def _find_time(self, tail: StreamTail, arrived_ms: i64) -> bool:
        archived = self._source.catalog.arrived_from(arrived_ms)
        if archived is None or archived.first >= tail.first:
            self.offset = tail.arrived_from(arrived_ms)
            return True
        if not self._blocks or self._blocks[0].archived is not archived:
            self.close()
            # the whole chunk, because its checksum is verified
            self._blocks.append(ArchiveBlock(self._source, archived, archived.length))
        block = self._blocks[0]
        if not self._is_whole(block):
            return False
        try:
            self.offset = archived.first + block.chunk().first_arrived_from(arrived_ms)
        except StoreError as fault:
            self._damaged(block, str(fault))
            return False
        return True

    # -- the archive

    def block(self, tail: StreamTail) -> ArchiveBlock | None:
        """The current block, if it is read. Chunks dropped meanwhile are skipped."""
        if self._blocks and self._blocks[0].error and not self._is_kept(self._blocks[0].archived):
            self.close()
        blocks = self._blocks
        while blocks and blocks[0].archived.end() <= self.offset:
            blocks.pop(0).release()
        if not blocks or self.offset < blocks[0].archived.first:
            self.close()
            self.offset = max(self.offset, self._source.first(tail))
            archived = self._source.catalog.with_offset(self.offset)
            if archived is None:
                return None
            blocks = self._blocks
            blocks.append(ArchiveBlock(self._source, archived, self.block_bytes(archived)))
        return blocks[0] if self._is_whole(blocks[0]) else None

    def blocks_ahead(self) -> i64:
        """How many blocks it has or awaits behind the current one."""
        return len(self._blocks) - 1

    def read_ahead(self, count: i64) -> None:
        """Ask for so many blocks behind the current one."""
        blocks = self._blocks
        while 0 < len(blocks) <= count:
            archived = self._source.catalog.with_offset(blocks[-1].archived.end())
            if archived is None:
                return
            blocks.append(ArchiveBlock(self._source, archived, self.block_bytes(archived)))

    def _is_kept(self, archived: ArchivedChunk) -> bool:
        return self._source.catalog.with_offset(archived.first) is archived

    def _is_whole(self, block: ArchiveBlock) -> bool:
        """Whether the block is read. A read error ends this reader."""
        if block.error:
            self._damaged(block, block.error)
        return block.is_read() and not self.damage

    def _damaged(self, block: ArchiveBlock, why: str) -> None:
        self.damage = f"{why}: segment {block.archived.segment} of the stream at byte {block.archived.at}"


FILTER_HEADER: Final = b"x-stream-filter-value"
FILTER_ARGUMENT: Final = "x-stream-filter"
UNFILTERED_ARGUMENT: Final = "x-stream-match-unfiltered"
LONG_STRING: Final[i64] = 0x53
BEFORE_FLAGS: Final = bytes(FIXED_BYTES - 2)
"""Stands for the fields of a content header before the property flags."""


@final
class StreamFilter:
    """The filter values of one reader; none means all messages."""

    def __init__(self, consumer: ConsumerPort, where: str) -> None:
        """Raises a `ChannelFault` for invalid arguments."""
        given = consumer.arguments.get(FILTER_ARGUMENT)
        values = given if isinstance(given, list) else [] if given is None else [given]
        self._values: set[bytes] = set()
        for value in values:
            if not isinstance(value, str):
                raise ChannelFault(PRECONDITION_FAILED, f"invalid arg '{FILTER_ARGUMENT}' for {where}: not a string")
            self._values.add(value.encode("utf-8", "surrogateescape"))
        self.everything: bool = not self._values
        self._unfiltered: bool = consumer.arguments.get(UNFILTERED_ARGUMENT) is True
        self._scan: PropertyScan = PropertyScan()

    def covers(self, properties: bytes) -> bool:
        """Whether a message with these properties, from their flags on, passes the filter."""
        if self.everything:
            return True
        if properties.find(FILTER_HEADER) < 0:
            return self._unfiltered
        payload = BEFORE_FLAGS + properties
        scan = self._scan
        scan.scan(payload, 0, len(payload))
        at = find_header(payload, scan.headers_start, scan.headers_end, FILTER_HEADER)
        # a value that is not a string counts as none
        if at < 0 or payload[at] != LONG_STRING:
            return self._unfiltered
        size = i64(read_i32_be(payload, at + 1)) & 0xFFFFFFFF
        return payload[at + 5 : at + 5 + size] in self._values


@final
class MessageReader(Reader):
    """Delivers messages, one offset after another."""

    def __init__(
        self, consumer: ConsumerPort, start: StartOffset, source: ReaderSource, message_filter: StreamFilter
    ) -> None:
        super().__init__(consumer, start, source)
        self._filter: StreamFilter = message_filter
        # the envelope of the last message, which the next one is likely to share
        self._exchange: bytes = b""
        self._key: bytes = b""
        self._envelope: Envelope = Envelope("", "")

    def entry(self, tail: StreamTail) -> Entry | None:
        while self.find(tail) and self.offset < tail.committed and not self.damage:
            if self.offset >= tail.first:
                self.close()
                found = tail.at(self.offset)
                self.offset += 1
                if self._filter.everything or self._filter.covers(found.message.header_payload()[FIXED_BYTES - 2 :]):
                    return Entry(tail.shown(self.offset - 1), found.position, 0)
                continue
            block = self.block(tail)
            chunk = None if block is None else self._checked(block)
            if block is None or chunk is None:
                return None
            archived = block.archived
            index = self.offset - archived.first
            if index * 2 >= archived.count and archived.end() < tail.first:
                self.read_ahead(1)
            self.offset += 1
            if self._filter.covers(chunk.properties(index)):
                return Entry(self._message(chunk, index, self.offset - 1), archived.first_position + index, 0)
        return None

    def _checked(self, block: ArchiveBlock) -> Chunk | None:
        try:
            return block.chunk()
        except StoreError as fault:
            self._damaged(block, str(fault))
            return None

    def _message(self, chunk: Chunk, index: i64, offset: i64) -> Message:
        exchange, key = chunk.exchange(index), chunk.routing_key(index)
        if exchange != self._exchange or key != self._key:
            self._exchange, self._key = exchange, key
            self._envelope = Envelope(
                exchange.decode("utf-8", "surrogateescape"), key.decode("utf-8", "surrogateescape")
            )
        return message_in(chunk, index, self._envelope, offset, self._source.partition)


CHUNKS_ARGUMENT: Final = "x-stream-chunks"
BODIES_ARGUMENT: Final = "x-stream-bodies"
COUNT_HEADER: Final = "x-stream-count"
BLOCKS_AHEAD: Final[i64] = 4
"""How many chunks are asked for at once when one is left. A single request costs as much as a delivery."""


@final
class BuiltChunk:
    """The last chunk built from the tail; readers at the same offset share it."""

    def __init__(self) -> None:
        self._first: i64 = -1
        self._committed: i64 = -1
        self._data: bytes = b""

    def of(self, tail: StreamTail, offset: i64) -> bytes:
        if offset != self._first or tail.committed != self._committed:
            self._data = tail.chunk_from(offset).finish()
            self._first, self._committed = offset, tail.committed
        return self._data


@final
class ChunkReader(Reader):
    """Delivers whole chunks."""

    def __init__(
        self, consumer: ConsumerPort, start: StartOffset, source: ReaderSource, key: str, built: BuiltChunk
    ) -> None:
        super().__init__(consumer, start, source)
        self._bodies: bool = consumer.arguments.get(BODIES_ARGUMENT) is not False
        self._envelope: Envelope = Envelope("", key)
        self._built: BuiltChunk = built

    def block_bytes(self, archived: ArchivedChunk) -> i64:
        return archived.length if self._bodies else archived.bodies_at

    def entry(self, tail: StreamTail) -> Entry | None:
        if not self.find(tail) or self.offset >= tail.committed or self.damage:
            return None
        if self.offset >= tail.archived:
            self.close()
            data = self._built.of(tail, self.offset)
            head = ChunkHead(data)
        else:
            block = self.block(tail)
            if block is None:
                return None
            data = block.data
            checked = self._head_of(block, data)
            if checked is None:
                return None
            head = checked
            if self.blocks_ahead() <= 1:
                self.read_ahead(self._ahead())
        return self._delivery(data, head)

    def _ahead(self) -> i64:
        """As many blocks as its client takes, if memory is not low."""
        return 1 if self._source.turn.memory_low else min(BLOCKS_AHEAD, i64(self.consumer.unacked_max()))

    def _head_of(self, block: ArchiveBlock, data: bytes) -> ChunkHead | None:
        archived = block.archived
        try:
            head = ChunkHead(data)
        except StoreError as fault:
            self._damaged(block, str(fault))
            return None
        if (
            head.first_position != archived.first_position
            or head.count != archived.count
            or head.length != archived.length
        ):
            self._damaged(block, "a chunk is damaged")
            return None
        return head

    def _delivery(self, data: bytes, head: ChunkHead) -> Entry:
        cut = data
        end = head.length if self._bodies else head.bodies_at()
        if len(data) > end:
            cut = data[:end]
        first = head.first_offset()
        self.offset = first + head.count
        headers: Table = {OFFSET_ARGUMENT: Long(int(first)), COUNT_HEADER: Long(int(head.count))}
        if self._source.partition >= 0:
            headers[PARTITION_HEADER] = Long(int(self._source.partition))
        payload = encode_header_payload(Properties(headers=headers), len(cut))
        content = content_frames(payload, cut, CHANNEL, FRAME_BYTES)
        return Entry(Message(self._envelope, content, CHANNEL, len(cut), FRAME_BYTES, True), head.first_position, 0)


PROBE_ARGUMENT: Final = "x-stream-probe"
FIRST_HEADER: Final = "x-stream-first"
END_HEADER: Final = "x-stream-end"
NOWHERE: Final[i64] = 0
"""The position of an entry that is in no stream."""


@final
class OffsetProbe(Reader):
    """Delivers one answer."""

    def __init__(self, consumer: ConsumerPort, start: StartOffset, source: ReaderSource, key: str) -> None:
        super().__init__(consumer, start, source)
        self._answered: bool = False
        self._envelope: Envelope = Envelope("", key)

    def entry(self, tail: StreamTail) -> Entry | None:
        if self._answered or not self.find(tail):
            return None
        self._answered = True
        self.close()
        first = self._source.first(tail)
        headers: Table = {
            FIRST_HEADER: Long(int(first)),
            END_HEADER: Long(int(tail.committed)),
            OFFSET_ARGUMENT: Long(int(max(first, self.offset))),
        }
        payload = encode_header_payload(Properties(headers=headers), 0)
        content = content_frames(payload, b"", CHANNEL, FRAME_BYTES)
        return Entry(Message(self._envelope, content, CHANNEL, 0, FRAME_BYTES, True), NOWHERE, 0)
