"""A message through the inbox: recorded, worked upon and acknowledged in one transaction.

    message, confirmation   new: work, receipt `done`        there: its receipt again
    reversal                it was done: undo                else: nothing to undo; receipt `done` either way

A confirmation is recorded under the id of the message that it confirms: whichever of the two comes first is worked
upon. A reversal marks the row of the message that it reverses, or leaves one, so that the message is a duplicate if it
comes after all.

**Another message with the same id**, from a sender that does not know of the first one's, is no duplicate: it is parked
as what cannot be read, and its own sender is told that it is refused. Neither the row nor the receipt of the first one
is touched, nor is its work undone by a reversal that means the other.

Work that is `Refused` is rolled back, and the refusal recorded in a transaction of its own. If another delivery of the
same message has got the better of it meanwhile, that one counts.

Not here: rows (`inbox.recording`, `inbox.outcomes`), receipts (`inbox.receipting`).
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Generic, TypeVar

from sqlalchemy import Connection, Engine

from warren.client.errors import CannotConvert
from warren.client.inbox.digest import digest_of
from warren.client.inbox.outcomes import (
    DONE,
    REFUSED,
    TAKEN_BACK,
    IdTaken,
    TakenBack,
    check_remembered,
    check_same,
    outcome_of,
    record_refused,
    take_back,
)
from warren.client.inbox.receipting import ReceiptWriter, Refused
from warren.client.inbox.recording import DriversTime, Recorder, attempt_of, moment
from warren.client.inbox.standing_for import Subject, subject_of
from warren.client.outbox.kinds import WRITTEN_HEADER
from warren.client.transport import Incoming
from warren.wire.properties import Properties

Money = tuple[Decimal, str]
"""An amount and its currency."""

Said = tuple[Decimal | None, str | None, int, str]
"""What a row keeps of a message: amount, currency, attempt and digest."""

Came = TypeVar("Came", bound=Incoming)
log = logging.getLogger("warren.client.inbox")
NO_MORE = {REFUSED: "it was refused before", TAKEN_BACK: "its sender has taken it back"}


@dataclass(frozen=True, slots=True)
class Handling(Generic[Came]):
    """What one handler does with messages, for one consumer."""

    engine: Engine
    consumer: str
    keep_s: float
    recorder: Recorder
    work: Callable[[Connection, Came], object]
    undo: Callable[[Connection, Came], object] | None = None
    money: Callable[[Came], Money] | None = None
    receipts: ReceiptWriter | None = None

    def handle(self, message: Came) -> tuple[str, bool]:
        """The business id that it is about, and whether that was handled, or taken back, for the first time."""
        # decoded each time it is asked for
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
        attempt = attempt_of(properties)
        try:
            with self.engine.begin() as connection:
                is_first = self._record(connection, properties, subject, (amount, currency, attempt, digest))
                if is_first:
                    _check_done(self.work(connection, message))
                else:
                    check_same(connection, self.consumer, business_id, digest)
                self._acknowledge(connection, message, business_id, is_first)
        except Refused as refusal:
            with self.engine.begin() as connection:
                is_first = record_refused(connection, self.consumer, business_id, amount, currency, attempt, digest)
                if not is_first:
                    check_same(connection, self.consumer, business_id, digest)
                self._acknowledge(connection, message, business_id, is_first, refusal)
            self._log_refusal(business_id, refusal)
        return is_first

    def _record(self, connection: Connection, properties: Properties, subject: Subject, said: Said) -> bool:
        """Whether it was not there. One that may have been done and forgotten is a `Refused`."""
        if subject.written_at is None:
            return self.recorder.record(connection, subject.business_id, *said)
        came_at = self.recorder.recorded_at(connection, subject.business_id, *said)
        if came_at is not None:
            self._check_remembered(subject.written_at, came_at, properties)
        return came_at is not None

    def _check_remembered(self, written_at: datetime, came_at: DriversTime, properties: Properties) -> None:
        """`Refused` if it may have been done and forgotten, or if that would be told to nobody, a `CannotConvert`."""
        try:
            check_remembered(written_at, moment(came_at), self.keep_s)
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
                if taken is TakenBack.TO_UNDO:
                    _check_done(self.undo(connection, message))
                if self.receipts is not None:
                    self.receipts.write(connection, message, "done")
        except Refused as refusal:
            with self.engine.begin() as connection:
                if self.receipts is not None:
                    self.receipts.write(connection, message, "refused", str(refusal))
            self._log_refusal(subject.business_id, refusal)
            return True
        return taken is not TakenBack.BEFORE

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
    """What is still to be awaited or asked for its steps has done nothing, and its row would say that it had."""
    if isinstance(result, Awaitable | Generator | AsyncGenerator):
        if isinstance(result, Coroutine | Generator):
            result.close()
        kind = type(result).__name__
        raise TypeError(f"the work came back undone, as a {kind}: give the inbox a plain function that does it itself")
