"""Queues that are to go, at their home, between the wish and the moment they are removed.

A queue that *outlived its use* (its last consumer, its owner or its time is gone) goes without a client waiting for it.
It is closed at once, and whoever declares one of its name waits until it is removed. Its removal is planned again
whenever something it relies on has changed, and after a pause when it could not be agreed upon, as long as the queue is
there: nobody else would. A mirrored one is not closed before it is removed: another node may become its master. A new
master waits until those who consumed under the one before have had time to come back.

A queue that was *checked* is deleted because it is empty, or unused. It stays as it is, but that nothing comes into it
and nobody begins to consume, until that is decided; if the plan is outdated it goes on as if nothing had been. If
nobody knows what became of the plan it may still come about, so the queue is touched first: that is agreed upon before
the removal, which is outdated then, or after it.

Either way what is published meanwhile is neither confirmed nor lost before it is decided
(`broker.queues.held_publishes`).

Not here: which queues go (`broker.queues.queue`, `broker.vhost`), what goes along
(`broker.routing.topology_transactions`).
"""

from typing import Final, final

from warren.broker.links.mirrored_queue_proxy import MirroredQueueProxy
from warren.broker.metadata.backend import MetadataBackend
from warren.broker.metadata.topology_definitions import queue_key
from warren.broker.metadata.transaction import MetadataTransaction, TransactionWaiter
from warren.broker.model.local_queue import LocalQueue
from warren.broker.model.ports import QueuePort
from warren.broker.model.turn import TimerTarget, Turn
from warren.broker.queues.held_publishes import HeldPublishes
from warren.broker.routing.topology import Topology
from warren.broker.routing.topology_transactions import plan_queue_removal

RETRY_MS: Final = 1000


@final
class PendingDeletes:
    """Those of one virtual host."""

    def __init__(self, topology: Topology, backend: MetadataBackend, turn: Turn) -> None:
        self._topology: Topology = topology
        self._backend: MetadataBackend = backend
        self._turn: Turn = turn
        # of queues that outlived their use, by name
        self._deletes: dict[str, PendingDelete] = {}

    def delete_unused(self, queue: LocalQueue, refuses: bool) -> None:
        """A queue outlived its use; `refuses`: what comes to it before it is removed might have prevented that."""
        delete = PendingDelete(queue, self._topology, self._backend, self._turn)
        if not delete.plan():
            self._deletes[queue.name] = delete
            if queue.held_publishes is None:
                delete.held_publishes = HeldPublishes(queue, self._turn, refuses)
                queue.held_publishes = delete.held_publishes
            queue.close()

    def delete_unused_mirrored(self, queue: LocalQueue, proxy: MirroredQueueProxy) -> None:
        """A queue that several nodes hold outlived its use, as its master, here, found."""
        PendingMirroredDelete(queue, proxy, self._topology, self._backend, self._turn).begin()

    def delete_checked(self, queue: QueuePort, waiter: TransactionWaiter) -> bool:
        """Whether it is done; if not, the waiter is told."""
        plan = MetadataTransaction()
        plan_queue_removal(plan, self._topology, queue)
        if self._backend.is_immediate():
            return self._backend.submit(plan, None)
        held_publishes = HeldPublishes(queue, self._turn, refuses=True)
        queue.held_publishes = held_publishes
        revocation = DeleteRevocation(queue, held_publishes, self._topology, self._backend, self._turn)
        return self._backend.submit(plan, ConditionalDelete(held_publishes, revocation, waiter))

    def await_end(self, name: str, waiter: TransactionWaiter | None) -> bool:
        """Whether a queue of that name is yet to be removed; then whoever wants to make another plans after that."""
        delete = self._deletes.get(name)
        if delete is not None and waiter is not None:
            delete.waiters.append(waiter)
        return delete is not None

    def removed(self, queue: QueuePort) -> None:
        if queue.held_publishes is not None:
            queue.held_publishes.gone()
        delete = self._deletes.pop(queue.name, None)
        if delete is not None:
            delete.ended()


