"""One virtual host: its topology, the life of its queues, and the messages its exchanges delay.

Not here: routing (`routing.topology`), what clients may ask (`session.declaring`).
"""

from typing import final

from warren.broker.delays import Delays
from warren.model.message import Message
from warren.model.ports import DeadLetter, QueuePort
from warren.model.turn import Turn
from warren.queue.keeper import QueueKeeper
from warren.queue.queue import Queue
from warren.queue.settings import settings_of
from warren.routing.exchange import Exchange
from warren.session.ports import VhostPort
from warren.wire.values import Table


@final
class Vhost(VhostPort):
    """Makes and unmakes queues and exchanges."""

    def __init__(self, name: str, turn: Turn) -> None:
        super().__init__(name)
        self._turn: Turn = turn
        self._keeper: Keeper = Keeper(self)
        self._exclusive: dict[int, dict[str, Queue]] = {}
        self._queues: dict[str, Queue] = {}
        self._cycles: dict[str, None] = {}
        self.delays: Delays = Delays(self.topology, turn)

    def declare_queue(
        self, name: str, durable: bool, exclusive: bool, auto_delete: bool, arguments: Table, owner_id: int
    ) -> QueuePort:
        queue = Queue(
            self.name,
            name,
            durable,
            exclusive,
            auto_delete,
            arguments,
            owner_id,
            settings_of(arguments),
            self._turn,
            self._keeper,
        )
        self._queues[name] = queue
        self.topology.add_queue(queue)
        if owner_id:
            self._exclusive.setdefault(owner_id, {})[name] = queue
        return queue

    def delete_queue(self, queue: QueuePort) -> None:
        mine = self._queues.pop(queue.name)
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
        return self.topology.declare_exchange(name, kind, durable, auto_delete, internal, arguments)

    def delete_exchange(self, exchange: Exchange) -> None:
        self.topology.delete_exchange(exchange)
        self.delays.forget_deleted()

    def unbind(self, source: Exchange, destination: QueuePort | Exchange, routing_key: str, arguments: Table) -> None:
        self.topology.unbind(source, destination, routing_key, arguments)
        self.delays.forget_deleted()

    def delay(self, exchange: Exchange, message: Message) -> None:
        self.delays.hold(exchange, message)

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
