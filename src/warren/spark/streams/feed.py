"""Chunks of one partition, from one offset to another, whatever happens to the connection meanwhile.

A feed asks where the partition begins and ends, and consumes from the offset it wants. When the connection is lost it
makes another one, to the first host of the URL that answers, and goes on behind what it has handed out; so a row comes
once.

Messages that are no longer there, because the stream's retention took them or the stream was made anew, are *lost*:
either an error, or a warning, and the feed goes on with the first that is there.

Not here: which range a task reads (`streams.source`), rows (`streams.chunks`).
"""

import logging
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from warren.client import CallTimeout, ClientError, Delivery, blocking
from warren.spark.options import Broker
from warren.spark.streams.chunks import Chunk, DamagedChunk
from warren.spark.streams.link import RETRY_DELAY_S, Patience, ReadError, StreamLink, number_in

CHUNKS_AHEAD: Final = 8
MESSAGES_PER_CHUNK: Final = 1024
"""A guess: a task that reads few messages asks for few chunks."""

SILENCE_S: Final = 15.0
"""A connection on which nothing comes for so long, though there is something to come, is given up."""

logger = logging.getLogger("warren.spark")


@dataclass(frozen=True)
class Wanted:
    """What a task reads: offsets of a queue, with or without bodies."""

    broker: Broker
    queue: str
    start: int
    end: int
    bodies: bool = True
    fail_on_data_loss: bool = True


class ChunkFeed:
    """Hands out the chunks of what is wanted."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._at = wanted.start
        self._end = wanted.end
        self._patience = Patience(wanted.broker.timeout_s)
        self._link = StreamLink(wanted.broker, f"Spark task: {wanted.queue}")

    def chunks(self) -> Iterator[tuple[int, Chunk]]:
        """Each chunk with the offset from which on it counts."""
        with closing(self._link):
            while self._at < self._end:
                try:
                    yield from self._consume()
                except ClientError as trouble:
                    self._link.close()
                    self._patience.bear(trouble)

    def _consume(self) -> Iterator[tuple[int, Chunk]]:
        """All that comes through one connection."""
        wanted = self._wanted
        if not self._is_there():
            return
        channel = self._link.channel()
        channel.prefetch(min(CHUNKS_AHEAD, 1 + (self._end - self._at) // MESSAGES_PER_CHUNK))
        arguments = {"x-stream-chunks": True, "x-stream-bodies": wanted.bodies, "x-stream-offset": self._at}
        consumer = channel.consume(wanted.queue, arguments=dict(arguments))
        while self._at < self._end:
            for delivery in self._deliveries(channel, consumer):
                chunk = self._chunk(delivery)
                self._lose(min(chunk.first_offset, self._end))
                if self._at < min(chunk.end_offset, self._end):
                    at, self._at = self._at, chunk.end_offset
                    yield at, chunk
                    # how long rows take to be dealt with does not count
                    self._patience.progressed()

    def _is_there(self) -> bool:
        """Whether there is something to wait for; what is gone is lost."""
        bounds = self._link.bounds(self._wanted.queue)
        while bounds.end < self._end and not self._patience.over:
            # a mirror that has just taken over may not know yet how much is settled
            time.sleep(RETRY_DELAY_S)
            bounds = self._link.bounds(self._wanted.queue)
        self._lose(min(bounds.first, self._end))
        if bounds.end < self._end:
            self._lose_end(max(bounds.end, self._at))
        return self._at < self._end

    def _deliveries(self, channel: blocking.Channel, consumer: blocking.Consumer) -> list[Delivery]:
        deliveries = consumer.batch(min(SILENCE_S, self._wanted.broker.timeout_s))
        if not deliveries:
            raise CallTimeout(f"nothing came of {self._wanted.queue!r} from offset {self._at} on")
        self._patience.progressed()
        if _end_of(deliveries[-1]) < self._end:
            # more may come while these are dealt with
            channel.ack(deliveries[-1], multiple=True)
        return deliveries

    def _chunk(self, delivery: Delivery) -> Chunk:
        try:
            return Chunk(delivery.body, self._wanted.bodies)
        except DamagedChunk as damage:
            raise ReadError(f"{damage}: {self._wanted.queue!r} behind offset {self._at}") from None

    def _lose(self, first_there: int) -> None:
        """What is wanted and lies before this is not there."""
        if first_there <= self._at:
            return
        self._tell_loss(self._at, first_there)
        self._at = first_there

    def _lose_end(self, end_there: int) -> None:
        """What is wanted and lies from this on is not there."""
        self._tell_loss(end_there, self._end)
        self._end = end_there

    def _tell_loss(self, first: int, end: int) -> None:
        sentence = f"offsets {first} to {end - 1} of {self._wanted.queue!r} are gone"
        if self._wanted.fail_on_data_loss:
            raise data_lost(sentence)
        logger.warning("%s; reading goes on without them", sentence)


def _end_of(delivery: Delivery) -> int:
    """The offset behind a chunk that is not looked into yet."""
    headers = delivery.headers
    return number_in(headers, "x-stream-offset") + number_in(headers, "x-stream-count")


def data_lost(sentence: str) -> ReadError:
    return ReadError(f"{sentence}; option failOnDataLoss false reads what is left")
