"""One consumer of a partitioned stream, and its parts: one for each partition, wherever that is.

A part is a consumer like any other to its partition. It takes nothing before the client knows that it consumes. When
a partition's home is lost the part waits until it is back, and goes on there (`model.reading_on`). When a partition
refuses it, or is deleted, all parts end, and the consumer does.

A probe has no parts: it is told how many partitions there are.

Not here: what the client's side of a part is (`session.consumer`), prefetch, which counts for each part by itself.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.errors import ChannelFault
from warren.model.distant import CANCEL, CONSUME, Answer, DistantQueue
from warren.model.message import Entry, Envelope, Message
from warren.model.partitions import PARTITIONS, partition_count
from warren.model.ports import Consumer, OutputPort, PartKeeper, QueuePort
from warren.model.reading_on import ReadingOn
from warren.wire.frames import content_frames
from warren.wire.properties import Properties, decode_properties, encode_header_payload
from warren.wire.values import Long, Table

if TYPE_CHECKING:
    from warren.stream.partitioning.partitioned import PartitionedStream

PROBE: Final = "x-stream-probe"
CHANNEL: Final[i64] = 1
FRAME_BYTES: Final[i64] = 4096


@final
class Attendance:
    """Whoever consumes the logical name. `answer` is what its client waits for."""

    def __init__(self, stream: "PartitionedStream", consumer: Consumer, answer: Answer) -> None:
        self.stream: PartitionedStream = stream
        self.consumer: Consumer = consumer
        # the client knows that it consumes
        self.started: bool = False
        self._answer: Answer = answer
        self._parts: list[Part] = []

    def begin(self, names: list[str]) -> None:
        if not self._is_probe():
            self._parts = [Part(self, name) for name in names]
        for part in list(self._parts):
            part.attach()
        self.look()

    def look(self) -> None:
        """Whether every part is where it can be."""
        if not self._answer.done and all(not part.asks() for part in self._parts):
            self._answer.counted(0, 0)

    def start(self) -> None:
        self.started = True
        for part in list(self._parts):
            part.start()
        if self._is_probe():
            self.stream.await_drain(self)

    def _is_probe(self) -> bool:
        return self.consumer.arguments.get(PROBE) is True

    def tell(self) -> None:
        """What a probe wants to know, if it is still there."""
        if self.consumer in self.stream.consumers():
            self.consumer.deliver(Entry(self._told_by_probe(), 0, 0))

    def _told_by_probe(self) -> Message:
        headers: Table = {PARTITIONS: Long(partition_count(self.stream.arguments))}
        payload = encode_header_payload(Properties(headers=headers), 0)
        content = content_frames(payload, b"", CHANNEL, FRAME_BYTES)
        return Message(Envelope("", self.stream.name), content, CHANNEL, 0, FRAME_BYTES, True)

    def stop(self) -> None:
        for part in self._parts:
            part.stop()

    def limit(self) -> None:
        for part in self._parts:
            part.limit()

    # -- the end

    def leave(self) -> None:
        """The consumer is gone."""
        parts = self._parts
        self._parts = []
        for part in parts:
            part.leave()

    def cancel(self, answer: Answer) -> None:
        """The consumer wants nothing more; answered when all partitions know."""
        parts = self._parts
        self._parts = []
        Leaving(answer).begin(parts)

    def refused(self, fault: ChannelFault) -> None:
        """A partition does not take it."""
        if self._answer.done:
            self.end()
        else:
            self.stream.remove_consumer(self.consumer)
            self._answer.failed(fault)

    def end(self) -> None:
        """It cannot go on."""
        self.stream.remove_consumer(self.consumer)
        if self.started:
            self.consumer.cancelled()
        else:
            self._answer.failed(self.stream.down())


@final
class Part(OutputPort, PartKeeper):
    """One consumer at one partition."""

    def __init__(self, attendance: Attendance, name: str) -> None:
        self._attendance: Attendance = attendance
        self._name: str = name
        # at the partition; none while there is nothing to be part of
        self._consumer: Consumer | None = None
        self._answer: Answer | None = None
        self._over: bool = False
        self._place: ReadingOn = ReadingOn(attendance.consumer.arguments)
        # the content header of what it was given last
        self._last: bytes = b""

    def _queue(self) -> QueuePort | None:
        return self._attendance.stream.partition(self._name)

    def asks(self) -> bool:
        """Whether the partition has yet to say whether it takes it."""
        return self._answer is not None

    def attach(self) -> None:
        queue = self._queue()
        if queue is None or self._over:
            return
        if isinstance(queue, DistantQueue) and not queue.reachable():
            queue.await_home(self)
            return
        whole = self._attendance.consumer
        self._consumer = whole.part_for(queue, self._arguments(), self)
        self._consumer.stopped = not self._attendance.started
        if isinstance(queue, DistantQueue):
            self._answer = queue.ask(CONSUME, self, self._consumer)
            return
        try:
            queue.add_consumer(self._consumer)
        except ChannelFault as fault:
            self._consumer = None
            self._attendance.refused(fault)

    def _arguments(self) -> Table:
        """What the partition is told: a part that was there before goes on where it was."""
        last = self._last
        if last:
            self._place.told(decode_properties(last, 0, len(last)).headers or {})
        return self._place.arguments()

    def flush(self) -> None:
        """It has no output of its own."""

    def go_on(self) -> None:
        """The partition has answered, or is there again."""
        answer = self._answer
        if self._over or (answer is not None and not answer.done):
            return
        if answer is None:
            if self._consumer is None:
                self.attach()
            return
        self._answer = None
        fault = answer.fault
        if fault is None:
            self._place.began(answer.ready - 1)
            if self._attendance.started:
                self.start()
            self._attendance.look()
        else:
            self._consumer = None
            self._missed(fault)

    def _missed(self, fault: ChannelFault) -> None:
        """It is not part of the partition, or not any more."""
        queue = self._queue()
        if isinstance(queue, DistantQueue) and not queue.deleted and not queue.reachable():
            queue.await_home(self)
            self._attendance.look()
        else:
            self._attendance.refused(fault)

    def part_cancelled(self) -> None:
        if not self._over:
            self._consumer = None
            self._missed(self._attendance.stream.down())

    def part_took(self, message: Message) -> None:
        self._last = message.header_payload()

    def start(self) -> None:
        """The client knows that it consumes."""
        consumer, queue = self._consumer, self._queue()
        if consumer is None or queue is None or self._answer is not None:
            return
        consumer.stopped = False
        if isinstance(queue, DistantQueue):
            queue.started(consumer)
        else:
            queue.wake()

    def stop(self) -> None:
        consumer, queue = self._consumer, self._queue()
        if consumer is not None:
            consumer.stopped = True
            if isinstance(queue, DistantQueue):
                queue.stop(consumer)

    def limit(self) -> None:
        consumer, queue = self._consumer, self._queue()
        if consumer is not None and isinstance(queue, DistantQueue):
            queue.limit(consumer)

    def leave(self) -> None:
        self.asked_to_leave(None)

    def asked_to_leave(self, asker: OutputPort | None) -> Answer | None:
        """It is part of the partition no more; if somebody wants to know when that is so, what will tell."""
        self._over = True
        consumer, queue, answer = self._consumer, self._queue(), self._answer
        self._consumer = None
        if queue is None or consumer is None:
            return None
        if answer is not None and isinstance(queue, DistantQueue):
            queue.abandon(answer)
        elif asker is not None and isinstance(queue, DistantQueue) and queue.reachable():
            return queue.ask(CANCEL, asker, consumer)
        else:
            queue.remove_consumer(consumer)
        return None


@final
class Leaving(OutputPort):
    """All parts of a consumer, on their way out."""

    def __init__(self, answer: Answer) -> None:
        self._answer: Answer = answer
        self._awaited: list[Answer] = []

    def begin(self, parts: list[Part]) -> None:
        for part in parts:
            answer = part.asked_to_leave(self)
            if answer is not None:
                self._awaited.append(answer)
        self.go_on()

    def flush(self) -> None:
        """It has no output of its own."""

    def go_on(self) -> None:
        if not self._answer.done and all(answer.done for answer in self._awaited):
            self._answer.counted(0, 0)
