"""A chaser for programs without an event loop.

    Chaser(engine).once()

It needs no connection and no thread: it works in the database. `warren client chase` is a process that only chases; a
`listening.Program` may have a chaser among its jobs.

Not here: the work itself (`receipts.chaser`).
"""

import asyncio

from sqlalchemy import Engine

from warren.client.receipts import chaser as on_loop
from warren.client.receipts.chaser import Chased, ChasingSettings, OnAlert

__all__ = ["Chaser"]


class Chaser:
    """Chases the receipts of one database on demand."""

    def __init__(
        self, engine: Engine, settings: ChasingSettings | None = None, *, on_alert: OnAlert | None = None
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._on_alert = on_alert

    def once(self) -> Chased:
        """Handle all overdue rows, and raise alerts; does nothing if another chaser is active."""
        return asyncio.run(on_loop.Chaser(self._engine, self._settings, on_alert=self._on_alert).once())
