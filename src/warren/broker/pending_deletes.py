"""Deletes of queues on their home node, from the decision until the queue is removed.

A queue is deleted as *unused* because it was auto-delete, exclusive or expired, and no client waits for the answer. It
is closed at once, and a declare of the same name waits until it is removed. The delete is proposed again whenever a
definition it relies on changed, and after a delay when the transaction failed, as long as the queue exists. If the
queue became mirrored first, its proxy is deleted: a closed queue gets no replica, so no client can use it meanwhile. A
mirrored queue is not closed before it is removed, because another node may become its master. A new master waits until
the consumers of the previous master had time to come back.

A queue is deleted as *checked* because a client asked for if-empty or if-unused. Until the delete is decided, the queue
accepts no publishes and no consumers. If the transaction is outdated, the queue continues unchanged. If the outcome of
the transaction is unknown, it may still commit. The queue's definition is then touched by a second transaction
(`DeleteRevocation`). When that one has committed, the delete has either committed before or is outdated.

In both cases publishes meanwhile are neither confirmed nor lost before the delete is decided
(`broker.queues.held_publishes`).

Not here: which queues are deleted (`broker.queues.queue`, `broker.vhost`), which definitions are deleted with a queue
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
from warren.broker.routing.topology_transactions import add_queue_removal

RETRY_MS: Final = 1000


@final
class PendingDeletes:
    """The pending deletes of one virtual host."""

    def __init__(self, topology: Topology, backend: MetadataBackend, turn: Turn) -> None:
        self._topology: Topology = topology
        self._backend: MetadataBackend = backend
        self._turn: Turn = turn
        # deletes of unused queues, by name
        self._deletes: dict[str, PendingDelete] = {}

    def delete_unused(self, queue: LocalQueue, refuses: bool) -> None:
        """Delete an unused queue. `refuses`: a publish before the removal might have prevented the delete."""
        delete = PendingDelete(queue, self._topology, self._backend, self._turn)
        if not delete.propose(queue):
            self._deletes[queue.name] = delete
            if queue.held_publishes is None:
                delete.held_publishes = HeldPublishes(queue, self._turn, refuses)
                queue.held_publishes = delete.held_publishes
            queue.close()

    def delete_unused_mirrored(self, queue: LocalQueue, proxy: MirroredQueueProxy, expired: bool) -> None:
        """Delete an unused mirrored queue, whose master is on this node."""
        PendingMirroredDelete(queue, proxy, expired, self._topology, self._backend, self._turn).begin()

    def delete_checked(self, queue: QueuePort, waiter: TransactionWaiter) -> bool:
        """Delete a checked queue; False if the waiter is called later."""
        transaction = MetadataTransaction()
        add_queue_removal(transaction, self._topology, queue)
        if self._backend.is_immediate():
            return self._backend.submit(transaction, None)
        held_publishes = HeldPublishes(queue, self._turn, refuses=True)
        queue.held_publishes = held_publishes
        revocation = DeleteRevocation(queue, held_publishes, self._topology, self._backend, self._turn)
        return self._backend.submit(transaction, ConditionalDelete(held_publishes, revocation, waiter))

    def await_end(self, name: str, waiter: TransactionWaiter | None) -> bool:
        """Whether a queue of that name is yet to be removed. The waiter is called then, and proposes again."""
        delete = self._deletes.get(name)
        if delete is not None and waiter is not None:
            delete.waiters.append(waiter)
        return delete is not None

    def removed(self, name: str) -> None:
        """The queue of that name is removed; it may have become mirrored since it was closed."""
        delete = self._deletes.pop(name, None)
        if delete is not None:
            delete.ended()


@final
class PendingDelete(TransactionWaiter, TimerTarget):
    """The delete of one unused queue."""

    def __init__(self, queue: LocalQueue, topology: Topology, backend: MetadataBackend, turn: Turn) -> None:
        self.waiters: list[TransactionWaiter] = []
        # None if a client was deleting the queue already
        self.held_publishes: HeldPublishes | None = None
        self._queue: LocalQueue = queue
        self._topology: Topology = topology
        self._backend: MetadataBackend = backend
        self._turn: Turn = turn

    def propose(self, queue: QueuePort) -> bool:
        """Delete the queue, or its proxy; whether it is removed already."""
        transaction = MetadataTransaction()
        add_queue_removal(transaction, self._topology, queue)
        return self._backend.submit(transaction, self)

    def ended(self) -> None:
        """The queue is removed."""
        if self._queue.held_publishes is not None:
            self._queue.held_publishes.gone()
        for waiter in self.waiters:
            waiter.outdated()

    def committed(self) -> None:
        """The queue is removed on all nodes."""
        if self.held_publishes is not None:
            self.held_publishes.applied_everywhere()

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
        found = self._topology.queues.get(self._queue.name)
        # if the queue became mirrored, its proxy has the same id
        if found is not None and found.queue_id == self._queue.queue_id:
            self.propose(found)
        else:
            self.committed()


@final
class PendingMirroredDelete(TransactionWaiter, TimerTarget):
    """The delete of one unused mirrored queue. The queue stays if a consumer comes before it is removed.

    `expired`: the queue also stays if it was used in another way before the delete is planned again.
    """

    def __init__(
        self,
        queue: LocalQueue,
        proxy: MirroredQueueProxy,
        expired: bool,
        topology: Topology,
        backend: MetadataBackend,
        turn: Turn,
    ) -> None:
        self._queue: LocalQueue = queue
        self._proxy: MirroredQueueProxy = proxy
        self._expired: bool = expired
        self._topology: Topology = topology
        self._backend: MetadataBackend = backend
        self._turn: Turn = turn

    def begin(self) -> None:
        reunited_at_ms = self._proxy.reunited_at_ms()
        if self._turn.now_ms < reunited_at_ms:
            self._turn.set_timer(reunited_at_ms, self)
        else:
            self._propose()

    def _propose(self) -> None:
        transaction = MetadataTransaction()
        add_queue_removal(transaction, self._topology, self._proxy)
        self._backend.submit(transaction, self)

    def committed(self) -> None:
        """The queue is removed."""

    def outdated(self) -> None:
        """Its replica set may have changed."""
        self._retry()

    def failed(self, reason: str) -> None:
        self._turn.set_timer(self._turn.now_ms + RETRY_MS, self)

    def timer_fired(self) -> None:
        self._retry()

    def _retry(self) -> None:
        queue = self._queue
        # the queue is closed when another node becomes its master
        unused = not queue.deleted and queue.consumer_count() == 0
        if not unused or self._topology.queues.get(queue.name) is not self._proxy:
            return
        if self._expired:
            queue.expire_again()
        else:
            self._propose()


@final
class ConditionalDelete(TransactionWaiter):
    """The delete of one checked queue."""

    def __init__(
        self, held_publishes: HeldPublishes, revocation: "DeleteRevocation", waiter: TransactionWaiter
    ) -> None:
        self._held_publishes: HeldPublishes = held_publishes
        self._revocation: DeleteRevocation = revocation
        self._waiter: TransactionWaiter = waiter

    def committed(self) -> None:
        self._held_publishes.applied_everywhere()
        self._waiter.committed()

    def outdated(self) -> None:
        self._held_publishes.release()
        self._waiter.outdated()

    def failed(self, reason: str) -> None:
        self._waiter.failed(reason)
        self._revocation.propose()


@final
class DeleteRevocation(TransactionWaiter, TimerTarget):
    """Makes certain that a delete either has committed or never will."""

    def __init__(
        self, queue: QueuePort, held_publishes: HeldPublishes, topology: Topology, backend: MetadataBackend, turn: Turn
    ) -> None:
        self._queue: QueuePort = queue
        self._held_publishes: HeldPublishes = held_publishes
        self._topology: Topology = topology
        self._backend: MetadataBackend = backend
        self._turn: Turn = turn

    def propose(self) -> None:
        if self._topology.queues.get(self._queue.name) is not self._queue:
            self._held_publishes.applied_everywhere()
            return
        transaction = MetadataTransaction()
        transaction.touch(queue_key(self._queue.vhost, self._queue.name))
        if self._backend.submit(transaction, self):
            self.committed()

    def committed(self) -> None:
        self._held_publishes.release()

    def outdated(self) -> None:
        self.propose()

    def failed(self, reason: str) -> None:
        self._turn.set_timer(self._turn.now_ms + RETRY_MS, self)

    def timer_fired(self) -> None:
        self.propose()
