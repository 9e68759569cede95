"""`Inbox`: the rows of one consumer, and handlers that run once for each.

Not here: what a row says (`inbox.recording`), removing old ones (`inbox.pruning`).
"""

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from datetime import timedelta
from decimal import Decimal
from threading import Lock
from typing import Final, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from warren.client.inbox.pruning import prune_step
from warren.client.inbox.recording import (
    TEXT_CHARACTERS_MAX,
    Recorder,
    attempt_of,
    business_id_of,
    checked_id,
    is_kept_as_text,
)
from warren.client.tables import Executor
from warren.client.transport import Incoming

Money = tuple[Decimal, str]
"""An amount and its currency."""

Came = TypeVar("Came", bound=Incoming)

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
        self._recorder = Recorder(engine.dialect, consumer)
        self._counting = Lock()

    def first_time(
        self,
        executor: Executor,
        business_id: str,
        *,
        amount: Decimal | None = None,
        currency: str | None = None,
        attempt: int = 1,
    ) -> bool:
        """Record it in the caller's transaction; False if this consumer had it already.

        Waits for a transaction that records the same id, and is then told how that ended.
        """
        return self._recorder.record(executor, checked_id(business_id), amount, currency, attempt)

    def handler(
        self, work: Callable[[Connection, Came], None], *, money: Callable[[Came], Money] | None = None
    ) -> Callable[[Came], None]:
        """A handler for a listener that acks what returns: `work(connection, message)`, once for each business id.

        `work` runs within a transaction that is committed when it returns. `money` says what amount the message is
        about, for an inbox that is one side of a reconciliation.
        """
        if inspect.iscoroutinefunction(work) or inspect.iscoroutinefunction(type(work).__call__):
            name = getattr(work, "__name__", type(work).__name__)
            raise ValueError(f"the work is a plain function, which runs in a thread; {name} is a coroutine")
        call: Callable[[Connection, Came], object] = work

        def handle(message: Came) -> None:
            # decoded each time it is asked for
            properties = message.properties
            business_id, attempt = business_id_of(properties), attempt_of(properties)
            amount, currency = (None, None) if money is None else money(message)
            with self._engine.begin() as connection:
                is_first = self._recorder.record(connection, business_id, amount, currency, attempt)
                if is_first:
                    _check_done(call(connection, message))
            self._count(is_first, business_id)

        return handle

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
                log.warning("inbox.prune_failed", extra={"consumer": self.consumer, "reason": str(error)})
            await asyncio.sleep(every.total_seconds())

    def _count(self, is_first: bool, business_id: str) -> None:
        # handlers run in several threads
        with self._counting:
            self.handled += is_first
            self.duplicates += not is_first
        if not is_first:
            log.info("message.duplicated", extra={"consumer": self.consumer, "business_id": business_id})


def _check_done(result: object) -> None:
    """What is still to be awaited or asked for its steps has done nothing, and its row would say that it had."""
    if isinstance(result, Awaitable | Generator | AsyncGenerator):
        if isinstance(result, Coroutine | Generator):
            result.close()
        kind = type(result).__name__
        raise TypeError(f"the work came back undone, as a {kind}: give the inbox a plain function that does it itself")
