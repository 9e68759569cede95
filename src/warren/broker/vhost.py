"""One virtual host: its exchanges, queues and bindings, and the messages that its exchanges delay.

A change has two halves. The first (`declare_queues` to `unbind`) writes the change into a metadata transaction. The
second (`make_queue` to `remove_exchange`, `bindings`) applies one committed definition.

A queue that is deleted because it is unused is gone for clients at once, although the transaction takes a while in a
cluster. Until it is removed, it is closed and pending; a declare of the same name waits for that
(`broker.pending_deletes`).

When the master of a mirrored queue moves to another node, `move_consumers` moves the consumers from the local queue to
its proxy.

`DeadLetterer` and `QueueLocations` are the services of the node that a virtual host uses.

Not here: routing (`broker.routing.topology`), which definitions belong together
(`broker.routing.topology_transactions`), committed definitions (`broker.appliers`, `broker.startup`), methods of
clients (`broker.sessions.declares`), the effect of policies (`broker.policy_enforcer`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, trait

from warren.broker.delays import DelayedMessages
from warren.broker.links.mirrored_queue_proxy import MirroredQueueProxy
from warren.broker.links.queue_proxy import QueueProxy
from warren.broker.metadata.backend import MetadataBackend
from warren.broker.metadata.topology_definitions import ExchangeDefinition, QueueDefinition
from warren.broker.metadata.transaction import MetadataTransaction, TransactionWaiter
from warren.broker.model.archive import Archive
from warren.broker.model.local_queue import LocalQueue
from warren.broker.model.message import Entry, Message
from warren.broker.model.ports import ConsumerPort, DeadLetter, OutputPort, QueueLog, QueueLogs, QueuePort
from warren.broker.model.stream_partitions import partition_count
from warren.broker.model.turn import METHOD_WORK, Turn
from warren.broker.pending_deletes import PendingDeletes
from warren.broker.policies.policies import Policies, Policy
from warren.broker.policy_enforcer import PolicyEnforcer
from warren.broker.queue_factory import QueueFactory
from warren.broker.queues.queue import Queue, QueueOwner
from warren.broker.routing.bindings import Bindings
from warren.broker.routing.exchange_types import matcher_for
from warren.broker.routing.exchanges import Binding, Exchange
from warren.broker.routing.topology import TopologyRemoval
from warren.broker.routing.topology_transactions import (
    REMOVED_AT_ONCE,
    add_binding_definition,
    add_binding_removal,
    add_exchange_definition,
    add_exchange_removal,
    add_queue_definition,
    add_queue_removal,
    add_removal_of_bindings,
    binding_definition_of,
    with_partitions,
)
from warren.broker.sessions.connection import Connection
from warren.broker.sessions.consumers import ChannelConsumer
from warren.broker.sessions.ports import VhostPort
from warren.broker.streams.archive_index import ArchiveIndex
from warren.broker.streams.files import StreamFiles
from warren.broker.streams.partitioned_stream import PartitionedStream
from warren.broker.streams.stream import Stream

QUEUES_AT_ONCE: Final = 1_000
"""Work on more queues than this takes several turns."""


def move_consumers(queue: LocalQueue, proxy: MirroredQueueProxy) -> None:
    """Before the local queue closes, because the master is on another node."""
    places = {consumer: queue.begins_at(consumer) for consumer, _served in queue.consumers()}
    for consumer in queue.remove_all_consumers():
        if isinstance(consumer, ChannelConsumer):
            proxy.take_over(consumer, places.get(consumer, -1))
        else:
            consumer.cancelled()


class DeadLetterer:
    """Publishes dead letters."""

    @abstractmethod
    def send_dead_letters_of(self, queue: QueuePort, vhost: "Vhost") -> None:
        """Publish all dead letters of this queue that wait."""


@trait
class QueueLocations:
    """Where the queues of a cluster are."""

    @abstractmethod
    def proxy_for(self, definition: QueueDefinition, queue_id: int) -> QueuePort | None:
        """The proxy for a queue of another node, or for a mirrored queue; None for an unmirrored queue of this node."""

    @abstractmethod
    def changed(self, queue: QueuePort, definition: QueueDefinition) -> None:
        """The home node or the replica set of a queue changed."""

    @abstractmethod
    def forget(self, queue: QueuePort) -> None:
        """The queue of a proxy is deleted."""

    @abstractmethod
    def policies_changed(self, vhost: str) -> None:
        """The effective policies of queues in that virtual host may have changed."""


@final
class Vhost(VhostPort):
    """A virtual host of this node."""

    def __init__(
        self,
        name: str,
        turn: Turn,
        backend: MetadataBackend,
        logs: QueueLogs | None = None,
        policies: Policies | None = None,
        owners: dict[int, Connection] | None = None,
        streams: StreamFiles | None = None,
    ) -> None:
        """Without `logs`, queues are kept in memory only. `owners` has all connections."""
        super().__init__(name)
        self._turn: Turn = turn
        self._backend: MetadataBackend = backend
        self._exclusive: dict[int, dict[str, LocalQueue]] = {}
        self._queues: dict[str, LocalQueue] = {}
        self._pending_deletes: PendingDeletes = PendingDeletes(self.topology, backend, turn)
        self.bindings: Bindings = Bindings(self.topology)
        self._cycles: dict[str, None] = {}
        self.delays: DelayedMessages = DelayedMessages(self.topology, turn, logs)
        self.dead_letterer: DeadLetterer | None = None
        # None for a node without a cluster
        self.queue_locations: QueueLocations | None = None
        self._owners: dict[int, Connection] | None = owners
        self._enforcer: PolicyEnforcer = PolicyEnforcer(
            name, self.topology, Policies() if policies is None else policies
        )
        files = StreamFiles(turn, False, None) if streams is None else streams
        self._factory: QueueFactory = QueueFactory(turn, self._enforcer, QueueExpiry(self), logs, files)

    # -- changes, as transactions

    def applies_immediately(self) -> bool:
        return self._backend.is_immediate()

    def declare_queues(self, queues: list[QueueDefinition], waiter: TransactionWaiter | None = None) -> bool:
        transaction = MetadataTransaction()
        for wanted in queues:
            for queue in with_partitions(wanted, self.topology.queues):
                if self._pending_deletes.await_end(queue.name, waiter):
                    return False
                add_queue_definition(transaction, queue)
        return self._backend.submit(transaction, waiter)

    def delete_queue(self, queue: QueuePort, waiter: TransactionWaiter | None = None) -> bool:
        self._send_dead_letters(queue)
        transaction = MetadataTransaction()
        add_queue_removal(transaction, self.topology, queue)
        return self._backend.submit(transaction, waiter)

    def delete_checked_queue(self, queue: QueuePort, waiter: TransactionWaiter) -> bool:
        self._send_dead_letters(queue)
        return self._pending_deletes.delete_checked(queue, waiter)

    def delete_mirrored_queue(self, name: str, waiter: TransactionWaiter) -> None:
        """Delete a mirrored queue after its master checked that it is empty or unused."""
        proxy = self.topology.queues.get(name)
        if proxy is None:
            waiter.outdated()
        elif self.delete_queue(proxy, waiter):
            waiter.committed()

    def declare_exchange(self, exchange: ExchangeDefinition, waiter: TransactionWaiter | None = None) -> bool:
        matcher_for(exchange.type, exchange.arguments)
        transaction = MetadataTransaction()
        add_exchange_definition(transaction, exchange)
        return self._backend.submit(transaction, waiter)

    def unbind_some(self, destination: QueuePort | Exchange) -> bool:
        """Messages that are published meanwhile may still reach some of its queues, as in RabbitMQ."""
        bindings = self.topology.bindings_of(destination)
        if isinstance(destination, Exchange):
            bindings += self.topology.bindings_from(destination)
        if len(bindings) <= REMOVED_AT_ONCE or not self._backend.is_immediate():
            return False
        transaction = MetadataTransaction()
        add_removal_of_bindings(transaction, self.topology, bindings[:REMOVED_AT_ONCE])
        return self._backend.submit(transaction, None)

    def delete_exchange(self, exchange: Exchange, waiter: TransactionWaiter | None = None) -> bool:
        transaction = MetadataTransaction()
        add_exchange_removal(transaction, self.topology, exchange)
        return self._backend.submit(transaction, waiter)

    def bind(self, binding: Binding, waiter: TransactionWaiter | None = None) -> bool:
        binding.source.matcher.check(binding.routing_key, binding.arguments)
        if binding in binding.source.outgoing:
            return True
        transaction = MetadataTransaction()
        add_binding_definition(transaction, binding_definition_of(self.name, binding))
        return self._backend.submit(transaction, waiter)

    def unbind(self, binding: Binding, waiter: TransactionWaiter | None = None) -> bool:
        bound = binding.source.outgoing.get(binding)
        if bound is None:
            return True
        transaction = MetadataTransaction()
        add_binding_removal(transaction, self.topology, bound)
        return self._backend.submit(transaction, waiter)

    def delete_queues_of(self, connection_id: int) -> None:
        self.delete_orphans(list(self._exclusive.pop(connection_id, {}).values()))

    def delete_orphans(self, queues: list[LocalQueue]) -> None:
        """Delete the exclusive queues of a connection that ended; of very many, the rest in the next turns."""
        for queue in queues[:QUEUES_AT_ONCE]:
            self.delete_unused(queue)
        if len(queues) > QUEUES_AT_ONCE:
            self._turn.inputs.append(OrphanRemoval(self, queues[QUEUES_AT_ONCE:]))

    def delete_unused(self, queue: QueuePort, expired: bool = False) -> None:
        """Delete a queue that is unused or expired. Clients find it gone before the transaction commits."""
        if queue.deleted:
            return
        self._turn.work += METHOD_WORK
        self._send_dead_letters(queue)
        proxy = self.topology.queues.get(queue.name)
        if isinstance(proxy, MirroredQueueProxy):
            self._pending_deletes.delete_unused_mirrored(self._queues[queue.name], proxy, expired)
        else:
            self._pending_deletes.delete_unused(self._queues[queue.name], refuses=expired)

    def _send_dead_letters(self, queue: QueuePort) -> None:
        """Called before the delete of the queue is recorded."""
        if self.dead_letterer is not None and queue.durable:
            self.dead_letterer.send_dead_letters_of(queue, self)

    # -- committed definitions

    def make_queue(self, definition: QueueDefinition, queue_id: int) -> LocalQueue | None:
        """The queue, if it is on this node and not mirrored."""
        if partition_count(definition.arguments):
            logical = PartitionedStream(
                self.name, definition.name, definition.arguments, self.topology.queues, self._turn
            )
            logical.queue_id = queue_id
            self.topology.add_queue(logical)
            return None
        if self.queue_locations is not None:
            proxy = self.queue_locations.proxy_for(definition, queue_id)
            if proxy is not None:
                self.topology.add_queue(proxy)
                return None
        queue = self._factory.make(definition, queue_id)
        self._queues[queue.name] = queue
        self.topology.add_queue(queue)
        if definition.owner:
            self._exclusive.setdefault(definition.owner, {})[queue.name] = queue
            if self._has_ended(definition.owner):
                self.delete_queues_of(definition.owner)
        return queue

    def _has_ended(self, owner_id: int) -> bool:
        """Whether the owner of an exclusive queue ended before the queue was made."""
        if self._owners is None:
            return False
        owner = self._owners.get(owner_id)
        return owner is None or owner.vhost is None

    def make_master_queue(self, definition: QueueDefinition, queue_id: int, log: QueueLog) -> Queue:
        """The local queue of a mirrored queue's master on this node. The proxy exists already."""
        queue = self._factory.make_queue(definition, queue_id, log)
        self._queues[queue.name] = queue
        return queue

    def make_master_stream(
        self, definition: QueueDefinition, queue_id: int, log: QueueLog, archive: Archive, catalog: ArchiveIndex
    ) -> Stream:
        """The same for a stream."""
        stream = self._factory.make_stream_of(definition, queue_id, log, archive, catalog)
        self._queues[stream.name] = stream
        return stream

    def remove_master_queue(self, name: str) -> None:
        """This node is no longer the master."""
        queue = self._queues.pop(name, None)
        if queue is None:
            return
        proxy = self.topology.queues.get(name)
        if isinstance(proxy, MirroredQueueProxy):
            move_consumers(queue, proxy)
        queue.close()

    def own_queues(self) -> list[LocalQueue]:
        """The queues on this node, those behind a proxy included."""
        return list(self._queues.values())

    def own_queue(self, name: str) -> LocalQueue | None:
        """The queue of that name on this node, also if it is behind a proxy."""
        return self._queues.get(name)

    def unacked_entries(self, queue: QueuePort) -> list[Entry]:
        """The entries that clients of this node have unacked."""
        found: list[Entry] = []
        for connection in (self._owners or {}).values():
            for channel in connection.channels.values():
                found += [
                    entry for entry, consumer in channel.unacked_deliveries.outstanding() if consumer.queue is queue
                ]
                if channel.transaction is not None:
                    acked = channel.transaction.taken_out()
                    found += [delivery.entry for delivery in acked if delivery.consumer.queue is queue]
        return found

    def remove_queue(self, name: str) -> None:
        queue = self._queues.get(name)
        if queue is not None and self.topology.queues.get(name) is queue:
            self._remove_unmirrored(queue)
        else:
            self._remove_remote(name)
        # a queue that was closed before it became mirrored is still here
        self._queues.pop(name, None)
        self._pending_deletes.removed(name)

    def _remove_unmirrored(self, queue: LocalQueue) -> None:
        self._turn.stats.queues_deleted += 1
        self._send_dead_letters(queue)
        self._exclusive.get(queue.owner_id, {}).pop(queue.name, None)
        self.topology.remove_queue(queue)
        queue.close()
        if queue.held_publishes is not None:
            queue.held_publishes.gone()

    def _remove_remote(self, name: str) -> None:
        proxy = self.topology.queues.get(name)
        if isinstance(proxy, PartitionedStream):
            self.topology.remove_queue(proxy)
            proxy.close()
        elif proxy is not None and self.queue_locations is not None:
            self.topology.remove_queue(proxy)
            self.queue_locations.forget(proxy)

    def make_exchange(self, definition: ExchangeDefinition, exchange_id: int) -> Exchange:
        """Add an exchange; a fault if its type does not exist."""
        exchange = self.topology.declare_exchange(
            definition.name,
            definition.type,
            definition.durable,
            definition.auto_delete,
            definition.internal,
            definition.arguments,
        )
        exchange.exchange_id = exchange_id if definition.durable and exchange_id > 0 else 0
        self._enforcer.apply_to_exchange(exchange)
        self.delays.begin(exchange)
        return exchange

    def remove_exchange(self, name: str) -> None:
        exchange = self.topology.exchanges.get(name)
        if exchange is not None:
            self.topology.remove_exchange(exchange)
            if exchange.delays:
                self.delays.forget_deleted()

    def dismantle(self) -> None:
        """Remove everything, before the virtual host itself is removed."""
        removal = TopologyRemoval(self.topology)
        removal.remove_all()
        for thing in removal.gone:
            if isinstance(thing, Binding):
                self.topology.unbind(thing)
            elif isinstance(thing, Exchange):
                self.remove_exchange(thing.name)
            else:
                self.remove_queue(thing.name)

    # -- settings

    def policy_changed(self, name: str, policy: Policy | None, operator: bool) -> None:
        """A policy of this virtual host was set or, if `policy` is None, cleared."""
        self._enforcer.policy_changed(name, policy, operator)
        PolicyChange(self._enforcer, self._turn, list(self._queues.values()), name, policy, operator).go_on()
        if self.queue_locations is not None:
            self.queue_locations.policies_changed(self.name)

    def set_tracing(self, on: bool) -> None:
        """Switch the copies of all messages to the trace exchange on or off."""
        if on == self.tracing:
            return
        self.tracing = on
        # publishers check tracing when they route again
        self.topology.version += 1
        for queue in self.topology.queues.values():
            for consumer in _consumers_of(queue):
                if isinstance(consumer, ChannelConsumer):
                    consumer.trace(on)

    def delay(self, exchange: Exchange, message: Message) -> i64:
        return self.delays.hold(exchange, message)

    def now_ms(self) -> int:
        return int(self._turn.now_ms)

    def note_cycle(self, queue: QueuePort, letter: DeadLetter) -> None:
        """Log that a dead letter was dropped because it would cycle forever; once for each queue."""
        if letter.queue.name not in self._cycles:
            self._cycles[letter.queue.name] = None
            facts: dict[str, object] = {"vhost": self.name, "from": letter.queue.name, "to": queue.name}
            self._turn.note("warning", "dead_letter.cycle_dropped", facts)

    def check(self) -> None:
        for queue in self._queues.values():
            queue.check()
        for proxy in self.topology.queues.values():
            if isinstance(proxy, MirroredQueueProxy):
                proxy.check()
        if not any(isinstance(held, PolicyChange) for held in self._turn.inputs):
            self._enforcer.check(list(self._queues.values()))
        self.delays.check()


