"""Consumers that a queue had before it was mirrored go on with its seat when the master is another node.

Not here: those that came later (`broker.links.mirrored_queue_proxy`).

One virtual host: its topology, the life of its queues, and the messages its exchanges delay.

What somebody wants is planned and agreed upon (`declare_queues` to `unbind`); what was agreed upon is made and unmade
(`make_queue` to `unmake_exchange`, `bindings`), each thing for itself.

A queue that outlived its use is gone for everybody at once, even if it takes others a while to agree to that: till then
it is a *departing* queue, closed and waiting to be unmade, and whoever declares one of its name waits for that.

Not here: routing (`broker.routing.topology`), what goes with what (`broker.routing.topology_transactions`), who calls
upon it to make what (`broker.appliers`, `broker.startup`), what clients may ask (`broker.sessions.declares`), what
policies do to whom (`broker.policy_enforcer`).

What a virtual host asks of the node it is on: where queues live, and who carries dead letters out.

Not here: the virtual host (`broker.vhost`), dead letters (`broker.dead_letters`), clusters (`broker.cluster.cluster`).
"""

from abc import abstractmethod
from typing import final

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
from warren.broker.model.ports import ConsumerPort, DeadLetter, QueueLog, QueueLogs, QueuePort
from warren.broker.model.stream_partitions import partition_count
from warren.broker.model.turn import Turn
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
    binding_definition_of,
    plan_binding,
    plan_exchange,
    plan_exchange_removal,
    plan_queue,
    plan_queue_removal,
    plan_unbinding,
    with_partitions,
)
from warren.broker.sessions.connection import Connection
from warren.broker.sessions.consumers import ChannelConsumer
from warren.broker.sessions.ports import VhostPort
from warren.broker.streams.archive_index import ArchiveIndex
from warren.broker.streams.files import StreamFiles
from warren.broker.streams.partitioned import PartitionedStream
from warren.broker.streams.stream import Stream
from warren.wire.field_tables import Table


def move_consumers(queue: LocalQueue, proxy: MirroredQueueProxy) -> None:
    """The queue of this node's is about to close, and lives elsewhere."""
    places = {consumer: queue.begins_at(consumer) for consumer, _served in queue.consumers()}
    for consumer in queue.dismiss():
        if isinstance(consumer, ChannelConsumer):
            proxy.take_over(consumer, places.get(consumer, -1))
        else:
            consumer.cancelled()


class DeadLetterer:
    """Carries dead letters out."""

    @abstractmethod
    def send_dead_letters_of(self, queue: QueuePort, vhost: "Vhost") -> None:
        """Send on everything that died in this queue and waits."""


@trait
class QueueLocations:
    """Where the queues of a cluster live."""

    @abstractmethod
    def elsewhere(self, definition: QueueDefinition, queue_id: int) -> QueuePort | None:
        """What stands in for a queue of another node, or of several; nothing for one that lives here alone."""

    @abstractmethod
    def changed(self, queue: QueuePort, definition: QueueDefinition) -> None:
        """A queue lives on another node from now on, or is held by others."""

    @abstractmethod
    def forget(self, queue: QueuePort) -> None:
        """A queue that something stands in for is gone."""

    @abstractmethod
    def policies_changed(self, vhost: str) -> None:
        """Other policies may count for the queues of that virtual host."""


