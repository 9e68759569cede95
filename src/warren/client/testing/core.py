"""Warren's broker core in the process of a test: turns without a node, a disk or a socket.

    MemoryChannel ─▶ ConnectionMachine ─bytes─▶ Broker.handle ─bytes─▶ ConnectionMachine ─▶ MemoryChannel

A call writes its method, lets the broker take turns until the broker has nothing to do, and finds its answer. So each
call ends with its consequences: routing, dead letters, deliveries to other connections.

Time is a clock that the test passes in, plus the seconds that `advance` added. A timer of the broker fires with the
first turn at or after its time.

Callers hold `lock`, because several threads with event loops of their own may share one broker. Tasks that react to an
event (`later`) run after the turns, never within one.

Not here: transports and subscriptions (`testing.transport`), the view of a test (`testing.broker`).
"""

import secrets
import threading
from collections.abc import Callable
from typing import Final

from warren.broker.broker import Broker
from warren.broker.model.effects import CloseConnection, Effect, SendBytes, SetTimer
from warren.broker.model.events import BytesReceived, ConnectionDropped, ConnectionOpened, Event
from warren.broker.model.message import Entry
from warren.broker.model.ports import QueuePort
from warren.broker.model.settings import BrokerSettings
from warren.broker.queues.queue import Queue
from warren.client.errors import ChannelClosed, ClientError, ConnectionClosed
from warren.client.machine.channel import CHANNEL_CLOSING, ChannelMachine
from warren.client.machine.connection import ConnectionMachine
from warren.client.machine.deliveries import Delivery, ReturnedMessage
from warren.client.machine.events import (
    CallAnswered,
    Cancelled,
    ChannelClosedByBroker,
    ClientEvent,
    Closed,
    Confirmed,
    Delivered,
    Returned,
)
from warren.client.machine.publishes import ConfirmRange
from warren.client.machine.settings import EXTERNAL, ClientSettings
from warren.client.protocol import error_of
from warren.client.transport import Outgoing
from warren.wire.methods import Method

VHOST: Final = "/"
USER: Final = "guest"
NOT_FOUND, PRECONDITION_FAILED, NOT_IMPLEMENTED = 404, 406, 540
_CODE_NAMES = {
    NOT_FOUND: "NOT_FOUND",
    PRECONDITION_FAILED: "PRECONDITION_FAILED",
    NOT_IMPLEMENTED: "NOT_IMPLEMENTED",
}


def refusal(code: int, reason: str) -> ChannelClosed:
    """The error of a channel that a broker closes."""
    return _channel_closed(code, f"{_CODE_NAMES[code]} - {reason}")


def _channel_closed(code: int, text: str, method: str = "") -> ChannelClosed:
    return ChannelClosed(f"the broker closed the channel: {code} {text}", code, text, method)


