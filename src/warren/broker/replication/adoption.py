"""Makes a queue of one node a mirrored queue, with its messages, while clients use it.

::

    a policy, argument or binding wants mirrors ──► the queue's node proposes a replica set: itself in sync, and members
    the replica set is committed ──► every node puts a proxy in the queue's place; on the queue's node the queue becomes
                                     the master's: its log writes batches, its replica's contents are made from it

Consumers stay with the queue. Publishers use the proxy; publishes that reach the queue directly are forwarded to the
proxy. Between the change of the log and the preparation of the contents nothing is delivered or removed.

Two kinds of queue are left alone for a while. A stream must have read its journal after a start, because its contents
drop messages that are in its files too. A transient queue must have no messages on disk, because its contents are kept
in memory. Messages that are only in memory, unacked ones among them, are added to the contents.

Not here: the first epoch (`broker.replication.local_replica`), the choice of members (`broker.replication.placement`).
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
    """Finds queues of this node that should be mirrored and are not, and proposes their replica sets."""

    def __init__(self, context: ReplicationContext, vhosts: dict[str, Vhost]) -> None:
        self._context: ReplicationContext = context
        self._vhosts: dict[str, Vhost] = vhosts
        self._due: bool = False
        self._submitted: bool = False
        self._timer_set: bool = False

    def request_check(self) -> None:
        """Policies, arguments or bindings may want mirrors for other queues."""
        self._due = True

    def act(self) -> None:
        """Every committed change is applied: propose replica sets, if a check was requested."""
        if not self._due or self._submitted:
            return
        self._due = False
        transaction, remaining = self._next_transaction()
        if transaction.changes:
            self._submitted = True
            if self._context.backend.submit(transaction, self):
                self._submitted = False
        if remaining:
            self._retry_later()

    def _next_transaction(self) -> tuple[MetadataTransaction, bool]:
        """Replica sets for some queues, and whether other queues must be checked again."""
        transaction = MetadataTransaction()
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
                if len(transaction.changes) >= ADOPTIONS_PER_TRANSACTION_MAX or not _can_be_adopted(queue):
                    remaining = True
                    continue
                replica_set = context.placement.first_replica_set(spec, context.peers.own)
                transaction.put(definition.with_replica_set(replica_set))
        return transaction, remaining

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
    """Forwards publishes that reach an adopted queue directly to its proxy."""

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
        """The proxy is told by itself."""


def forward_to_proxy(queue: LocalQueue, proxy: QueuePort) -> None:
    """Forward held and later publishes of the queue to its proxy. A pending delete is outdated by the replica set."""
    held_publishes, forwarder = queue.held_publishes, AdoptedQueueForwarder(proxy)
    if isinstance(held_publishes, HeldPublishes):
        held_publishes.release(forwarder)
    else:
        queue.held_publishes = forwarder


def store_entries(queue: Queue, contents: ReplicaContents, unacked: list[Entry]) -> None:
    """Add the messages that are only in memory, ready or unacked, to the contents."""
    _store_unstored(queue.in_memory(), contents)
    _store_unstored(unacked, contents)


def _store_unstored(entries: list[Entry], contents: ReplicaContents) -> None:
    for entry in entries:
        if entry.extent is None:
            payload, crc = message_payload(entry.message)
            if isinstance(contents, DiskContents):
                contents.adopt(entry, payload, crc)
            else:
                contents.store_entry(entry, payload, crc)


def _can_be_adopted(queue: LocalQueue) -> bool:
    """Whether contents can be made from the queue; if so, that stays true."""
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
