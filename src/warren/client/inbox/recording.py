"""One row for one message: what it says, and the statement that writes it unless it is there.

It is put into words once for each inbox, and given to the driver itself: what SQLAlchemy does to a statement would be a
third of the whole cost. A connection has it prepared after a few messages. A second one also tells when it was written.
So recording is one short round trip, and little besides. What the driver raises becomes what SQLAlchemy would have
raised.

Not here: whose transaction it is (`inbox.inbox`).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import Connection, Dialect, bindparam
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from warren.client.errors import CannotConvert, TablesRefused
from warren.client.tables import INBOX, Executor, connection_of, database_time
from warren.client.tables.fitting import check_money
from warren.wire.properties import Properties

DriversTime = datetime | str
"""A time as the driver of a database tells it."""

ATTEMPT: Final = "x-attempt"
ATTEMPT_MAX: Final = 2**31 - 1
TEXT_CHARACTERS_MAX: Final = 255
COLUMNS: Final = ("consumer", "business_id", "amount", "currency", "attempt", "digest")
OLDER: Final = (
    "the inbox tables are missing or of an older version; call warren.client.tables.create_tables(engine) once"
)
LACKING_STATES: Final = ("42P01", "42703")
LACKING_WORDS: Final = ("no such table: warren_inbox", "table warren_inbox has no column")
"""What PostgreSQL and SQLite say where a table or a column is not there."""
INSERTS: Final[Mapping[str, Callable[..., postgresql.Insert | sqlite.Insert]]] = {
    "postgresql": postgresql.insert,
    "sqlite": sqlite.insert,
}


class Recorder:
    """Writes the rows of one consumer."""

    def __init__(self, dialect: Dialect, consumer: str) -> None:
        if dialect.name not in INSERTS:
            raise TablesRefused(f"an inbox is kept in SQLite or PostgreSQL, not in {dialect.name}")
        named = {name: bindparam(name, type_=INBOX.c[name].type) for name in COLUMNS}
        row = INSERTS[dialect.name](INBOX).values(**named, received_at=database_time()).on_conflict_do_nothing()
        compiled = row.compile(dialect=dialect)
        self._statement = str(compiled)
        self._telling = str(row.returning(INBOX.c.received_at).compile(dialect=dialect))
        self._same: dict[str, Any] = {**compiled.params, "consumer": consumer}
        # empty: the driver takes values by their names
        self._places: list[str] = list(compiled.positiontup or ())
        # as this database keeps it: the type as such would make a float of it
        kept: Any = INBOX.c.amount.type.dialect_impl(dialect)
        self._amount: Callable[[Decimal | None], object] = kept.bind_processor(dialect) or (lambda amount: amount)

    def record(
        self,
        executor: Executor,
        business_id: str,
        amount: Decimal | None = None,
        currency: str | None = None,
        attempt: int = 1,
        digest: str | None = None,
    ) -> bool:
        """Whether it was written; if not, it was there. A `CannotConvert` if the ledgers cannot keep the amount."""
        values = self._values(business_id, amount, currency, attempt, digest)
        with _cursor(connection_of(executor), self._statement, values) as cursor:
            return bool(cursor.rowcount)

    def recorded_at(
        self,
        executor: Executor,
        business_id: str,
        amount: Decimal | None = None,
        currency: str | None = None,
        attempt: int = 1,
        digest: str | None = None,
    ) -> DriversTime | None:
        """When it was written, by the database's clock; None if it was there. To be told costs more than to write."""
        values = self._values(business_id, amount, currency, attempt, digest)
        with _cursor(connection_of(executor), self._telling, values) as cursor:
            written: tuple[DriversTime] | None = cursor.fetchone()
            return None if written is None else written[0]

    def _values(
        self, business_id: str, amount: Decimal | None, currency: str | None, attempt: int, digest: str | None
    ) -> Any:
        """As the driver takes them."""
        if amount is not None or currency is not None:
            _check_money(amount, currency)
        values = {
            **self._same,
            "business_id": business_id,
            "amount": self._amount(amount),
            "currency": currency,
            "attempt": attempt,
            "digest": digest,
        }
        return tuple([values[name] for name in self._places]) or values


def moment(told: DriversTime) -> datetime:
    """A time as a driver tells it: that of SQLite as text, and all of it UTC."""
    found = datetime.fromisoformat(told) if isinstance(told, str) else told
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


@contextmanager
def _cursor(connection: Connection, statement: str, values: Any) -> Iterator[Any]:
    """The driver's, with the statement executed."""
    if not connection.in_transaction():
        connection.begin()
    driver: Any = connection.connection
    cursor = driver.cursor()
    try:
        cursor.execute(statement, values)
        yield cursor
    except connection.dialect.loaded_dbapi.Error as error:
        is_lost = connection.dialect.is_disconnect(error, driver, cursor)
        if is_lost:
            connection.invalidate(error)
        elif _lacks_something(error):
            raise TablesRefused(OLDER) from error
        known = connection.dialect.loaded_dbapi.Error
        raise DBAPIError.instance(
            statement, values, error, known, connection_invalidated=is_lost, dialect=connection.dialect
        ) from error
    finally:
        cursor.close()


def _lacks_something(error: Any) -> bool:
    """Whether it says that a table or a column is not there."""
    return getattr(error, "sqlstate", None) in LACKING_STATES or str(error).startswith(LACKING_WORDS)


def _check_money(amount: Decimal | None, currency: str | None) -> None:
    try:
        check_money(amount, currency)
    except ValueError as misfit:
        # the sender said so, and it will be the same when the message comes again
        raise CannotConvert(str(misfit)) from None


def business_id_of(properties: Properties) -> str:
    """The id under which the sender knows it; a `CannotConvert` if it has none that could be kept."""
    return checked_id(properties.message_id or "")


def checked_id(business_id: str, name: str = "message_id") -> str:
    if not business_id:
        raise CannotConvert(f"it has no {name}, and nobody could tell it from its duplicates")
    if len(business_id) > TEXT_CHARACTERS_MAX or not is_kept_as_text(business_id):
        raise CannotConvert(f"its {name} {business_id!r} is not text of at most {TEXT_CHARACTERS_MAX} characters")
    return business_id


def is_kept_as_text(text: str) -> bool:
    """No database keeps bytes that are not UTF-8 as text, and PostgreSQL no NUL."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def attempt_of(properties: Properties) -> int:
    """How often its sender had sent it by then; 1 if that makes no sense."""
    found = (properties.headers or {}).get(ATTEMPT)
    return int(found) if isinstance(found, int) and 1 <= found <= ATTEMPT_MAX else 1
