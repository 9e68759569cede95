"""Who tells a relay that there may be something to do: PostgreSQL, or nobody.

`NOTIFY` is part of the transaction that adds a row, and is told to whoever listens when that commits. A word that is
missed, because the connection was down, is made up for by looking from time to time.

Invariant: whoever waits looks at the table after it began to listen, so nothing falls between the two.

Not here: how often to look (`outbox.relay`).
"""

import asyncio
import contextlib
from typing import Protocol

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from warren.client.outbox.adding import CHANNEL


class Waking(Protocol):
    """Sets an event whenever there may be something to do."""

    @property
    def tells(self) -> bool:
        """Whether somebody does; else one has to look."""

    async def open(self) -> None:
        """Begin to listen, unless that is so already; the database's error if it cannot be."""

    def close(self) -> None: ...


def waking_for(engine: Engine, woken: asyncio.Event) -> Waking:
    """What this database and its driver can do."""
    if engine.dialect.name == "postgresql" and engine.dialect.driver == "psycopg":
        return Notifications(engine, woken)
    return Silence()


class Silence:
    """Nobody tells."""

    tells = False

    async def open(self) -> None:
        return

    def close(self) -> None:
        return


class Notifications:
    """PostgreSQL tells, over a connection of its own."""

    def __init__(self, engine: Engine, woken: asyncio.Event) -> None:
        self._engine = engine
        self._woken = woken
        self._listening: _Listening | None = None

    @property
    def tells(self) -> bool:
        return self._listening is not None

    async def open(self) -> None:
        if self._listening is None:
            self._listening = await asyncio.to_thread(_Listening, self._engine)
            asyncio.get_running_loop().add_reader(self._listening.fileno, self._readable)

    def close(self) -> None:
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening.fileno)
            self._listening.close()
            self._listening = None

    def _readable(self) -> None:
        if self._listening is not None and not self._listening.take():
            self.close()
        self._woken.set()


class _Listening:
    """A connection that is read when there is something to read."""

    def __init__(self, engine: Engine) -> None:
        # imported where PostgreSQL is used, for its driver need not be there elsewhere
        from psycopg import Connection, OperationalError

        self._lost = OperationalError
        self._connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        driver = self._connection.connection.driver_connection
        assert isinstance(driver, Connection)
        self._driver = driver
        # it is kept as long as the relay runs, and is not to be missing in the pool
        self._connection.detach()
        self._connection.exec_driver_sql(f"LISTEN {CHANNEL}")
        self.fileno = driver.fileno()

    def take(self) -> bool:
        """Read what is there; False if the connection is lost."""
        try:
            self._driver.pgconn.consume_input()
            while self._driver.pgconn.notifies():
                pass
        except self._lost:
            return False
        return True

    def close(self) -> None:
        self._driver.close()
        # what is left of it rolls back, for which it is too late
        with contextlib.suppress(DBAPIError):
            self._connection.close()
