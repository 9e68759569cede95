"""A caller's own transaction: what may be passed for one, and whether it is one.

Not here: what is written in it.
"""

from typing import Any

from sqlalchemy import Connection
from sqlalchemy.orm import Session, scoped_session

from warren.client.errors import TablesRefused

Executor = Connection | Session | scoped_session[Session]
"""Whatever has a transaction of the caller's own."""

DIALECTS = ("sqlite", "postgresql")


def connection_of(executor: object) -> Connection:
    """The connection on which it is; a `ValueError` if that commits each statement by itself."""
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
    """`sqlite` or `postgresql`; a `TablesRefused` for any other."""
    return connection_of(executor).dialect.name


def _commits_by_itself(connection: Connection) -> bool:
    driver: Any = connection.connection.dbapi_connection
    if connection.dialect.name == "postgresql":
        return bool(getattr(driver, "autocommit", False))
    # a program may as well begin SQLite's transactions by its own statement
    return connection.in_transaction() and driver.isolation_level is None and not driver.in_transaction
