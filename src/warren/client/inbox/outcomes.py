"""What a message came to, other than being done: refused, or taken back by its sender.

    done ──▶ taken_back        it was done, and is to be undone
    (none) ──▶ taken_back      it never came: if it still does, it is a duplicate
    (none) ──▶ refused         it was not done, and will not be

Not here: recording what is done (`inbox.recording`), which is the one that has to be fast.
"""

from decimal import Decimal

from sqlalchemy import and_, select, update
from sqlalchemy.sql.elements import ColumnElement

from warren.client.tables import INBOX, Executor, database_time, insert_unless_there

DONE = "done"
REFUSED = "refused"
TAKEN_BACK = "taken_back"


def take_back(executor: Executor, consumer: str, business_id: str) -> bool:
    """Whether it was done, and is to be undone; once, and whoever asks again is told no."""
    if _record(executor, consumer, business_id, outcome=TAKEN_BACK):
        return False
    done = update(INBOX).where(_this(consumer, business_id), INBOX.c.outcome == DONE).values(outcome=TAKEN_BACK)
    return executor.execute(done.returning(INBOX.c.business_id)).first() is not None


def record_refused(
    executor: Executor, consumer: str, business_id: str, amount: Decimal | None, currency: str | None, attempt: int
) -> bool:
    """Whether it was written; if not, it was there."""
    facts = {"amount": amount, "currency": currency, "attempt": attempt}
    return _record(executor, consumer, business_id, outcome=REFUSED, **facts)


def outcome_of(executor: Executor, consumer: str, business_id: str) -> str:
    """What is said of it; `done` if the row has gone meanwhile."""
    found = executor.execute(select(INBOX.c.outcome).where(_this(consumer, business_id))).scalar()
    return DONE if found is None else str(found)


def _record(executor: Executor, consumer: str, business_id: str, **facts: object) -> bool:
    return insert_unless_there(
        executor, INBOX, consumer=consumer, business_id=business_id, received_at=database_time(), **facts
    )


def _this(consumer: str, business_id: str) -> ColumnElement[bool]:
    return and_(INBOX.c.consumer == consumer, INBOX.c.business_id == business_id)
