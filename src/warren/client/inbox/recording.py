"""One row for one message: what it says, and the statement that writes it unless it is there.

The statement is made once for each kind of database. It goes on a connection's own list of prepared statements after a
few messages, so that recording costs one short round trip.

Not here: whose transaction it is (`inbox.inbox`).
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import Connection, Engine, bindparam
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session, scoped_session

from warren.client.errors import CannotConvert, TablesRefused
from warren.client.tables import INBOX, database_time
from warren.client.transport import Incoming

ATTEMPT: Final = "x-attempt"
ATTEMPT_MAX: Final = 2**31 - 1
TEXT_CHARACTERS_MAX: Final = 255
COLUMNS: Final = ("consumer", "business_id", "amount", "currency", "attempt")

Insert = postgresql.Insert | sqlite.Insert


def _unless_there(insert: Insert) -> Insert:
    named = {name: bindparam(name, type_=INBOX.c[name].type) for name in COLUMNS}
    statement = insert.values(**named, received_at=database_time()).on_conflict_do_nothing()
    # the number of rows stands in the answer itself; asking for a row to be returned would cost more
    return statement.execution_options(preserve_rowcount=True)


INSERTS: Final[Mapping[str, Insert]] = {
    "postgresql": _unless_there(postgresql.insert(INBOX)),
    "sqlite": _unless_there(sqlite.insert(INBOX)),
}


def insert_for(engine: Engine) -> Insert:
    """The statement in the words of this database."""
    try:
        return INSERTS[engine.dialect.name]
    except KeyError:
        raise TablesRefused(f"an inbox is kept in SQLite or PostgreSQL, not in {engine.dialect.name}") from None


def record(
    executor: Connection | Session | scoped_session[Session],
    insert: Insert,
    consumer: str,
    business_id: str,
    amount: Decimal | None,
    currency: str | None,
    attempt: int,
) -> bool:
    """Whether it was written; if not, it was there."""
    values = {
        "consumer": consumer,
        "business_id": business_id,
        "amount": amount,
        "currency": currency,
        "attempt": attempt,
    }
    connection = _connection_of(executor)
    if _commits_by_itself(connection):
        raise ValueError("an inbox needs transactions, and this connection commits each statement: no AUTOCOMMIT here")
    return connection.execute(insert, values).rowcount == 1


def _connection_of(executor: object) -> Connection:
    if isinstance(executor, Connection):
        return executor
    if isinstance(executor, Session | scoped_session):
        return executor.connection()
    kind = type(executor).__name__
    raise TypeError(f"expected a Connection or a Session, not {kind}; with an AsyncSession use its run_sync")


def _commits_by_itself(connection: Connection) -> bool:
    """Then a message would count as handled before it is."""
    driver: Any = connection.connection.dbapi_connection
    if connection.dialect.name == "postgresql":
        return bool(driver.autocommit)
    # a program may as well begin SQLite's transactions by its own statement
    return connection.in_transaction() and driver.isolation_level is None and not driver.in_transaction


def business_id_of(message: Incoming) -> str:
    """The id under which the sender knows it; a `CannotConvert` if it has none that could be kept."""
    return checked_id(message.properties.message_id or "")


def checked_id(business_id: str) -> str:
    if not business_id:
        raise CannotConvert("it has no message_id, and nobody could tell it from its duplicates")
    if len(business_id) > TEXT_CHARACTERS_MAX or not is_kept_as_text(business_id):
        raise CannotConvert(f"its message_id {business_id!r} is not text of at most {TEXT_CHARACTERS_MAX} characters")
    return business_id


def is_kept_as_text(text: str) -> bool:
    """No database keeps bytes that are not UTF-8 as text, and PostgreSQL no NUL."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def attempt_of(message: Incoming) -> int:
    """How often its sender had sent it by then; 1 if that makes no sense."""
    found = message.headers.get(ATTEMPT)
    return found if isinstance(found, int) and 1 <= found <= ATTEMPT_MAX else 1
