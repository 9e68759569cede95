"""A job that one must do among many who could: who has it, until when, and the fence that keeps out who had it before.

    take      free or expired: it is ours, and the fence moves
    renew     the fence has not moved: it is ours for longer, and, until this transaction ends, nobody else's
    release   the fence has not moved: anybody may take it

A lease that nobody took after its end is renewed like any other: nobody else has written under it.

A clock that is set back leaves leases that seem to last for years. None is given for longer than `LEASE_S_MAX`, so one
that ends later than that is as good as expired.

Not here: what is done under a lease (`client.outbox`).

The database's own clock, in SQL: one for all processes that share the database.

It is the time at which the statement was received, not that of the transaction's start, which may be long ago. Within
a statement it stands still, so that an index on a time can be used.

Not here: how long to wait between two looks; that is measured by each process on its monotonic clock.

One process's claim to a job that one must do: the lease that it has or has not, and transactions under that.

Whatever is written under a claim is written in a transaction that renews the lease first. If the fence has moved there
is no transaction, and nothing is written.

All of it is synchronous: whoever has an event loop calls it in threads.

Not here: leases in the table (`tables.leases`), keeping one while the work goes on (`tables.leading`).

Being the active one among many, for as long as the lease is ours and nobody says stop.

    stand by    until the lease is free
    serve       while a task renews the lease
    let go      at the end, and when the database made trouble

A lease that is lost shows at the next renewal, or at the next transaction under it; whoever notices says `lose`. A
database that is gone for a while is logged, and tried again.

Not here: the work (`outbox.relay`, `receipts.chaser`), the lease (`tables.claiming`).
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


LEASE_S_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Lease:
    """What a holder shows to renew it; worth nothing once the fence has moved."""

    name: str
    holder: str
    fence: int


def take_lease(executor: Executor, name: str, holder: str, duration_s: float) -> Lease | None:
    """The lease, if nobody has it."""
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
    """Whether it is still ours; if so, nobody can take it before the caller's transaction has ended."""
    longer = update(LEASES).where(_ours(lease)).values(expires_at=database_time(_checked(duration_s)))
    return executor.execute(longer.returning(LEASES.c.fence)).first() is not None


def release_lease(executor: Executor, lease: Lease) -> None:
    """Let the next one have it at once."""
    executor.execute(update(LEASES).where(_ours(lease)).values(expires_at=database_time()))


def _ours(lease: Lease) -> ColumnElement[bool]:
    return and_(LEASES.c.name == lease.name, LEASES.c.fence == lease.fence)


def _checked(duration_s: float) -> float:
    if not 0 < duration_s <= LEASE_S_MAX:
        raise ValueError(f"a lease lasts up to {LEASE_S_MAX:g} seconds, not {duration_s:g}")
    return duration_s


class LeaseHolder:
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


DATABASE_ERRORS = (DBAPIError, PoolTimeout)


class LeaderLoop:
    """`leads` says whether this is the active one; `job` begins the names of what is logged.

    `woken` is set when the lease is lost, for whoever waits for work.
    """

    def __init__(self, claim: LeaseHolder, log: logging.Logger, job: str, woken: asyncio.Event) -> None:
        self.leads = False
        self._claim = claim
        self._log = log
        self._job = job
        self._woken = woken

    async def run(self, serve: Callable[[], Awaitable[None]], stopped: asyncio.Event, pause_s: float) -> None:
        """Serve whenever this is the active one, until it is stopped; `pause_s` after trouble with the database."""
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
        """Take the lease if it is free, keep it, and let go of it at the end."""
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
        """Somebody else has the lease."""
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
    """For the event, or for so long."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(most_s):
            await event.wait()
