"""The outbox looked at: how many rows are open, and the first of each status, in one transaction that changes nothing.

Rows that are through with stay for days, and are many. So nothing is asked that an index on open rows could not answer:
each statement has the words of one of them (`tables.metadata`), written out, because a database that does not know a
value cannot tell whether an index has it.

Not here: what is shown of it (`warren client open`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from sqlalchemy import Connection, Engine, Row, Select, and_, func, literal_column, select
from sqlalchemy.sql.elements import ColumnElement

from warren.client.ledgers.database import reached
from warren.client.ledgers.items import MEANINGS, OpenItem, Standing, StatusCount
from warren.client.outbox.shelf import LEASE
from warren.client.tables import LEASES, OUTBOX, check_tables, database_time

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
    """The first rows of each status that are not through with: those first that somebody has to look at."""
    return list(standing(engine, limit).items)


def standing(engine: Engine, limit: int = LIMIT) -> Standing:
    """How many rows are open, and the first `limit` of each status.

    A `CannotConnect` if the database is not there, a `TablesRefused` if its tables are not, or of another version.
    """
    if limit < 1:
        raise ValueError(f"at least one row of each status is looked at, not {limit}")
    with reached(engine), _one_moment(engine) as connection:
        check_tables(connection)
        return _standing(connection, limit)


@contextmanager
def _one_moment(engine: Engine) -> Iterator[Connection]:
    """A transaction that sees one state of the database, and writes nothing."""
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
    """Of each status how many rows there are, and of how many the receipt is overdue."""

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
