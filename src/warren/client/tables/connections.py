"""The caller's transaction, conditional inserts, and the name of a database for logs.

Not here: what is written (`client.outbox`, `client.inbox`), errors with the URL (`ledgers.database`).
"""

from typing import Any

from sqlalchemy import Connection, Engine, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session, scoped_session

from warren.client.errors import TablesRefused

Executor = Connection | Session | scoped_session[Session]
"""An object with the caller's transaction."""

DIALECTS = ("sqlite", "postgresql")


def connection_of(executor: object) -> Connection:
    """The connection of the transaction; `ValueError` if it commits each statement by itself."""
    if isinstance(executor, Connection):
        connection = executor
    elif isinstance(executor, Session | scoped_session):
        connection = executor.connection()
    else:
        kind = type(executor).__name__
        raise TypeError(f"expected a Connection or a Session, not {kind}; with an AsyncSession use its run_sync")
    if connection.dialect.name not in DIALECTS:
        raise TablesRefused(f"the tables are kept in SQLite or PostgreSQL, not in {connection.dialect.name}")
    if _commits_by_itself(connection):
        raise ValueError("this connection commits each statement by itself; transactions are needed, no AUTOCOMMIT")
    return connection


def dialect_of(executor: Executor) -> str:
    """`sqlite` or `postgresql`; `TablesRefused` for any other."""
    return connection_of(executor).dialect.name


def _commits_by_itself(connection: Connection) -> bool:
    driver: Any = connection.connection.dbapi_connection
    if connection.dialect.name == "postgresql":
        return bool(getattr(driver, "autocommit", False))
    # a program may begin SQLite's transactions by its own statement
    return connection.in_transaction() and driver.isolation_level is None and not driver.in_transaction


Insert = postgresql.Insert | sqlite.Insert


def insert_into(executor: Executor, table: Table) -> Insert:
    """An INSERT that supports ON CONFLICT."""
    return postgresql.insert(table) if dialect_of(executor) == "postgresql" else sqlite.insert(table)


def insert_unless_there(executor: Executor, table: Table, **values: Any) -> bool:
    """Whether the row was written; if not, a row with the same key exists.

    Waits for a transaction that is writing the same key, and writes if that one fails.
    """
    first_of_key = next(iter(table.primary_key.columns))
    statement = insert_into(executor, table).values(**values).on_conflict_do_nothing().returning(first_of_key)
    return executor.execute(statement).first() is not None


def database_name(engine: Engine) -> str:
    """`HOST:PORT/NAME` or the name of a file, without user and password."""
    url = engine.url
    if url.host is None:
        return url.database or ""
    port = "" if url.port is None else f":{url.port}"
    return f"{url.host}{port}/{url.database or ''}"