class BrokerCore:
    """A broker that keeps everything in memory, its clock and its connections."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.lock = threading.RLock()
        self._clock = clock
        self._ahead_s = 0.0
        # the time, while `advance` goes from one timer to the next
        self._stands_at: float | None = None
        # a test may hold a message for hours of its own time
        settings = BrokerSettings(consumer_timeout_ms=0)
        self._broker = Broker(settings, secrets.token_bytes(16))
        self._connections: dict[int, MemoryConnection] = {}
        self._last_id = 0
        self._timer_at_ms: int | None = None
        self._events: list[Event] = []
        self._tasks: list[Callable[[], None]] = []
        self._runs_tasks = False

    # time

    def now(self) -> float:
        return self._clock() + self._ahead_s if self._stands_at is None else self._stands_at

    def advance(self, seconds: float) -> None:
        """Let time pass. Each timer within it fires at its own time, in order."""
        end = self.now() + seconds
        while (due := self.next_due()) is not None and due <= end:
            self._stands_at = max(due, self.now())
            self.run()
        self._stands_at = None
        self._ahead_s += seconds
        self.run()

    def next_due(self) -> float | None:
        """The time of the broker's timer, if one is set."""
        return None if self._timer_at_ms is None else self._timer_at_ms / 1000

    # turns

    def run(self) -> None:
        """Let the broker take turns until it has nothing to do at this time; then run the tasks that wait for this."""
        self._take_turns()
        if self._runs_tasks:
            return
        self._runs_tasks = True
        try:
            while self._tasks:
                self._tasks.pop(0)()
                self._take_turns()
        finally:
            self._runs_tasks = False

    def later(self, task: Callable[[], None]) -> None:
        """Run a task after the turns at hand."""
        self._tasks.append(task)

    def _take_turns(self) -> None:
        while True:
            for connection in self._connections.values():
                if data := connection.machine.take_output():
                    self._events.append(BytesReceived(connection.connection_id, data))
            now_ms = self._now_ms()
            if self._timer_at_ms is not None and self._timer_at_ms <= now_ms:
                self._timer_at_ms = None
            elif not self._events:
                return
            events, self._events = self._events, []
            for effect in self._broker.handle(events, now_ms):
                self._carry_out(effect, now_ms)

    def _carry_out(self, effect: Effect, now_ms: int) -> None:
        if isinstance(effect, SetTimer):
            self._timer_at_ms = effect.at_ms
        elif isinstance(effect, SendBytes):
            connection = self._connections.get(effect.connection_id)
            if connection is not None:
                connection.received(effect.data, now_ms)
        elif isinstance(effect, CloseConnection):
            self._connections.pop(effect.connection_id, None)
            self._events.append(ConnectionDropped(effect.connection_id))

    def _now_ms(self) -> int:
        return round(self.now() * 1000)

    # connections

    def connect(self, lost: Callable[[], None] = lambda: None) -> "MemoryConnection":
        """A connection with its handshake done; `lost` is called after the broker has closed it."""
        self._last_id += 1
        connection = MemoryConnection(self, self._last_id, self._now_ms(), lost)
        self._connections[self._last_id] = connection
        self._events.append(
            ConnectionOpened(self._last_id, "127.0.0.1", 0, "127.0.0.1", 0, direct=True, trusted_user=USER)
        )
        self.run()
        return connection

    def drop(self, connection: "MemoryConnection") -> None:
        """Cut a connection: the broker requeues its unacked messages and deletes its exclusive queues."""
        connection.lose()
        if self._connections.pop(connection.connection_id, None) is not None:
            self._events.append(ConnectionDropped(connection.connection_id))
        self.run()

    def connection_of(self, queue: QueuePort) -> "MemoryConnection | None":
        """The connection that owns an exclusive queue."""
        return self._connections.get(queue.owner_id)

    # queues

    def has_queue(self, name: str) -> bool:
        return name in self._broker.vhosts[VHOST].topology.queues

    def find_queue(self, name: str) -> Queue:
        found = self._broker.vhosts[VHOST].topology.queues.get(name)
        if not isinstance(found, Queue):
            raise refusal(NOT_FOUND, f"no queue '{name}' in vhost '{VHOST}'")
        return found

    def unacked(self, queue: Queue) -> list[Entry]:
        """The entries of a queue that are in flight, by position."""
        channels = [channel for each in self._broker.connections.values() for channel in each.channels.values()]
        outstanding = [each for channel in channels for each in channel.unacked_deliveries.outstanding()]
        return sorted((entry for entry, taker in outstanding if taker.queue is queue), key=lambda entry: entry.position)


