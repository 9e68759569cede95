"""`Receipts`: the sender's side of receipts, as messages or as calls.

Not here: what changes (`receipts.marking`), what is done if none comes (`receipts.chaser`).
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import Literal

from sqlalchemy import Engine

from warren.client.measures import DATABASE, Measure, Point
from warren.client.receipts.marking import Marked, mark_done, mark_refused
from warren.client.receipts.reading import receipt_of
from warren.client.tables import Executor, connection_of
from warren.client.tables.places import place_of
from warren.client.transport import Incoming

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
    """Marks rows of one database's outbox; `counts` has how many receipts came to what, since the program began.

    `settled` is called in the transaction in which a message becomes `done` or `reversed`, once for each: what the
    sender's own books make of it stands if and only if the mark does.
    """

    def __init__(self, engine: Engine, settled: Settled | None = None) -> None:
        self.counts: dict[Marked, int] = dict.fromkeys(Marked, 0)
        self._engine = engine
        self._settled = settled
        self._counting = Lock()

    def done(self, executor: Executor | None, business_id: str) -> bool:
        """The receiver has done it: whether the message is done, or the confirmation or reversal is.

        In the caller's transaction, or with None in one of its own. False if there is no such row, or the message has
        been taken back meanwhile.
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
        """The receiver will not do it: whether the row waited for a word; the chaser compensates for it."""
        with self._transaction(executor) as transaction:
            marked = mark_refused(transaction, business_id, reason)
        self._note(marked, business_id, reason)
        return marked is Marked.REFUSED

    def handler(self, message: Incoming) -> None:
        """For a listener of the queue to which receipts go. What is no receipt is a `CannotConvert`, and is parked."""
        receipt = receipt_of(message)
        if receipt.is_refusal:
            self.refused(None, receipt.business_id, receipt.reason)
        else:
            self.done(None, receipt.business_id)

    def measures(self) -> Sequence[Measure]:
        """What `counts` says."""

        where = {DATABASE: place_of(self._engine)}

        def read() -> list[Point]:
            return [(count, {**where, MARKED: marked.value}) for marked, count in self.counts.items()]

        return [Measure("warren.client.receipts", "{receipt}", "Receipts, by what came of them", "counter", read)]

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
