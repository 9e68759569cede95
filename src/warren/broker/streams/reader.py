"""One reader of a stream: where it is, and what of the archive it has in memory.

A reader is somewhere in the archive, or in the tail. What it reads of the archive it asks for by the chunk, each a
*block*, and for the next ones before it needs them. Blocks that are there count as held by the node.

A reader whose chunk was dropped before it asked for it goes on with the first one that is left.

Not here: what it makes of a chunk (`messages`, `chunks`), whose turn it is (`broker.streams.stream`).

A reader that is given one message after another, those that it wants.

The next chunk is asked for when it has gone through half of the one it is in, so that it finds it there.

Not here: the bytes of a message as it is shown (`broker.streams.chunk`).

Which messages a reader wants.

A publisher may give a message a value (header `x-stream-filter-value`). A reader that names some (`x-stream-filter`) is
given those that bear one of them, and those that bear none if it says so (`x-stream-match-unfiltered`).

Not here: readers of whole chunks, who choose by themselves (`broker.streams.reader`).

A reader that is given a chunk at a time (`x-stream-chunks`): what there is for whoever reads much, and fast.

The body of a delivery is a chunk as in `broker.streams.chunk`; its headers say with which offset it
begins (`x-stream-offset`)
and how many messages it has (`x-stream-count`). The first one is that which has the wanted offset. What is settled and
in no chunk of the archive yet is made into one for the delivery, so that a reader always gets to the settled end; at
the end it waits, and gets the next one when something more is settled.

A reader that wants no bodies (`x-stream-bodies: false`) gets each chunk up to where its bodies begin, and no more is
read of it.

A chunk goes out as it was read. Its head must be the one that was written; its checksum is for the client to check,
because to do that takes longer than everything else together.

Not here: chunks for the archive (`broker.streams.tail`).

A reader that wants to know where a stream begins and ends, and nothing of what is in it (`x-stream-probe`).

It is given one delivery, without a body, whose headers say the lowest offset there is (`x-stream-first`), the one
behind the last that is settled (`x-stream-end`), and what its own argument `x-stream-offset` comes to.

Not here: progress that is stored by a probe (`broker.streams.stream_readers`).
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
from warren.errors import PRECONDITION_FAILED, ChannelFault, StoreError
from warren.wire.field_tables import Long, Table
from warren.wire.frames import content_frames
from warren.wire.properties import Properties, encode_header_payload, find_header
from warren.wire.property_scan import FIXED_BYTES, PropertyScan


@final
class ReaderSource:
    """What all readers of one stream read from."""

    def __init__(self, stream: QueuePort, turn: Turn, catalog: ArchiveIndex, archive: Archive) -> None:
        self.stream: QueuePort = stream
        # which one of a partitioned stream's it is; -1 if it is none
        self.partition: i64 = partition_index(stream)
        self.turn: Turn = turn
        self.catalog: ArchiveIndex = catalog
        self.archive: Archive = archive

    def first(self, tail: StreamTail) -> i64:
        """The lowest offset there is."""
        return tail.first if self.catalog.empty() else self.catalog.first()


@final
class ArchiveBlock(ArchiveReadWaiter):
    """A chunk of the archive that a reader asked for, or its first part."""

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
        self._awaited = False
        self.data = data
        self.error = error
        self._source.turn.held_bytes += len(data)
        self._source.stream.wake()

    def chunk(self) -> Chunk:
        """It, checked; a `StoreError` if it is damaged."""
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
    """Where one consumer is."""

    def __init__(self, consumer: ConsumerPort, start: StartOffset, source: ReaderSource) -> None:
        self.consumer: ConsumerPort = consumer
        # what it gets next; -1 while that has yet to be found
        self.offset: i64 = start.offset
        # why it cannot go on
        self.damage: str = ""
        self._start: StartOffset = start
        self._source: ReaderSource = source
        # those it asked for, one after another; it is in the first one
        self._blocks: list[ArchiveBlock] = []

    @abstractmethod
    def entry(self, tail: StreamTail) -> Entry | None:
        """What it gets next; nothing if there is nothing, or it is being read."""

    def block_bytes(self, archived: ArchivedChunk) -> i64:
        """How much of a chunk it wants to have."""
        return archived.length

    def close(self) -> None:
        """It reads no more."""
        for block in self._blocks:
            block.release()
        self._blocks = []

    def has_blocks(self) -> bool:
        """Whether it has something of the archive in memory, or has asked for it."""
        return len(self._blocks) > 0

    # -- where it begins

    def find(self, tail: StreamTail) -> bool:
        """Whether it is known where it is; a time may have to be looked for in a chunk."""
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
            # all of it, because it is checked before it is believed
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
        """The one it is in, if that is there. What was dropped meanwhile is passed over."""
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
        """How many it has, or has asked for, behind the one it is in."""
        return len(self._blocks) - 1

    def read_ahead(self, count: i64) -> None:
        """Ask for what comes behind the block it is in, so many of them, before it is wanted."""
        blocks = self._blocks
        while 0 < len(blocks) <= count:
            archived = self._source.catalog.with_offset(blocks[-1].archived.end())
            if archived is None:
                return
            blocks.append(ArchiveBlock(self._source, archived, self.block_bytes(archived)))

    def _is_kept(self, archived: ArchivedChunk) -> bool:
        return self._source.catalog.with_offset(archived.first) is archived

    def _is_whole(self, block: ArchiveBlock) -> bool:
        """Whether it is there; if it could not be read, this reader is at its end."""
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
"""What a content header has before its properties, which means nothing here."""


@final
class StreamFilter:
    """What one reader named; nothing means everything."""

    def __init__(self, consumer: ConsumerPort, where: str) -> None:
        """A `ChannelFault` if what its arguments ask for makes no sense."""
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
        """Whether it wants a message with these properties, from their flags on."""
        if self.everything:
            return True
        if properties.find(FILTER_HEADER) < 0:
            return self._unfiltered
        payload = BEFORE_FLAGS + properties
        scan = self._scan
        scan.scan(payload, 0, len(payload))
        at = find_header(payload, scan.headers_start, scan.headers_end, FILTER_HEADER)
        # a value that is no text is none
        if at < 0 or payload[at] != LONG_STRING:
            return self._unfiltered
        size = i64(read_i32_be(payload, at + 1)) & 0xFFFFFFFF
        return payload[at + 5 : at + 5 + size] in self._values


@final
class MessageReader(Reader):
    """Goes from offset to offset."""

    def __init__(
        self, consumer: ConsumerPort, start: StartOffset, source: ReaderSource, message_filter: StreamFilter
    ) -> None:
        super().__init__(consumer, start, source)
        self._filter: StreamFilter = message_filter
        # of the message before, which is likely to be that of the next one
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
"""How many chunks it asks for ahead, when only one is left: to ask for each by itself costs as much as to send it."""


@final
class BuiltChunk:
    """The chunk that was made of the tail last; others at the same place get the same one."""

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
    """Goes from chunk to chunk."""

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
        """As many as its client takes, if there is memory for them."""
        return 1 if self._source.turn.tight else min(BLOCKS_AHEAD, i64(self.consumer.unacked_max()))

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
"""The position of what is in no stream."""


@final
class OffsetProbe(Reader):
    """Answers once."""

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
