"""A stream at the broker: its partitions and offsets, and its chunks across lost connections.

A stream that is not partitioned is one partition, number 0. Each partition of a partitioned stream is a stream with its
own name; their number never changes. AMQP counts time in seconds, so a time in milliseconds is searched in the chunks
from its second on.

**Feed.** A feed asks where the partition begins and ends, and consumes from an offset. When the connection is lost it
makes another, to the first host of the URL that answers, and continues after the last chunk that it handed out; so a
row comes once. Messages that are gone, because of retention or because the stream was created again, are *lost*: either
an error, or a warning, and the feed continues with the first existing message.

**Connection.** It is made when needed, and made again when lost. Transient errors are retried until the deadline:
`timeout` seconds without progress. Other errors are a `ReadError`, one sentence for the user. Pickling keeps the
broker's address, and no connection.

Not here: offsets in options (`spark.stream_offsets`), the range of a task (`spark.stream_source`), rows
(`spark.stream_chunks`).
"""

import logging
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from warren.client import CallTimeout, ChannelClosed, ClientError, Delivery, Timestamp, blocking
from warren.spark.options import BrokerOptions, OptionError
from warren.spark.stream_chunks import ArrowChunk, DamagedChunk
from warren.spark.stream_offsets import EARLIEST, ExactOffset, NamedOffset, Offsets, OffsetSpec, parse_offset_specs
from warren.wire.field_tables import Table

RETRY_DELAY_S: Final = 0.2
ANSWER_S: Final = 10.0
"""How long a probe may take on a reachable broker."""

PROBE_ARGUMENT: Final = "x-stream-probe"
UNREACHABLE: Final = "is down or inaccessible"
"""A node's text for a stream whose node is down; it may come back, or another may take over."""


class ReadError(RuntimeError):
    """Why a stream could not be read, in one sentence."""


@dataclass(frozen=True)
class OffsetBounds:
    """The first offset, and the one after the last."""

    first: int
    end: int


class RetryDeadline:
    """Retries transient errors until there was no progress for too long."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s

    def progressed(self) -> None:
        self._deadline = time.monotonic() + self._timeout_s

    @property
    def over(self) -> bool:
        return time.monotonic() > self._deadline

    def wait_or_raise(self, trouble: ClientError) -> None:
        """Return after a delay if a retry is allowed; else raise."""
        if self.over or not may_retry(trouble):
            raise ReadError(str(trouble)) from None
        time.sleep(RETRY_DELAY_S)


def may_retry(trouble: ClientError) -> bool:
    if isinstance(trouble, ChannelClosed):
        return UNREACHABLE in trouble.text
    return trouble.retriable


def integer_field(answer: Table, name: str) -> int:
    value = answer.get(name)
    if not isinstance(value, int):
        raise ReadError(f"the broker does not report {name} of a stream")
    return value


def not_a_stream(queue: str) -> ReadError:
    return ReadError(f"{queue!r} is no stream: it cannot be asked for its offsets")


class StreamConnection:
    """A connection to the broker, made on demand."""

    def __init__(self, broker: BrokerOptions, name: str) -> None:
        self.broker = broker
        self._name = name
        self._connection: blocking.Connection | None = None

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_connection": None}

    def channel(self) -> blocking.Channel:
        """A new channel, on the current connection or a new one."""
        if self._connection is None or not self._connection.is_open:
            self.close()
            self._connection = blocking.connect(self.broker.url, name=self._name)
        return self._connection.channel()

    def probe(self, queue: str, arguments: Table | None = None) -> Table:
        """The broker's answer about a stream; the arguments ask for more than its bounds."""
        with self.channel() as channel:
            channel.prefetch(1)
            try:
                consumer = channel.consume(queue, arguments={PROBE_ARGUMENT: True} | (arguments or {}))
            except ChannelClosed as refusal:
                raise (not_a_stream(queue) if PROBE_ARGUMENT in refusal.text else refusal) from None
            answers = consumer.batch(ANSWER_S)
        if not answers:
            raise CallTimeout(f"{queue!r} did not report its offsets within {ANSWER_S:g} s, as a stream does")
        headers = answers[0].headers
        if "x-stream-end" not in headers and "x-stream-partitions" not in headers:
            # the broker does not know probes
            raise not_a_stream(queue)
        return headers

    def bounds(self, queue: str) -> OffsetBounds:
        answer = self.probe(queue)
        return OffsetBounds(integer_field(answer, "x-stream-first"), integer_field(answer, "x-stream-end"))

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


