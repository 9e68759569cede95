"""What a message came to, other than being done: refused, or taken back by its sender.

    done ──▶ taken_back        it was done, and is to be undone
    (none) ──▶ taken_back      it never came: if it still does, it is a duplicate
    (none) ──▶ refused         it was not done, and will not be

That there is no row means that it never came, unless it is so old that its row may have been pruned. What can be told
to be so old is refused: somebody has to find out. The row of what was taken back is kept from then on, for the message
may still come.

Not here: recording what is done (`inbox.recording`), which is the one that has to be fast.
"""

from datetime import datetime
from decimal import Decimal
from enum import Enum

from sqlalchemy import and_, select, update
from sqlalchemy.sql.elements import ColumnElement

from warren.client.inbox.receipting import Refused
from warren.client.tables import INBOX, Executor, database_time, insert_unless_there

DONE = "done"
REFUSED = "refused"
TAKEN_BACK = "taken_back"


class IdTaken(Exception):
    """The consumer has another message with the same business id."""


class TakenBack(Enum):
    """What taking a message back comes to."""

    TO_UNDO = "it was done, and is to be undone now"
    KEPT_OUT = "it never came, and will not be done if it does"
    BEFORE = "it was taken back or refused before"


def take_back(
    executor: Executor,
    consumer: str,
    business_id: str,
    written_at: datetime | None,
    keep_s: float,
    digest: str | None = None,
) -> TakenBack:
    """For each message `TO_UNDO` or `KEPT_OUT` once; `Refused` if it may have been done and forgotten.

    `IdTaken` if it is another message that was done.
    """
    if _record(executor, consumer, business_id, outcome=TAKEN_BACK, digest=digest):
        if written_at is not None:
            check_remembered(written_at, executor.execute(select(database_time())).scalar_one(), keep_s)
        return TakenBack.KEPT_OUT
    check_same(executor, consumer, business_id, digest)
    done = update(INBOX).where(_this(consumer, business_id), INBOX.c.outcome == DONE)
    marked = done.values(outcome=TAKEN_BACK, received_at=database_time()).returning(INBOX.c.business_id)
    return TakenBack.BEFORE if executor.execute(marked).first() is None else TakenBack.TO_UNDO


def check_remembered(written_at: datetime, now: datetime, keep_s: float) -> None:
    """`Refused` if a row of a message that was written then may have been pruned by now."""
    if (now - written_at).total_seconds() > keep_s:
        raise Refused(
            f"it was written at {written_at:%Y-%m-%d %H:%M:%S} UTC, and may have been done and forgotten since"
        )


def check_same(executor: Executor, consumer: str, business_id: str, digest: str | None) -> None:
    """`IdTaken` if the row that is there tells of another message; without a digest, nobody can tell."""
    if digest is None:
        return
    found = executor.execute(select(INBOX.c.digest).where(_this(consumer, business_id))).scalar()
    if found is not None and found != digest:
        raise IdTaken(
            f"{business_id!r} is the id of another message, which came to {consumer!r} before: the sender, the type or"
            " the body is not the same. Ids are to be unique among all senders; send this one under an id of its own"
        )


def record_refused(
    executor: Executor,
    consumer: str,
    business_id: str,
    amount: Decimal | None,
    currency: str | None,
    attempt: int,
    digest: str | None = None,
) -> bool:
    """Whether it was written; if not, it was there."""
    facts = {"amount": amount, "currency": currency, "attempt": attempt, "digest": digest}
    return _record(executor, consumer, business_id, outcome=REFUSED, **facts)


def outcome_of(executor: Executor, consumer: str, business_id: str) -> str:
    """What is said of it, and nobody changes before the transaction ends; `done` if the row has gone meanwhile."""
    said = select(INBOX.c.outcome).where(_this(consumer, business_id)).with_for_update(read=True)
    found = executor.execute(said).scalar()
    return DONE if found is None else str(found)


def _record(executor: Executor, consumer: str, business_id: str, **facts: object) -> bool:
    return insert_unless_there(
        executor, INBOX, consumer=consumer, business_id=business_id, received_at=database_time(), **facts
    )


def _this(consumer: str, business_id: str) -> ColumnElement[bool]:
    return and_(INBOX.c.consumer == consumer, INBOX.c.business_id == business_id)
