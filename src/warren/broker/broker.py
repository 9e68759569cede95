"""A node: `handle(events, now_ms) -> effects` is its only door.

A turn runs in a fixed order: the events, the timers that are due, then rounds of dead letters and drains until both
lists are empty, then every connection's confirms and output. Confirms, deliveries and writes are batched by the turn
and by nothing else.

Invariants: an effect is returned by the turn that caused it; what is left on the turn's lists when `handle` returns
(drains and input of connections whose output budget is spent, dead letters beyond a turn's slice) has a timer set at
once.

Not here: sockets, clocks and threads (`node`), one client's conversation (`session`), one queue (`queue`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.access import Access
from warren.broker.dead_letters import DeadLetters
from warren.broker.memory_alarm import MemoryAlarm
from warren.broker.names import FreshNames
from warren.broker.timeouts import ConsumerTimeouts
from warren.broker.vhost import Vhost
from warren.errors import CONNECTION_FORCED, ConnectionFault
from warren.model.effects import CloseConnection, Effect, SetTimer, StopNode
from warren.model.events import (
    BytesReceived,
    ConnectionLost,
    ConnectionOpened,
    Event,
    MemoryMeasured,
    StopRequested,
    WritesPaused,
    WritesResumed,
)
from warren.model.settings import BrokerSettings
from warren.model.turn import Turn
from warren.session import input as session_input
from warren.session.connection import RUNNING, Connection
from warren.session.ports import LoginAttempt, NodePort, VhostPort

DEAD_LETTER_BYTES_A_TURN: Final = 4 * 1024 * 1024
"""More wait for the next turn: queues that dead-letter into one another must not hold up everybody else."""


@final
class Broker(NodePort):
    """One node's core. `seed` makes the names it invents: unguessable if the seed is."""

    def __init__(self, settings: BrokerSettings, seed: bytes) -> None:
        super().__init__(settings, Turn())
        self.connections: dict[int, Connection] = {}
        self.vhosts: dict[str, Vhost] = {}
        self._access: Access = Access(settings)
        self._names: FreshNames = FreshNames(seed)
        self._dead_letters: DeadLetters = DeadLetters(self.turn)
        self._memory: MemoryAlarm = MemoryAlarm()
        self._timeouts: ConsumerTimeouts = ConsumerTimeouts(settings, self.turn, self.connections)
        self._timer_at_ms: i64 = 0
        self._stopping: bool = False
        self.add_vhost(settings.default_vhost)

    def handle(self, events: list[Event], now_ms: int) -> list[Effect]:
        turn = self.turn
        turn.now_ms = max(turn.now_ms, now_ms)
        turn.effects = []
        for held in self._held_inputs():
            session_input.go_on(held)
        for event in events:
            self._take(event)
        self._timeouts.start()
        turn.fire_timers()
        self._finish()
        return turn.effects

    def add_vhost(self, name: str) -> Vhost:
        vhost = Vhost(name, self.turn)
        self.vhosts[name] = vhost
        return vhost

    def check(self) -> None:
        """Raise `InvariantBroken` if anything in this node contradicts itself."""
        for vhost in self.vhosts.values():
            vhost.check()
        for connection in self.connections.values():
            for channel in connection.channels.values():
                channel.ledger.check()

    # -- what sessions ask for

    def refusal_of(self, attempt: LoginAttempt) -> str:
        return self._access.refusal_of(attempt)

    def vhost(self, name: str) -> VhostPort | None:
        return self.vhosts.get(name)

    def fresh_name(self, prefix: str) -> str:
        return self._names.fresh(prefix)

    def metadata_pending(self) -> bool:
        return False

    def connection_ended(self, connection: Connection) -> None:
        if connection.vhost is not None:
            self.vhosts[connection.vhost.name].delete_queues_of(connection.connection_id)

    # -- events

    def _held_inputs(self) -> list[Connection]:
        waiting = self.turn.inputs
        self.turn.inputs = []
        return [connection for connection in waiting if isinstance(connection, Connection)]

    def _take(self, event: Event) -> None:
        if isinstance(event, BytesReceived):
            connection = self.connections.get(event.connection_id)
            if connection is not None:
                session_input.receive(connection, event.data)
        elif isinstance(event, ConnectionOpened):
            self._connection_opened(event)
        elif isinstance(event, ConnectionLost):
            lost = self.connections.pop(event.connection_id, None)
            if lost is not None:
                lost.lost(event.reason)
        elif isinstance(event, WritesPaused):
            paused = self.connections.get(event.connection_id)
            if paused is not None:
                paused.writes_paused()
        elif isinstance(event, WritesResumed):
            resumed = self.connections.get(event.connection_id)
            if resumed is not None:
                resumed.writes_resumed()
        elif isinstance(event, MemoryMeasured):
            self._memory.measured(event.used_bytes, event.limit_bytes, self.turn.held_bytes)
        elif isinstance(event, StopRequested):
            self._stop()

    def _connection_opened(self, event: ConnectionOpened) -> None:
        if self._stopping:
            self.turn.effects.append(CloseConnection(event.connection_id))
            return
        self.connections[event.connection_id] = Connection(event, self)

    def _stop(self) -> None:
        """Tell every client; each hangs up when it answered, or when its patience ends."""
        self._stopping = True
        self.turn.note("info", "node.stopping", {"connections": len(self.connections)})
        farewell = ConnectionFault(CONNECTION_FORCED, "broker forced connection closure with reason 'shutdown'")
        for connection in list(self.connections.values()):
            if connection.state == RUNNING:
                connection.dismiss(farewell, 0, 0)
            else:
                connection.hang_up()

    # -- the end of the turn

    def _finish(self) -> None:
        turn = self.turn
        budget_bytes = DEAD_LETTER_BYTES_A_TURN
        while turn.drains or (budget_bytes > 0 and self._dead_letters.waiting()):
            if budget_bytes > 0:
                budget_bytes = self._dead_letters.carry_out(self.vhosts, budget_bytes)
            drains = turn.drains
            turn.drains = []
            for queue in drains:
                queue.drain()
        self._look_at_memory()
        outputs = turn.outputs
        turn.outputs = []
        for output in outputs:
            output.flush()
        if self._stopping and not self.connections:
            turn.effects.append(StopNode())
        self._order_timer()

    def _look_at_memory(self) -> None:
        alarm = self._memory.alarm(self.turn.held_bytes)
        if alarm == self.alarm:
            return
        self.alarm = alarm
        if alarm:
            self.turn.note("warning", "alarm.raised", {"reason": alarm})
            return
        self.turn.note("warning", "alarm.cleared", {})
        for connection in self.connections.values():
            if connection.blocked:
                connection.unblock()

    def _order_timer(self) -> None:
        turn = self.turn
        unfinished = turn.drains or turn.inputs or self._dead_letters.waiting()
        wanted_ms: i64 = turn.now_ms if unfinished else turn.next_timer_ms()
        if self._timer_at_ms <= turn.now_ms:
            self._timer_at_ms = 0
        if wanted_ms != 0 and (self._timer_at_ms == 0 or wanted_ms < self._timer_at_ms):
            self._timer_at_ms = wanted_ms
            turn.effects.append(SetTimer(wanted_ms))