def _consumers_of(queue: QueuePort) -> list[ConsumerPort]:
    """The consumers of this node."""
    if isinstance(queue, QueueProxy):
        return queue.consumers()
    return [consumer for consumer, _active in queue.consumers()] if isinstance(queue, LocalQueue) else []


@final
class OrphanRemoval(OutputPort):
    """Exclusive queues of a connection that ended, to be deleted in the next turn."""

    def __init__(self, vhost: Vhost, queues: list[LocalQueue]) -> None:
        self._vhost: Vhost = vhost
        self._queues: list[LocalQueue] = queues

    def flush(self) -> None:
        return

    def go_on(self) -> None:
        self._vhost.delete_orphans(self._queues)


@final
class PolicyChange(OutputPort):
    """A changed policy that is applied to many queues, some in each turn. Each gets the policies that hold then, so it
    does not matter what else changed meanwhile."""

    def __init__(
        self,
        enforcer: PolicyEnforcer,
        turn: Turn,
        queues: list[LocalQueue],
        name: str,
        policy: Policy | None,
        operator: bool,
    ) -> None:
        self._enforcer: PolicyEnforcer = enforcer
        self._turn: Turn = turn
        self._queues: list[LocalQueue] = queues
        self._name: str = name
        self._policy: Policy | None = policy
        self._operator: bool = operator

    def flush(self) -> None:
        return

    def go_on(self) -> None:
        some, self._queues = self._queues[:QUEUES_AT_ONCE], self._queues[QUEUES_AT_ONCE:]
        self._enforcer.apply_to_queues(some, self._name, self._policy, self._operator)
        self._turn.work += len(some)
        if self._queues:
            self._turn.inputs.append(self)


@final
class QueueExpiry(QueueOwner):
    """Deletes queues that expired."""

    def __init__(self, vhost: Vhost) -> None:
        self._vhost: Vhost = vhost

    def queue_expired(self, queue: QueuePort) -> None:
        self._vhost.delete_unused(queue, expired=True)

    def queue_unused(self, queue: QueuePort) -> None:
        self._vhost.delete_unused(queue)