@final
class PendingDelete(TransactionWaiter, TimerTarget):
    """One queue's that outlived its use."""

    def __init__(self, queue: QueuePort, topology: Topology, backend: MetadataBackend, turn: Turn) -> None:
        self.waiters: list[TransactionWaiter] = []
        # nothing if it was to be deleted anyway
        self.held_publishes: HeldPublishes | None = None
        self._queue: QueuePort = queue
        self._topology: Topology = topology
        self._backend: MetadataBackend = backend
        self._turn: Turn = turn

    def plan(self) -> bool:
        """Whether it is removed already."""
        plan = MetadataTransaction()
        plan_queue_removal(plan, self._topology, self._queue)
        return self._backend.submit(plan, self)

    def ended(self) -> None:
        """The queue is removed."""
        for waiter in self.waiters:
            waiter.outdated()

    def agreed(self) -> None:
        """It is removed, and whoever wanted to make another was told."""
        if self.held_publishes is not None:
            self.held_publishes.known()

    def outdated(self) -> None:
        self._retry()

    def failed(self, reason: str) -> None:
        self._turn.set_timer(self._turn.now_ms + RETRY_MS, self)
        waiters = self.waiters
        self.waiters = []
        for waiter in waiters:
            waiter.failed(reason)

    def timer_fired(self) -> None:
        self._retry()

    def _retry(self) -> None:
        if self._topology.queues.get(self._queue.name) is self._queue:
            self.plan()
        else:
            self.agreed()


@final
class PendingMirroredDelete(TransactionWaiter, TimerTarget):
    """One queue's that several nodes hold. It is there until it is removed, and stays if somebody begins to use it."""

    def __init__(
        self, queue: LocalQueue, proxy: MirroredQueueProxy, topology: Topology, backend: MetadataBackend, turn: Turn
    ) -> None:
        self._queue: LocalQueue = queue
        self._proxy: MirroredQueueProxy = proxy
        self._topology: Topology = topology
        self._backend: MetadataBackend = backend
        self._turn: Turn = turn

    def begin(self) -> None:
        reunited_at_ms = self._proxy.reunited_at_ms()
        if self._turn.now_ms < reunited_at_ms:
            self._turn.set_timer(reunited_at_ms, self)
        else:
            self._plan()

    def _plan(self) -> None:
        plan = MetadataTransaction()
        plan_queue_removal(plan, self._topology, self._proxy)
        self._backend.submit(plan, self)

    def agreed(self) -> None:
        """It is removed."""

    def outdated(self) -> None:
        """Its ring may have changed meanwhile."""
        self._retry()

    def failed(self, reason: str) -> None:
        self._turn.set_timer(self._turn.now_ms + RETRY_MS, self)

    def timer_fired(self) -> None:
        self._retry()

    def _retry(self) -> None:
        queue = self._queue
        # it is closed when another node becomes its master
        unused = not queue.deleted and queue.consumer_count() == 0
        if unused and self._topology.queues.get(queue.name) is self._proxy:
            self._plan()


@final
class ConditionalDelete(TransactionWaiter):
    """One queue's that was found to be as whoever deletes it wants it to be."""

    def __init__(
        self, held_publishes: HeldPublishes, revocation: "DeleteRevocation", waiter: TransactionWaiter
    ) -> None:
        self._held_publishes: HeldPublishes = held_publishes
        self._revocation: DeleteRevocation = revocation
        self._waiter: TransactionWaiter = waiter

    def agreed(self) -> None:
        self._held_publishes.known()
        self._waiter.agreed()

    def outdated(self) -> None:
        self._held_publishes.release()
        self._waiter.outdated()

    def failed(self, reason: str) -> None:
        self._waiter.failed(reason)
        self._revocation.plan()


@final
class DeleteRevocation(TransactionWaiter, TimerTarget):
    """Makes certain that a removal comes about no more, or has."""

    def __init__(
        self, queue: QueuePort, held_publishes: HeldPublishes, topology: Topology, backend: MetadataBackend, turn: Turn
    ) -> None:
        self._queue: QueuePort = queue
        self._held_publishes: HeldPublishes = held_publishes
        self._topology: Topology = topology
        self._backend: MetadataBackend = backend
        self._turn: Turn = turn

    def plan(self) -> None:
        if self._topology.queues.get(self._queue.name) is not self._queue:
            self._held_publishes.known()
            return
        plan = MetadataTransaction()
        plan.touch(queue_key(self._queue.vhost, self._queue.name))
        if self._backend.submit(plan, self):
            self.agreed()

    def agreed(self) -> None:
        self._held_publishes.release()

    def outdated(self) -> None:
        self.plan()

    def failed(self, reason: str) -> None:
        self._turn.set_timer(self._turn.now_ms + RETRY_MS, self)

    def timer_fired(self) -> None:
        self.plan()
