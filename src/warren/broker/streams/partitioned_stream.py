"""A partitioned stream: its logical name, as sessions see it, and the consumers that read all its partitions.

The logical name is in `topology.queues` of every node. Messages published to it are routed to a partition and never
come here. Its counts are the sums over the partitions.

A consumer of the logical name has a part at each partition, wherever the partition is. To the partition a part is an
ordinary consumer. It takes nothing before the client knows that it consumes. When the home of a partition is lost, the
part waits until it is back and resumes there (`broker.model.reader_positions`); counts leave the partition out. When a
partition refuses a part, or is deleted, all parts and the consumer end. A probe has no parts: its answer is the number
of partitions.

Not here: the partition of a message (`broker.model.stream_partitions`), groups (`broker.streams.groups`), the client's
side of a part (`broker.sessions.consumers`), prefetch, which counts for each part by itself.
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.message import Entry, Envelope, Message
from warren.broker.model.ports import ConsumerPort, OutputPort, PartitionConsumerListener, PublishWaiter, QueuePort
from warren.broker.model.reader_positions import ResumePoint
from warren.broker.model.remote_queue import CANCEL, CONSUME, COUNT, QueueAnswer, RemoteQueuePort
from warren.broker.model.stream_partitions import PARTITIONS, partition_count, partition_names
from warren.broker.model.turn import Turn
from warren.broker.streams.groups import check_group
from warren.errors import (
    NOT_FOUND,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    ChannelFault,
    ConnectionFault,
    InvariantBroken,
)
from warren.wire.field_tables import Long, Table
from warren.wire.frames import content_frames
from warren.wire.properties import Properties, decode_properties, encode_header_payload

PROBE: Final = "x-stream-probe"
CHANNEL: Final[i64] = 1
FRAME_BYTES: Final[i64] = 4096


@final
class PartitionedConsumer:
    """A consumer of the logical name. Its client waits for `answer`."""

    def __init__(self, stream: "PartitionedStream", consumer: ConsumerPort, answer: QueueAnswer) -> None:
        self.stream: PartitionedStream = stream
        self.consumer: ConsumerPort = consumer
        # the client knows that it consumes
        self.started: bool = False
        self._answer: QueueAnswer = answer
        self._parts: list[PartitionConsumer] = []

    def begin(self, names: list[str]) -> None:
        assert not self._parts
        if not self._is_probe():
            self._parts = [PartitionConsumer(self, name) for name in names]
        for part in list(self._parts):
            part.attach()
        self.answer_if_attached()

    def answer_if_attached(self) -> None:
        """Answer the client once no part waits for its partition."""
        if not self._answer.done and all(not part.awaits_answer() for part in self._parts):
            self._answer.counted(0, 0)

    def start(self) -> None:
        self.started = True
        for part in list(self._parts):
            part.start()
        if self._is_probe():
            self.stream.await_drain(self)

    def _is_probe(self) -> bool:
        return self.consumer.arguments.get(PROBE) is True

    def answer_probe(self) -> None:
        """Deliver a probe's answer, if its consumer still exists."""
        if self.consumer in self.stream.consumers():
            self.consumer.deliver(Entry(self._probe_answer(), 0, 0))

    def _probe_answer(self) -> Message:
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

    # -- ending

    def leave(self) -> None:
        """The consumer is gone."""
        parts = self._parts
        self._parts = []
        for part in parts:
            part.leave()

    def cancel(self, answer: QueueAnswer) -> None:
        """The client cancels; answered when all partitions know."""
        parts = self._parts
        self._parts = []
        PartitionedCancel(answer).begin(parts)

    def refused(self, fault: ChannelFault) -> None:
        """A partition refuses a part."""
        if self._answer.done:
            self.end()
        else:
            self.stream.remove_consumer(self.consumer)
            self._answer.failed(fault)

    def end(self) -> None:
        """End the consumer from this side."""
        self.stream.remove_consumer(self.consumer)
        if self.started:
            self.consumer.cancelled()
        else:
            self._answer.failed(self.stream.down())


