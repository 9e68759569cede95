"""One row for one message: its columns, and the statement that inserts it unless it exists.

The statement is compiled once for each inbox and given to the driver directly, because SQLAlchemy's execution would be
a third of the cost. The driver prepares it after a few messages. A second statement also returns when the row was
written. So recording takes one short round trip. Errors of the driver are raised as SQLAlchemy's.

**Digest.** The digest distinguishes messages with the same business id. It is made of the parts that a sender repeats:
the body and the properties `app_id`, `type` and `reply_to`. Parts that differ between deliveries are left out: headers,
which relays, listeners, brokers and tracing change; `user_id`, which a retry drops; and a `reply_to` that the broker
generated (`amq.`...), which differs after each connection. A confirmation or a reversal has the digest of its message,
because it copies these parts.

**Subject.** A message is about itself, or about a message that it confirms or reverses. Confirmations and reversals
have the headers `x-kind` and `x-settles`, the business id of the other message, and otherwise differ only in their own
business id. A relay adds `x-written-at`, the time at which the message was written; a confirmation or reversal has the
time of its message.

Not here: transactions (`inbox.inbox`), comparing digests and reversals (`inbox.handler`).
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Dialect, bindparam
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from warren.client.errors import CannotConvert, TablesRefused
from warren.client.outbox.outbox import CONFIRMATION, KIND_HEADER, REVERSAL, SETTLES_HEADER, WRITTEN_HEADER
from warren.client.tables import INBOX, Executor, connection_of, database_time
from warren.client.tables.columns import check_money
from warren.wire.field_tables import Timestamp
from warren.wire.properties import Properties

DriversTime = datetime | str
"""A time as a database driver returns it."""

ATTEMPT: Final = "x-attempt"
ATTEMPT_MAX: Final = 2**31 - 1
TEXT_CHARACTERS_MAX: Final = 255
COLUMNS: Final = ("consumer", "business_id", "amount", "currency", "attempt", "digest")
OLDER: Final = (
    "the inbox tables are missing or of an older version; call warren.client.tables.create_tables(engine) once"
)
LACKING_STATES: Final = ("42P01", "42703")
LACKING_WORDS: Final = ("no such table: warren_inbox", "table warren_inbox has no column")
"""The error texts of PostgreSQL and SQLite for a missing table or column."""
INSERTS: Final[Mapping[str, Callable[..., postgresql.Insert | sqlite.Insert]]] = {
    "postgresql": postgresql.insert,
    "sqlite": sqlite.insert,
}


class RecordedFacts(NamedTuple):
    """The facts of a message that its row has, besides the business id."""

    amount: Decimal | None
    currency: str | None
    attempt: int
    digest: str | None


class InboxTable:
    """Inserts the rows of one consumer."""

    def __init__(self, dialect: Dialect, consumer: str) -> None:
        if dialect.name not in INSERTS:
            raise TablesRefused(f"an inbox is kept in SQLite or PostgreSQL, not in {dialect.name}")
        named = {name: bindparam(name, type_=INBOX.c[name].type) for name in COLUMNS}
        row = INSERTS[dialect.name](INBOX).values(**named, received_at=database_time()).on_conflict_do_nothing()
        compiled = row.compile(dialect=dialect)
        self._statement = str(compiled)
        self._insert_returning = str(row.returning(INBOX.c.received_at).compile(dialect=dialect))
        self._same: dict[str, Any] = {**compiled.params, "consumer": consumer}
        # empty if the driver takes values by name
        self._places: list[str] = list(compiled.positiontup or ())
        # the type of this dialect: the generic one would convert to float
        kept: Any = INBOX.c.amount.type.dialect_impl(dialect)
        self._amount: Callable[[Decimal | None], object] = kept.bind_processor(dialect) or (lambda amount: amount)

    def record(self, executor: Executor, business_id: str, facts: RecordedFacts) -> bool:
        """Whether the row was written; if not, it existed. `CannotConvert` if the columns cannot hold the amount."""
        values = self._values(business_id, facts)
        with _cursor(connection_of(executor), self._statement, values) as cursor:
            return bool(cursor.rowcount)

    def recorded_at(self, executor: Executor, business_id: str, facts: RecordedFacts) -> DriversTime | None:
        """When the row was written, by the database's clock; None if it existed. Costs more than `record`."""
        values = self._values(business_id, facts)
        with _cursor(connection_of(executor), self._insert_returning, values) as cursor:
            written: tuple[DriversTime] | None = cursor.fetchone()
            return None if written is None else written[0]

    def _values(self, business_id: str, facts: RecordedFacts) -> Any:
        """The values in the driver's form."""
        amount, currency, attempt, digest = facts
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


