"""A database with a clock that jumps on the test's order, for all users of its engines.

In PostgreSQL a function replaces the one for the time; in SQLite each connection has its own.

Not here: rows with dates as after a jump (`test_outbox_troubles`, `test_receipts_chasing`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Engine, create_engine, event, select, text

from warren.client.tables import database_time

_FUNCTION = """
CREATE FUNCTION public.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS
$$ SELECT pg_catalog.statement_timestamp() + make_interval(secs => (SELECT seconds FROM public.jumped_by)) $$
"""
_TABLE = "CREATE TABLE public.jumped_by AS SELECT 0::double precision AS seconds"


class JumpingClock:
    """The clock of one database; only users of its `engine()`s see it jump."""

    def __init__(self, database: Engine) -> None:
        self._database = database
        self._is_sqlite = database.dialect.name == "sqlite"
        self._seconds = 0.0
        self._engines: list[Engine] = []
        if not self._is_sqlite:
            self._execute(_TABLE, _FUNCTION)

    def engine(self) -> Engine:
        if self._is_sqlite:
            made = create_engine(self._database.url)
            event.listen(made, "connect", lambda driver, _: driver.create_function("strftime", 3, self._strftime))
        else:
            # functions in `public` take precedence over PostgreSQL's own of the same name
            path = {"options": "-c search_path=public,pg_catalog"}
            made = create_engine(self._database.url, connect_args=path)
        self._engines.append(made)
        return made

    def jump(self, seconds: float) -> None:
        """Set forward, or back."""
        self._seconds += seconds
        if not self._is_sqlite:
            self._execute(f"UPDATE public.jumped_by SET seconds = {self._seconds}")

    def now(self) -> datetime:
        with self._engines[0].connect() as connection:
            return connection.execute(select(database_time())).scalar_one()

    def close(self) -> None:
        for engine in self._engines:
            engine.dispose()
        if not self._is_sqlite:
            self._execute("DROP FUNCTION public.statement_timestamp()", "DROP TABLE public.jumped_by")

    def _strftime(self, form: str, _: Any, modifier: str) -> str:
        now = datetime.now(UTC) + timedelta(seconds=self._seconds + float(modifier.split()[0]))
        assert form == "%Y-%m-%d %H:%M:%f000"
        return f"{now:%Y-%m-%d %H:%M:%S}.{now.microsecond // 1000:03}000"

    def _execute(self, *statements: str) -> None:
        with self._database.begin() as connection:
            for statement in statements:
                connection.execute(text(statement))


@contextmanager
def jumping_clock(database: Engine) -> Iterator[JumpingClock]:
    clock = JumpingClock(database)
    try:
        yield clock
    finally:
        clock.close()
