"""`Inbox`: the rows of one consumer, and handlers that run once for each.

Not here: what a row says (`inbox.recording`), what is done with a message (`inbox.handling`), removing old ones
(`inbox.pruning`).

Old rows go, in steps so small that nobody who handles messages waits for them.

Not here: when that is done (`Inbox.prune`, `Inbox.keep_pruned`).
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from decimal import Decimal
from threading import Lock
from typing import Final

from sqlalchemy import Connection, Engine, delete, select
from sqlalchemy.exc import SQLAlchemyError

from warren.client.errors import CannotConvert, error_summary
from warren.client.inbox.handler import (
    Came,
    IdTaken,
    InboxHandler,
    Money,
    ReversalOutcome,
    check_same_message,
    take_back,
)
from warren.client.inbox.receipt_writer import ReceiptWriter
from warren.client.inbox.rows import TEXT_CHARACTERS_MAX, InboxTable, checked_id, digest_of, is_kept_as_text
from warren.client.measures import CONSUMER, Measure
from warren.client.outbox import Outbox
from warren.client.tables import INBOX, Executor, database_time
from warren.client.transport import Incoming


def prune_step(engine: Engine, consumer: str, keep_s: float, rows: int) -> int:
    """Remove the oldest rows that are older than that, at most so many; how many it were."""
    is_old = (INBOX.c.consumer == consumer, INBOX.c.received_at < database_time(-keep_s))
    old = select(INBOX.c.business_id).where(*is_old).order_by(INBOX.c.received_at).limit(rows)
    with engine.begin() as connection:
        # what another process is removing is left to it
        found = connection.execute(old.with_for_update(skip_locked=True)).scalars().all()
        # SQLite locks nothing by that: by now a row may be another, and young
        return connection.execute(delete(INBOX).where(*is_old, INBOX.c.business_id.in_(found))).rowcount


KEEP: Final = timedelta(days=7)
STEP_ROWS: Final = 1000
PRUNE_EVERY: Final = timedelta(minutes=10)

log = logging.getLogger(__name__)


class Inbox:
    """What one consumer has handled; `handled` and `duplicates` count since the program began."""

    def __init__(self, engine: Engine, consumer: str, keep: timedelta = KEEP) -> None:
        if not 0 < len(consumer) <= TEXT_CHARACTERS_MAX or not is_kept_as_text(consumer):
            raise ValueError(f"a consumer is named in 1 to {TEXT_CHARACTERS_MAX} characters, not {consumer!r}")
        if keep <= timedelta(0):
            raise ValueError(f"rows are kept for some time, not {keep}")
        self.consumer = consumer
        self.handled = 0
        self.duplicates = 0
        self._engine = engine
        self._keep_s = keep.total_seconds()
        self._recorder = InboxTable(engine.dialect, consumer)
        self._counting = Lock()

    def first_time(
        self,
        executor: Executor,
        business_id: str,
        *,
        amount: Decimal | None = None,
        currency: str | None = None,
        attempt: int = 1,
        message: Incoming | None = None,
    ) -> bool:
        """Record it in the caller's transaction; False if this consumer had it already.

        Of a message whose sender may confirm or reverse it, the id is that of its `subject_of`.
        Waits for a transaction that records the same id, and is then told how that ended. A `CannotConvert` if the
        `message` is not the one that this consumer had under that id; without it nobody can tell.
        """
        digest = _digest(message)
        if self._recorder.record(executor, checked_id(business_id), amount, currency, attempt, digest):
            return True
        with _as_unreadable():
            check_same_message(executor, self.consumer, business_id, digest)
        return False

    def take_back(
        self,
        executor: Executor,
        business_id: str,
        written_at: datetime | None = None,
        *,
        message: Incoming | None = None,
    ) -> bool:
        """In the caller's transaction: whether this consumer has done it, so that it is to be undone now.

        If it has not, that is recorded, and the message is a duplicate should it still come. Who asks again is told no.
        `Refused` if it is not there, and was written so long ago that its row may have been pruned. A `CannotConvert`
        if the `message` that says so stands for another one than this consumer had under that id.
        """
        known = checked_id(business_id)
        with _as_unreadable():
            taken = take_back(executor, self.consumer, known, written_at, self._keep_s, _digest(message))
        return taken is ReversalOutcome.TO_UNDO

    def handler(
        self,
        work: Callable[[Connection, Came], None],
        *,
        undo: Callable[[Connection, Came], None] | None = None,
        money: Callable[[Came], Money] | None = None,
        receipts: Outbox | None = None,
    ) -> Callable[[Came], None]:
        """A handler for a listener that acks what returns: `work(connection, message)`, once for each business id.

        `work` runs within a transaction that is committed when it returns; it may raise `Refused`. `undo` is called in
        its place with the reversal of a message that was handled. `money` says what amount the message is about, for
        an inbox that is one side of a reconciliation. `receipts` is the outbox through which the sender is told.
        """
        for function in (work, undo):
            _check_plain(function)
        writer = None if receipts is None else ReceiptWriter(receipts, self.consumer)
        handling = InboxHandler(self._engine, self.consumer, self._keep_s, self._recorder, work, undo, money, writer)

        def handle(message: Came) -> None:
            business_id, is_first = handling.handle(message)
            self._count(is_first, business_id)

        return handle

    def measures(self) -> Sequence[Measure]:
        """What `handled` and `duplicates` say."""

        def count(name: str, says: str, read: Callable[[], int]) -> Measure:
            return Measure(name, "{message}", says, "counter", lambda: [(read(), {CONSUMER: self.consumer})])

        return [
            count("warren.client.inbox.messages", "Messages that the inbox had not yet", lambda: self.handled),
            count("warren.client.duplicate.messages", "Messages that the inbox had already", lambda: self.duplicates),
        ]

    def prune(self, step_rows: int = STEP_ROWS) -> int:
        """Remove all rows that were kept long enough, step by step; how many it were."""
        total = 0
        while removed := prune_step(self._engine, self.consumer, self._keep_s, step_rows):
            total += removed
        return total

    async def keep_pruned(self, every: timedelta = PRUNE_EVERY) -> None:
        """Prune now and then, until it is cancelled. One process does; more of them do no harm."""
        while True:
            try:
                removed = await asyncio.to_thread(self.prune)
                log.info("inbox.pruned", extra={"consumer": self.consumer, "rows": removed})
            except SQLAlchemyError as error:
                log.warning("inbox.prune_failed", extra={"consumer": self.consumer, "reason": error_summary(error)})
            await asyncio.sleep(every.total_seconds())

    def _count(self, is_first: bool, business_id: str) -> None:
        # handlers run in several threads
        with self._counting:
            self.handled += is_first
            self.duplicates += not is_first
        if not is_first:
            log.info("message.duplicated", extra={"consumer": self.consumer, "business_id": business_id})


def _digest(message: Incoming | None) -> str | None:
    return None if message is None else digest_of(message.body, message.properties)


@contextmanager
def _as_unreadable() -> Iterator[None]:
    """Who has it in hand can do no more about an id that is taken than about what cannot be read."""
    try:
        yield
    except IdTaken as taken:
        raise CannotConvert(str(taken)) from None


def _check_plain(function: Callable[..., object] | None) -> None:
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        name = getattr(function, "__name__", type(function).__name__)
        raise ValueError(f"the work is a plain function, which runs in a thread; {name} is a coroutine")
