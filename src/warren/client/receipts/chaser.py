"""The process that goes after receipts that are overdue: one is active among as many as there are.

    chase    rows that are overdue or refused: sent again, compensated for, or failed, a batch in a transaction
    tell     of rows that failed and nobody was told of

It works in the database alone. What is to be sent again the relay sends, woken as by any other row. All that it goes by
is in the rows, so it may be stopped or killed at any point, and another goes on.

Not here: whose turn it is (`tables.leading`), the SQL (`receipts.overdue`), the rules (`receipts.deciding`).
"""

import asyncio
import logging
from collections.abc import Sequence

from sqlalchemy import Engine

from warren.client.measures import DATABASE, Measure, Point
from warren.client.receipts.alerts import OnAlert, tell
from warren.client.receipts.overdue import LEASE, Chased, Overdue
from warren.client.receipts.settings import ChasingSettings
from warren.client.tables.claiming import Claim
from warren.client.tables.leading import Leading, wait
from warren.client.tables.places import place_of

DONE = "warren.done"

log = logging.getLogger("warren.client.receipts")


class Chaser:
    """Chases the receipts of one database; `run` until `stop`, or look `once`.

    `resent`, `compensated`, `failed` and `alerts` count since the program began. A chaser runs once: for another run
    make another one.
    """

    def __init__(
        self, engine: Engine, settings: ChasingSettings | None = None, *, on_alert: OnAlert | None = None
    ) -> None:
        self.resent = 0
        self.compensated = 0
        self.failed = 0
        self.alerts = 0
        self._settings = settings or ChasingSettings()
        self._where = {DATABASE: place_of(engine)}
        self._on_alert = on_alert
        self._claim = Claim(engine, LEASE, self._settings.lease_s)
        self._overdue = Overdue(self._claim, self._settings)
        self._stopped = asyncio.Event()
        self._woken = asyncio.Event()
        self._leading = Leading(self._claim, log, "chaser", self._woken)

    async def run(self) -> None:
        """Until `stop`. A database that cannot be reached or used at the start is an error, later a pause."""
        await asyncio.to_thread(self._claim.check)
        await self._leading.run(self._serve, self._stopped, self._settings.backoff_s)

    def stop(self) -> None:
        """Have `run` return when what is in hand is written down; may be a signal's handler in the loop."""
        self._stopped.set()
        self._woken.set()

    async def once(self) -> Chased:
        """Deal with all that is overdue now, and tell of what failed; none if another chaser is active."""
        await asyncio.to_thread(self._claim.check)
        before = Chased(self.resent, self.compensated, self.failed)
        async with self._leading.lead():
            while self._goes_on and await self._round():
                pass
        return Chased(self.resent - before.resent, self.compensated - before.compensated, self.failed - before.failed)

    def measures(self) -> Sequence[Measure]:
        """What the counts say, and whether it is the active one."""
        rows = "Rows that this chaser dealt with, by what it did"
        return [
            Measure("warren.client.chaser.rows", "{row}", rows, "counter", self._rows),
            Measure("warren.client.chaser.alerts", "{alert}", "Alerts that this chaser raised", "counter", self._told),
            Measure("warren.client.chaser.leads", "1", "Whether this chaser is the active one", "gauge", self._leads),
        ]

    def _rows(self) -> list[Point]:
        done = {"resent": self.resent, "compensated": self.compensated, "failed": self.failed}
        return [(rows, {**self._where, DONE: name}) for name, rows in done.items()]

    def _told(self) -> list[Point]:
        return [(self.alerts, self._where)]

    def _leads(self) -> list[Point]:
        return [(int(self._leading.leads), self._where)]

    @property
    def _goes_on(self) -> bool:
        return self._leading.leads and not self._stopped.is_set()

    async def _serve(self) -> None:
        while self._goes_on:
            self._woken.clear()
            if not await self._round():
                await wait(self._woken, self._settings.poll_s)

    async def _round(self) -> bool:
        """Whether there may be more to do."""
        chased = await asyncio.to_thread(self._overdue.chase)
        if chased is None:
            self._leading.lose()
            return False
        self._count(chased)
        return await self._tell() or chased.rows > 0

    async def _tell(self) -> bool:
        alerts = await asyncio.to_thread(self._overdue.alerts)
        if alerts is None:
            self._leading.lose()
        if not alerts:
            return False
        for _, alert in alerts:
            await asyncio.to_thread(tell, alert, self._on_alert)
        self.alerts += len(alerts)
        if not await asyncio.to_thread(self._overdue.mark_told, [row_id for row_id, _ in alerts]):
            self._leading.lose()
        return True

    def _count(self, chased: Chased) -> None:
        self.resent += chased.resent
        self.compensated += chased.compensated
        self.failed += chased.failed
        if chased.rows:
            log.info("chaser.chased", extra=chased._asdict())
