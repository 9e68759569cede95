"""Rows that are written unless they are there, in either database.

Not here: what it means that one was there; that is for its writer to say.
"""

from typing import Any

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite

from warren.client.tables.transactions import Executor, dialect_of

Insert = postgresql.Insert | sqlite.Insert


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
