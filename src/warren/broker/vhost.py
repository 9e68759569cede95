"""One virtual host: its topology, the life of its queues, and the messages its exchanges delay.

What somebody wants is planned and agreed upon (`declare_queues` to `unbind`); what was agreed upon is made and unmade
(`make_queue` to `unmake_exchange`, `bindings`), each thing for itself.

A queue that outlived its use is gone for everybody at once, even if it takes others a while to agree to that: till then
it is a *departing* queue, closed and waiting to be unmade, and whoever declares one of its name waits for that.

Not here: routing (`routing.topology`), what goes with what (`broker.topology_plans`), who calls upon it to make what
(`broker.topology_applier`, `broker.definitions`), what clients may ask (`session.declaring`), what policies do to whom
(`broker.policy.governor`).
"""

from typing import final

from mypy_extensions import i64

from warren.broker.agreement import Agreement
from warren.broker.bindings import Bindings
from warren.broker.delays import Delays
from warren.broker.departures import Departures
from warren.broker.moves.moving_consumers import move_consumers
from warren.broker.policy.governor import Governor
from warren.broker.queue_making import QueueMaking
from warren.broker.stream_files import StreamFiles
from warren.broker.topology_plans import (
    definition_of,
    plan_binding,
    plan_exchange,
    plan_exchange_removal,
    plan_queue,
    plan_queue_removal,
    plan_unbinding,
    with_partitions,
)
from warren.broker.vhost_ports import Undertaker, Whereabouts
from warren.model.archive import Archive
from warren.model.message import Entry, Message
from warren.model.own_queue import OwnQueue
from warren.model.partitions import partition_count
from warren.model.ports import Consumer, DeadLetter, QueueLog, QueueLogs, QueuePort
from warren.model.turn import Turn
from warren.policy.policies import Policies
from warren.policy.policy import Policy
from warren.queue.keeper import QueueKeeper
from warren.queue.queue import Queue
from warren.remote.seat import Seat
from warren.remote.stand_in import StandIn
from warren.routing.exchange import Binding, Exchange
from warren.routing.removal import Removal
from warren.routing.types import matcher_for
from warren.session.connection import Connection
from warren.session.consumer import ChannelConsumer
from warren.session.ports import VhostPort
from warren.store.plan import AgreementWaiter, Plan
from warren.store.topology_definitions import ExchangeDefinition, QueueDefinition
from warren.stream.catalog import Catalog
from warren.stream.partitioning.partitioned import PartitionedStream
from warren.stream.stream import Stream
from warren.wire.values import Table


