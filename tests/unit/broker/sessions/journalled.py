"""A node whose disk is the test: batches are flushed, and entries read, when the test says so.

Sessions, queues and the turn are the real ones. The writes of a turn wait in `batches`; `flush()` is a turn in which
the oldest batch is flushed.
"""

from tests.support.core_driver import Client, Core, published
from tests.support.lone_vhosts import lone_vhost
from warren.broker.access.backends import LoginAttempt, LoginWaiter
from warren.broker.access.rights import NodeRights, Rights
from warren.broker.model.effects import Effect
from warren.broker.model.events import (
    BytesReceived,
    ConnectionDropped,
    ConnectionOpened,
    Event,
    StopRequested,
    WritesPaused,
    WritesResumed,
)
from warren.broker.model.identity import Identity
from warren.broker.model.journal import PositionRange, Segment, SegmentExtent
from warren.broker.model.message import Entry, Message
from warren.broker.model.ports import FetchWaiter, QueueLog, QueueLogs
from warren.broker.model.settings import BrokerSettings
from warren.broker.model.turn import FlushWaiter, Turn
from warren.broker.sessions import input as session_input
from warren.broker.sessions.connection import Connection
from warren.broker.sessions.ports import NodePort, SessionPort, VhostEntry, VhostPort
from warren.errors import CONNECTION_FORCED, ConnectionFault
from warren.wire.properties import Properties

PERSISTENT = Properties(delivery_mode=2)


class JournalledCore(Core):
    """The turns of a node, over a disk that waits for the test."""

    def __init__(self) -> None:
        super().__init__(BrokerSettings(consumer_timeout_ms=0))
        self.logs = Logs()
        self.node = JournalledNode(self.broker.settings, self.broker.turn, self.logs)
        self.connections: dict[int, Connection] = {}
        self.batches: list[list[FlushWaiter]] = []

    def flush(self) -> list[Effect]:
        """A turn in which the oldest batch is flushed."""
        waiters = self.batches.pop(0)
        self._begin()
        for waiter in waiters:
            waiter.flushed()
        return self._end()

    def turn(self, *events: Event) -> list[Effect]:
        self._begin()
        for event in events:
            self._take(event)
        return self._end()

    def _begin(self) -> None:
        turn = self.node.turn
        if 0 < self.timer_at_ms <= self.now_ms:
            self.timer_at_ms = 0
        turn.now_ms = self.now_ms
        turn.effects = []
        waiting, turn.inputs = turn.inputs, []
        for connection in waiting:
            assert isinstance(connection, Connection)
            session_input.resume(connection)

    def _take(self, event: Event) -> None:
        if isinstance(event, ConnectionOpened):
            self.connections[event.connection_id] = Connection(event, self.node)
        elif isinstance(event, BytesReceived):
            session_input.receive(self.connections[event.connection_id], event.data)
        elif isinstance(event, ConnectionDropped):
            self.connections.pop(event.connection_id).lost(event.reason)
        elif isinstance(event, StopRequested):
            for connection in self.connections.values():
                connection.dismiss(ConnectionFault(CONNECTION_FORCED, "shutdown"), 0, 0)
        elif isinstance(event, WritesPaused):
            self.connections[event.connection_id].writes_paused()
        elif isinstance(event, WritesResumed):
            self.connections[event.connection_id].writes_resumed()

    def _end(self) -> list[Effect]:
        turn = self.node.turn
        turn.fire_timers()
        while turn.drains:
            drains, turn.drains = turn.drains, []
            for queue in drains:
                queue.drain()
        outputs, turn.outputs = turn.outputs, []
        for output in outputs:
            output.flush()
        waiters, turn.flush_waiters = turn.flush_waiters, []
        if waiters:
            self.batches.append(waiters)
        self.timer_at_ms = self.now_ms if turn.drains or turn.inputs else turn.next_timer_ms()
        for effect in turn.effects:
            self._carry_out(effect)
        return turn.effects