def utc_time(value: DriversTime) -> datetime:
    """A driver's time in UTC; SQLite returns text."""
    found = datetime.fromisoformat(value) if isinstance(value, str) else value
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


@contextmanager
def _cursor(connection: Connection, statement: str, values: Any) -> Iterator[Any]:
    """The driver's cursor after the statement."""
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
    """Whether the error says that a table or a column is missing."""
    return getattr(error, "sqlstate", None) in LACKING_STATES or str(error).startswith(LACKING_WORDS)


def _check_money(amount: Decimal | None, currency: str | None) -> None:
    try:
        check_money(amount, currency)
    except ValueError as misfit:
        # the sender's amount, which a redelivery does not change
        raise CannotConvert(str(misfit)) from None


def business_id_of(properties: Properties) -> str:
    """The message id; `CannotConvert` if it is missing or cannot be stored."""
    return checked_id(properties.message_id or "")


def checked_id(business_id: str, name: str = "message_id") -> str:
    if not business_id:
        raise CannotConvert(f"it has no {name}, so its duplicates could not be recognised")
    if len(business_id) > TEXT_CHARACTERS_MAX or not is_kept_as_text(business_id):
        raise CannotConvert(f"its {name} {business_id!r} is not text of at most {TEXT_CHARACTERS_MAX} characters")
    return business_id


def is_kept_as_text(text: str) -> bool:
    """Whether databases store the text: it is valid UTF-8 and has no NUL."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def attempt_of(properties: Properties) -> int:
    """How often the sender had sent the message; 1 if the header is invalid."""
    found = (properties.headers or {}).get(ATTEMPT)
    return int(found) if isinstance(found, int) and 1 <= found <= ATTEMPT_MAX else 1


DIGEST_BYTES: Final = 16
BROKER_HEADERS: Final = "amq."


def digest_of(body: bytes, properties: Properties) -> str:
    """The same for every delivery of a message, and different for other messages."""
    reply_to = properties.reply_to or ""
    said = properties.app_id, properties.type, "" if reply_to.startswith(BROKER_HEADERS) else reply_to
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for text in said:
        # the text may have bytes that are not UTF-8
        octets = (text or "").encode(errors="surrogatepass")
        digest.update(len(octets).to_bytes(2) + octets)
    digest.update(body)
    return digest.hexdigest()


class Subject(NamedTuple):
    """The business id that is handled once, whether it is to be undone, and when it was written, if known."""

    business_id: str
    is_reversal: bool = False
    written_at: datetime | None = None


def subject_of(properties: Properties) -> Subject:
    """`CannotConvert` if the message has no id, or is about an invalid one."""
    own = business_id_of(properties)
    headers = properties.headers
    if not headers:
        return Subject(own)
    written_at = _time(headers.get(WRITTEN_HEADER))
    kind = headers.get(KIND_HEADER)
    if SETTLES_HEADER not in headers or kind not in (CONFIRMATION, REVERSAL):
        return Subject(own, False, written_at)
    settles = headers[SETTLES_HEADER]
    business_id = checked_id(settles if isinstance(settles, str) else "", SETTLES_HEADER)
    return Subject(business_id, kind == REVERSAL, written_at)


def _time(said: object) -> datetime | None:
    try:
        return datetime.fromtimestamp(said.seconds, UTC) if isinstance(said, Timestamp) else None
    except (ValueError, OverflowError, OSError):
        return None
