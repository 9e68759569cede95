"""One virtual host: its topology, the life of its queues, and the messages its exchanges delay.

Not here: routing (`routing.topology`), what clients may ask (`session.declaring`), what policies do to whom
(`broker.policy.governor`), what outlives the node (`broker.recorder`, `broker.definitions`).
"""

from abc import ABC, abstractmethod
from typing import final

from mypy_extensions import i64

from warren.broker.delays import Delays
from warren.broker.policy.governor import Governor, tell
from warren.broker.recorder import Recorder
from warren.model.message import Message
from warren.model.ports import DeadLetter, QueueLog, QueueLogs, QueuePort
from warren.model.turn import Turn
from warren.policy.policies import Policies
from warren.policy.policy import Policy
from warren.queue.keeper import QueueKeeper
from warren.queue.queue import Queue
from warren.routing.exchange import Exchange
from warren.routing.topology import PREDECLARED
from warren.session.consumer import ChannelConsumer
from warren.session.ports import VhostPort
from warren.store.metadata import Metadata
from warren.store.topology_definitions import ExchangeDefinition, QueueDefinition
from warren.wire.values import Table


class Undertaker(ABC):
    """Carries dead letters out."""

    @abstractmethod
    def carry_out_of(self, queue: QueuePort, vhost: "Vhost") -> None:
        """Send on everything that died in this queue and waits."""


@final
class Vhost(VhostPort):
    """Makes and unmakes queues and exchanges."""

    def __init__(
        self,
        name: str,
        turn: Turn,
        metadata: Metadata | None = None,
        logs: QueueLogs | None = None,
        policies: Policies | None = None,
    ) -> None:
        """Without metadata nothing outlives the node; without logs its queues are in memory alone."""
        super().__init__(name)
        self._turn: Turn = turn
        self._recorder: Recorder | None = None if metadata is None else Recorder(name, metadata)
        self._logs: QueueLogs | None = logs
        self._keeper: Keeper = Keeper(self)
        self._exclusive: dict[int, dict[str, Queue]] = {}
        self._queues: dict[str, Queue] = {}
        self._cycles: dict[str, None] = {}
        self.delays: Delays = Delays(self.topology, turn, logs)
        self.topology.listener = self._recorder
        self.undertaker: Undertaker | None = None
        self._governor: Governor = Governor(name, self.topology, Policies() if policies is None else policies)

    def declare_queue(
        self, name: str, durable: bool, exclusive: bool, auto_delete: bool, arguments: Table, owner_id: int
    ) -> QueuePort:
        queue_id = 0
        if self._recorder is not None:
            queue_id = self._recorder.queue_declared(name, durable, auto_delete, arguments)
        queue = self._make_queue(queue_id, name, durable, exclusive, auto_delete, arguments, owner_id)
        if owner_id:
            self._exclusive.setdefault(owner_id, {})[name] = queue
        self._turn.figures.queues_created += 1
        return queue

    def load_queue(self, queue_id: int, definition: QueueDefinition) -> Queue:
        """Make a queue that was there before the node started."""
        return self._make_queue(queue_id, definition.name, True, False, definition.auto_delete, definition.arguments, 0)

    def _make_queue(
        self,
        queue_id: int,
        name: str,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        arguments: Table,
        owner_id: int,
    ) -> Queue:
        in_force = self._governor.in_force_for(name)
        settings = self._governor.settings_for(arguments, in_force)
        log: QueueLog | None = None
        if self._logs is not None:
            log = self._logs.open(queue_id, durable, int(settings.max_priority))
        queue = Queue(
            self.name,
            name,
            durable,
            exclusive,
            auto_delete,
            arguments,
            owner_id,
            settings,
            self._turn,
            self._keeper,
            log,
        )
        tell(queue, in_force)
        self._queues[name] = queue
        self.topology.add_queue(queue)
        return queue

    def delete_queue(self, queue: QueuePort) -> None:
        mine = self._queues.pop(queue.name)
        self._turn.figures.queues_deleted += 1
        if self.undertaker is not None and mine.durable:
            self.undertaker.carry_out_of(mine, self)
        if mine.owner_id:
            self._exclusive[mine.owner_id].pop(mine.name, None)
        self.topology.remove_queue(mine)
        self.delays.forget_deleted()
        mine.close()

    def delete_queues_of(self, connection_id: int) -> None:
        """A connection ended: its exclusive queues go with it."""
        for queue in list(self._exclusive.get(connection_id, {}).values()):
            self.delete_queue(queue)
        self._exclusive.pop(connection_id, None)

    def declare_exchange(
        self, name: str, kind: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> Exchange:
        exchange = self.topology.declare_exchange(name, kind, durable, auto_delete, internal, arguments)
        if self._recorder is not None:
            self._recorder.exchange_declared(exchange)
        self._governor.govern_exchange(exchange)
        self.delays.begin(exchange)
        return exchange

    def load_exchange(self, exchange_id: int, definition: ExchangeDefinition) -> Exchange:
        """Make an exchange that was there before the node started; a fault if there is none of its type."""
        exchange = self.topology.declare_exchange(
            definition.name,
            definition.type,
            True,
            definition.auto_delete,
            definition.internal,
            definition.arguments,
        )
        exchange.exchange_id = exchange_id
        self._governor.govern_exchange(exchange)
        self.delays.begin(exchange)
        return exchange

    def delete_exchange(self, exchange: Exchange) -> None:
        self.topology.delete_exchange(exchange)
        self.delays.forget_deleted()

    def dismantle(self) -> None:
        """Delete everything in it, on disk, too."""
        for queue in list(self._queues.values()):
            self.delete_queue(queue)
        topology = self.topology
        every_vhosts = [name for name, _type, _internal in PREDECLARED]
        for exchange in list(topology.exchanges.values()):
            if exchange.name in every_vhosts:
                for binding in topology.bindings_from(exchange):
                    topology.unbind(exchange, binding.destination, binding.routing_key, binding.arguments)
            elif not exchange.deleted:
                topology.delete_exchange(exchange)
        self.delays.forget_deleted()

    def unbind(self, source: Exchange, destination: QueuePort | Exchange, routing_key: str, arguments: Table) -> None:
        self.topology.unbind(source, destination, routing_key, arguments)
        self.delays.forget_deleted()

    def policy_changed(self, name: str, policy: Policy | None, operator: bool) -> None:
        """A policy of this virtual host was set or, if there is none of that name any more, cleared."""
        self._governor.policy_changed(list(self._queues.values()), name, policy, operator)

    def set_tracing(self, on: bool) -> None:
        """Publish copies of all messages to the trace exchange from here on, or no more."""
        if on == self.tracing:
            return
        self.tracing = on
        # what publishers remember of their routes tells whether copies are made
        self.topology.version += 1
        for queue in self._queues.values():
            for consumer, _active in queue.consumers():
                if isinstance(consumer, ChannelConsumer):
                    consumer.traced = on

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


@final
class Keeper(QueueKeeper):
    """Deletes the queues that ask for it."""

    def __init__(self, vhost: Vhost) -> None:
        self._vhost: Vhost = vhost

    def queue_expired(self, queue: QueuePort) -> None:
        if not queue.deleted:
            self._vhost.delete_queue(queue)

    def queue_unused(self, queue: QueuePort) -> None:
        if not queue.deleted:
            self._vhost.delete_queue(queue)
