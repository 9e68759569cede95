"""One process's claim to a job that one must do: the lease that it has or has not, and transactions under that.

Whatever is written under a claim is written in a transaction that renews the lease first. If the fence has moved there
is no transaction, and nothing is written.

All of it is synchronous: whoever has an event loop calls it in threads.

Not here: leases in the table (`tables.leases`), keeping one while the work goes on (`tables.leading`).
"""

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from warren.client.errors import CannotConnect
from warren.client.tables.leases import Lease, release_lease, renew_lease, take_lease
from warren.client.tables.versions import check_tables


class Claim:
    """To the job of that name, in that database."""

    def __init__(self, engine: Engine, name: str, lease_s: float) -> None:
        self.lease_s = lease_s
        self._engine = engine
        self._name = name
        self._holder = uuid.uuid4().hex
        self._lease: Lease | None = None
        # a renewal that a thread has yet to finish must not come after the release
        self._one_at_a_time = threading.Lock()

    def check(self) -> None:
        """A `CannotConnect` or a `TablesRefused` if there is nothing to work with."""
        try:
            with self._engine.connect() as connection:
                check_tables(connection)
        except DBAPIError as trouble:
            where = self._engine.url.render_as_string(hide_password=True)
            raise CannotConnect([(where, _first_line(trouble))]) from trouble

    def take(self) -> bool:
        """Whether the job is this process's from now on."""
        with self._engine.begin() as connection:
            self._lease = take_lease(connection, self._name, self._holder, self.lease_s)
        return self._lease is not None

    def renew(self) -> bool:
        """Whether it still is."""
        with self.transaction() as connection:
            return connection is not None

    def release(self) -> None:
        """Let another one have it at once."""
        with self.transaction() as connection:
            if connection is not None and self._lease is not None:
                release_lease(connection, self._lease)
        self._lease = None

    @contextmanager
    def transaction(self) -> Iterator[Connection | None]:
        """One in which nobody else can take the lease; None if somebody has."""
        with self._one_at_a_time, self._engine.begin() as connection:
            ours = self._lease is not None and renew_lease(connection, self._lease, self.lease_s)
            yield connection if ours else None


def _first_line(trouble: DBAPIError) -> str:
    return str(trouble.orig).strip().partition("\n")[0]
