"""A relay for programs without an event loop.

    with blocking.open(url) as transport:
        Relay(engine, transport).drain()

`warren client relay` is a process that only relays; a `listening.Program` may have a relay among its jobs.

Not here: the work itself (`outbox.relay`), the thread (`recovering.blocking`).
"""

from collections.abc import Sequence

from sqlalchemy import Engine

from warren.client.measures import Measure
from warren.client.outbox import relay as on_loop
from warren.client.outbox.table import RelaySettings
from warren.client.recovering.blocking import Transport

__all__ = ["Relay"]


class Relay:
    """Publishes the rows of one database: `run` until another thread calls `stop`, or `drain` once."""

    def __init__(self, engine: Engine, transport: Transport, settings: RelaySettings | None = None) -> None:
        self._transport = transport
        self._inner = on_loop.Relay(engine, transport.inner, settings)

    def run(self) -> None:
        """Run until `stop`; if the caller is interrupted, the lease is released."""
        self._transport.run(self._inner.run())

    def stop(self) -> None:
        """Let `run` return after the current batch; from any thread."""
        self._transport.post(self._inner.stop)

    def drain(self) -> int:
        """Publish until no row may be published; returns how many were sent, 0 if another relay is active."""
        return self._transport.run(self._inner.drain())

    def measures(self) -> Sequence[Measure]:
        """The outcomes of published rows, and whether this relay is active."""
        return self._inner.measures()
