"""The logical name of a partitioned stream, as sessions see it: a queue that holds nothing, and asks its partitions.

On every node it stands in `topology.queues`. What is published is routed to a partition and never comes here; who
consumes takes part in every partition (`stream.partitioning.attendance`); who asks how much there is gets the sum.

A partition whose home is not there is missing from counts, and whoever consumes goes on without it until it is back.

Not here: which partition a message is for (`model.partitions`), who of a group is served (`stream.groups`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.errors import (
    NOT_FOUND,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    ChannelFault,
    ConnectionFault,
    InvariantBroken,
)
from warren.model.distant import CANCEL, CONSUME, COUNT, Answer, DistantQueue, SettlementWaiter
from warren.model.message import Entry, Message
from warren.model.partitions import partition_names
from warren.model.ports import Consumer, OutputPort, QueuePort
from warren.model.turn import Turn
from warren.stream.groups import check_group
from warren.stream.partitioning.attendance import Attendance
from warren.wire.values import Table

ROUTED: Final = "what is published to a partitioned stream is routed to a partition"


@final
class PartitionedStream(DistantQueue):
    """`queues` are all those of its virtual host, by name."""

    def __init__(self, vhost: str, name: str, arguments: Table, queues: dict[str, QueuePort], turn: Turn) -> None:
        super().__init__(vhost, name, True, False, False, arguments, 0)
        self.turn: Turn = turn
        self._queues: dict[str, QueuePort] = queues
        self._attendances: dict[Consumer, Attendance] = {}
        self._probes: list[Attendance] = []
        self._ready: i64 = 0
        self._consumers: i64 = 0

    def partitions(self) -> list[QueuePort]:
        """Those that are there, in their order."""
        found = [self._queues.get(name) for name in partition_names(self.name, self.arguments)]
        return [queue for queue in found if queue is not None and not queue.deleted]

    def partition(self, name: str) -> QueuePort | None:
        return self._queues.get(name)

    # -- questions

    def ask(self, question: i64, asker: OutputPort, consumer: Consumer | None) -> Answer:
        answer = Answer(self, question, asker, self.turn)
        answer.consumer = consumer
        if question == COUNT:
            Counting(self, answer).begin()
        elif question == CONSUME:
            assert consumer is not None, "somebody consumes"
            self._attend(consumer, answer)
        elif question == CANCEL:
            assert consumer is not None, "somebody consumes no more"
            attendance = self._attendances.pop(consumer, None)
            if attendance is None:
                answer.counted(0, 0)
            else:
                attendance.cancel(answer)
        else:
            raise self._unsupported("basic.get and queue.purge are")
        return answer

    def abandon(self, answer: Answer) -> None:
        answer.abandoned = True
        if answer.question == CONSUME and answer.consumer is not None:
            self.remove_consumer(answer.consumer)

    def told(self, question: i64, ready: i64, consumers: i64) -> None:
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

    def _attend(self, consumer: Consumer, answer: Answer) -> None:
        where = self._where()
        if consumer.no_ack:
            raise self._unsupported("automatic acknowledgement")
        if consumer.unacked_max() == 0:
            raise ChannelFault(PRECONDITION_FAILED, f"consumer prefetch count is not set for '{where}'")
        check_group(consumer, where)
        attendance = Attendance(self, consumer, answer)
        self._attendances[consumer] = attendance
        attendance.begin(partition_names(self.name, self.arguments))

    def started(self, consumer: Consumer) -> None:
        attendance = self._attendances.get(consumer)
        if attendance is not None:
            attendance.start()

    def stop(self, consumer: Consumer) -> None:
        attendance = self._attendances.get(consumer)
        if attendance is not None:
            attendance.stop()

    def limit(self, consumer: Consumer) -> None:
        attendance = self._attendances.get(consumer)
        if attendance is not None:
            attendance.limit()

    def remove_consumer(self, consumer: Consumer) -> None:
        attendance = self._attendances.pop(consumer, None)
        if attendance is not None:
            attendance.leave()

    def consumers(self) -> list[Consumer]:
        """Those of this node."""
        return list(self._attendances)

    def wake(self) -> None:
        if self._attendances:
            for queue in self.partitions():
                queue.wake()

    def await_drain(self, probe: Attendance) -> None:
        """Something is to be told to it when its client knows that it consumes."""
        self._probes.append(probe)
        self.turn.drains.append(self)

    def drain(self) -> None:
        probes = self._probes
        self._probes = []
        for probe in probes:
            probe.tell()

    def ack(self, entry: Entry) -> None:
        """Of a probe's answer; everything else is acked at its partition."""

    def requeue(self, entries: list[Entry]) -> None:
        """A probe's answer is told once."""

    def reject(self, entry: Entry) -> None:
        raise self._unsupported("basic.nack and basic.reject")

    # -- publishes never come here

    def publish(self, message: Message) -> i64:
        raise InvariantBroken(ROUTED)

    def await_settlement(self, waiter: SettlementWaiter, place: i64) -> None:
        raise InvariantBroken(ROUTED)

    def fence(self) -> bool:
        return False

    def await_room(self, waiter: OutputPort) -> bool:
        return False

    def await_home(self, waiter: OutputPort) -> None:
        raise InvariantBroken("a partitioned stream is at home everywhere")

    # -- life and figures

    def close(self) -> None:
        self.deleted = True
        for attendance in list(self._attendances.values()):
            attendance.end()

    def ready_count(self) -> int:
        return int(self._ready)

    def consumer_count(self) -> int:
        return int(self._consumers)


@final
class Counting(OutputPort):
    """Asks every partition that is there how much it has; consumers of the logical name are at each of them."""

    def __init__(self, stream: PartitionedStream, answer: Answer) -> None:
        self._stream: PartitionedStream = stream
        self._answer: Answer = answer
        self._awaited: list[Answer] = []

    def begin(self) -> None:
        for queue in self._stream.partitions():
            if isinstance(queue, DistantQueue) and queue.reachable():
                self._awaited.append(queue.ask(COUNT, self, None))
        self.go_on()

    def flush(self) -> None:
        """It has no output of its own."""

    def go_on(self) -> None:
        if self._answer.done or not all(answer.done for answer in self._awaited):
            return
        partitions = self._stream.partitions()
        ready = sum([queue.ready_count() for queue in partitions])
        consumers = max([queue.consumer_count() for queue in partitions], default=0)
        self._stream.told(COUNT, ready, consumers)
        self._answer.counted(ready, consumers)
