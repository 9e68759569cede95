"""Leases: a job that one of many processes does, and the fence that stops its former holder.

    take      free or expired: it is ours, and the fence moves
    renew     the fence has not moved: it is ours for longer, and locked until this transaction ends
    release   the fence has not moved: another process may take it

An expired lease that no process took is renewed like any other, because no other process wrote under it.

A clock that is set back leaves leases that seem to last for years. No lease is longer than `LEASE_S_MAX`, so a lease
that ends later than that counts as expired.

**Clock.** The database's clock serves all processes that share the database. It is the time of the statement, not of
the start of the transaction, which may be long ago. Within a statement it is constant, so that an index on a time can
be used.

**Holder.** A `LeaseHolder` writes only in transactions that renew the lease first. If the fence has moved there is no
transaction. All of it is synchronous; a program with an event loop calls it in threads.

**Leader loop.**

    stand by    until the lease is free
    serve       while a task renews the lease
    let go      at the end, and after database errors

A lost lease is noticed at the next renewal or transaction, which calls `lose`. An unreachable database is logged and
tried again.

Not here: the jobs (`outbox.relay`, `receipts.chaser`), pauses between polls, which use each process's monotonic clock.
"""

import asyncio
import contextlib
import logging
import threading
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, Float, and_, literal, or_, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.functions import FunctionElement

from warren.client.errors import CannotConnect, error_summary
from warren.client.tables.columns import UtcTime
from warren.client.tables.connections import Executor, insert_into
from warren.client.tables.schema import LEASES, check_tables


class DatabaseTime(FunctionElement[datetime]):
    """The current time plus some seconds."""

    type = UtcTime()
    name = "database_time"
    inherit_cache = True


def database_time(plus_s: float = 0.0) -> DatabaseTime:
    """The database's current time, or a time this many seconds later."""
    return DatabaseTime(literal(plus_s, Float()))


@compiles(DatabaseTime, "postgresql")
def _in_postgresql(element: DatabaseTime, compiler: SQLCompiler, **options: Any) -> str:
    seconds = compiler.process(element.clauses, **options)
    return f"(statement_timestamp() + make_interval(secs => CAST({seconds} AS double precision)))"


@compiles(DatabaseTime, "sqlite")
def _in_sqlite(element: DatabaseTime, compiler: SQLCompiler, **options: Any) -> str:
    seconds = compiler.process(element.clauses, **options)
    # six digits after the second, as SQLAlchemy writes times
    return f"strftime('%Y-%m-%d %H:%M:%f000', 'now', printf('%+.3f seconds', {seconds}))"


LEASE_S_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Lease:
    """The proof of a holder; void once the fence has moved."""

    name: str
    holder: str
    fence: int


def take_lease(executor: Executor, name: str, holder: str, duration_s: float) -> Lease | None:
    """The lease, if it is free."""
    until = database_time(_checked(duration_s))
    fresh = insert_into(executor, LEASES).values(name=name, holder=holder, fence=1, expires_at=until)
    free = or_(LEASES.c.expires_at <= database_time(), LEASES.c.expires_at > database_time(LEASE_S_MAX))
    statement = fresh.on_conflict_do_update(
        index_elements=[LEASES.c.name],
        set_={"holder": holder, "fence": LEASES.c.fence + 1, "expires_at": until},
        where=free,
    ).returning(LEASES.c.fence)
    row = executor.execute(statement).first()
    return None if row is None else Lease(name, holder, row.fence)


def renew_lease(executor: Executor, lease: Lease, duration_s: float) -> bool:
    """Whether the lease is still ours; if so, it stays ours until the caller's transaction ends."""
    longer = update(LEASES).where(_ours(lease)).values(expires_at=database_time(_checked(duration_s)))
    return executor.execute(longer.returning(LEASES.c.fence)).first() is not None


def release_lease(executor: Executor, lease: Lease) -> None:
    """Make the lease free at once."""
    executor.execute(update(LEASES).where(_ours(lease)).values(expires_at=database_time()))


def _ours(lease: Lease) -> ColumnElement[bool]:
    return and_(LEASES.c.name == lease.name, LEASES.c.fence == lease.fence)


