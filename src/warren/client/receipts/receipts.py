"""`Receipts`: the sender's side of receipts, as messages or as calls.

A receipt changes the table as follows:

| receipt | of                       | which is                  | and then                                     |
|---------|--------------------------|---------------------------|----------------------------------------------|
| done    | a message                | one that waits            | `done`                                       |
| done    | a message                | confirming                | `done`, and so is its confirmation           |
| done    | a message                | reversed by another row   | as it was: the receipt is late               |
| done    | a confirmation, reversal | one that waits            | `done`, and its message `done` or `reversed` |
| refused | any                      | pending, sent             | `refused`, and the chaser goes on from there |
| refused | any                      | failed                    | as it was, and marked as refused             |

A row that waits is pending, sent, refused or failed: a receipt may come before the row is marked as sent, or after it
failed.

Invariants: a repeated receipt changes nothing. Every transaction locks a message before its confirmation or reversal.
The first statement writes, so that SQLite admits no other writer until the transaction ends.

Not here: the form of a receipt (`inbox.receipt_writer`), missing receipts (`receipts.chaser`).
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from threading import Lock
from typing import Any, Literal, NamedTuple

from sqlalchemy import Engine, Row, func, or_, select, update

from warren.client.errors import CannotConvert
from warren.client.inbox.receipt_writer import OUTCOME, REASON, RECEIPT, RECEIPT_FOR
from warren.client.inbox.rows import checked_id
from warren.client.measures import DATABASE, Measure, Point
from warren.client.outbox.outbox import CONFIRMATION, REVERSAL
from warren.client.receipts.compensation import compensating_id, settled_status
from warren.client.tables import OUTBOX, Executor, connection_of, database_time
from warren.client.tables.columns import storable_text
from warren.client.tables.connections import database_name
from warren.client.transport import Incoming

ROW = OUTBOX.c
WAITING = ("pending", "sent", "refused", "failed")


_other = OUTBOX.alias("other")
_settling = select(_other.c.id).where(_other.c.settles == ROW.business_id).correlate(OUTBOX)
_settled_by_another = _settling.exists()
_reversed_by_another = _settling.where(_other.c.kind == REVERSAL).exists()


class Marked(Enum):
    """The effect of a receipt."""

    DONE = "done"
    REVERSED = "reversed"
    REFUSED = "refused"
    REPEATED = "repeated"
    LATE = "late"
    UNKNOWN = "unknown"


def mark_done(executor: Executor, business_id: str) -> tuple[Marked, str]:
    """The effect, and the business id of the message that it makes done or reversed."""
    if _finish(executor, business_id):
        return Marked.DONE, business_id
    found = _row(executor, business_id)
    if found is None:
        return Marked.UNKNOWN, business_id
    if found.settles is not None:
        return _settle(executor, found)
    return _mark_other(executor, business_id), business_id


def mark_refused(executor: Executor, business_id: str, reason: str) -> Marked:
    refused = update(OUTBOX).where(ROW.business_id == business_id, ROW.status.in_(["pending", "sent"]))
    said = storable_text(f"refused: {reason}")
    # it was sent, even if not marked yet, and must not hold back later rows
    sent_at = func.coalesce(ROW.sent_at, database_time())
    now = database_time()
    values = {"status": "refused", "sent_at": sent_at, "due_at": now, "refused_at": now, "last_error": said}
    if executor.execute(refused.values(values).returning(ROW.id)).first() is not None:
        return Marked.REFUSED
    found = _row(executor, business_id)
    if found is None:
        return Marked.UNKNOWN
    unmarked = update(OUTBOX).where(ROW.id == found.id, ROW.status == "failed", ROW.refused_at.is_(None))
    executor.execute(unmarked.values(refused_at=now))
    return Marked.LATE if found.status == "done" else Marked.REPEATED


def _finish(executor: Executor, business_id: str) -> bool:
    """The usual case in one statement: a message that was not done, and that no other row is for."""
    message = update(OUTBOX).where(ROW.business_id == business_id, ROW.settles.is_(None), ROW.done_at.is_(None))
    done = message.where(ROW.status.in_(WAITING), ~_settled_by_another).values(_as("done"))
    return executor.execute(done.returning(ROW.id)).first() is not None


def _settle(executor: Executor, found: Row[Any]) -> tuple[Marked, str]:
    """Apply the receipt of a confirmation or a reversal."""
    message = _locked(executor, found.settles)
    own = _locked(executor, found.business_id)
    if own is None or own.status not in WAITING:
        return Marked.REPEATED, found.settles
    _change(executor, own, _as("done"))
    if message is None:
        return Marked.UNKNOWN, found.settles
    status = settled_status(own.kind)
    if message.status in (status, "reversed"):
        return Marked.REPEATED, message.business_id
    if status == "done" and message.is_reversed:
        return Marked.LATE, message.business_id
    _change(executor, message, _as(status))
    if status == "reversed":
        return Marked.REVERSED if own.done_at is None else Marked.REPEATED, message.business_id
    return Marked.DONE if message.done_at is None else Marked.REPEATED, message.business_id


def _mark_other(executor: Executor, business_id: str) -> Marked:
    """Apply the receipt of a message that is confirmed or reversed, or was done before."""
    message = _locked(executor, business_id)
    if message is None:
        return Marked.UNKNOWN
    if message.is_reversed:
        return Marked.LATE
    if message.status == "done":
        return Marked.REPEATED
    own = _locked(executor, compensating_id(business_id, "confirm"))
    if own is not None and own.kind == CONFIRMATION and own.status in WAITING:
        _change(executor, own, _as("done"))
    _change(executor, message, _as("done"))
    return Marked.DONE if message.done_at is None else Marked.REPEATED


def _as(status: str) -> dict[str, Any]:
    return {"status": status, "done_at": database_time(), "due_at": None, "refused_at": None, "last_error": None}


def _change(executor: Executor, row: Row[Any], values: dict[str, Any]) -> None:
    executor.execute(update(OUTBOX).where(ROW.id == row.id).values(values))


def _row(executor: Executor, business_id: str) -> Row[Any] | None:
    return executor.execute(_read(business_id)).one_or_none()


def _locked(executor: Executor, business_id: str) -> Row[Any] | None:
    return executor.execute(_read(business_id).with_for_update()).one_or_none()


def _read(business_id: str) -> Any:
    is_reversed = or_(ROW.status.in_(["reversing", "reversed"]), _reversed_by_another).label("is_reversed")
    columns = (ROW.id, ROW.business_id, ROW.kind, ROW.status, ROW.settles, ROW.done_at, is_reversed)
    return select(*columns).where(ROW.business_id == business_id)


class Receipt(NamedTuple):
    """A parsed receipt: its message and outcome."""

    business_id: str
    is_refusal: bool = False
    reason: str = ""


def receipt_of(incoming: Incoming) -> Receipt:
    """Parse a receipt; `CannotConvert` if the message is none, or is invalid."""
    properties = incoming.properties
    if properties.type != RECEIPT:
        raise CannotConvert(f"it is no receipt: its type is {properties.type!r}, not {RECEIPT!r}")
    headers = properties.headers or {}
    said = headers.get(RECEIPT_FOR, properties.correlation_id)
    business_id = checked_id(said if isinstance(said, str) else "", RECEIPT_FOR)
    outcome, reason = headers.get(OUTCOME), headers.get(REASON, "")
    if outcome not in ("done", "refused"):
        raise CannotConvert(f"the receipt for {business_id!r} has {OUTCOME} {outcome!r}; it is 'done' or 'refused'")
    return Receipt(business_id, outcome == "refused", reason if isinstance(reason, str) else "")


Settled = Callable[[Executor, str, Literal["done", "reversed"]], object]
"""`settled(executor, business_id, status)`"""

MARKED = "warren.marked"

log = logging.getLogger("warren.client.receipts")

LEVELS = {
    Marked.DONE: logging.DEBUG,
    Marked.REVERSED: logging.INFO,
    Marked.REFUSED: logging.WARNING,
    Marked.REPEATED: logging.DEBUG,
    Marked.LATE: logging.WARNING,
    Marked.UNKNOWN: logging.INFO,
}
EVENTS = {
    Marked.DONE: "receipt.done",
    Marked.REVERSED: "receipt.reversed",
    Marked.REFUSED: "receipt.refused",
    Marked.REPEATED: "receipt.repeated",
    Marked.LATE: "receipt.late",
    Marked.UNKNOWN: "receipt.unknown",
}


class Receipts:
    """Marks rows of one database's outbox; `counts` has the number of receipts by effect, since the program began.

    `settled` is called once for each message, in the transaction in which it becomes `done` or `reversed`, so that the
    sender's own books change if and only if the row does.
    """

    def __init__(self, engine: Engine, settled: Settled | None = None) -> None:
        self.counts: dict[Marked, int] = dict.fromkeys(Marked, 0)
        self._engine = engine
        self._settled = settled
        self._counting = Lock()

    def done(self, executor: Executor | None, business_id: str) -> bool:
        """The receiver has done it: whether the message, confirmation or reversal is done.

        In the caller's transaction, or with None in one of its own. False if there is no such row, or the message was
        reversed meanwhile.
        """
        with self._transaction(executor) as transaction:
            marked, message_id = mark_done(transaction, business_id)
            if self._settled is not None and marked is Marked.DONE:
                self._settled(transaction, message_id, "done")
            elif self._settled is not None and marked is Marked.REVERSED:
                self._settled(transaction, message_id, "reversed")
        self._note(marked, business_id)
        return marked in (Marked.DONE, Marked.REVERSED, Marked.REPEATED)

    def refused(self, executor: Executor | None, business_id: str, reason: str = "") -> bool:
        """The receiver refuses it: whether the row waited for a receipt. The chaser compensates for it."""
        with self._transaction(executor) as transaction:
            marked = mark_refused(transaction, business_id, reason)
        self._note(marked, business_id, reason)
        return marked is Marked.REFUSED

    def handler(self, message: Incoming) -> None:
        """A handler for a listener on the queue of receipts. A message that is no receipt raises `CannotConvert`."""
        receipt = receipt_of(message)
        if receipt.is_refusal:
            self.refused(None, receipt.business_id, receipt.reason)
        else:
            self.done(None, receipt.business_id)

    def measures(self) -> Sequence[Measure]:
        """The counters in `counts`."""

        where = {DATABASE: database_name(self._engine)}

        def read() -> list[Point]:
            return [(count, {**where, MARKED: marked.value}) for marked, count in self.counts.items()]

        return [Measure("warren.client.receipts", "{receipt}", "Receipts, by their effect", "counter", read)]

    def _transaction(self, executor: Executor | None) -> AbstractContextManager[Executor]:
        if executor is None:
            return self._engine.begin()
        connection_of(executor)
        return nullcontext(executor)

    def _note(self, marked: Marked, business_id: str, reason: str = "") -> None:
        # handlers run in several threads
        with self._counting:
            self.counts[marked] += 1
        facts = {"business_id": business_id} | ({"reason": reason} if reason else {})
        log.log(LEVELS[marked], EVENTS[marked], extra=facts)
