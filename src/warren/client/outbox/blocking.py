"""A relay for programs without an event loop.

    with blocking.open(url) as transport:
        Relay(engine, transport).drain()

A process that relays and does nothing else is `warren client relay`; one that listens as well is a `listening.Program`
with a relay among its jobs.

Not here: what the calls do (`outbox.relay`), the thread in which they run (`recovering.blocking`).
"""

from collections.abc import Sequence

from sqlalchemy import Engine

from warren.client.measures import Measure
from warren.client.outbox import relay as on_loop
from warren.client.outbox.table import RelaySettings
from warren.client.recovering.blocking import Transport

__all__ = ["Relay"]


class Relay:
    """Publishes the rows of one database; `run` until another thread says `stop`, or `drain` once."""

    def __init__(self, engine: Engine, transport: Transport, settings: RelaySettings | None = None) -> None:
        self._transport = transport
        self._inner = on_loop.Relay(engine, transport.inner, settings)

    def run(self) -> None:
        """Until `stop`; if the caller is interrupted, the lease is let go of."""
        self._transport.run(self._inner.run())

    def stop(self) -> None:
        """Have `run` return when what is in hand is written down; from any thread."""
        self._transport.post(self._inner.stop)

    def drain(self) -> int:
        """Publish what may go until there is no more; how many rows were sent, 0 if another relay is active."""
        return self._transport.run(self._inner.drain())

    def measures(self) -> Sequence[Measure]:
        """What became of the rows that it published, and whether it is the active one."""
        return self._inner.measures()