CHUNKS_AHEAD: Final = 8
MESSAGES_PER_CHUNK: Final = 1024
"""An estimate: a task that reads few messages asks for few chunks."""

SILENCE_S: Final = 15.0
"""A connection without data for so long, though data is expected, is given up."""

logger = logging.getLogger("warren.spark")


@dataclass(frozen=True)
class ChunkRequest:
    """The range of a task: offsets of a queue, with or without bodies."""

    broker: BrokerOptions
    queue: str
    start: int
    end: int
    bodies: bool = True
    fail_on_data_loss: bool = True


class ChunkFeed:
    """Yields the chunks of a request."""

    def __init__(self, wanted: ChunkRequest) -> None:
        self._wanted = wanted
        self._at = wanted.start
        self._end = wanted.end
        self._patience = RetryDeadline(wanted.broker.timeout_s)
        self._link = StreamConnection(wanted.broker, f"Spark task: {wanted.queue}")

    def chunks(self) -> Iterator[tuple[int, ArrowChunk]]:
        """Each chunk with the first offset that counts in it."""
        with closing(self._link):
            while self._at < self._end:
                try:
                    yield from self._consume()
                except ClientError as trouble:
                    self._link.close()
                    self._patience.wait_or_raise(trouble)

    def _consume(self) -> Iterator[tuple[int, ArrowChunk]]:
        """The chunks of one connection."""
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
                    # the time for processing rows does not count
                    self._patience.progressed()

    def _is_there(self) -> bool:
        """Whether there is data to wait for; reports lost messages."""
        bounds = self._link.bounds(self._wanted.queue)
        while bounds.end < self._end and not self._patience.over:
            # a mirror after its promotion may not know yet how much is committed
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
            # more may arrive while these are processed
            channel.ack(deliveries[-1], multiple=True)
        return deliveries

    def _chunk(self, delivery: Delivery) -> ArrowChunk:
        try:
            return ArrowChunk(delivery.body, self._wanted.bodies)
        except DamagedChunk as damage:
            raise ReadError(f"{damage}: {self._wanted.queue!r} behind offset {self._at}") from None

    def _lose(self, first_there: int) -> None:
        """The wanted messages before this offset are lost."""
        if first_there <= self._at:
            return
        self._report_loss(self._at, first_there)
        self._at = first_there

    def _lose_end(self, end_there: int) -> None:
        """The wanted messages from this offset on are lost."""
        self._report_loss(end_there, self._end)
        self._end = end_there

    def _report_loss(self, first: int, end: int) -> None:
        sentence = f"offsets {first} to {end - 1} of {self._wanted.queue!r} are gone"
        if self._wanted.fail_on_data_loss:
            raise data_loss_error(sentence)
        logger.warning("%s; reading continues without them", sentence)


def _end_of(delivery: Delivery) -> int:
    """The offset after a chunk that is not decoded."""
    headers = delivery.headers
    return integer_field(headers, "x-stream-offset") + integer_field(headers, "x-stream-count")


def data_loss_error(sentence: str) -> ReadError:
    return ReadError(f"{sentence}; option failOnDataLoss false reads what is left")


