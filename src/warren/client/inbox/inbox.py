"""`Inbox`: the rows of one consumer, handlers that run once for each message, and pruning.

Old rows are removed in steps so small that handlers do not wait for them.

Not here: the contents of a row (`inbox.rows`), handling a message (`inbox.handler`).
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
from warren.client.inbox.rows import (
    TEXT_CHARACTERS_MAX,
    InboxTable,
    RecordedFacts,
    checked_id,
    digest_of,
    is_kept_as_text,
)
from warren.client.measures import CONSUMER, Measure
from warren.client.outbox import Outbox
from warren.client.tables import INBOX, Executor, database_time
from warren.client.transport import Incoming


def prune_step(engine: Engine, consumer: str, keep_s: float, rows: int) -> int:
    """Remove the oldest rows older than `keep_s`, at most `rows`; returns how many."""
    is_old = (INBOX.c.consumer == consumer, INBOX.c.received_at < database_time(-keep_s))
    old = select(INBOX.c.business_id).where(*is_old).order_by(INBOX.c.received_at).limit(rows)
    with engine.begin() as connection:
        # skip rows that another process is removing
        found = connection.execute(old.with_for_update(skip_locked=True)).scalars().all()
        # SQLite does not lock here: the row may be replaced by a young one meanwhile
        return connection.execute(delete(INBOX).where(*is_old, INBOX.c.business_id.in_(found))).rowcount


KEEP: Final = timedelta(days=7)
STEP_ROWS: Final = 1000
PRUNE_EVERY: Final = timedelta(minutes=10)

log = logging.getLogger(__name__)


class Inbox:
    """The messages that one consumer has handled; `handled` and `duplicates` count since the program began."""

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
        """Record a business id in the caller's transaction; False if this consumer has it already.

        If the sender may confirm or reverse the message, the id is that of its `subject_of`. Waits for a transaction
        that records the same id, and returns its result. `CannotConvert` if `message` is not the message that this
        consumer has under the id; without `message` this is not checked.
        """
        digest = _digest(message)
        facts = RecordedFacts(amount, currency, attempt, digest)
        if self._recorder.record(executor, checked_id(business_id), facts):
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
        """Record a reversal in the caller's transaction: whether the message was done, so that it is to be undone now.

        If it was not done, that is recorded, and the message is a duplicate if it still comes. A second call returns
        False. `Refused` if there is no row and the message is so old that its row may have been pruned. `CannotConvert`
        if `message` is about another message than this consumer has under the id.
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
        """A handler for a listener that acks when it returns: `work(connection, message)`, once for each business id.

        `work` runs in a transaction that is committed when it returns; it may raise `Refused`. `undo` is called instead
        with the reversal of a handled message. `money` returns the amount of a message, for an inbox that is
        reconciled. `receipts` is the outbox for receipts to the sender.
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
        """The counters `handled` and `duplicates`."""

        def count(name: str, says: str, read: Callable[[], int]) -> Measure:
            return Measure(name, "{message}", says, "counter", lambda: [(read(), {CONSUMER: self.consumer})])

        return [
            count("warren.client.inbox.messages", "Messages that the inbox had not yet", lambda: self.handled),
            count("warren.client.duplicate.messages", "Messages that the inbox had already", lambda: self.duplicates),
        ]

    def prune(self, step_rows: int = STEP_ROWS) -> int:
        """Remove all rows that were kept long enough, step by step; returns how many."""
        total = 0
        while removed := prune_step(self._engine, self.consumer, self._keep_s, step_rows):
            total += removed
        return total

    async def keep_pruned(self, every: timedelta = PRUNE_EVERY) -> None:
        """Prune repeatedly until cancelled. One process is enough; several do no harm."""
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
    """An id that is taken is reported as an unreadable message: redelivery does not help either."""
    try:
        yield
    except IdTaken as taken:
        raise CannotConvert(str(taken)) from None


def _check_plain(function: Callable[..., object] | None) -> None:
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        name = getattr(function, "__name__", type(function).__name__)
        raise ValueError(f"the work is a plain function, which runs in a thread; {name} is a coroutine")