@final
class PartitionConsumer(OutputPort, PartitionConsumerListener):
    """One consumer at one partition."""

    def __init__(self, partitioned_consumer: PartitionedConsumer, name: str) -> None:
        self._partitioned_consumer: PartitionedConsumer = partitioned_consumer
        self._name: str = name
        # the part's consumer at the partition; None while it is not attached
        self._consumer: ConsumerPort | None = None
        self._answer: QueueAnswer | None = None
        self._ended: bool = False
        self._resume_point: ResumePoint = ResumePoint(partitioned_consumer.consumer.arguments)
        # the content header of the last delivery
        self._last: bytes = b""

    def _queue(self) -> QueuePort | None:
        return self._partitioned_consumer.stream.partition(self._name)

    def awaits_answer(self) -> bool:
        """Whether the partition has not answered yet."""
        return self._answer is not None

    def attach(self) -> None:
        assert self._consumer is None, "it is attached once"
        queue = self._queue()
        if queue is None or self._ended:
            return
        if isinstance(queue, RemoteQueuePort) and not queue.reachable():
            queue.await_home(self)
            return
        whole = self._partitioned_consumer.consumer
        self._consumer = whole.partition_consumer(queue, self._arguments(), self)
        self._consumer.stopped = not self._partitioned_consumer.started
        if isinstance(queue, RemoteQueuePort):
            self._answer = queue.ask(CONSUME, self, self._consumer)
            return
        try:
            queue.add_consumer(self._consumer)
        except ChannelFault as fault:
            self._consumer = None
            self._partitioned_consumer.refused(fault)

    def _arguments(self) -> Table:
        """The arguments for the partition. A part that was attached before resumes behind its last delivery."""
        last = self._last
        if last:
            self._resume_point.headers_received(decode_properties(last, 0, len(last)).headers or {})
        return self._resume_point.arguments()

    def flush(self) -> None:
        """There is no output."""

    def go_on(self) -> None:
        """The partition answered, or is reachable again."""
        answer = self._answer
        if self._ended or (answer is not None and not answer.done):
            return
        if answer is None:
            if self._consumer is None:
                self.attach()
            return
        self._answer = None
        fault = answer.fault
        if fault is None:
            self._resume_point.began(answer.ready - 1)
            if self._partitioned_consumer.started:
                self.start()
            self._partitioned_consumer.answer_if_attached()
        else:
            self._consumer = None
            self._missed(fault)

    def _missed(self, fault: ChannelFault) -> None:
        """The part is not attached, or not any more."""
        queue = self._queue()
        if isinstance(queue, RemoteQueuePort) and not queue.deleted and not queue.reachable():
            queue.await_home(self)
            self._partitioned_consumer.answer_if_attached()
        else:
            self._partitioned_consumer.refused(fault)

    def partition_cancelled(self) -> None:
        if not self._ended:
            self._consumer = None
            self._missed(self._partitioned_consumer.stream.down())

    def partition_delivered(self, message: Message) -> None:
        self._last = message.header_payload()

    def start(self) -> None:
        """The client knows that it consumes."""
        consumer, queue = self._consumer, self._queue()
        if consumer is None or queue is None or self._answer is not None:
            return
        consumer.stopped = False
        if isinstance(queue, RemoteQueuePort):
            queue.started(consumer)
        else:
            queue.wake()

    def stop(self) -> None:
        consumer, queue = self._consumer, self._queue()
        if consumer is not None:
            consumer.stopped = True
            if isinstance(queue, RemoteQueuePort):
                queue.stop(consumer)

    def limit(self) -> None:
        consumer, queue = self._consumer, self._queue()
        if consumer is not None and isinstance(queue, RemoteQueuePort):
            queue.limit(consumer)

    def leave(self) -> None:
        self.detach(None)

    def detach(self, asker: OutputPort | None) -> QueueAnswer | None:
        """Detach the part; the partition's answer, if `asker` is to be told when it is done."""
        self._ended = True
        consumer, queue, answer = self._consumer, self._queue(), self._answer
        self._consumer = None
        if queue is None or consumer is None:
            return None
        if answer is not None and isinstance(queue, RemoteQueuePort):
            queue.abandon(answer)
        elif asker is not None and isinstance(queue, RemoteQueuePort) and queue.reachable():
            return queue.ask(CANCEL, asker, consumer)
        else:
            queue.remove_consumer(consumer)
        return None


