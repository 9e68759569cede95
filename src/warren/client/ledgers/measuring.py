"""What is open in an outbox, as measures: how many rows of each status, and how old the first of them are.

Each time somebody asks, the database is asked; what is asked together, as all measures are when they are collected, is
one look at it. A database that does not answer has no points.

Not here: what is counted by a process that works on the rows (`outbox.relay`, `receipts.chaser`).
"""

import logging
import time
from collections.abc import Sequence
from threading import Lock
from typing import Final

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from warren.client.errors import ClientError
from warren.client.ledgers.items import Standing
from warren.client.ledgers.looking import standing
from warren.client.measures import DATABASE, STATUS, Measure, Point
from warren.client.tables.places import place_of

TOGETHER_S: Final = 0.5
"""Within which two questions are one."""

log = logging.getLogger("warren.client.ledgers")


class OpenRows:
    """The rows of one database that are not through with."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._where = {DATABASE: place_of(engine)}
        self._lock = Lock()
        self._found: Standing | None = None
        self._asked_at = -TOGETHER_S

    def measures(self) -> Sequence[Measure]:
        """Of each status how many rows there are, of how many the receipt is overdue, and the age of the first."""
        return [
            Measure("warren.client.outbox.rows", "{row}", "Rows that are open, by status", "gauge", self._rows),
            Measure("warren.client.outbox.overdue", "{row}", "Rows whose receipt should be there", "gauge", self._late),
            Measure("warren.client.outbox.age", "s", "Age of the first open row, by status", "gauge", self._ages),
            Measure("warren.client.outbox.relayed", "1", "Whether a relay is active", "gauge", self._relayed),
        ]

    def _rows(self) -> list[Point]:
        found = self._standing()
        return [] if found is None else [(each.rows, {**self._where, STATUS: each.status}) for each in found.counts]

    def _late(self) -> list[Point]:
        found = self._standing()
        return [] if found is None else [(sum(each.overdue for each in found.counts), self._where)]

    def _ages(self) -> list[Point]:
        found = self._standing()
        ages = [] if found is None else [(each.first_age_s, each.status) for each in found.counts]
        return [(age_s, {**self._where, STATUS: status}) for age_s, status in ages if age_s is not None]

    def _relayed(self) -> list[Point]:
        found = self._standing()
        return [] if found is None else [(int(found.is_relayed), self._where)]

    def _standing(self) -> Standing | None:
        with self._lock:
            if time.monotonic() - self._asked_at >= TOGETHER_S:
                self._found = self._look()
                self._asked_at = time.monotonic()
            return self._found

    def _look(self) -> Standing | None:
        try:
            return standing(self._engine, limit=1)
        except (ClientError, SQLAlchemyError) as trouble:
            log.warning("outbox.not_measured", extra={"reason": str(trouble).partition("\n")[0]})
            return None