@final
class Vhost(VhostPort):
    """Plans, makes and unmakes queues, exchanges and bindings."""

    def __init__(
        self,
        name: str,
        turn: Turn,
        agreement: Agreement,
        logs: QueueLogs | None = None,
        policies: Policies | None = None,
        owners: dict[int, Connection] | None = None,
        streams: StreamFiles | None = None,
    ) -> None:
        """Without logs its queues are in memory alone. `owners` is everybody who is connected."""
        super().__init__(name)
        self._turn: Turn = turn
        self._agreement: Agreement = agreement
        self._exclusive: dict[int, dict[str, OwnQueue]] = {}
        self._queues: dict[str, OwnQueue] = {}
        self._departures: Departures = Departures(self.topology, agreement, turn)
        self.bindings: Bindings = Bindings(self.topology)
        self._cycles: dict[str, None] = {}
        self.delays: Delays = Delays(self.topology, turn, logs)
        self.undertaker: Undertaker | None = None
        # of a node in a cluster
        self.whereabouts: Whereabouts | None = None
        self._owners: dict[int, Connection] | None = owners
        self._governor: Governor = Governor(name, self.topology, Policies() if policies is None else policies)
        files = StreamFiles(turn, False, None) if streams is None else streams
        self._making: QueueMaking = QueueMaking(turn, self._governor, Keeper(self), logs, files)

    # -- what somebody wants

    def agrees_at_once(self) -> bool:
        return self._agreement.at_once()

    def declare_queues(self, queues: list[QueueDefinition], waiter: AgreementWaiter | None = None) -> bool:
        plan = Plan()
        for wanted in queues:
            for queue in with_partitions(wanted, self.topology.queues):
                if self._departures.await_end(queue.name, waiter):
                    return False
                plan_queue(plan, queue)
        return self._agreement.agree(plan, waiter)

    def delete_queue(self, queue: QueuePort, waiter: AgreementWaiter | None = None) -> bool:
        self._send_on_dead_letters(queue)
        plan = Plan()
        plan_queue_removal(plan, self.topology, queue)
        return self._agreement.agree(plan, waiter)

    def delete_checked_queue(self, queue: QueuePort, waiter: AgreementWaiter) -> bool:
        self._send_on_dead_letters(queue)
        return self._departures.remove_checked(queue, waiter)

    def delete_mirrored_queue(self, name: str, waiter: AgreementWaiter) -> None:
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
        waiter: AgreementWaiter | None = None,
    ) -> bool:
        matcher_for(kind, arguments)
        plan = Plan()
        plan_exchange(plan, ExchangeDefinition(self.name, name, kind, durable, auto_delete, internal, arguments))
        return self._agreement.agree(plan, waiter)

    def delete_exchange(self, exchange: Exchange, waiter: AgreementWaiter | None = None) -> bool:
        plan = Plan()
        plan_exchange_removal(plan, self.topology, exchange)
        return self._agreement.agree(plan, waiter)

    def bind(
        self,
        source: Exchange,
        destination: QueuePort | Exchange,
        routing_key: str,
        arguments: Table,
        waiter: AgreementWaiter | None = None,
    ) -> bool:
        source.matcher.check(routing_key, arguments)
        binding = Binding(source, destination, routing_key, arguments)
        if binding in source.outgoing:
            return True
        plan = Plan()
        plan_binding(plan, definition_of(self.name, binding))
        return self._agreement.agree(plan, waiter)

    def unbind(
        self,
        source: Exchange,
        destination: QueuePort | Exchange,
        routing_key: str,
        arguments: Table,
        waiter: AgreementWaiter | None = None,
    ) -> bool:
        binding = self.topology.binding(source, destination, routing_key, arguments)
        if binding is None:
            return True
        plan = Plan()
        plan_unbinding(plan, self.topology, binding)
        return self._agreement.agree(plan, waiter)

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
        if isinstance(stand_in, Seat):
            self._departures.let_go_mirrored(self._queues[queue.name], stand_in)
        else:
            self._departures.let_go(self._queues[queue.name], refuses)

    def _send_on_dead_letters(self, queue: QueuePort) -> None:
        """Before it is recorded that the queue is gone."""
        if self.undertaker is not None and queue.durable:
            self.undertaker.carry_out_of(queue, self)

    # -- what was agreed upon

    def make_queue(self, definition: QueueDefinition, queue_id: int) -> OwnQueue | None:
        """The queue, if it lives here."""
        if partition_count(definition.arguments):
            logical = PartitionedStream(
                self.name, definition.name, definition.arguments, self.topology.queues, self._turn
            )
            logical.queue_id = queue_id
            self.topology.add_queue(logical)
            return None
        if self.whereabouts is not None:
            elsewhere = self.whereabouts.elsewhere(definition, queue_id)
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
        self, definition: QueueDefinition, queue_id: int, log: QueueLog, archive: Archive, catalog: Catalog
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
        seat = self.topology.queues.get(name)
        if isinstance(seat, Seat):
            move_consumers(queue, seat)
        queue.close()

    def own_queues(self) -> list[OwnQueue]:
        """Those that are on this node, whatever stands in for them."""
        return list(self._queues.values())

    def own_queue(self, name: str) -> OwnQueue | None:
        """The queue of that name that is on this node, whatever stands in for it."""
        return self._queues.get(name)

    def lent_out(self, queue: QueuePort) -> list[Entry]:
        """What clients of this node have of it."""
        found: list[Entry] = []
        for connection in (self._owners or {}).values():
            for channel in connection.channels.values():
                found += [entry for entry, taker in channel.ledger.outstanding() if taker.queue is queue]
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
        self._turn.figures.queues_deleted += 1
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
        elif distant is not None and self.whereabouts is not None:
            self.topology.remove_queue(distant)
            self.whereabouts.forget(distant)

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
        self._governor.govern_exchange(exchange)
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
        removal = Removal(self.topology)
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
        self._governor.policy_changed(list(self._queues.values()), name, policy, operator)
        if self.whereabouts is not None:
            self.whereabouts.policies_changed(self.name)

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
        self._governor.check(list(self._queues.values()))


def _consumers_of(queue: QueuePort) -> list[Consumer]:
    """Those that this node knows."""
    if isinstance(queue, StandIn):
        return queue.consumers()
    return [consumer for consumer, _active in queue.consumers()] if isinstance(queue, OwnQueue) else []


@final
class Keeper(QueueKeeper):
    """Deletes the queues that ask for it."""

    def __init__(self, vhost: Vhost) -> None:
        self._vhost: Vhost = vhost

    def queue_expired(self, queue: QueuePort) -> None:
        self._vhost.let_go(queue, refuses=True)

    def queue_unused(self, queue: QueuePort) -> None:
        self._vhost.let_go(queue)
