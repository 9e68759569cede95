"""The open rows of an outbox: counts by status and the first rows of each, in one read-only transaction.

Finished rows stay for days and are many. So each statement repeats the condition of an index on open rows
(`tables.schema`) with literal values, because a database cannot choose a partial index for a bound parameter.

`OpenRows` reports the same as measures. Each collection asks the database; measures collected together share one query.
A database that does not answer has no points.

Not here: the output of `warren client open`, counters of the processes that work on the rows (`outbox.relay`,
`receipts.chaser`).
"""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from threading import Lock
from typing import Final

from sqlalchemy import Connection, Engine, Row, Select, and_, func, literal_column, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.sql.elements import ColumnElement

from warren.client.errors import ClientError
from warren.client.ledgers.database import database_errors
from warren.client.measures import DATABASE, STATUS, Measure, Point
from warren.client.outbox.table import LEASE
from warren.client.tables import LEASES, OUTBOX, check_tables, database_time
from warren.client.tables.connections import database_name

MEANINGS: Final[dict[str, str]] = {
    "failed": "All attempts failed: a person has to look.",
    "refused": "Its receiver has refused it.",
    "reversing": "There was no receipt: another row reverses it.",
    "confirming": "There was no receipt: another row confirms it.",
    "sent": "It was sent, and there is no receipt yet.",
    "pending": "It is to be sent.",
}
"""The statuses of open rows, the most urgent for a person first."""


@dataclass(frozen=True, slots=True)
class OpenItem:
    """An open row.

    `due_at` is the time of the next attempt if it is pending, and the time by which its receipt is due if it was sent;
    `is_overdue` says whether the latter is past.
    """

    business_id: str
    kind: str
    status: str
    exchange: str
    routing_key: str
    attempt: int
    resends: int
    settles: str | None
    amount: Decimal | None
    currency: str | None
    created_at: datetime | None
    sent_at: datetime | None
    due_at: datetime | None
    last_error: str | None
    age_s: float | None
    is_overdue: bool


@dataclass(frozen=True, slots=True)
class StatusCount:
    """The number of rows with a status, how many receipts are overdue, and the age of the first row."""

    status: str
    rows: int
    overdue: int
    first_age_s: float | None


@dataclass(frozen=True, slots=True)
class Standing:
    """The open rows at a moment of the database's clock; `items` has the first of each status."""

    at: datetime
    counts: tuple[StatusCount, ...]
    items: tuple[OpenItem, ...]
    relay_until: datetime | None
    """The end of the active relay's lease; in the past, or None, if no relay is active."""

    @property
    def rows(self) -> int:
        return sum(count.rows for count in self.counts)

    @property
    def is_relayed(self) -> bool:
        """Whether a relay is active."""
        return self.relay_until is not None and self.relay_until > self.at

    def items_of(self, status: str) -> tuple[OpenItem, ...]:
        return tuple(item for item in self.items if item.status == status)


LIMIT = 100
ROW = OUTBOX.c
SHOWN = (
    "business_id",
    "kind",
    "status",
    "exchange",
    "routing_key",
    "attempt",
    "resends",
    "settles",
    "amount",
    "currency",
    "created_at",
    "sent_at",
    "due_at",
    "last_error",
)

_PENDING = ROW.status == literal_column("'pending'")
_AWAITED = and_(ROW.status == literal_column("'sent'"), ROW.due_at.is_not(None))
_UNSETTLED = ROW.status.in_([literal_column(word) for word in ("'failed'", "'refused'", "'confirming'", "'reversing'")])


def open_items(engine: Engine, limit: int = LIMIT) -> list[OpenItem]:
    """The first open rows of each status, the most urgent status first."""
    return list(standing(engine, limit).items)


def standing(engine: Engine, limit: int = LIMIT) -> Standing:
    """How many rows are open, and the first `limit` of each status.

    `CannotConnect` if the database is not reachable, `TablesRefused` if its tables are missing or of another version.
    """
    if limit < 1:
        raise ValueError(f"at least one row of each status is looked at, not {limit}")
    with database_errors(engine), _one_moment(engine) as connection:
        check_tables(connection)
        return _standing(connection, limit)


@contextmanager
def _one_moment(engine: Engine) -> Iterator[Connection]:
    """A read-only transaction with one snapshot."""
    with engine.connect() as connection:
        if connection.dialect.name == "postgresql":
            connection = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        elif not getattr(connection.connection.dbapi_connection, "in_transaction", False):
            # the driver begins a transaction before an INSERT, but not before a SELECT
            connection.exec_driver_sql("BEGIN")
        yield connection
        connection.rollback()


def _standing(connection: Connection, limit: int) -> Standing:
    now = connection.execute(select(database_time())).scalar_one()
    counted = _counted(connection, now)
    found: list[OpenItem] = []
    counts: list[StatusCount] = []
    for status in MEANINGS:
        rows, overdue = counted.get(status, (0, 0))
        items = [_item(row, now) for row in connection.execute(_first(status, limit))] if rows else []
        found += items
        counts.append(StatusCount(status, rows, overdue, items[0].age_s if items else None))
    relay = select(LEASES.c.expires_at).where(LEASES.c.name == LEASE)
    return Standing(now, tuple(counts), tuple(found), connection.execute(relay).scalar())


def _counted(connection: Connection, now: datetime) -> dict[str, tuple[int, int]]:
    """For each status the number of rows, and how many receipts are overdue."""

    def number(*conditions: ColumnElement[bool]) -> int:
        return connection.execute(select(func.count()).select_from(OUTBOX).where(*conditions)).scalar_one()

    unsettled = select(ROW.status, func.count()).where(_UNSETTLED).group_by(ROW.status)
    counts = {status: (rows, 0) for status, rows in connection.execute(unsettled)}
    counts["pending"] = number(_PENDING), 0
    counts["sent"] = number(_AWAITED), number(_AWAITED, ROW.due_at <= now)
    return counts


def _first(status: str, limit: int) -> Select[*tuple[object, ...]]:
    columns = select(*(ROW[name] for name in SHOWN)).limit(limit)
    if status == "sent":
        return columns.where(_AWAITED).order_by(ROW.due_at, ROW.id)
    of_status = _PENDING if status == "pending" else and_(_UNSETTLED, ROW.status == status)
    return columns.where(of_status).order_by(ROW.id)


def _item(row: Row[*tuple[object, ...]], now: datetime) -> OpenItem:
    values = row._asdict()
    created: datetime | None = values["created_at"]
    due: datetime | None = values["due_at"]
    age_s = None if created is None else max((now - created).total_seconds(), 0.0)
    is_overdue = values["status"] == "sent" and due is not None and due <= now
    return OpenItem(**values, age_s=age_s, is_overdue=is_overdue)


TOGETHER_S: Final = 0.5
"""Reads within this time share one query."""

log = logging.getLogger("warren.client.ledgers")


class OpenRows:
    """The open rows of one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._where = {DATABASE: database_name(engine)}
        self._lock = Lock()
        self._found: Standing | None = None
        self._asked_at = -TOGETHER_S

    def measures(self) -> Sequence[Measure]:
        """For each status the number of rows, the overdue receipts, and the age of the first row."""
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
