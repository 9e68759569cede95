"""A chaser for programs without an event loop.

    Chaser(engine).once()

It needs no connection and no thread: what it does is done in the database. A process that chases and does nothing else
is `warren client chase`; one that listens as well is a `listening.Program` with a chaser among its jobs.

Not here: what the calls do (`receipts.chaser`).
"""

import asyncio

from sqlalchemy import Engine

from warren.client.receipts import chaser as on_loop
from warren.client.receipts.chaser import Chased, ChasingSettings, OnAlert

__all__ = ["Chaser"]


class Chaser:
    """Chases the receipts of one database when it is told to."""

    def __init__(
        self, engine: Engine, settings: ChasingSettings | None = None, *, on_alert: OnAlert | None = None
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._on_alert = on_alert

    def once(self) -> Chased:
        """Deal with all that is overdue now, and tell of what failed; none if another chaser is active."""
        return asyncio.run(on_loop.Chaser(self._engine, self._settings, on_alert=self._on_alert).once())