@final
class Vhost(VhostPort):
    """Plans, makes and unmakes queues, exchanges and bindings."""

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
        """Without logs its queues are in memory alone. `owners` is everybody who is connected."""
        super().__init__(name)
        self._turn: Turn = turn
        self._backend: MetadataBackend = backend
        self._exclusive: dict[int, dict[str, LocalQueue]] = {}
        self._queues: dict[str, LocalQueue] = {}
        self._departures: PendingDeletes = PendingDeletes(self.topology, backend, turn)
        self.bindings: Bindings = Bindings(self.topology)
        self._cycles: dict[str, None] = {}
        self.delays: DelayedMessages = DelayedMessages(self.topology, turn, logs)
        self.dead_letterer: DeadLetterer | None = None
        # of a node in a cluster
        self.queue_locations: QueueLocations | None = None
        self._owners: dict[int, Connection] | None = owners
        self._enforcer: PolicyEnforcer = PolicyEnforcer(
            name, self.topology, Policies() if policies is None else policies
        )
        files = StreamFiles(turn, False, None) if streams is None else streams
        self._making: QueueFactory = QueueFactory(turn, self._enforcer, QueueExpiry(self), logs, files)

    # -- what somebody wants

    def agrees_at_once(self) -> bool:
        return self._backend.is_immediate()

    def declare_queues(self, queues: list[QueueDefinition], waiter: TransactionWaiter | None = None) -> bool:
        plan = MetadataTransaction()
        for wanted in queues:
            for queue in with_partitions(wanted, self.topology.queues):
                if self._departures.await_end(queue.name, waiter):
                    return False
                plan_queue(plan, queue)
        return self._backend.submit(plan, waiter)

    def delete_queue(self, queue: QueuePort, waiter: TransactionWaiter | None = None) -> bool:
        self._send_on_dead_letters(queue)
        plan = MetadataTransaction()
        plan_queue_removal(plan, self.topology, queue)
        return self._backend.submit(plan, waiter)

    def delete_checked_queue(self, queue: QueuePort, waiter: TransactionWaiter) -> bool:
        self._send_on_dead_letters(queue)
        return self._departures.remove_checked(queue, waiter)

    def delete_mirrored_queue(self, name: str, waiter: TransactionWaiter) -> None:
        """It was found to be as whoever deletes it wants it to be."""
        stand_in = self.topology.queues.get(name)
        if stand_in is None:
            waiter.outdated()
        elif self.delete_queue(stand_in, waiter):
            waiter.agreed()

    def declare_exchange(
        self,
        name: str,
        kind: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Table,
        waiter: TransactionWaiter | None = None,
    ) -> bool:
        matcher_for(kind, arguments)
        plan = MetadataTransaction()
        plan_exchange(plan, ExchangeDefinition(self.name, name, kind, durable, auto_delete, internal, arguments))
        return self._backend.submit(plan, waiter)

    def delete_exchange(self, exchange: Exchange, waiter: TransactionWaiter | None = None) -> bool:
        plan = MetadataTransaction()
        plan_exchange_removal(plan, self.topology, exchange)
        return self._backend.submit(plan, waiter)

    def bind(
        self,
        source: Exchange,
        destination: QueuePort | Exchange,
        routing_key: str,
        arguments: Table,
        waiter: TransactionWaiter | None = None,
    ) -> bool:
        source.matcher.check(routing_key, arguments)
        binding = Binding(source, destination, routing_key, arguments)
        if binding in source.outgoing:
            return True
        plan = MetadataTransaction()
        plan_binding(plan, binding_definition_of(self.name, binding))
        return self._backend.submit(plan, waiter)

    def unbind(
        self,
        source: Exchange,
        destination: QueuePort | Exchange,
        routing_key: str,
        arguments: Table,
        waiter: TransactionWaiter | None = None,
    ) -> bool:
        binding = self.topology.binding(source, destination, routing_key, arguments)
        if binding is None:
            return True
        plan = MetadataTransaction()
        plan_unbinding(plan, self.topology, binding)
        return self._backend.submit(plan, waiter)

    def delete_queues_of(self, connection_id: int) -> None:
        for queue in list(self._exclusive.get(connection_id, {}).values()):
            self.let_go(queue)
        self._exclusive.pop(connection_id, None)

    def let_go(self, queue: QueuePort, refuses: bool = False) -> None:
        """Delete a queue that outlived its use. Whoever looks finds it gone, also while that is not agreed upon."""
        if queue.deleted:
            return
        self._send_on_dead_letters(queue)
        stand_in = self.topology.queues.get(queue.name)
        if isinstance(stand_in, MirroredQueueProxy):
            self._departures.let_go_mirrored(self._queues[queue.name], stand_in)
        else:
            self._departures.let_go(self._queues[queue.name], refuses)

    def _send_on_dead_letters(self, queue: QueuePort) -> None:
        """Before it is recorded that the queue is gone."""
        if self.dead_letterer is not None and queue.durable:
            self.dead_letterer.send_dead_letters_of(queue, self)

    # -- what was agreed upon

    def make_queue(self, definition: QueueDefinition, queue_id: int) -> LocalQueue | None:
        """The queue, if it lives here."""
        if partition_count(definition.arguments):
            logical = PartitionedStream(
                self.name, definition.name, definition.arguments, self.topology.queues, self._turn
            )
            logical.queue_id = queue_id
            self.topology.add_queue(logical)
            return None
        if self.queue_locations is not None:
            elsewhere = self.queue_locations.elsewhere(definition, queue_id)
            if elsewhere is not None:
                self.topology.add_queue(elsewhere)
                return None
        queue = self._making.make(definition, queue_id)
        self._queues[queue.name] = queue
        self.topology.add_queue(queue)
        if definition.owner:
            self._exclusive.setdefault(definition.owner, {})[queue.name] = queue
            if self._is_gone(definition.owner):
                self.delete_queues_of(definition.owner)
        return queue

    def _is_gone(self, owner_id: int) -> bool:
        """Whether a queue comes too late for its owner, who was told that nobody knows whether it ever will."""
        if self._owners is None:
            return False
        owner = self._owners.get(owner_id)
        return owner is None or owner.vhost is None

    def make_mastered_queue(self, definition: QueueDefinition, queue_id: int, log: QueueLog) -> Queue:
        """The queue of a ring whose master is here; what stands in for it, here as everywhere, is made already."""
        queue = self._making.make_queue(definition, queue_id, log)
        self._queues[queue.name] = queue
        return queue

    def make_mastered_stream(
        self, definition: QueueDefinition, queue_id: int, log: QueueLog, archive: Archive, catalog: ArchiveIndex
    ) -> Stream:
        """The same, for a stream."""
        stream = self._making.make_stream_of(definition, queue_id, log, archive, catalog)
        self._queues[stream.name] = stream
        return stream

    def unmake_mastered_queue(self, name: str) -> None:
        """The master is here no more."""
        queue = self._queues.pop(name, None)
        if queue is None:
            return
        proxy = self.topology.queues.get(name)
        if isinstance(proxy, MirroredQueueProxy):
            move_consumers(queue, proxy)
        queue.close()

    def own_queues(self) -> list[LocalQueue]:
        """Those that are on this node, whatever stands in for them."""
        return list(self._queues.values())

    def own_queue(self, name: str) -> LocalQueue | None:
        """The queue of that name that is on this node, whatever stands in for it."""
        return self._queues.get(name)

    def lent_out(self, queue: QueuePort) -> list[Entry]:
        """What clients of this node have of it."""
        found: list[Entry] = []
        for connection in (self._owners or {}).values():
            for channel in connection.channels.values():
                found += [entry for entry, taker in channel.unacked_deliveries.outstanding() if taker.queue is queue]
                if channel.transaction is not None:
                    lifted = channel.transaction.lifted()
                    found += [delivery.entry for delivery in lifted if delivery.taker.queue is queue]
        return found

    def unmake_queue(self, name: str) -> None:
        queue = self._queues.get(name)
        if queue is None or self.topology.queues.get(name) is not queue:
            self._unmake_elsewhere(name)
            return
        del self._queues[name]
        self._turn.stats.queues_deleted += 1
        self._send_on_dead_letters(queue)
        self._exclusive.get(queue.owner_id, {}).pop(name, None)
        self.topology.remove_queue(queue)
        queue.close()
        self._departures.unmade(queue)

    def _unmake_elsewhere(self, name: str) -> None:
        distant = self.topology.queues.get(name)
        if isinstance(distant, PartitionedStream):
            self.topology.remove_queue(distant)
            distant.close()
        elif distant is not None and self.queue_locations is not None:
            self.topology.remove_queue(distant)
            self.queue_locations.forget(distant)

    def make_exchange(self, definition: ExchangeDefinition, exchange_id: int) -> Exchange:
        """A fault if there is none of its type."""
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

    def unmake_exchange(self, name: str) -> None:
        exchange = self.topology.exchanges.get(name)
        if exchange is not None:
            self.topology.remove_exchange(exchange)
            if exchange.delays:
                self.delays.forget_deleted()

    def dismantle(self) -> None:
        """Unmake everything in it: the virtual host itself is about to go."""
        removal = TopologyRemoval(self.topology)
        removal.remove_all()
        for thing in removal.gone:
            if isinstance(thing, Binding):
                self.topology.unbind(thing)
            elif isinstance(thing, Exchange):
                self.unmake_exchange(thing.name)
            else:
                self.unmake_queue(thing.name)

    # -- what it is told

    def policy_changed(self, name: str, policy: Policy | None, operator: bool) -> None:
        """A policy of this virtual host was set or, if there is none of that name any more, cleared."""
        self._enforcer.policy_changed(list(self._queues.values()), name, policy, operator)
        if self.queue_locations is not None:
            self.queue_locations.policies_changed(self.name)

    def set_tracing(self, on: bool) -> None:
        """Publish copies of all messages to the trace exchange from here on, or no more."""
        if on == self.tracing:
            return
        self.tracing = on
        # what publishers remember of their routes tells whether copies are made
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
        """A dead letter was dropped because it would go round for ever; said once for each queue."""
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
        self._enforcer.check(list(self._queues.values()))


def _consumers_of(queue: QueuePort) -> list[ConsumerPort]:
    """Those that this node knows."""
    if isinstance(queue, QueueProxy):
        return queue.consumers()
    return [consumer for consumer, _active in queue.consumers()] if isinstance(queue, LocalQueue) else []


@final
class QueueExpiry(QueueOwner):
    """Deletes the queues that ask for it."""

    def __init__(self, vhost: Vhost) -> None:
        self._vhost: Vhost = vhost

    def queue_expired(self, queue: QueuePort) -> None:
        self._vhost.let_go(queue, refuses=True)

    def queue_unused(self, queue: QueuePort) -> None:
        self._vhost.let_go(queue)
