"""Questions of another node that something must be waited for: the disk, or other nodes.

Not here: those that are answered at once (`remote.hosting`).
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.errors import ChannelFault
from warren.model.agreeing import AgreementWaiter, could_not_agree
from warren.model.distant import IF_EMPTY, IF_UNUSED
from warren.model.ports import OutputPort, QueuePort
from warren.model.removal import check_removable
from warren.model.turn import FlushWaiter

if TYPE_CHECKING:
    from warren.remote.hosted_consumer import HostedConsumer
    from warren.remote.hosted_queue import HostedQueue
    from warren.remote.hosting import Hosting


@final
class HostedCount(OutputPort):
    """What a declaration wants to know. Of a queue that outlived its use there is something to say when it is gone for
    everybody: then the other node may make one of its name, rather than being told that there is none."""

    def __init__(self, hosting: "Hosting", ticket: i64, hosted: "HostedQueue") -> None:
        self._hosting: Hosting = hosting
        self._ticket: i64 = ticket
        self._hosted: HostedQueue = hosted

    def flush(self) -> None:
        """It has no output of its own."""

    def go_on(self) -> None:
        if self._hosting.over or self._hosted.adrift():
            return
        found = self._hosted.found()
        if found is not None and found.deleted and found.withheld is not None and found.withheld.await_end(self):
            return
        try:
            queue = self._hosted.usable()
        except ChannelFault as fault:
            self._hosting.answer_fault(self._ticket, fault)
            return
        queue.touch()
        queue.drain()
        self._hosting.answer(self._ticket, queue.ready_count(), queue.consumer_count())


@final
class HostedGet(OutputPort):
    """A get, which waits until the entry is in memory."""

    def __init__(self, hosting: "Hosting", ticket: i64, hosted: "HostedQueue", no_ack: bool) -> None:
        self._hosting: Hosting = hosting
        self._ticket: i64 = ticket
        self._hosted: HostedQueue = hosted
        self._no_ack: bool = no_ack

    def flush(self) -> None:
        """It has no output of its own."""

    def go_on(self) -> None:
        if self._hosting.over or self._hosted.adrift():
            return
        try:
            self._get(self._hosted.usable())
        except ChannelFault as fault:
            self._hosting.answer_fault(self._ticket, fault)

    def _get(self, queue: QueuePort) -> None:
        queue.touch()
        if not queue.at_hand():
            queue.await_entry(self)
            return
        entry = queue.get(self._no_ack)
        if entry is None:
            self._hosting.answer(self._ticket, 0, 0)
        else:
            loans = self._hosted.got_from(queue)
            self._hosting.answer_got(self._ticket, loans, entry, self._no_ack, queue.ready_count())


@final
class HostedPurge(FlushWaiter):
    """A purge, answered when the disk knows of it."""

    def __init__(self, hosting: "Hosting", ticket: i64, hosted: "HostedQueue") -> None:
        self._hosting: Hosting = hosting
        self._ticket: i64 = ticket
        queue = hosted.usable()
        self._count: i64 = queue.purge()
        if self._count != 0 and (queue.durable or hosted.mirrored):
            hosted.await_safe(self)
        else:
            self.flushed()

    def flushed(self) -> None:
        self._hosting.answer(self._ticket, self._count, 0)


@final
class HostedConsume(OutputPort):
    """A consumer that is to join, which waits while it is not decided whether its queue goes."""

    def __init__(self, hosting: "Hosting", ticket: i64, consumer: "HostedConsumer") -> None:
        self._hosting: Hosting = hosting
        self._ticket: i64 = ticket
        self._consumer: HostedConsumer = consumer

    def flush(self) -> None:
        """It has no output of its own."""

    def begin(self) -> None:
        queue = self._consumer.loans.queue
        if not queue.deleted and queue.withheld is not None and queue.withheld.await_end(self):
            self._hosting.joining[int(self._consumer.number)] = self
        else:
            self._join()

    def go_on(self) -> None:
        number = int(self._consumer.number)
        # unless it was cancelled meanwhile
        if self._hosting.joining.get(number) is self:
            del self._hosting.joining[number]
            self.begin()

    def forget(self, hosted: "HostedQueue") -> None:
        """The other node has nothing more to do with that queue."""
        if self._consumer.loans.hosted is hosted:
            del self._hosting.joining[int(self._consumer.number)]

    def _join(self) -> None:
        hosted = self._consumer.loans.hosted
        if hosted.adrift():
            # whoever asks will ask the next master
            return
        try:
            hosted.usable()
            self._hosting.add_consumer(self._consumer)
        except ChannelFault as fault:
            self._hosting.answer_fault(self._ticket, fault)
        else:
            # of a stream's reader: where it begins, and one
            self._hosting.answer(self._ticket, hosted.usable().begins_at(self._consumer) + 1, 0)


@final
class HostedRemoval(OutputPort):
    """A deletion under a condition, which this node looks after until all nodes agree."""

    def __init__(self, hosting: "Hosting", ticket: i64, hosted: "HostedQueue", conditions: i64) -> None:
        self._hosting: Hosting = hosting
        self._ticket: i64 = ticket
        self._hosted: HostedQueue = hosted
        self._conditions: i64 = conditions

    def flush(self) -> None:
        """It has no output of its own."""

    def go_on(self) -> None:
        if self._hosting.over or self._hosted.adrift():
            return
        queue = self._hosted.found()
        if queue is not None and queue.withheld is not None and queue.withheld.await_end(self):
            return
        if queue is None or queue.deleted:
            self._hosting.answer(self._ticket, 0, 0)
        else:
            self._remove(queue)

    def failed(self, fault: ChannelFault) -> None:
        if not self._hosting.over:
            self._hosting.answer_fault(self._ticket, fault)

    def _remove(self, queue: QueuePort) -> None:
        try:
            check_removable(queue, self._conditions & IF_EMPTY != 0, self._conditions & IF_UNUSED != 0)
        except ChannelFault as fault:
            self.failed(fault)
            return
        ending = RemovalEnding(self, self._hosting, self._ticket, queue.ready_count())
        self._hosting.home.remove_queue(queue, ending)


@final
class RemovalEnding(AgreementWaiter):
    """What the other node is told of it."""

    def __init__(self, removal: HostedRemoval, hosting: "Hosting", ticket: i64, message_count: i64) -> None:
        self._removal: HostedRemoval = removal
        self._hosting: Hosting = hosting
        self._ticket: i64 = ticket
        self._message_count: i64 = message_count

    def agreed(self) -> None:
        self._hosting.answer(self._ticket, self._message_count, 0)

    def outdated(self) -> None:
        # behind whoever waited
        self._hosting.turn.inputs.append(self._removal)

    def failed(self, reason: str) -> None:
        self._removal.failed(could_not_agree(reason))
