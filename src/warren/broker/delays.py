"""Messages that x-delayed-message exchanges hold.

A message waits until its `x-delay` has passed. It is then routed by the exchange's bindings of that moment, with the
header negated: the consumer sees the delay, and other such exchanges do not delay it again. A node that may be behind
keeps messages that it cannot route until it is up to date: the queue may exist already.

A durable exchange has a log, as a queue has. Its persistent messages are on disk with the time they are due, and are
removed there when they have been published. All of them are read when the node starts. A message that is due later than
its delay from then on was held by a clock that has been set back; it waits for its delay again, and not for years.

Not here: which messages ask for a delay (`broker.routing.topology`).
"""

import heapq
from typing import Final, final

from mypy_extensions import i64

from warren.broker.internal_publishes import InternalPublish
from warren.broker.model.journal import PositionRange
from warren.broker.model.message import Entry, Message
from warren.broker.model.ports import PENDING, SETTLED, FetchWaiter, QueueLog, QueueLogs
from warren.broker.model.turn import ROUTING_STEPS_A_TURN, Timer, TimerTarget, Turn
from warren.broker.routing.exchanges import Exchange, Recipients
from warren.broker.routing.topology import Topology, delay_of
from warren.wire.properties import edit_headers

OVERHEAD_BYTES: Final[i64] = 256
LOG_EVERY_MS: Final[i64] = 60_000
FETCH_MAX: Final[i64] = 2048
RETRY_MS: Final = 1_000
"""The time between attempts to route a message on a node that may be behind."""


@final
class DelayedMessages(TimerTarget):
    """The delayed messages of one virtual host, soonest first."""

    def __init__(self, topology: Topology, turn: Turn, logs: QueueLogs | None = None) -> None:
        self._topology: Topology = topology
        self._turn: Turn = turn
        self._logs: QueueLogs | None = logs
        self._delay_logs: dict[Exchange, DelayLog] = {}
        self._heap: list[tuple[int, int, Exchange, Entry]] = []
        self._serial: int = 0
        self._timer: Timer | None = None
        self._timer_at_ms: int = 0
        self._counts_logged_ms: i64 = 0
        self._counts: dict[Exchange, int] = {}

    def begin(self, exchange: Exchange) -> None:
        """Open the log of a new exchange, if it delays messages and is durable."""
        if self._logs is not None and exchange.delays and exchange.exchange_id > 0:
            self._delay_logs[exchange] = DelayLog(self, exchange, self._logs.open(exchange.exchange_id, True, 0))

    def recover(self, exchange: Exchange, ranges: list[PositionRange], next_position: i64) -> None:
        """Read the messages that the exchange held when the node stopped."""
        self._serial = max(self._serial, int(next_position))
        self._delay_logs[exchange].read(ranges)

    def hold(self, exchange: Exchange, message: Message) -> i64:
        """Hold a message: `PENDING` if it is written to disk, else `SETTLED`."""
        self._serial += 1
        entry = Entry(message, self._serial, self._turn.now_ms + delay_of(message))
        delay_log = self._delay_logs.get(exchange)
        if delay_log is not None and message.persistent:
            entry.extent = delay_log.log.store(message, entry.position, entry.expires_at_ms, 0)
        self.keep(exchange, entry)
        self._log_counts()
        self.arm()
        return SETTLED if entry.extent is None else PENDING

    def keep(self, exchange: Exchange, entry: Entry) -> None:
        heapq.heappush(self._heap, (int(entry.expires_at_ms), int(entry.position), exchange, entry))
        self._counts[exchange] = self.count(exchange) + 1
        self._turn.held_bytes += len(entry.message.content) + OVERHEAD_BYTES

    def keep_again(self, exchange: Exchange, entry: Entry) -> None:
        """Keep a message of an earlier run, from now on for no longer than its delay."""
        entry.expires_at_ms = min(entry.expires_at_ms, self._turn.now_ms + delay_of(entry.message))
        self.keep(exchange, entry)

    def _log_counts(self) -> None:
        """Log how many messages each exchange holds, at most once a minute."""
        if self._turn.now_ms - self._counts_logged_ms < LOG_EVERY_MS:
            return
        self._counts_logged_ms = self._turn.now_ms
        for exchange, messages in self._counts.items():
            facts: dict[str, object] = {"exchange": exchange.name, "vhost": self._topology.vhost, "messages": messages}
            self._turn.note("info", "exchange.delaying", facts)

    def count(self, exchange: Exchange) -> int:
        """How many messages an exchange holds: `messages_delayed` in listings."""
        return self._counts.get(exchange, 0)

    def forget_deleted(self) -> None:
        """Drop the messages of deleted exchanges."""
        for exchange in [exchange for exchange in self._delay_logs if exchange.deleted]:
            self._delay_logs.pop(exchange).log.close()
        gone = [exchange for exchange in self._counts if exchange.deleted]
        if not gone:
            return
        for _due_ms, _serial, exchange, entry in self._heap:
            if exchange.deleted:
                self._turn.held_bytes -= len(entry.message.content) + OVERHEAD_BYTES
        self._heap = [held for held in self._heap if not held[2].deleted]
        heapq.heapify(self._heap)
        for exchange in gone:
            del self._counts[exchange]

    def timer_fired(self) -> None:
        turn = self._turn
        while self._heap and self._heap[0][0] <= turn.now_ms and turn.routing_steps < ROUTING_STEPS_A_TURN:
            _due_ms, serial, exchange, entry = heapq.heappop(self._heap)
            if not self._released(exchange, entry):
                heapq.heappush(self._heap, (int(self._turn.now_ms) + RETRY_MS, serial, exchange, entry))
        self.arm()

    def forget(self, exchange: Exchange, entry: Entry) -> None:
        """The message has arrived: remove it from the log."""
        delay_log = self._delay_logs.get(exchange)
        if entry.extent is not None and delay_log is not None:
            delay_log.log.forget(entry)

    def _released(self, exchange: Exchange, entry: Entry) -> bool:
        """Publish a message that is due; False if it is held for longer."""
        message = entry.message
        payload = edit_headers(message.header_payload(), [], {"x-delay": -int(delay_of(message))})
        due = message.with_header_payload(payload)
        due.identified = message.identified
        keys = [message.envelope.routing_key, *message.envelope.copy_keys]
        steps_before = self._topology.steps
        route = self._topology.route_delayed(exchange, keys, due)
        self._turn.routing_steps += self._topology.steps - steps_before
        if not route.queues and self._turn.may_be_behind:
            return False
        self._turn.held_bytes -= len(message.content) + OVERHEAD_BYTES
        remaining = self.count(exchange) - 1
        if remaining:
            self._counts[exchange] = remaining
        else:
            del self._counts[exchange]
        publish = DelayedPublish(self, exchange, entry, due, self._turn)
        recipients = Recipients(route.queues, route.copies)
        for queue in recipients.row:
            if publish.publish(queue):
                recipients.taken_by(queue)
        exchange.published_out += len(recipients.row)
        self._turn.stats.routed += len(recipients.row)
        publish.end()
        return True

    def check(self) -> None:
        held = sum(list(self._counts.values()))
        assert held == len(self._heap), f"{held} delayed messages are counted, {len(self._heap)} wait"

    def damaged(self, exchange: Exchange, reason: str) -> None:
        facts: dict[str, object] = {"exchange": exchange.name, "vhost": self._topology.vhost, "reason": reason}
        self._turn.note("error", "exchange.damaged", facts)

    def arm(self) -> None:
        """Set the timer for the next message."""
        if not self._heap:
            return
        # messages that are due already wait for the next turn
        due_ms = max(self._heap[0][0], int(self._turn.now_ms) + 1)
        if self._timer is not None and self._timer.live:
            if self._timer_at_ms <= due_ms:
                return
            self._turn.cancel_timer(self._timer)
        self._timer = self._turn.set_timer(due_ms, self)
        self._timer_at_ms = due_ms


