"""Between the core and the store that nodes share: proposals go out; how they ended, and what changed, comes in.

::

    Propose ──► commit ──► Decided
    watch ──► DefinitionsChanged, DefinitionsReplaced            in the order of their revisions
    every second: which is the newest revision? ── told already ──► DefinitionsCurrent

What the store answers is as old as the question: `DefinitionsCurrent` says when that was asked, and is told only behind
everything that had changed by then.

A store may decline to speak to this node, because its password was changed, say. That is for an operator to mend, and
nothing to stop for: it is logged, and tried again every second. Proposals fail with the store's own words meanwhile,
and the core, which hears nothing, knows that it may be behind. A store that went back in time, though, is no store to
go on with: `failed` is told, and the node stops.

Not here: the store (`node.etcd.store`), what the core makes of it (`broker.shared_agreement`).
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from warren.errors import StoreError
from warren.model.effects import Effect, Propose
from warren.model.events import Decided, DefinitionsChanged, DefinitionsCurrent, DefinitionsReplaced
from warren.node.etcd.connection import Declined
from warren.node.etcd.store import EtcdStore
from warren.node.etcd.watching import Replaced
from warren.node.logs import Log
from warren.node.turns import Turns

ASK_EVERY_S = 1.0
PAUSE_S = 0.1
TELL_WITHIN_S = 2.0


class StorePump:
    """Runs from `start` to `close`; `orders` may be given before."""

    def __init__(self, store: EtcdStore, turns: Turns, log: Log, failed: Callable[[StoreError], None]) -> None:
        self._store = store
        self._turns = turns
        self._log = log
        self._failed = failed
        self._tasks: set[asyncio.Task[None]] = set()
        self._told = 0
        self._told_more = asyncio.Event()
        self._watching = False
        # why the store declined, if it did last
        self._declined = ""

    def orders(self) -> Mapping[type[Effect], Callable[[Any], None]]:
        return {Propose: self._propose}

    def start(self, after: int) -> None:
        """Tell of everything that is newer than this revision."""
        self._told = after
        self._begin(self._watch())
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

    async def _watch(self) -> None:
        while True:
            self._watching = True
            try:
                async for told in self._store.watch(self._told):
                    if isinstance(told, Replaced):
                        self._turns.add(DefinitionsReplaced(told.revision, told.snapshot))
                    else:
                        self._turns.add(DefinitionsChanged(told.revision, told.changes))
                    self._told = told.revision
                    self._told_more.set()
            except Declined as declined:
                self._watching = False
                self._was_declined(declined)
            await asyncio.sleep(ASK_EVERY_S)

    async def _ask(self) -> None:
        loop = self._turns.loop
        while True:
            next_at = loop.time() + ASK_EVERY_S
            try:
                await self._ask_once()
            except (TimeoutError, ConnectionError):
                # the core notices that it hears nothing
                pass
            except Declined as declined:
                self._was_declined(declined)
            await asyncio.sleep(max(next_at - loop.time(), PAUSE_S))

    async def _ask_once(self) -> None:
        asked_ms = self._turns.now_ms()
        async with asyncio.timeout(TELL_WITHIN_S):
            newest = await self._store.current()
            while self._told < newest:
                self._told_more.clear()
                await self._told_more.wait()
        self._turns.add(DefinitionsCurrent(newest, asked_ms))
        if self._declined and self._watching:
            self._declined = ""
            self._log.warning("store.accepted")

    def _was_declined(self, declined: Declined) -> None:
        if str(declined) != self._declined:
            self._declined = str(declined)
            self._log.error(
                "store.declined",
                reason=self._declined,
                effect="definitions cannot be changed here, and what this node cannot route it does not confirm",
            )
