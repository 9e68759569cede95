"""A job that one must do among many who could: who has it, until when, and the fence that keeps out who had it before.

    take      free or expired: it is ours, and the fence moves
    renew     the fence has not moved: it is ours for longer, and, until this transaction ends, nobody else's
    release   the fence has not moved: anybody may take it

A lease that nobody took after its end is renewed like any other: nobody else has written under it.

A clock that is set back leaves leases that seem to last for years. None is given for longer than `LEASE_S_MAX`, so one
that ends later than that is as good as expired.

Not here: what is done under a lease (`client.outbox`).
"""

from dataclasses import dataclass

from sqlalchemy import and_, or_, update
from sqlalchemy.sql.elements import ColumnElement

from warren.client.tables.clock import database_time
from warren.client.tables.inserting import insert_into
from warren.client.tables.metadata import LEASES
from warren.client.tables.transactions import Executor

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
