"""Questions to a queue of this node that may have to wait: for the disk, for other nodes, or for a deletion.

A question has a ticket, and gets one answer, unless the asker is gone or this node is no longer the queue's master:
then it gets none, and the asker turns to the next master.

Not here: questions that are answered at once (`broker.links.host_session`), what can be asked
(`broker.model.remote_queue`).
"""

from abc import abstractmethod
from typing import final

from mypy_extensions import i64, trait

from warren.broker.metadata.transaction import TransactionWaiter, transaction_failed
from warren.broker.model.message import Entry
from warren.broker.model.ports import ConsumerPort, OutputPort, QueuePort
from warren.broker.model.remote_queue import IF_EMPTY, IF_UNUSED, check_removable
from warren.broker.model.turn import FlushWaiter, Turn
from warren.errors import ChannelFault


@trait
class RequestedQueue:
    """A queue of this node, and the way back to the asker."""

    @abstractmethod
    def without_receiver(self) -> bool:
        """Whether the answer has no receiver: the asker is gone, or this node is not the queue's master."""

    @abstractmethod
    def found(self) -> QueuePort | None:
        """The queue, if this node knows it."""

    @abstractmethod
    def usable(self) -> QueuePort:
        """The queue, if it can answer questions; else the fault."""

    @abstractmethod
    def await_commit(self, queue: QueuePort, waiter: FlushWaiter) -> None:
        """Call the waiter when this turn's changes of the queue are as safe as the queue promises."""

    @abstractmethod
    def remove_queue(self, queue: QueuePort, waiter: TransactionWaiter) -> None: ...

    @abstractmethod
    def answer(self, ticket: i64, ready: i64, consumers: i64) -> None: ...

    @abstractmethod
    def answer_got(self, ticket: i64, queue: QueuePort, entry: Entry, no_ack: bool) -> None: ...

    @abstractmethod
    def answer_fault(self, ticket: i64, fault: ChannelFault) -> None: ...

    @abstractmethod
    def consumer_decided(self, consumer: ConsumerPort, joined: bool) -> None:
        """A consumer stops waiting; `joined`: the queue has it."""


@final
class CountRequest(OutputPort):
    """The counts for the answer to a declare. If the queue is about to be deleted, the answer comes when it is deleted
    on all nodes, so that the asker can declare a new queue of that name."""

    def __init__(self, target: RequestedQueue, ticket: i64) -> None:
        self._target: RequestedQueue = target
        self._ticket: i64 = ticket

    def flush(self) -> None:
        """There is no output to send."""

    def go_on(self) -> None:
        target = self._target
        if target.without_receiver():
            return
        found = target.found()
        if (
            found is not None
            and found.deleted
            and found.held_publishes is not None
            and found.held_publishes.await_end(self)
        ):
            return
        try:
            queue = target.usable()
        except ChannelFault as fault:
            target.answer_fault(self._ticket, fault)
            return
        queue.touch()
        queue.drain()
        target.answer(self._ticket, queue.ready_count(), queue.consumer_count())


@final
class GetRequest(OutputPort):
    """A get, which waits until the entry is in memory."""

    def __init__(self, target: RequestedQueue, ticket: i64, no_ack: bool) -> None:
        self._target: RequestedQueue = target
        self._ticket: i64 = ticket
        self._no_ack: bool = no_ack

    def flush(self) -> None:
        """There is no output to send."""

    def go_on(self) -> None:
        if self._target.without_receiver():
            return
        try:
            self._get(self._target.usable())
        except ChannelFault as fault:
            self._target.answer_fault(self._ticket, fault)

    def _get(self, queue: QueuePort) -> None:
        queue.touch()
        if not queue.can_get():
            queue.await_entry(self)
            return
        entry = queue.get(self._no_ack)
        if entry is None:
            self._target.answer(self._ticket, 0, 0)
        else:
            self._target.answer_got(self._ticket, queue, entry, self._no_ack)


@final
class PurgeRequest(FlushWaiter):
    """A purge, answered when it is safe."""

    def __init__(self, target: RequestedQueue, ticket: i64) -> None:
        self._target: RequestedQueue = target
        self._ticket: i64 = ticket
        queue = target.usable()
        self._count: i64 = queue.purge()
        if self._count != 0:
            target.await_commit(queue, self)
        else:
            self.flushed()

    def flushed(self) -> None:
        self._target.answer(self._ticket, self._count, 0)


@final
class ConsumeRequest(OutputPort):
    """A consumer that is to join. It waits while it is not decided whether the queue is deleted."""

    def __init__(self, target: RequestedQueue, ticket: i64, queue: QueuePort, consumer: ConsumerPort) -> None:
        # the consumer was cancelled meanwhile, or its asker is gone
        self.dropped: bool = False
        self._target: RequestedQueue = target
        self._ticket: i64 = ticket
        self._queue: QueuePort = queue
        self._consumer: ConsumerPort = consumer

    def flush(self) -> None:
        """There is no output to send."""

    def go_on(self) -> None:
        queue = self._queue
        if self.dropped:
            return
        if not queue.deleted and queue.held_publishes is not None and queue.held_publishes.await_end(self):
            return
        self._join()

    def _join(self) -> None:
        target = self._target
        if target.without_receiver():
            # the asker asks the next master
            target.consumer_decided(self._consumer, False)
            return
        try:
            queue = target.usable()
            queue.add_consumer(self._consumer)
        except ChannelFault as fault:
            target.consumer_decided(self._consumer, False)
            target.answer_fault(self._ticket, fault)
        else:
            target.consumer_decided(self._consumer, True)
            # of a stream's reader: where it begins, plus one
            target.answer(self._ticket, queue.begins_at(self._consumer) + 1, 0)


@final
class DeleteRequest(OutputPort):
    """A deletion under a condition, which this node keeps true until all nodes agree."""

    def __init__(self, target: RequestedQueue, ticket: i64, conditions: i64, turn: Turn) -> None:
        self._target: RequestedQueue = target
        self._ticket: i64 = ticket
        self._conditions: i64 = conditions
        self._turn: Turn = turn

    def flush(self) -> None:
        """There is no output to send."""

    def go_on(self) -> None:
        if self._target.without_receiver():
            return
        queue = self._target.found()
        if queue is not None and queue.held_publishes is not None and queue.held_publishes.await_end(self):
            return
        if queue is None or queue.deleted:
            self._target.answer(self._ticket, 0, 0)
        else:
            self._remove(queue)

    def _remove(self, queue: QueuePort) -> None:
        try:
            check_removable(queue, self._conditions & IF_EMPTY != 0, self._conditions & IF_UNUSED != 0)
        except ChannelFault as fault:
            self._target.answer_fault(self._ticket, fault)
            return
        ending = DeleteCompletion(self, self._target, self._ticket, queue.ready_count(), self._turn)
        self._target.remove_queue(queue, ending)


@final
class DeleteCompletion(TransactionWaiter):
    """Reports the outcome of the deletion to the asker."""

    def __init__(
        self, request: DeleteRequest, target: RequestedQueue, ticket: i64, message_count: i64, turn: Turn
    ) -> None:
        self._request: DeleteRequest = request
        self._target: RequestedQueue = target
        self._ticket: i64 = ticket
        self._message_count: i64 = message_count
        self._turn: Turn = turn

    def committed(self) -> None:
        self._target.answer(self._ticket, self._message_count, 0)

    def outdated(self) -> None:
        # behind those that waited
        self._turn.inputs.append(self._request)

    def failed(self, reason: str) -> None:
        self._target.answer_fault(self._ticket, transaction_failed(reason))
