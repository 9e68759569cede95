"""Messages that x-delayed-message exchanges hold back.

A message waits here until its `x-delay` has passed, then goes on through the exchange's bindings as they are at that
moment, with the header negated, which tells the consumer how long it was delayed and every other such exchange that
it was.

Not here: which messages ask for a delay (`routing.delayed`).
"""

import heapq
from typing import Final, final

from mypy_extensions import i64

from warren.model.message import Message
from warren.model.turn import Timed, Timer, Turn
from warren.routing.delayed import delay_of
from warren.routing.exchange import Exchange
from warren.routing.topology import Topology
from warren.wire.properties import edit_headers

OVERHEAD_BYTES: Final[i64] = 256
TELL_EVERY_MS: Final[i64] = 60_000


@final
class Delays(Timed):
    """One vhost's delayed messages, soonest first."""

    def __init__(self, topology: Topology, turn: Turn) -> None:
        self._topology: Topology = topology
        self._turn: Turn = turn
        self._heap: list[tuple[int, int, Exchange, Message]] = []
        self._serial: int = 0
        self._timer: Timer | None = None
        self._timer_at_ms: int = 0
        self._told_ms: i64 = 0
        self._counts: dict[Exchange, int] = {}

    def hold(self, exchange: Exchange, message: Message) -> None:
        self._serial += 1
        due_ms = int(self._turn.now_ms + delay_of(message))
        heapq.heappush(self._heap, (due_ms, self._serial, exchange, message))
        self._counts[exchange] = self.count(exchange) + 1
        self._turn.held_bytes += len(message.content) + OVERHEAD_BYTES
        self._tell()
        self._arm()

    def _tell(self) -> None:
        """Say how many messages wait where, once a minute at most."""
        if self._turn.now_ms - self._told_ms < TELL_EVERY_MS:
            return
        self._told_ms = self._turn.now_ms
        for exchange, messages in self._counts.items():
            facts: dict[str, object] = {"exchange": exchange.name, "vhost": self._topology.vhost, "messages": messages}
            self._turn.note("info", "exchange.delaying", facts)

    def count(self, exchange: Exchange) -> int:
        """How many messages an exchange holds back: `messages_delayed` in listings."""
        return self._counts.get(exchange, 0)

    def forget_deleted(self) -> None:
        """What exchanges held back that are no more is gone with them."""
        gone = [exchange for exchange in self._counts if exchange.deleted]
        if not gone:
            return
        for _due_ms, _serial, exchange, message in self._heap:
            if exchange.deleted:
                self._turn.held_bytes -= len(message.content) + OVERHEAD_BYTES
        self._heap = [held for held in self._heap if not held[2].deleted]
        heapq.heapify(self._heap)
        for exchange in gone:
            del self._counts[exchange]

    def timer_fired(self) -> None:
        while self._heap and self._heap[0][0] <= self._turn.now_ms:
            _due_ms, _serial, exchange, message = heapq.heappop(self._heap)
            self._release(exchange, message)
        self._arm()

    def _release(self, exchange: Exchange, message: Message) -> None:
        self._turn.held_bytes -= len(message.content) + OVERHEAD_BYTES
        remaining = self.count(exchange) - 1
        if remaining:
            self._counts[exchange] = remaining
        else:
            del self._counts[exchange]
        payload = edit_headers(message.header_payload(), [], {"x-delay": -int(delay_of(message))})
        due = message.with_header_payload(payload)
        keys = [message.envelope.routing_key, *message.envelope.copy_keys]
        for queue in self._topology.route_delayed(exchange, keys, due).queues:
            queue.publish(due)

    def _arm(self) -> None:
        if not self._heap:
            return
        due_ms = self._heap[0][0]
        if self._timer is not None and self._timer.live:
            if self._timer_at_ms <= due_ms:
                return
            self._turn.cancel_timer(self._timer)
        self._timer = self._turn.set_timer(due_ms, self)
        self._timer_at_ms = due_ms
