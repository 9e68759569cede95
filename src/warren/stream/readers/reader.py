"""One reader of a stream: where it is, and what of the archive it has in memory.

A reader is somewhere in the archive, or in the tail. What it reads of the archive it asks for by the chunk, each a
*block*, and for the next ones before it needs them. Blocks that are there count as held by the node.

A reader whose chunk was dropped before it asked for it goes on with the first one that is left.

Not here: what it makes of a chunk (`messages`, `chunks`), whose turn it is (`stream.stream`).
"""

from abc import abstractmethod
from typing import final

from mypy_extensions import i64

from warren.errors import StoreError
from warren.model.archive import Archive, ArchiveAsker
from warren.model.message import Entry
from warren.model.partitions import partition_index
from warren.model.ports import Consumer, QueuePort
from warren.model.turn import Turn
from warren.stream.catalog import Catalog, Kept
from warren.stream.chunk import Chunk
from warren.stream.offsets import FIRST, LAST, Start
from warren.stream.tail import Tail


@final
class Source:
    """What all readers of one stream read from."""

    def __init__(self, stream: QueuePort, turn: Turn, catalog: Catalog, archive: Archive) -> None:
        self.stream: QueuePort = stream
        # which one of a partitioned stream's it is; -1 if it is none
        self.partition: i64 = partition_index(stream)
        self.turn: Turn = turn
        self.catalog: Catalog = catalog
        self.archive: Archive = archive

    def first(self, tail: Tail) -> i64:
        """The lowest offset there is."""
        return tail.first if self.catalog.empty() else self.catalog.first()


@final
class Block(ArchiveAsker):
    """A chunk of the archive that a reader asked for, or its first part."""

    def __init__(self, source: Source, kept: Kept, length: i64) -> None:
        self.kept: Kept = kept
        self.data: bytes = b""
        self.error: str = ""
        self._source: Source = source
        self._chunk: Chunk | None = None
        self._awaited: bool = True
        source.archive.read(kept.segment, kept.at, length, self)

    def there(self) -> bool:
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

    def let_go(self) -> None:
        if self._awaited:
            self._source.archive.withdraw(self)
        self._source.turn.held_bytes -= len(self.data)
        self.data = b""
        self._chunk = None


class Reader:
    """Where one consumer is."""

    def __init__(self, consumer: Consumer, start: Start, source: Source) -> None:
        self.consumer: Consumer = consumer
        # what it gets next; -1 while that has yet to be found
        self.offset: i64 = start.offset
        # why it cannot go on
        self.damage: str = ""
        self._start: Start = start
        self._source: Source = source
        # those it asked for, one after another; it is in the first one
        self._blocks: list[Block] = []

    @abstractmethod
    def entry(self, tail: Tail) -> Entry | None:
        """What it gets next; nothing if there is nothing, or it is being read."""

    def block_bytes(self, kept: Kept) -> i64:
        """How much of a chunk it wants to have."""
        return kept.length

    def close(self) -> None:
        """It reads no more."""
        for block in self._blocks:
            block.let_go()
        self._blocks = []

    def has_blocks(self) -> bool:
        """Whether it has something of the archive in memory, or has asked for it."""
        return len(self._blocks) > 0

    # -- where it begins

    def find(self, tail: Tail) -> bool:
        """Whether it is known where it is; a time may have to be looked for in a chunk."""
        if self.offset >= 0:
            return True
        if self._start.arrived_ms >= 0:
            return self._find_time(tail, self._start.arrived_ms)
        if self._start.name == FIRST:
            self.offset = self._source.first(tail)
        elif self._start.name == LAST:
            self.offset = max(self._source.first(tail), tail.settled - 1)
        else:
            self.offset = tail.settled
        return True

    def _find_time(self, tail: Tail, arrived_ms: i64) -> bool:
        kept = self._source.catalog.arrived_from(arrived_ms)
        if kept is None or kept.first >= tail.first:
            self.offset = tail.arrived_from(arrived_ms)
            return True
        if not self._blocks or self._blocks[0].kept is not kept:
            self.close()
            # all of it, because it is checked before it is believed
            self._blocks.append(Block(self._source, kept, kept.length))
        block = self._blocks[0]
        if not self._is_whole(block):
            return False
        try:
            self.offset = kept.first + block.chunk().first_arrived_from(arrived_ms)
        except StoreError as fault:
            self._damaged(block, str(fault))
            return False
        return True

    # -- the archive

    def block(self, tail: Tail) -> Block | None:
        """The one it is in, if that is there. What was dropped meanwhile is passed over."""
        if self._blocks and self._blocks[0].error and not self._is_kept(self._blocks[0].kept):
            self.close()
        blocks = self._blocks
        while blocks and blocks[0].kept.end() <= self.offset:
            blocks.pop(0).let_go()
        if not blocks or self.offset < blocks[0].kept.first:
            self.close()
            self.offset = max(self.offset, self._source.first(tail))
            kept = self._source.catalog.with_offset(self.offset)
            if kept is None:
                return None
            blocks = self._blocks
            blocks.append(Block(self._source, kept, self.block_bytes(kept)))
        return blocks[0] if self._is_whole(blocks[0]) else None

    def blocks_ahead(self) -> i64:
        """How many it has, or has asked for, behind the one it is in."""
        return len(self._blocks) - 1

    def read_ahead(self, count: i64) -> None:
        """Ask for what comes behind the block it is in, so many of them, before it is wanted."""
        blocks = self._blocks
        while 0 < len(blocks) <= count:
            kept = self._source.catalog.with_offset(blocks[-1].kept.end())
            if kept is None:
                return
            blocks.append(Block(self._source, kept, self.block_bytes(kept)))

    def _is_kept(self, kept: Kept) -> bool:
        return self._source.catalog.with_offset(kept.first) is kept

    def _is_whole(self, block: Block) -> bool:
        """Whether it is there; if it could not be read, this reader is at its end."""
        if block.error:
            self._damaged(block, block.error)
        return block.there() and not self.damage

    def _damaged(self, block: Block, why: str) -> None:
        self.damage = f"{why}: segment {block.kept.segment} of the stream at byte {block.kept.at}"
