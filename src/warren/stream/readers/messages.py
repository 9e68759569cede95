"""A reader that is given one message after another, those that it wants.

The next chunk is asked for when it has gone through half of the one it is in, so that it finds it there.

Not here: the bytes of a message as it is shown (`stream.shown`).
"""

from typing import final

from mypy_extensions import i64

from warren.errors import StoreError
from warren.model.message import Entry, Envelope, Message
from warren.model.ports import Consumer
from warren.stream.chunk import Chunk
from warren.stream.offsets import Start
from warren.stream.readers.reader import Block, Reader, Source
from warren.stream.readers.wish import Wish
from warren.stream.shown import message_in
from warren.stream.tail import Tail
from warren.wire.property_scan import FIXED_BYTES


@final
class MessageReader(Reader):
    """Goes from offset to offset."""

    def __init__(self, consumer: Consumer, start: Start, source: Source, wish: Wish) -> None:
        super().__init__(consumer, start, source)
        self._wish: Wish = wish
        # of the message before, which is likely to be that of the next one
        self._exchange: bytes = b""
        self._key: bytes = b""
        self._envelope: Envelope = Envelope("", "")

    def entry(self, tail: Tail) -> Entry | None:
        while self.find(tail) and self.offset < tail.settled and not self.damage:
            if self.offset >= tail.first:
                self.close()
                found = tail.at(self.offset)
                self.offset += 1
                if self._wish.everything or self._wish.covers(found.message.header_payload()[FIXED_BYTES - 2 :]):
                    return Entry(tail.shown(self.offset - 1), found.position, 0)
                continue
            block = self.block(tail)
            chunk = None if block is None else self._checked(block)
            if block is None or chunk is None:
                return None
            kept = block.kept
            index = self.offset - kept.first
            if index * 2 >= kept.count and kept.end() < tail.first:
                self.read_ahead(1)
            self.offset += 1
            if self._wish.covers(chunk.properties(index)):
                return Entry(self._message(chunk, index, self.offset - 1), kept.first_position + index, 0)
        return None

    def _checked(self, block: Block) -> Chunk | None:
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
