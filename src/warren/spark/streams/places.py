"""Where the partitions of a stream begin and end, and where in them a user's places are, as the broker tells.

A stream that is not partitioned is a partition by itself, number 0. Of a partitioned one each partition is a stream
with a name of its own; how many there are never changes.

AMQP counts time in seconds. A time in milliseconds is therefore looked for in the chunks from its second on.

Not here: what users may say (`streams.offsets`), reading (`streams.feed`).
"""

from warren.client import ClientError, Timestamp
from warren.spark.options import Broker, OptionError
from warren.spark.streams.feed import ChunkFeed, Wanted, data_lost
from warren.spark.streams.link import Bounds, Patience, ReadError, StreamLink, number_in
from warren.spark.streams.offsets import EARLIEST, AtName, AtOffset, Offsets, Place, parse_places
from warren.wire.values import Table


class StreamPlaces:
    """What a driver knows of a stream."""

    def __init__(self, broker: Broker, stream: str) -> None:
        self._broker = broker
        self._stream = stream
        self._link = StreamLink(broker, f"Spark driver: {stream}")
        self._queues: list[str] = []

    def queues(self) -> list[str]:
        """The names of the partitions, each of which can be consumed."""
        if not self._queues:
            try:
                answer = self._link.probe(self._stream)
            except ClientError as trouble:
                # nothing has ever been heard of it: more likely a mistake than trouble that passes
                raise ReadError(str(trouble)) from None
            count = answer.get("x-stream-partitions")
            if count is None:
                self._queues = [self._stream]
            else:
                self._queues = [f"{self._stream}-{index}" for index in range(int(str(count)))]
        return self._queues

    def bounds(self) -> dict[int, Bounds]:
        found = {}
        for partition, queue in enumerate(self.queues()):
            answer = self._ask(queue)
            found[partition] = Bounds(number_in(answer, "x-stream-first"), number_in(answer, "x-stream-end"))
        return found

    def resolve(self, option: str, text: str, bounds: dict[int, Bounds]) -> Offsets:
        """The offsets that a user means."""
        places = parse_places(option, text)
        places.check_partitions(option, len(bounds))
        return {str(partition): self._offset(option, places.of(partition), partition, bounds) for partition in bounds}

    def check_count(self, starts: Offsets) -> None:
        """A `ReadError` if these are offsets of another stream."""
        count = len(self.queues())
        if len(starts) != count:
            raise ReadError(f"the query has read {len(starts)} partitions, and {self._stream!r} has {count}")

    def check_not_lost(self, starts: Offsets, bounds: dict[int, Bounds]) -> None:
        """A `ReadError` if what begins here is not there any more, or never was."""
        for partition, here in bounds.items():
            start, where = starts[str(partition)], f"partition {partition} of {self._stream!r}"
            if start < here.first:
                raise data_lost(f"offsets {start} to {here.first - 1} of {where} are gone")
            if start > here.end:
                raise data_lost(f"{where} ends at {here.end} and was read up to {start}")

    def store(self, consumer_name: str, offsets: Offsets) -> None:
        """Let the broker's pages show how far somebody has come."""
        for partition, queue in enumerate(self.queues()):
            arguments: Table = {"x-stream-consumer-name": consumer_name, "x-stream-store": offsets[str(partition)]}
            self._ask(queue, arguments)

    def body_bytes(self, partition: int, offset: int, end: int) -> float:
        """How large bodies are on average, in the chunk that has this offset."""
        for _, chunk in self._feed(partition, offset, end).chunks():
            return max(chunk.body_bytes / chunk.count, 1.0)
        return 1.0

    def close(self) -> None:
        self._link.close()

    def _offset(self, option: str, place: Place, partition: int, bounds: dict[int, Bounds]) -> int:
        here = bounds[partition]
        if isinstance(place, AtName):
            return here.first if place.name == EARLIEST else here.end
        if isinstance(place, AtOffset):
            if place.offset > here.end:
                raise OptionError(f"option {option}: partition {partition} ends at {here.end}, before {place.offset}")
            return place.offset
        return self._offset_at(place.arrived_ms, partition, here)

    def _offset_at(self, arrived_ms: int, partition: int, here: Bounds) -> int:
        argument: Table = {"x-stream-offset": Timestamp(arrived_ms // 1000)}
        offset = number_in(self._ask(self.queues()[partition], argument), "x-stream-offset")
        for _, chunk in self._feed(partition, offset, here.end).chunks():
            found = chunk.first_from(arrived_ms)
            if found < chunk.end_offset:
                return max(found, offset)
        return here.end

    def _feed(self, partition: int, start: int, end: int) -> ChunkFeed:
        queue = self.queues()[partition]
        return ChunkFeed(Wanted(self._broker, queue, start, end, bodies=False, fail_on_data_loss=False))

    def _ask(self, queue: str, arguments: Table | None = None) -> Table:
        patience = Patience(self._broker.timeout_s)
        while True:
            try:
                return self._link.probe(queue, arguments)
            except ClientError as trouble:
                self._link.close()
                patience.bear(trouble)