def _checked(duration_s: float) -> float:
    if not 0 < duration_s <= LEASE_S_MAX:
        raise ValueError(f"a lease lasts up to {LEASE_S_MAX:g} seconds, not {duration_s:g}")
    return duration_s


class LeaseHolder:
    """One process's side of the lease on a job."""

    def __init__(self, engine: Engine, name: str, lease_s: float) -> None:
        self.lease_s = lease_s
        self._engine = engine
        self._name = name
        self._holder = uuid.uuid4().hex
        self._lease: Lease | None = None
        # a renewal in a thread must not finish after the release
        self._one_at_a_time = threading.Lock()

    def check(self) -> None:
        """`CannotConnect` or `TablesRefused` if the database or its tables are missing."""
        try:
            with self._engine.connect() as connection:
                check_tables(connection)
        except DBAPIError as trouble:
            where = self._engine.url.render_as_string(hide_password=True)
            raise CannotConnect([(where, _first_line(trouble))]) from trouble

    def take(self) -> bool:
        """Whether this process has the lease from now on."""
        with self._engine.begin() as connection:
            self._lease = take_lease(connection, self._name, self._holder, self.lease_s)
        return self._lease is not None

    def renew(self) -> bool:
        """Whether this process still has the lease."""
        with self.transaction() as connection:
            return connection is not None

    def release(self) -> None:
        with self.transaction() as connection:
            if connection is not None and self._lease is not None:
                release_lease(connection, self._lease)
        self._lease = None

    @contextmanager
    def transaction(self) -> Iterator[Connection | None]:
        """A transaction that holds the lease; None if another process has it."""
        with self._one_at_a_time, self._engine.begin() as connection:
            ours = self._lease is not None and renew_lease(connection, self._lease, self.lease_s)
            yield connection if ours else None


def _first_line(trouble: DBAPIError) -> str:
    return str(trouble.orig).strip().partition("\n")[0]


DATABASE_ERRORS = (DBAPIError, PoolTimeout)


class LeaderLoop:
    """Runs a job while this process has the lease; `job` is the prefix of log events.

    `leads` says whether it has the lease. `woken` is set when the lease is lost, for tasks that wait for work.
    """

    def __init__(self, claim: LeaseHolder, log: logging.Logger, job: str, woken: asyncio.Event) -> None:
        self.leads = False
        self._claim = claim
        self._log = log
        self._job = job
        self._woken = woken

    async def run(self, serve: Callable[[], Awaitable[None]], stopped: asyncio.Event, pause_s: float) -> None:
        """Serve while this process leads, until it is stopped; wait `pause_s` after database errors."""
        while not stopped.is_set():
            try:
                async with self.lead():
                    if self.leads:
                        await serve()
                await wait_for_event(stopped, self._claim.lease_s / 3)
            except DATABASE_ERRORS as trouble:
                self._log.warning(f"{self._job}.database_failed", extra={"reason": error_summary(trouble)})
                await wait_for_event(stopped, pause_s)

    @contextlib.asynccontextmanager
    async def lead(self) -> AsyncIterator[None]:
        """Take the lease if it is free, keep it, and release it at the end."""
        self.leads = await asyncio.to_thread(self._claim.take)
        if not self.leads:
            yield
            return
        self._log.info(f"{self._job}.leads")
        renewing = asyncio.create_task(self._keep_renewing())
        try:
            yield
        finally:
            renewing.cancel()
            await asyncio.wait([renewing])
            self.leads = False
            with contextlib.suppress(*DATABASE_ERRORS):
                await asyncio.to_thread(self._claim.release)

    def lose(self) -> None:
        """Another process has the lease."""
        if self.leads:
            self._log.warning(f"{self._job}.lease_lost")
        self.leads = False
        self._woken.set()

    async def _keep_renewing(self) -> None:
        while self.leads:
            await asyncio.sleep(self._claim.lease_s / 3)
            try:
                if not await asyncio.to_thread(self._claim.renew):
                    self.lose()
            except DATABASE_ERRORS as trouble:
                self._log.warning(f"{self._job}.renewal_failed", extra={"reason": error_summary(trouble)})


async def wait_for_event(event: asyncio.Event, most_s: float) -> None:
    """Wait for the event, at most this long."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(most_s):
            await event.wait()