class JournalledNode(NodePort):
    """A node with one virtual host that accepts every login."""

    def __init__(self, settings: BrokerSettings, turn: Turn, logs: "Logs") -> None:
        super().__init__(settings, turn)
        self.pending = False
        self.only_vhost = lone_vhost(turn, logs=logs)
        self._names = 0

    def log_in(self, attempt: LoginAttempt, waiter: LoginWaiter) -> None:
        waiter.login_accepted(Identity(attempt.user))

    def renew(self, connection: SessionPort, secret: str, waiter: LoginWaiter) -> None:
        assert connection.identity is not None
        waiter.login_accepted(connection.identity)

    def enter(self, connection: SessionPort, vhost: str, entry: VhostEntry) -> VhostPort:
        return self.only_vhost

    def rights(self, identity: Identity, vhost: str) -> Rights:
        return NodeRights(identity.name, vhost)

    def check_channel_room(self, connection: SessionPort) -> None:
        """There is always room."""

    def fresh_name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def metadata_pending(self) -> bool:
        return self.pending

    def connection_ended(self, connection: SessionPort) -> None:
        self.only_vhost.delete_queues_of(connection.connection_id)


class Logs(QueueLogs):
    """Every queue's log, in the order the queues were declared."""

    def __init__(self) -> None:
        self.opened: list[Log] = []

    def open(self, queue_id: int, durable: bool, max_priority: int) -> QueueLog:
        log = Log(durable)
        self.opened.append(log)
        return log


class Log(QueueLog):
    """The log of one queue. `read` answers its fetch."""

    def __init__(self, durable: bool) -> None:
        super().__init__(durable)
        self._segment = Segment(1)
        self._stored: dict[int, tuple[Message, SegmentExtent]] = {}
        self._wanted: tuple[PositionRange, FetchWaiter] | None = None

    def read(self) -> None:
        """Answer a fetch."""
        assert self._wanted is not None, "the queue has asked for nothing"
        positions, asker = self._wanted
        self._wanted = None
        entries: list[Entry] = []
        for position in range(int(positions.first), int(positions.last) + 1):
            message, extent = self._stored[position]
            entry = Entry(message, position, 0)
            entry.extent = extent
            entries.append(entry)
        asker.paged_in(entries)

    def damage(self) -> None:
        """Answer a fetch with damage."""
        assert self._wanted is not None, "the queue has asked for nothing"
        self._wanted[1].stop("segment 1 is damaged")

    def store(self, message: Message, position: int, expires_at_ms: int, level: int) -> SegmentExtent:
        extent = SegmentExtent(1, self._segment, level, self.durable and message.persistent, position)
        self._stored[position] = (message, extent)
        return extent

    def forget(self, entry: Entry) -> None:
        del self._stored[int(entry.position)]

    def forget_unread(self, positions: PositionRange) -> None:
        for position in range(int(positions.first), int(positions.last) + 1):
            del self._stored[position]

    def returned(self, entry: Entry) -> None:
        assert int(entry.position) in self._stored

    def mark_delivered(self, entry: Entry) -> bool:
        return True

    def fetch(self, positions: PositionRange, asker: FetchWaiter, entries_max: int) -> None:
        self._wanted = (positions, asker)

    def cancel_fetch(self) -> None:
        self._wanted = None

    def close(self) -> None:
        self._wanted = None
        self._stored.clear()


def persistent(key: str, *bodies: bytes) -> bytes:
    """The frames of persistent publishes to the default exchange."""
    return b"".join(published(key, body, properties=PERSISTENT) for body in bodies)


def paged(client: Client, core: JournalledCore, queue: str, *bodies: bytes) -> Log:
    """Publish to a queue that is short of memory, so that all of it is on disk only."""
    core.node.turn.memory_low = True
    client.read(persistent(queue, *bodies))
    core.node.turn.memory_low = False
    names = list(core.node.only_vhost.topology.queues)
    return core.logs.opened[names.index(queue)]