class StreamOffsetReader:
    """The partitions and offsets of a stream, for a driver."""

    def __init__(self, broker: BrokerOptions, stream: str) -> None:
        self._broker = broker
        self._stream = stream
        self._link = StreamConnection(broker, f"Spark driver: {stream}")
        self._queues: list[str] = []

    def queues(self) -> list[str]:
        """The names of the partitions, each of which can be consumed."""
        if not self._queues:
            try:
                answer = self._link.probe(self._stream)
            except ClientError as trouble:
                # without any answer before, a mistake is more likely than a transient error
                raise ReadError(str(trouble)) from None
            count = answer.get("x-stream-partitions")
            if count is None:
                self._queues = [self._stream]
            else:
                self._queues = [f"{self._stream}-{index}" for index in range(int(str(count)))]
        return self._queues

    def bounds(self) -> dict[int, OffsetBounds]:
        found = {}
        for partition, queue in enumerate(self.queues()):
            answer = self._ask(queue)
            found[partition] = OffsetBounds(
                integer_field(answer, "x-stream-first"), integer_field(answer, "x-stream-end")
            )
        return found

    def resolve(self, option: str, text: str, bounds: dict[int, OffsetBounds]) -> Offsets:
        """The offsets of a user's text."""
        places = parse_offset_specs(option, text)
        places.check_partitions(option, len(bounds))
        return {str(partition): self._offset(option, places.of(partition), partition, bounds) for partition in bounds}

    def check_count(self, starts: Offsets) -> None:
        """A `ReadError` if these are offsets of another stream."""
        count = len(self.queues())
        if len(starts) != count:
            raise ReadError(f"the query has read {len(starts)} partitions, and {self._stream!r} has {count}")

    def check_not_lost(self, starts: Offsets, bounds: dict[int, OffsetBounds]) -> None:
        """A `ReadError` if the messages at these offsets are gone, or never existed."""
        for partition, here in bounds.items():
            start, where = starts[str(partition)], f"partition {partition} of {self._stream!r}"
            if start < here.first:
                raise data_loss_error(f"offsets {start} to {here.first - 1} of {where} are gone")
            if start > here.end:
                raise data_loss_error(f"{where} ends at {here.end} and was read up to {start}")

    def store(self, consumer_name: str, offsets: Offsets) -> None:
        """Store a consumer's offsets at the broker, for its management pages."""
        for partition, queue in enumerate(self.queues()):
            arguments: Table = {"x-stream-consumer-name": consumer_name, "x-stream-store": offsets[str(partition)]}
            self._ask(queue, arguments)

    def body_bytes(self, partition: int, offset: int, end: int) -> float:
        """The average size of bodies in the chunk with this offset."""
        for _, chunk in self._feed(partition, offset, end).chunks():
            return max(chunk.body_bytes / chunk.count, 1.0)
        return 1.0

    def close(self) -> None:
        self._link.close()

    def _offset(self, option: str, place: OffsetSpec, partition: int, bounds: dict[int, OffsetBounds]) -> int:
        here = bounds[partition]
        if isinstance(place, NamedOffset):
            return here.first if place.name == EARLIEST else here.end
        if isinstance(place, ExactOffset):
            if place.offset > here.end:
                raise OptionError(f"option {option}: partition {partition} ends at {here.end}, before {place.offset}")
            return place.offset
        return self._offset_at(place.arrived_ms, partition, here)

    def _offset_at(self, arrived_ms: int, partition: int, here: OffsetBounds) -> int:
        argument: Table = {"x-stream-offset": Timestamp(arrived_ms // 1000)}
        offset = integer_field(self._ask(self.queues()[partition], argument), "x-stream-offset")
        for _, chunk in self._feed(partition, offset, here.end).chunks():
            found = chunk.first_from(arrived_ms)
            if found < chunk.end_offset:
                return max(found, offset)
        return here.end

    def _feed(self, partition: int, start: int, end: int) -> ChunkFeed:
        queue = self.queues()[partition]
        return ChunkFeed(ChunkRequest(self._broker, queue, start, end, bodies=False, fail_on_data_loss=False))

    def _ask(self, queue: str, arguments: Table | None = None) -> Table:
        patience = RetryDeadline(self._broker.timeout_s)
        while True:
            try:
                return self._link.probe(queue, arguments)
            except ClientError as trouble:
                self._link.close()
                patience.wait_or_raise(trouble)
