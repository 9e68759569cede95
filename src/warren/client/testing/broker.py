"""A broker in memory for tests: Warren's own broker core, without a process, a port or a wait.

The effects of a call are there when the call returns. Timers fire with the next call at or after their time, when a
waiting subscription finds them due, or in `advance`.

Not here: turns and time (`testing.core`), transports and faults (`testing.transport`).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from warren.broker.model.message import Message
from warren.client.testing.core import BrokerCore
from warren.client.testing.transport import Faults, MemoryTransport
from warren.wire.field_tables import Table
from warren.wire.methods import QueueDelete
from warren.wire.properties import Properties, decode_properties


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message in a queue. `routing_keys` has the key of its publish, then the keys of its headers CC and BCC."""

    body: bytes
    header: bytes
    exchange: str
    routing_keys: tuple[str, ...]

    @property
    def routing_key(self) -> str:
        return self.routing_keys[0]

    @property
    def properties(self) -> Properties:
        return decode_properties(self.header, 0, len(self.header))

    @property
    def headers(self) -> Table:
        return self.properties.headers or {}


def _stored(message: Message) -> StoredMessage:
    envelope = message.envelope
    keys = (envelope.routing_key, *envelope.copy_keys)
    return StoredMessage(message.body(), message.header_payload(), envelope.exchange, keys)


class MemoryBroker:
    """Give each part of a program a `transport()` of its own; `clock` tells seconds since 1970."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.core = BrokerCore(clock)
        self.faults = Faults(self.core)

    def transport(self) -> MemoryTransport:
        """A connection to this broker."""
        return MemoryTransport(self)

    def now(self) -> float:
        return self.core.now()

    def advance(self, seconds: float) -> None:
        """Let time pass at once: all timers within it have fired when this returns, in their order."""
        with self.core.lock:
            self.core.advance(seconds)

    def ready(self, queue: str) -> list[StoredMessage]:
        """The ready messages of a queue, in order."""
        with self.core.lock:
            self.core.run()
            return [_stored(entry.message) for entry in self.core.find_queue(queue).in_memory()]

    def unacked(self, queue: str) -> list[StoredMessage]:
        """The messages of a queue that are in flight to consumers, in the order of the queue."""
        with self.core.lock:
            self.core.run()
            return [_stored(entry.message) for entry in self.core.unacked(self.core.find_queue(queue))]

    def has_queue(self, name: str) -> bool:
        with self.core.lock:
            self.core.run()
            return self.core.has_queue(name)

    def delete_queue(self, name: str) -> None:
        """Delete a queue as an operator does; the broker cancels its consumers."""
        with self.core.lock:
            owner = self.core.connection_of(self.core.find_queue(name))
            connection = owner or self.core.connect()
            channel = connection.channel()
            channel.call(QueueDelete(name))
            channel.finish()
            if owner is None:
                self.core.drop(connection)
