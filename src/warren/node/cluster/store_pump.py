"""Between the core and the store that nodes share: proposals go out; how they ended, and what changed, comes in.

::

    Propose ──► commit ──► Decided
    watch ──► DefinitionsChanged, DefinitionsReplaced            in the order of their revisions
    every second: which is the newest revision? ── told already ──► DefinitionsCurrent

That the store is current counts from the moment of the question, and is told only behind everything that had changed by
then. A store that went back in time is no store to go on with: `failed` is told, and the node stops.

Not here: the store (`node.etcd.store`), what the core makes of it (`broker.shared_agreement`).
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from warren.errors import StoreError
from warren.model.effects import Effect, Propose
from warren.model.events import Decided, DefinitionsChanged, DefinitionsCurrent, DefinitionsReplaced
from warren.node.etcd.store import EtcdStore
from warren.node.etcd.watching import Replaced
from warren.node.turns import Turns

ASK_EVERY_S = 1.0
TELL_WITHIN_S = 2.0


class StorePump:
    """Runs from `start` to `close`; `orders` may be given before."""

    def __init__(self, store: EtcdStore, turns: Turns, failed: Callable[[StoreError], None]) -> None:
        self._store = store
        self._turns = turns
        self._failed = failed
        self._tasks: set[asyncio.Task[None]] = set()
        self._told = 0
        self._told_more = asyncio.Event()

    def orders(self) -> Mapping[type[Effect], Callable[[Any], None]]:
        return {Propose: self._propose}

    def start(self, after: int) -> None:
        """Tell of everything that is newer than this revision."""
        self._told = after
        self._begin(self._watch(after))
        self._begin(self._ask())

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Any) -> None:
        task = self._turns.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, StoreError):
            self._failed(error)
        elif error is not None:
            raise error

    def _propose(self, effect: Propose) -> None:
        self._begin(self._commit(effect))

    async def _commit(self, proposed: Propose) -> None:
        decision = await self._store.commit(
            proposed.compares, proposed.changes, proposed.touched, proposed.unchanged_under
        )
        self._turns.add(Decided(proposed.ticket, decision.outcome, decision.revision, decision.reason))

    async def _watch(self, after: int) -> None:
        async for told in self._store.watch(after):
            if isinstance(told, Replaced):
                self._turns.add(DefinitionsReplaced(told.revision, told.snapshot))
            else:
                self._turns.add(DefinitionsChanged(told.revision, told.changes))
            self._told = told.revision
            self._told_more.set()

    async def _ask(self) -> None:
        while True:
            try:
                async with asyncio.timeout(TELL_WITHIN_S):
                    newest = await self._store.current()
                    while self._told < newest:
                        self._told_more.clear()
                        await self._told_more.wait()
                self._turns.add(DefinitionsCurrent(newest))
            except (TimeoutError, ConnectionError):
                # the core notices that it hears nothing
                pass
            await asyncio.sleep(ASK_EVERY_S)
