"""A message through the inbox: recorded, handled and acknowledged in one transaction.

    message, confirmation   new: work, receipt `done`        row exists: its receipt again
    reversal                it was done: undo                else: nothing to undo; receipt `done` either way

A confirmation is recorded under the id of the message that it confirms: the first of the two is handled. A reversal
marks the row of the message that it reverses, or writes one, so that the message is a duplicate if it comes later.

    done ──▶ taken_back        it was done, and is to be undone
    (none) ──▶ taken_back      it never came: if it still does, it is a duplicate
    (none) ──▶ refused         it was not done, and will not be

Without a row the message never came, unless it is so old that its row may have been pruned. Such a message is refused,
and a person has to find out. The row of a reversal is kept from then on, because the message may still come.

**Another message with the same id**, from another sender, is no duplicate. It raises `CannotConvert`, so a listener
parks it, and its sender gets a refusal. The row and the receipt of the first message stay as they are, and a reversal
of the other message does not undo it.

Work that raises `Refused` is rolled back, and the refusal is recorded in a transaction of its own. If another delivery
of the same message was recorded meanwhile, that one counts.

Not here: rows (`inbox.rows`), receipts (`inbox.receipt_writer`).
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Generic, TypeVar

from sqlalchemy import Connection, Engine, and_, select, update
from sqlalchemy.sql.elements import ColumnElement

from warren.client.errors import CannotConvert
from warren.client.inbox.receipt_writer import ReceiptWriter, Refused
from warren.client.inbox.rows import (
    DriversTime,
    InboxTable,
    RecordedFacts,
    Subject,
    attempt_of,
    digest_of,
    subject_of,
    utc_time,
)
from warren.client.outbox.outbox import WRITTEN_HEADER
from warren.client.tables import INBOX, Executor, database_time, insert_unless_there
from warren.client.transport import Incoming
from warren.wire.properties import Properties

DONE = "done"
REFUSED = "refused"
TAKEN_BACK = "taken_back"


class IdTaken(Exception):
    """The consumer has another message with the same business id."""


class ReversalOutcome(Enum):
    """The result of a reversal."""

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
) -> ReversalOutcome:
    """Record a reversal: `TO_UNDO` or `KEPT_OUT` once for each message; `Refused` if its row may have been pruned.

    `IdTaken` if the row belongs to another message.
    """
    if _record(executor, consumer, business_id, outcome=TAKEN_BACK, digest=digest):
        if written_at is not None:
            check_not_pruned(written_at, executor.execute(select(database_time())).scalar_one(), keep_s)
        return ReversalOutcome.KEPT_OUT
    check_same_message(executor, consumer, business_id, digest)
    done = update(INBOX).where(_this(consumer, business_id), INBOX.c.outcome == DONE)
    marked = done.values(outcome=TAKEN_BACK, received_at=database_time()).returning(INBOX.c.business_id)
    return ReversalOutcome.BEFORE if executor.execute(marked).first() is None else ReversalOutcome.TO_UNDO


def check_not_pruned(written_at: datetime, now: datetime, keep_s: float) -> None:
    """`Refused` if the row of a message written at that time may have been pruned."""
    if (now - written_at).total_seconds() > keep_s:
        raise Refused(
            f"it was written at {written_at:%Y-%m-%d %H:%M:%S} UTC, and may have been done and forgotten since"
        )


def check_same_message(executor: Executor, consumer: str, business_id: str, digest: str | None) -> None:
    """`IdTaken` if the row belongs to another message; without a digest this cannot be told."""
    if digest is None:
        return
    found = executor.execute(select(INBOX.c.digest).where(_this(consumer, business_id))).scalar()
    if found is not None and found != digest:
        raise IdTaken(
            f"{business_id!r} is the id of another message, which came to {consumer!r} before: the sender, the type or"
            " the body is not the same. Ids are to be unique among all senders; send this one under an id of its own"
        )


def record_refused(executor: Executor, consumer: str, business_id: str, facts: RecordedFacts) -> bool:
    """Whether the row was written; if not, it existed."""
    return _record(executor, consumer, business_id, outcome=REFUSED, **facts._asdict())


def outcome_of(executor: Executor, consumer: str, business_id: str) -> str:
    """The recorded outcome, locked until the transaction ends; `done` if the row is gone meanwhile."""
    said = select(INBOX.c.outcome).where(_this(consumer, business_id)).with_for_update(read=True)
    found = executor.execute(said).scalar()
    return DONE if found is None else str(found)


def _record(executor: Executor, consumer: str, business_id: str, **facts: object) -> bool:
    return insert_unless_there(
        executor, INBOX, consumer=consumer, business_id=business_id, received_at=database_time(), **facts
    )


def _this(consumer: str, business_id: str) -> ColumnElement[bool]:
    return and_(INBOX.c.consumer == consumer, INBOX.c.business_id == business_id)


Money = tuple[Decimal, str]
"""An amount and its currency."""


Came = TypeVar("Came", bound=Incoming)
log = logging.getLogger("warren.client.inbox")
NO_MORE = {REFUSED: "it was refused before", TAKEN_BACK: "its sender has taken it back"}


@dataclass(frozen=True, slots=True)
class InboxHandler(Generic[Came]):
    """Handles messages with one handler, for one consumer."""

    engine: Engine
    consumer: str
    keep_s: float
    recorder: InboxTable
    work: Callable[[Connection, Came], object]
    undo: Callable[[Connection, Came], object] | None = None
    money: Callable[[Came], Money] | None = None
    receipts: ReceiptWriter | None = None

    def handle(self, message: Came) -> tuple[str, bool]:
        """The business id of the message, and whether it was handled, or reversed, for the first time."""
        # decoded at each access
        properties = message.properties
        subject = subject_of(properties)
        digest = digest_of(message.body, properties)
        try:
            if subject.is_reversal:
                return subject.business_id, self._undo(message, subject, digest)
            return subject.business_id, self._do(message, properties, subject, digest)
        except IdTaken as taken:
            self._refuse_id(message, subject.business_id, digest, str(taken))
            raise CannotConvert(str(taken)) from None

    def _do(self, message: Came, properties: Properties, subject: Subject, digest: str) -> bool:
        business_id = subject.business_id
        amount, currency = (None, None) if self.money is None else self.money(message)
        facts = RecordedFacts(amount, currency, attempt_of(properties), digest)
        try:
            with self.engine.begin() as connection:
                is_first = self._record(connection, properties, subject, facts)
                if is_first:
                    _check_done(self.work(connection, message))
                else:
                    check_same_message(connection, self.consumer, business_id, digest)
                self._acknowledge(connection, message, business_id, is_first)
        except Refused as refusal:
            with self.engine.begin() as connection:
                is_first = record_refused(connection, self.consumer, business_id, facts)
                if not is_first:
                    check_same_message(connection, self.consumer, business_id, digest)
                self._acknowledge(connection, message, business_id, is_first, refusal)
            self._log_refusal(business_id, refusal)
        return is_first

    def _record(self, connection: Connection, properties: Properties, subject: Subject, facts: RecordedFacts) -> bool:
        """Whether the id is new. `Refused` if the message may have been handled and its row pruned."""
        if subject.written_at is None:
            return self.recorder.record(connection, subject.business_id, facts)
        came_at = self.recorder.recorded_at(connection, subject.business_id, facts)
        if came_at is not None:
            self._check_remembered(subject.written_at, came_at, properties)
        return came_at is not None

    def _check_remembered(self, written_at: datetime, came_at: DriversTime, properties: Properties) -> None:
        """`Refused` if its row may have been pruned; `CannotConvert` if no receipt could say so."""
        try:
            check_not_pruned(written_at, utc_time(came_at), self.keep_s)
        except Refused as refusal:
            if self.receipts is not None and self.receipts.reaches(properties):
                raise
            raise CannotConvert(f"{refusal}: handle it by hand, or send it again without {WRITTEN_HEADER}") from None

    def _undo(self, message: Came, subject: Subject, digest: str) -> bool:
        if self.undo is None:
            raise CannotConvert(f"it reverses {subject.business_id!r}, and this handler was given no way to undo that")
        try:
            with self.engine.begin() as connection:
                taken = take_back(
                    connection, self.consumer, subject.business_id, subject.written_at, self.keep_s, digest
                )
                if taken is ReversalOutcome.TO_UNDO:
                    _check_done(self.undo(connection, message))
                if self.receipts is not None:
                    self.receipts.write(connection, message, "done")
        except Refused as refusal:
            with self.engine.begin() as connection:
                if self.receipts is not None:
                    self.receipts.write(connection, message, "refused", str(refusal))
            self._log_refusal(subject.business_id, refusal)
            return True
        return taken is not ReversalOutcome.BEFORE

    def _refuse_id(self, message: Came, business_id: str, digest: str, reason: str) -> None:
        log.warning("message.id_taken", extra={"consumer": self.consumer, "business_id": business_id})
        if self.receipts is not None:
            with self.engine.begin() as connection:
                self.receipts.write_apart(connection, message, digest, reason)

    def _log_refusal(self, business_id: str, refusal: Refused) -> None:
        facts = {"consumer": self.consumer, "business_id": business_id, "reason": str(refusal)}
        log.warning("message.refused", extra=facts)

    def _acknowledge(
        self, connection: Connection, message: Came, business_id: str, is_first: bool, refusal: Refused | None = None
    ) -> None:
        if self.receipts is None:
            return
        if is_first:
            self.receipts.write(connection, message, "done" if refusal is None else "refused", str(refusal or ""))
            return
        outcome = outcome_of(connection, self.consumer, business_id)
        if outcome == DONE:
            self.receipts.write_again(connection, message, "done", "")
        else:
            self.receipts.write_again(connection, message, "refused", NO_MORE.get(outcome, outcome))


def _check_done(result: object) -> None:
    """Raise if a handler returned a coroutine or a generator: it has done nothing, but its row says so."""
    if isinstance(result, Awaitable | Generator | AsyncGenerator):
        if isinstance(result, Coroutine | Generator):
            result.close()
        kind = type(result).__name__
        raise TypeError(f"the work came back undone, as a {kind}: give the inbox a plain function that does it itself")
