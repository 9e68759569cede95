"""Rows that are written unless they are there, in either database.

Not here: what it means that one was there; that is for its writer to say.
"""

from typing import Any, Protocol

from sqlalchemy import Connection, Executable, Result, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from warren.client.errors import TablesRefused

Insert = postgresql.Insert | sqlite.Insert


class Executor(Protocol):
    """A `Connection` or a `Session`, with a transaction of the caller's own."""

    def execute(self, statement: Executable, /) -> Result[Any]: ...


def dialect_of(executor: Executor) -> str:
    """`sqlite` or `postgresql`; a `TablesRefused` for any other."""
    if isinstance(executor, Connection):
        name = executor.dialect.name
    elif isinstance(executor, Session):
        name = executor.connection().dialect.name
    else:
        kind = type(executor).__name__
        raise TypeError(f"expected a Connection or a Session, not {kind}; with an AsyncSession use its run_sync")
    if name not in ("sqlite", "postgresql"):
        raise TablesRefused(f"the tables are kept in SQLite or PostgreSQL, not in {name}")
    return name


def insert_into(executor: Executor, table: Table) -> Insert:
    """An INSERT that can be told what to do about a row that is there."""
    return postgresql.insert(table) if dialect_of(executor) == "postgresql" else sqlite.insert(table)


def insert_unless_there(executor: Executor, table: Table, **values: Any) -> bool:
    """Whether it was written; if not, a row with the same key is there.

    Waits for a transaction that is about to write the same key, and writes if that one fails.
    """
    first_of_key = next(iter(table.primary_key.columns))
    statement = insert_into(executor, table).values(**values).on_conflict_do_nothing().returning(first_of_key)
    return executor.execute(statement).first() is not None
