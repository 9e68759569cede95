"""A database that a person names by a URL, and the tables of both sides as ledgers.

| written                        | meaning                                                     |
|--------------------------------|-------------------------------------------------------------|
| `postgresql://USER@HOST/NAME`  | PostgreSQL, by psycopg, which comes with the extra          |
| `sqlite:///FILE`               | a file; one that is not there would be made, and be empty   |

Errors and logs never show a part of a URL that may hold a password: an invalid URL is not shown at all, and of its
options only those that locate the server.

A ledger is the rows of a table that count:

| side     | a row is                        | left out                                                              |
|----------|---------------------------------|-----------------------------------------------------------------------|
| `outbox` | a message to be sent            | one that is to be reversed, or was refused; rows that confirm, reverse|
|          |                                 | or correct others, and receipts. Other values of `kind` do not matter |
| `inbox`  | a message that one consumer did | one that it reversed or refused                                       |

So a reversed message is in neither ledger, and a message that was sent and done is in both, under its business id. A
message that is to be reversed and that the consumer has done is a difference until it is reversed, even if no job
continues with it.

Invariant: one statement reads all rows, so they are one snapshot; few of them are in memory at a time.

Not here: the tables (`client.tables`), comparing (`warren.pipeline.reconcile`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Engine, Select, String, and_, case, cast, create_engine, exists, func, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, NoSuchModuleError, OperationalError
from sqlalchemy.sql.elements import ColumnElement

from warren.client.errors import CannotConnect, SettingsError, TablesRefused
from warren.client.outbox.outbox import CONFIRMATION, RECEIPT, REVERSAL
from warren.client.tables import INBOX, OUTBOX, check_tables, database_time

DRIVER: Final = "postgresql+psycopg"
OPTIONS_SHOWN: Final = ("host", "port")


def open_database(
    url: str, user: str = "", password: str = "", *, named: str = "the database", must_exist: bool = True
) -> Engine:
    """An engine that is not connected yet; a `SettingsError` if the URL is invalid, under the name `named`.

    User and password may be given apart from the URL.
    """
    try:
        known = _known(make_url(url), named, must_exist)
        if user:
            known = known.set(username=user)
        if password:
            known = known.set(password=password)
        engine = create_engine(known)
    except NoSuchModuleError as error:
        raise SettingsError(f"{named} is of an unknown kind: {error}") from None
    except ModuleNotFoundError as error:
        raise SettingsError(f"{named} needs a package that is not installed: {error.name}") from None
    except (ArgumentError, ValueError):
        # the original error quotes parts of the URL
        raise SettingsError(f"{named} is no URL; one is postgresql://USER@HOST/NAME, or sqlite:///FILE") from None
    if engine.dialect.is_async:
        raise SettingsError(f"{named} names a driver for asyncio, {engine.driver}: leave it out")
    return engine


def redacted_url(engine: Engine) -> str:
    """The URL without a password, wherever the password is."""
    url = engine.url
    options = {name: value for name, value in url.query.items() if name in OPTIONS_SHOWN}
    return url.set(query=options).render_as_string(hide_password=True)


@contextmanager
def database_errors(engine: Engine) -> Iterator[None]:
    """Raise the database's errors as one-sentence errors of the client."""
    try:
        yield
    except DBAPIError as trouble:
        said = str(trouble.orig).strip().partition("\n")[0]
        if trouble.connection_invalidated or isinstance(trouble, InterfaceError | OperationalError):
            raise CannotConnect([(redacted_url(engine), said)]) from trouble
        raise TablesRefused(f"{redacted_url(engine)} refuses what it is asked: {said}") from trouble


def _known(url: URL, named: str, must_exist: bool) -> URL:
    if url.drivername in ("postgres", "postgresql"):
        url = url.set(drivername=DRIVER)
    kind = url.get_backend_name()
    if kind not in ("postgresql", "sqlite"):
        raise SettingsError(f"{named} is PostgreSQL or SQLite, not {kind}")
    if kind == "sqlite":
        _check_file(url.database or ":memory:", named, must_exist)
    elif "@" in f"{url.host}{url.database}":
        raise SettingsError(f"{named} has more than one @: in a user and a password it is written %40")
    return url


def _check_file(name: str, named: str, must_exist: bool) -> None:
    if name == ":memory:":
        raise SettingsError(f"{named} is a file of SQLite, sqlite:///FILE: no other process sees a database in memory")
    if must_exist and not name.startswith("file:") and not Path(name).is_file():
        raise SettingsError(f"{named} names a file that is not there: {name}")


CHUNK_ROWS: Final = 50_000
TAKEN_BACK: Final = ("reversing", "reversed", "refused")
CORRECTION: Final = "correction"
ABOUT_OTHERS: Final = (CONFIRMATION, REVERSAL, RECEIPT, CORRECTION)
"""The kinds of rows that are about another message."""

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
    """`CannotConnect` or `TablesRefused` if the ledger cannot be read."""
    with database_errors(engine), engine.connect() as connection:
        check_tables(connection)


def database_now(engine: Engine) -> datetime:
    """The time of the database's clock."""
    with database_errors(engine), engine.connect() as connection:
        return connection.execute(select(database_time())).scalar_one()


def outbox_rows(engine: Engine) -> Iterator[list[tuple[Any, ...]]]:
    """The rows that count, in pieces; columns as in `OUTBOX_COLUMNS`. Amounts are text as stored.

    A row inserted by hand may lack its time; then it has the time of its sending.
    """
    row = OUTBOX.c
    written = func.coalesce(row.created_at, row.sent_at, row.done_at, type_=row.created_at.type)
    exact = {"created_at": written, "amount": _as_text(row.amount)}
    columns = [exact.get(name, row[name]) for name in OUTBOX_COLUMNS]
    reversal = OUTBOX.alias()
    is_reversed = exists().where(reversal.c.settles == row.business_id, reversal.c.kind == REVERSAL)
    return _pieces(engine, select(*columns).where(is_own_message(), standing_status().not_in(TAKEN_BACK), ~is_reversed))


def standing_status() -> ColumnElement[str]:
    """The status; a refused row stays refused after it failed."""
    row = OUTBOX.c
    was_refused = and_(row.status == "failed", row.refused_at.is_not(None))
    return case((was_refused, "refused"), else_=row.status)


def is_own_message() -> ColumnElement[bool]:
    """Whether a row of the outbox is not about another message."""
    return and_(OUTBOX.c.settles.is_(None), OUTBOX.c.kind.not_in(ABOUT_OTHERS))


def inbox_rows(engine: Engine, consumer: str) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of one consumer, in pieces; columns as in `INBOX_COLUMNS`."""
    columns = [_as_text(INBOX.c.amount) if name == "amount" else INBOX.c[name] for name in INBOX_COLUMNS]
    return _pieces(engine, select(*columns).where(INBOX.c.consumer == consumer, INBOX.c.outcome == "done"))


def _as_text(amount: ColumnElement[Any]) -> ColumnElement[Any]:
    """The stored text: an invalid number would end the whole read."""
    return cast(amount, String).label("amount")


def _pieces(engine: Engine, statement: Select[*tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    with database_errors(engine), engine.connect().execution_options(yield_per=CHUNK_ROWS) as connection:
        for piece in connection.execute(statement).partitions():
            yield [tuple(row) for row in piece]