class MemoryConnection:
    """One connection to the core, and its channels by number."""

    def __init__(self, core: BrokerCore, connection_id: int, now_ms: int, lost: Callable[[], None]) -> None:
        self.connection_id = connection_id
        self.machine = ConnectionMachine(ClientSettings(mechanism=EXTERNAL, heartbeat_s=0), now_ms)
        self.error: ClientError | None = None
        self._core = core
        self._lost = lost
        self._channels: dict[int, MemoryChannel] = {}

    def channel(self) -> "MemoryChannel":
        if self.error is not None:
            raise self.error
        machine, _ = self.machine.open_channel()
        channel = self._channels[machine.number] = MemoryChannel(self._core, self, machine)
        self._core.run()
        return channel

    def received(self, data: bytes, now_ms: int) -> None:
        for event in self.machine.receive(data, now_ms):
            if isinstance(event, Closed):
                self.error = error_of(event)
                self.lose()
                self._core.later(self._lost)
            else:
                self._happened(event)

    def lose(self) -> None:
        """The broker owns again what this connection had in flight."""
        if self.error is None:
            self.error = ConnectionClosed("the connection was closed")
        for channel in self._channels.values():
            channel.unsettled.clear()

    def _happened(self, event: ClientEvent) -> None:
        if isinstance(event, CallAnswered | Cancelled | ChannelClosedByBroker | Confirmed | Delivered | Returned):
            channel = self._channels.get(event.channel)
            if channel is not None:
                channel.happened(event)


class MemoryChannel:
    """One channel: calls that return their answers, publishes that return their outcome."""

    def __init__(self, core: BrokerCore, connection: MemoryConnection, machine: ChannelMachine) -> None:
        self.machine = machine
        # the delivery tags that wait for an ack
        self.unsettled: set[int] = set()
        self.returned: list[ReturnedMessage] = []
        self.when_delivered: Callable[[Delivery], None] = lambda delivery: None
        self.when_cancelled: Callable[[], None] = lambda: None
        self._core = core
        self._connection = connection
        self._refusal: ChannelClosed | None = None
        self._answers: dict[int, CallAnswered] = {}
        self._confirmed: list[ConfirmRange] = []
        self._is_finished = False

    @property
    def is_open(self) -> bool:
        return self.machine.state < CHANNEL_CLOSING and self.error is None

    @property
    def error(self) -> ClientError | None:
        """Why the channel is closed, unless the program closed it."""
        return self._refusal or self._connection.error

    def call(self, method: Method) -> CallAnswered:
        ticket = self.machine.call(method)
        self._core.run()
        answer = self._answers.pop(ticket, None)
        if answer is None:
            raise self.error or ConnectionClosed("the channel was closed")
        return answer

    def publish(self, outgoing: Outgoing) -> ConfirmRange | None:
        """Publish one message; its confirm on a channel with confirms. The error of a channel that this closes."""
        self.machine.publish(outgoing.message, outgoing.exchange, outgoing.routing_key, outgoing.mandatory)
        self._core.run()
        if self.error is not None:
            raise self.error
        return self._confirmed.pop() if self._confirmed else None

    def take_returned(self) -> list[ReturnedMessage]:
        returned, self.returned = self.returned, []
        return returned

    def settle(self, tag: int, ack: bool, requeue: bool = False) -> None:
        self.unsettled.discard(tag)
        if ack:
            self.machine.ack(tag)
        else:
            self.machine.nack(tag, requeue=requeue)
        self._close_if_done()
        self._core.run()

    def finish(self) -> None:
        """Close the channel as soon as its deliveries are settled."""
        self._is_finished = True
        self._close_if_done()
        self._core.run()

    def _close_if_done(self) -> None:
        if self._is_finished and not self.unsettled and self.is_open:
            self.machine.close()

    def happened(self, event: ClientEvent) -> None:
        if isinstance(event, CallAnswered):
            self._answers[event.ticket] = event
        elif isinstance(event, Delivered):
            for delivery in event.deliveries:
                self.when_delivered(delivery)
        elif isinstance(event, Confirmed):
            self._confirmed += event.ranges
        elif isinstance(event, Returned):
            self.returned.append(event.message)
        elif isinstance(event, ChannelClosedByBroker):
            self.unsettled.clear()
            self._refusal = _channel_closed(event.code, event.text, event.method_name)
        elif isinstance(event, Cancelled):
            self._core.later(self.when_cancelled)
