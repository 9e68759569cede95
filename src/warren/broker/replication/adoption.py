"""A queue that one node has becomes the queue of a ring, with all it has, while it is used.

::

    policies, arguments, bindings ──► a wish for mirrors ──► the home proposes a ring: itself, in sync, and members
    the ring is agreed upon ──► everywhere a seat takes the queue's place; at home the queue goes on as the master's,
                                its log says what leaves in steps, its copy is made of what it has

Whoever consumes goes on with the queue as before; whoever publishes does so through the seat. What was on its way to
the queue by the old road is passed to the seat. Nothing is handed out or removed between the moment at which the queue
has another log and the one at which its copy is known.

A stream that was just started is left alone until it has read what its journal has: its copy takes off what is in the
files as well. What is in memory alone, lent out or not, gets onto the copy. A queue that is not durable and has a part
of its messages on disk, because memory was short, is left alone until it has not: its copy would be in memory.

Not here: the ring's beginning (`broker.replication.local_replica`), where its members are
(`broker.replication.replica_sets`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.journal.payloads import message_payload
from warren.broker.journal.replica_contents import DiskContents
from warren.broker.metadata.topology_definitions import QueueDefinition
from warren.broker.metadata.transaction import MetadataTransaction, TransactionWaiter
from warren.broker.model.local_queue import LocalQueue
from warren.broker.model.message import Entry, Message
from warren.broker.model.ports import OutputPort, PublishHold, PublishWaiter, QueuePort
from warren.broker.model.replica_contents import ReplicaContents
from warren.broker.model.turn import TimerTarget
from warren.broker.queues.held_publishes import HeldPublishes
from warren.broker.queues.queue import Queue
from warren.broker.replication.context import ReplicationContext
from warren.broker.streams.stream import Stream
from warren.broker.vhost import Vhost

ADOPTION_RETRY_MS: Final[i64] = 500
ADOPTIONS_PER_TRANSACTION_MAX: Final = 100


@final
class QueueAdoption(TransactionWaiter, TimerTarget):
    """One node's queues that nobody else holds, and should."""

    def __init__(self, context: ReplicationContext, vhosts: dict[str, Vhost]) -> None:
        self._context: ReplicationContext = context
        self._vhosts: dict[str, Vhost] = vhosts
        self._due: bool = False
        self._submitted: bool = False
        self._timer_set: bool = False

    def request_check(self) -> None:
        """Something changed that may make somebody want mirrors."""
        self._due = True

    def act(self) -> None:
        """All that is agreed upon is known."""
        if not self._due or self._submitted:
            return
        self._due = False
        plan, remaining = self._plan()
        if plan.changes:
            self._submitted = True
            if self._context.backend.submit(plan, self):
                self._submitted = False
        if remaining:
            self._retry_later()

    def _plan(self) -> tuple[MetadataTransaction, bool]:
        """Rings for some of them; and whether others are to be looked at again."""
        plan = MetadataTransaction()
        remaining = False
        context = self._context
        for vhost in self._vhosts.values():
            for queue in vhost.own_queues():
                if queue.exclusive or queue.deleted or vhost.topology.queues.get(queue.name) is not queue:
                    continue
                definition = _definition_of(vhost.name, queue)
                spec = context.mirroring_policies.of(definition)
                if spec is None:
                    continue
                if len(plan.changes) >= ADOPTIONS_PER_TRANSACTION_MAX or not _can_be_adopted(queue):
                    remaining = True
                    continue
                replica_set = context.placement.first_replica_set(spec, context.peers.own)
                plan.put(definition.with_replica_set(replica_set))
        return plan, remaining

    def committed(self) -> None:
        self._submitted = False
        self.act()

    def outdated(self) -> None:
        self._submitted = False
        self._retry_later()

    def failed(self, reason: str) -> None:
        self._submitted = False
        self._retry_later()

    def _retry_later(self) -> None:
        self._due = True
        if not self._timer_set:
            self._timer_set = True
            turn = self._context.turn
            turn.set_timer(turn.now_ms + ADOPTION_RETRY_MS, self)

    def timer_fired(self) -> None:
        self._timer_set = False
        self.act()


@final
class AdoptedQueueForwarder(PublishHold):
    """Takes what is published to a queue that has come to be mirrored by whoever had not heard of that."""

    def __init__(self, proxy: QueuePort) -> None:
        super().__init__()
        self._proxy: QueuePort = proxy

    def keep(self, message: Message) -> i64:
        return self._proxy.publish(message)

    def await_settlement(self, waiter: PublishWaiter, place: i64) -> None:
        self._proxy.await_settlement(waiter, place)

    def await_end(self, waiter: OutputPort) -> bool:
        return False

    def gone(self) -> None:
        """The seat knows."""


def forward_to_proxy(queue: LocalQueue, proxy: QueuePort) -> None:
    """What is published to the queue from here on is passed to the seat."""
    held_publishes = queue.held_publishes
    if isinstance(held_publishes, HeldPublishes) and not held_publishes.over:
        held_publishes.next = AdoptedQueueForwarder(proxy)
    else:
        queue.held_publishes = AdoptedQueueForwarder(proxy)


def hold_entries(queue: Queue, contents: ReplicaContents, lent: list[Entry]) -> None:
    """Let a copy hold what its queue has in memory alone, and what of that is lent out."""
    _hold(queue.in_memory(), contents)
    _hold(lent, contents)


def _hold(entries: list[Entry], contents: ReplicaContents) -> None:
    for entry in entries:
        if entry.extent is None:
            payload, crc = message_payload(entry.message)
            if isinstance(contents, DiskContents):
                contents.adopt(entry, payload, crc)
            else:
                contents.store_entry(entry, payload, crc)


def _can_be_adopted(queue: LocalQueue) -> bool:
    """Whether a copy can be made of it; if so, it stays like that."""
    if isinstance(queue, Stream):
        return queue.is_read()
    if queue.durable or not isinstance(queue, Queue):
        return True
    if queue.on_disk_alone():
        return False
    queue.stay_in_memory()
    return True


def _definition_of(vhost: str, queue: LocalQueue) -> QueueDefinition:
    return QueueDefinition(vhost, queue.name, queue.durable, False, queue.auto_delete, queue.arguments)
