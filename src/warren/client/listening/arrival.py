"""A message as a handler gets it: an `Incoming` for any thread, settled once.

Invariants: the first `ack` or `nack` counts, from any caller, and later ones do nothing. The broker is told in the
event loop's thread, also if the handler runs in another thread. A message that came back from a retry queue still has
the exchange and routing key of its first publish.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from warren.client.errors import CannotConvert
from warren.client.listening.retries import origin, retries_done
from warren.client.transport import Incoming
from warren.errors import ConnectionFault
from warren.wire.field_tables import Table
from warren.wire.properties import Properties

T = TypeVar("T")


class Arrival(Generic[T]):
    """A message, its queue, and its payload: the body, or the converter's result."""

    __slots__ = (
        "_came_at_s",
        "_incoming",
        "_loop",
        "_loop_thread",
        "_properties",
        "_settled",
        "_when_settled",
        "payload",
        "queue",
        "tries_in_hand",
    )

    def __init__(
        self,
        incoming: Incoming,
        queue: str,
        *,
        settled: bool = False,
        when_settled: "Callable[[Arrival[T]], None] | None" = None,
    ) -> None:
        self.queue = queue
        self.payload: T = cast(T, incoming.body)
        # how often it was retried without leaving this process
        self.tries_in_hand = 0
        self._incoming = incoming
        self._properties: Properties | None = None
        self._settled = settled
        self._when_settled = when_settled
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._came_at_s = self._loop.time()

    @property
    def incoming(self) -> Incoming:
        """The message of the transport."""
        return self._incoming

    @property
    def body(self) -> bytes:
        return self._incoming.body

    @property
    def properties(self) -> Properties:
        if self._properties is None:
            try:
                self._properties = self._incoming.properties
            except ConnectionFault as fault:
                raise CannotConvert(f"the properties of the message are invalid: {fault}") from fault
        return self._properties

    @property
    def headers(self) -> Table:
        return self.properties.headers or {}

    @property
    def exchange(self) -> str:
        return self._origin[0]

    @property
    def routing_key(self) -> str:
        return self._origin[1]

    @property
    def redelivered(self) -> bool:
        return self._incoming.redelivered

    @property
    def is_ours(self) -> bool:
        return self._incoming.is_ours

    @property
    def retries(self) -> int:
        """How often it was tried and failed."""
        return retries_done(self.headers) + self.tries_in_hand

    @property
    def left_s(self) -> float | None:
        """The rest of its time to live, if it has one, assuming that all of it was left on arrival."""
        lives_ms = self.properties.expiration
        if lives_ms is None or not lives_ms.isdecimal():
            return None
        return int(lives_ms) / 1000 - (self._loop.time() - self._came_at_s)

    @property
    def settled(self) -> bool:
        return self._settled

    def ack(self) -> None:
        """Acknowledge the message."""
        self._settle(self._incoming.ack)

    def nack(self, *, requeue: bool = True) -> None:
        """Refuse the message: requeue it, or dead-letter it."""
        self._settle(lambda: self._incoming.nack(requeue=requeue))

    def leave(self) -> None:
        """Do not settle it; the broker keeps or redelivers it."""
        self._settled = True

    def __repr__(self) -> str:
        return f"<Arrival of {len(self.body)} bytes from {self.queue!r}>"

    @property
    def _origin(self) -> tuple[str, str]:
        return origin(self.headers) or (self._incoming.exchange, self._incoming.routing_key)

    def _settle(self, send: Callable[[], None]) -> None:
        if self._settled:
            return
        if threading.get_ident() == self._loop_thread:
            self._settled = True
            send()
            if self._when_settled is not None:
                self._when_settled(self)
        else:
            self._loop.call_soon_threadsafe(self._settle, send)
