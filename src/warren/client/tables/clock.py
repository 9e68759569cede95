"""The database's own clock, in SQL: one for all processes that share the database.

It is the time at which the statement was received, not that of the transaction's start, which may be long ago. Within
a statement it stands still, so that an index on a time can be used.

Not here: how long to wait between two looks; that is measured by each process on its monotonic clock.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import Float, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from warren.client.tables.column_types import UtcTime


class DatabaseTime(FunctionElement[datetime]):
    """Now, and so many seconds."""

    type = UtcTime()
    name = "database_time"
    inherit_cache = True


def database_time(plus_s: float = 0.0) -> DatabaseTime:
    """The present moment as the database has it, or one so many seconds later (or earlier)."""
    return DatabaseTime(literal(plus_s, Float()))


@compiles(DatabaseTime, "postgresql")
def _in_postgresql(element: DatabaseTime, compiler: SQLCompiler, **options: Any) -> str:
    seconds = compiler.process(element.clauses, **options)
    return f"(statement_timestamp() + make_interval(secs => CAST({seconds} AS double precision)))"


@compiles(DatabaseTime, "sqlite")
def _in_sqlite(element: DatabaseTime, compiler: SQLCompiler, **options: Any) -> str:
    seconds = compiler.process(element.clauses, **options)
    # six digits behind the second, as SQLAlchemy writes a time that it is given
    return f"strftime('%Y-%m-%d %H:%M:%f000', 'now', printf('%+.3f seconds', {seconds}))"
