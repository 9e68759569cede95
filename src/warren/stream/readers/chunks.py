"""A reader that is given a chunk at a time (`x-stream-chunks`): what there is for whoever reads much, and fast.

The body of a delivery is a chunk as in `stream.chunk`; its headers say with which offset it begins (`x-stream-offset`)
and how many messages it has (`x-stream-count`). The first one is that which has the wanted offset. What is settled and
in no chunk of the archive yet is made into one for the delivery, so that a reader always gets to the settled end; at
the end it waits, and gets the next one when something more is settled.

A reader that wants no bodies (`x-stream-bodies: false`) gets each chunk up to where its bodies begin, and no more is
read of it.

A chunk goes out as it was read. Its head must be the one that was written; its checksum is for the client to check,
because to do that takes longer than everything else together.

Not here: chunks for the archive (`stream.tail`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.errors import StoreError
from warren.model.message import Entry, Envelope, Message
from warren.model.partitions import PARTITION_HEADER
from warren.model.ports import Consumer
from warren.stream.catalog import Kept
from warren.stream.chunk import ChunkHead
from warren.stream.offsets import OFFSET_ARGUMENT, Start
from warren.stream.readers.reader import Block, Reader, Source
from warren.stream.shown import CHANNEL, FRAME_BYTES
from warren.stream.tail import Tail
from warren.wire.frames import content_frames
from warren.wire.properties import Properties, encode_header_payload
from warren.wire.values import Long, Table

CHUNKS_ARGUMENT: Final = "x-stream-chunks"
BODIES_ARGUMENT: Final = "x-stream-bodies"
COUNT_HEADER: Final = "x-stream-count"
BLOCKS_AHEAD: Final[i64] = 4
"""How many chunks it asks for ahead, when only one is left: to ask for each by itself costs as much as to send it."""


@final
class MadeChunk:
    """The chunk that was made of the tail last; others at the same place get the same one."""

    def __init__(self) -> None:
        self._first: i64 = -1
        self._settled: i64 = -1
        self._data: bytes = b""

    def of(self, tail: Tail, offset: i64) -> bytes:
        if offset != self._first or tail.settled != self._settled:
            self._data = tail.chunk_from(offset).finish()
            self._first, self._settled = offset, tail.settled
        return self._data


@final
class ChunkReader(Reader):
    """Goes from chunk to chunk."""

    def __init__(self, consumer: Consumer, start: Start, source: Source, key: str, made: MadeChunk) -> None:
        super().__init__(consumer, start, source)
        self._bodies: bool = consumer.arguments.get(BODIES_ARGUMENT) is not False
        self._envelope: Envelope = Envelope("", key)
        self._made: MadeChunk = made

    def block_bytes(self, kept: Kept) -> i64:
        return kept.length if self._bodies else kept.bodies_at

    def entry(self, tail: Tail) -> Entry | None:
        if not self.find(tail) or self.offset >= tail.settled or self.damage:
            return None
        if self.offset >= tail.archived:
            self.close()
            data = self._made.of(tail, self.offset)
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

    def _head_of(self, block: Block, data: bytes) -> ChunkHead | None:
        kept = block.kept
        try:
            head = ChunkHead(data)
        except StoreError as fault:
            self._damaged(block, str(fault))
            return None
        if head.first_position != kept.first_position or head.count != kept.count or head.length != kept.length:
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