@final
class DelayedPublish(InternalPublish):
    """A delayed message that is being published."""

    def __init__(self, delays: DelayedMessages, exchange: Exchange, entry: Entry, due: Message, turn: Turn) -> None:
        super().__init__(due, turn, counted=True)
        self._delays: DelayedMessages = delays
        self._exchange: Exchange = exchange
        self._entry: Entry = entry

    def arrived(self) -> None:
        # only when it has arrived: a crash in between must not lose it
        self._delays.forget(self._exchange, self._entry)


@final
class DelayLog(FetchWaiter):
    """The log of one durable exchange."""

    def __init__(self, delays: DelayedMessages, exchange: Exchange, log: QueueLog) -> None:
        self.log: QueueLog = log
        self._delays: DelayedMessages = delays
        self._exchange: Exchange = exchange
        # positions still to be read, the next first
        self._ranges: list[PositionRange] = []

    def read(self, ranges: list[PositionRange]) -> None:
        self._ranges = ranges
        self._read_next()

    def paged_in(self, entries: list[Entry]) -> None:
        positions = self._ranges[0]
        for entry in entries:
            self._delays.keep_again(self._exchange, entry)
        positions.count -= len(entries)
        if entries:
            positions.first = entries[len(entries) - 1].position + 1
        if positions.count <= 0:
            del self._ranges[0]
        self._delays.arm()
        self._read_next()

    def delivery_allowed(self) -> None:
        """Delayed messages are not delivered to consumers."""

    def stop(self, reason: str) -> None:
        """Continue after messages that cannot be read."""
        self._delays.damaged(self._exchange, reason)
        del self._ranges[0]
        self._read_next()

    def _read_next(self) -> None:
        if self._ranges:
            self.log.fetch(self._ranges[0], self, FETCH_MAX)
