"""A message through the inbox: recorded, worked upon and acknowledged in one transaction.

    message, confirmation   new: work, receipt `done`        there: its receipt again
    reversal                it was done: undo                else: nothing to undo; receipt `done` either way

A confirmation is recorded under the id of the message that it confirms: whichever of the two comes first is worked
upon. A reversal marks the row of the message that it reverses, or leaves one, so that the message is a duplicate if it
comes after all.

Work that is `Refused` is rolled back, and the refusal recorded in a transaction of its own. If another delivery of the
same message has got the better of it meanwhile, that one counts.

Not here: rows (`inbox.recording`, `inbox.outcomes`), receipts (`inbox.receipting`).
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from decimal import Decimal
from typing import Generic, TypeVar

from sqlalchemy import Connection, Engine

from warren.client.errors import CannotConvert
from warren.client.inbox.outcomes import DONE, REFUSED, TAKEN_BACK, outcome_of, record_refused, take_back
from warren.client.inbox.receipting import ReceiptWriter, Refused
from warren.client.inbox.recording import Recorder, attempt_of
from warren.client.inbox.standing_for import subject_of
from warren.client.transport import Incoming

Money = tuple[Decimal, str]
"""An amount and its currency."""

Came = TypeVar("Came", bound=Incoming)
NO_MORE = {REFUSED: "it was refused before", TAKEN_BACK: "its sender has taken it back"}


@dataclass(frozen=True, slots=True)
class Handling(Generic[Came]):
    """What one handler does with messages, for one consumer."""

    engine: Engine
    consumer: str
    recorder: Recorder
    work: Callable[[Connection, Came], object]
    undo: Callable[[Connection, Came], object] | None = None
    money: Callable[[Came], Money] | None = None
    receipts: ReceiptWriter | None = None

    def handle(self, message: Came) -> tuple[str, bool]:
        """The business id that it is about, and whether that was handled, or undone, for the first time."""
        # decoded each time it is asked for
        properties = message.properties
        business_id, is_reversal = subject_of(properties)
        if is_reversal:
            return business_id, self._undo(message, business_id)
        amount, currency = (None, None) if self.money is None else self.money(message)
        attempt = attempt_of(properties)
        try:
            with self.engine.begin() as connection:
                is_first = self.recorder.record(connection, business_id, amount, currency, attempt)
                if is_first:
                    _check_done(self.work(connection, message))
                self._acknowledge(connection, message, business_id, is_first)
        except Refused as refusal:
            with self.engine.begin() as connection:
                is_first = record_refused(connection, self.consumer, business_id, amount, currency, attempt)
                self._acknowledge(connection, message, business_id, is_first, refusal)
        return business_id, is_first

    def _undo(self, message: Came, business_id: str) -> bool:
        if self.undo is None:
            raise CannotConvert(f"it reverses {business_id!r}, and this handler was given no way to undo that")
        try:
            with self.engine.begin() as connection:
                was_done = take_back(connection, self.consumer, business_id)
                if was_done:
                    _check_done(self.undo(connection, message))
                if self.receipts is not None:
                    self.receipts.write(connection, message, "done")
        except Refused as refusal:
            with self.engine.begin() as connection:
                if self.receipts is not None:
                    self.receipts.write(connection, message, "refused", str(refusal))
            return False
        return was_done

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