@final
class PartitionedCancel(OutputPort):
    """A cancel that waits for all partitions."""

    def __init__(self, answer: QueueAnswer) -> None:
        self._answer: QueueAnswer = answer
        self._awaited: list[QueueAnswer] = []

    def begin(self, parts: list[PartitionConsumer]) -> None:
        for part in parts:
            answer = part.detach(self)
            if answer is not None:
                self._awaited.append(answer)
        self.go_on()

    def flush(self) -> None:
        """There is no output."""

    def go_on(self) -> None:
        if not self._answer.done and all(answer.done for answer in self._awaited):
            self._answer.counted(0, 0)


ROUTED: Final = "a publish to a partitioned stream is routed to a partition"


@final
class PartitionedStream(RemoteQueuePort):
    """The logical name. `queues` has all queues of the virtual host, by name."""

    def __init__(self, vhost: str, name: str, arguments: Table, queues: dict[str, QueuePort], turn: Turn) -> None:
        super().__init__(vhost, name, True, False, False, arguments, 0)
        self.turn: Turn = turn
        self._queues: dict[str, QueuePort] = queues
        self._partitioned_consumers: dict[ConsumerPort, PartitionedConsumer] = {}
        self._probes: list[PartitionedConsumer] = []
        self._ready: i64 = 0
        self._consumers: i64 = 0

    def partitions(self) -> list[QueuePort]:
        """The existing partitions, in order."""
        found = [self._queues.get(name) for name in partition_names(self.name, self.arguments)]
        return [queue for queue in found if queue is not None and not queue.deleted]

    def partition(self, name: str) -> QueuePort | None:
        return self._queues.get(name)

    # -- requests

    def ask(self, question: i64, asker: OutputPort, consumer: ConsumerPort | None) -> QueueAnswer:
        answer = QueueAnswer(self, question, asker, self.turn)
        answer.consumer = consumer
        if question == COUNT:
            PartitionedCount(self, answer).begin()
        elif question == CONSUME:
            assert consumer is not None, "a consume has a consumer"
            self._consume(consumer, answer)
        elif question == CANCEL:
            assert consumer is not None, "a cancel has a consumer"
            partitioned_consumer = self._partitioned_consumers.pop(consumer, None)
            if partitioned_consumer is None:
                answer.counted(0, 0)
            else:
                partitioned_consumer.cancel(answer)
        else:
            raise self._unsupported("basic.get and queue.purge are")
        return answer

    def abandon(self, answer: QueueAnswer) -> None:
        answer.abandoned = True
        if answer.question == CONSUME and answer.consumer is not None:
            self.remove_consumer(answer.consumer)

    def counts_received(self, question: i64, ready: i64, consumers: i64) -> None:
        self._ready = ready
        self._consumers = consumers

    def reachable(self) -> bool:
        return True

    def down(self) -> ChannelFault:
        return ChannelFault(NOT_FOUND, f"no {self._where()}")

    def _where(self) -> str:
        return f"queue '{self.name}' in vhost '{self.vhost}'"

    def _unsupported(self, what: str) -> ConnectionFault:
        return ConnectionFault(NOT_IMPLEMENTED, f"{what} not supported by stream queues {self._where()}")

    # -- consumers

    def _consume(self, consumer: ConsumerPort, answer: QueueAnswer) -> None:
        where = self._where()
        if consumer.no_ack:
            raise self._unsupported("automatic acknowledgement")
        if consumer.unacked_max() == 0:
            raise ChannelFault(PRECONDITION_FAILED, f"consumer prefetch count is not set for '{where}'")
        check_group(consumer, where)
        partitioned_consumer = PartitionedConsumer(self, consumer, answer)
        self._partitioned_consumers[consumer] = partitioned_consumer
        partitioned_consumer.begin(partition_names(self.name, self.arguments))

    def started(self, consumer: ConsumerPort) -> None:
        partitioned_consumer = self._partitioned_consumers.get(consumer)
        if partitioned_consumer is not None:
            partitioned_consumer.start()

    def stop(self, consumer: ConsumerPort) -> None:
        partitioned_consumer = self._partitioned_consumers.get(consumer)
        if partitioned_consumer is not None:
            partitioned_consumer.stop()

    def limit(self, consumer: ConsumerPort) -> None:
        partitioned_consumer = self._partitioned_consumers.get(consumer)
        if partitioned_consumer is not None:
            partitioned_consumer.limit()

    def remove_consumer(self, consumer: ConsumerPort) -> None:
        partitioned_consumer = self._partitioned_consumers.pop(consumer, None)
        if partitioned_consumer is not None:
            partitioned_consumer.leave()

    def consumers(self) -> list[ConsumerPort]:
        """The consumers on this node."""
        return list(self._partitioned_consumers)

    def wake(self) -> None:
        if self._partitioned_consumers:
            for queue in self.partitions():
                queue.wake()

    def await_drain(self, probe: PartitionedConsumer) -> None:
        """Answer the probe once its client knows that it consumes."""
        self._probes.append(probe)
        self.turn.drains.append(self)

    def drain(self) -> None:
        probes = self._probes
        self._probes = []
        for probe in probes:
            probe.answer_probe()

    def ack(self, entry: Entry) -> None:
        """Only a probe's answer is acked here; messages are acked at their partition."""

    def requeue(self, entries: list[Entry]) -> None:
        """A probe's answer is not delivered again."""

    def reject(self, entry: Entry) -> None:
        raise self._unsupported("basic.nack and basic.reject")

    # -- publishes, which are routed to partitions

    def publish(self, message: Message) -> i64:
        raise InvariantBroken(ROUTED)

    def await_settlement(self, waiter: PublishWaiter, place: i64) -> None:
        raise InvariantBroken(ROUTED)

    def fence(self) -> bool:
        return False

    def await_room(self, waiter: OutputPort) -> bool:
        return False

    def await_home(self, waiter: OutputPort) -> None:
        raise InvariantBroken("a partitioned stream is at home everywhere")

    # -- end and stats

    def close(self) -> None:
        self.deleted = True
        for partitioned_consumer in list(self._partitioned_consumers.values()):
            partitioned_consumer.end()

    def ready_count(self) -> int:
        return int(self._ready)

    def consumer_count(self) -> int:
        return int(self._consumers)


@final
class PartitionedCount(OutputPort):
    """Sums the messages of all partitions. Consumers are not summed: each is at every partition."""

    def __init__(self, stream: PartitionedStream, answer: QueueAnswer) -> None:
        self._stream: PartitionedStream = stream
        self._answer: QueueAnswer = answer
        self._awaited: list[QueueAnswer] = []

    def begin(self) -> None:
        for queue in self._stream.partitions():
            if isinstance(queue, RemoteQueuePort) and queue.reachable():
                self._awaited.append(queue.ask(COUNT, self, None))
        self.go_on()

    def flush(self) -> None:
        """There is no output."""

    def go_on(self) -> None:
        if self._answer.done or not all(answer.done for answer in self._awaited):
            return
        partitions = self._stream.partitions()
        ready = sum([queue.ready_count() for queue in partitions])
        consumers = max([queue.consumer_count() for queue in partitions], default=0)
        self._stream.counts_received(COUNT, ready, consumers)
        self._answer.counted(ready, consumers)
