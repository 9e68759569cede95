"""Both sides' tables as ledgers: which rows count, and which of their columns are told.

| side     | a row is                        | left out                                                              |
|----------|---------------------------------|-----------------------------------------------------------------------|
| `outbox` | a message that was to be sent   | one that is to be taken back, or was refused; what settles or corrects|
|          |                                 | others, and receipts. What else rows are called by `kind` is no matter|
| `inbox`  | a message that one consumer did | one that it took back or refused                                      |

So what was taken back is in neither, and a message that was sent and done is in both, under its business id. One that
is to be taken back, and the consumer has done, is a difference until that has happened; also if nobody goes on with it.

Invariant: all rows are of one moment, because one statement reads them; few of them are in memory at a time.

Not here: comparing (`warren.pipeline.reconcile`).
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Engine, Select, String, and_, case, cast, exists, func, select
from sqlalchemy.sql.elements import ColumnElement

from warren.client.ledgers.database import reached
from warren.client.outbox.kinds import CONFIRMATION, RECEIPT, REVERSAL
from warren.client.tables import INBOX, OUTBOX, check_tables, database_time

CHUNK_ROWS: Final = 50_000
TAKEN_BACK: Final = ("reversing", "reversed", "refused")
CORRECTION: Final = "correction"
ABOUT_OTHERS: Final = (CONFIRMATION, REVERSAL, RECEIPT, CORRECTION)
"""Kinds of rows that are no message of their own."""

OUTBOX_COLUMNS: Final = (
    "business_id",
    "status",
    "exchange",
    "routing_key",
    "ordering_key",
    "attempt",
    "amount",
    "currency",
    "created_at",
    "sent_at",
    "done_at",
)
INBOX_COLUMNS: Final = ("consumer", "business_id", "attempt", "amount", "currency", "received_at")


def check_ledger(engine: Engine) -> None:
    """A `CannotConnect` or a `TablesRefused` if there is nothing to read."""
    with reached(engine), engine.connect() as connection:
        check_tables(connection)


def moment(engine: Engine) -> datetime:
    """What time it is, by the database's clock."""
    with reached(engine), engine.connect() as connection:
        return connection.execute(select(database_time())).scalar_one()


def outbox_rows(engine: Engine) -> Iterator[list[tuple[Any, ...]]]:
    """The rows that count, in pieces; columns as in `OUTBOX_COLUMNS`. Amounts are text, whatever it says.

    One that was written by hand may lack the time at which it was; then it is that at which it was sent.
    """
    row = OUTBOX.c
    written = func.coalesce(row.created_at, row.sent_at, row.done_at, type_=row.created_at.type)
    exact = {"created_at": written, "amount": _as_text(row.amount)}
    columns = [exact.get(name, row[name]) for name in OUTBOX_COLUMNS]
    reversal = OUTBOX.alias()
    is_reversed = exists().where(reversal.c.settles == row.business_id, reversal.c.kind == REVERSAL)
    return _pieces(engine, select(*columns).where(is_own(), standing_status().not_in(TAKEN_BACK), ~is_reversed))


def standing_status() -> ColumnElement[str]:
    """The status; what was refused stays refused when nobody goes on with it."""
    row = OUTBOX.c
    was_refused = and_(row.status == "failed", row.refused_at.is_not(None))
    return case((was_refused, "refused"), else_=row.status)


def is_own() -> ColumnElement[bool]:
    """Whether a row of the outbox is a message of its own, and not about another one."""
    return and_(OUTBOX.c.settles.is_(None), OUTBOX.c.kind.not_in(ABOUT_OTHERS))


def inbox_rows(engine: Engine, consumer: str) -> Iterator[list[tuple[Any, ...]]]:
    """Those of one consumer, in pieces; columns as in `INBOX_COLUMNS`."""
    columns = [_as_text(INBOX.c.amount) if name == "amount" else INBOX.c[name] for name in INBOX_COLUMNS]
    return _pieces(engine, select(*columns).where(INBOX.c.consumer == consumer, INBOX.c.outcome == "done"))


def _as_text(amount: ColumnElement[Any]) -> ColumnElement[Any]:
    """As it stands there: one that is no number would end the whole reading."""
    return cast(amount, String).label("amount")


def _pieces(engine: Engine, statement: Select[*tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    with reached(engine), engine.connect().execution_options(yield_per=CHUNK_ROWS) as connection:
        for piece in connection.execute(statement).partitions():
            yield [tuple(row) for row in piece]
