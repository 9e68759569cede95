"""Sees to it that there is a link to one member, for as long as it is one.

Without a link it tries at once, then after 0.1 s, twice as long each time, up to 2 s, and never gives up. A link that
broke before it was 2 s old does not count as success: the row of pauses goes on.

The end of a link does not tell what became of the node. If one of the attempts that follow finds that nobody listens on
the node's port, that run of its process seems to be over, and `turned_away` is told so, once for each link. It is no
proof: a firewall may refuse in the node's place.

Attempts that fail for the same reason as the last one are not logged.

Not here: what an attempt is: a dial or a knock (`node.peers.links`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from warren.cluster.addresses import PeerAddress
from warren.node.logs import Log
from warren.node.peers.dialling import DialFailed

PAUSE_MIN_S = 0.1
PAUSE_MAX_S = 2.0


class Keeper:
    """Tries to `reach` a member while there is no link to it."""

    def __init__(
        self,
        name: str,
        address: PeerAddress,
        loop: asyncio.AbstractEventLoop,
        log: Log,
        reach: Callable[["Keeper"], Awaitable[None]],
        turned_away: Callable[[str, str], None],
    ) -> None:
        self.name = name
        self.address = address
        self.last_failure = ""
        self._loop = loop
        self._log = log
        self._reach = reach
        self._turned_away = turned_away
        self._linked_since = 0.0
        self._missing = asyncio.Event()
        self._missing.set()
        self._hurried = asyncio.Event()
        self._pause_s = PAUSE_MIN_S
        # whether it is open what became of the node at the end of a link
        self._fate_open = False
        self._task = loop.create_task(self._keep())

    def stop(self) -> None:
        self._task.cancel()

    def linked(self) -> None:
        """There is a link, whoever dialled."""
        self.last_failure = ""
        self._fate_open = False
        self._linked_since = self._loop.time()
        self._missing.clear()

    def lost(self) -> None:
        """There is none any more."""
        self._fate_open = True
        if self._loop.time() - self._linked_since >= PAUSE_MAX_S:
            self._pause_s = PAUSE_MIN_S
        self._missing.set()

    def hurry(self) -> None:
        """The node is known to be there: do not wait."""
        self._hurried.set()

    async def _keep(self) -> None:
        while True:
            await self._missing.wait()
            self._hurried.clear()
            try:
                await self._reach(self)
            except DialFailed as failure:
                self._failed(failure)
            if not self._missing.is_set():
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause_s):
                    await self._hurried.wait()
            self._pause_s = min(PAUSE_MAX_S, self._pause_s * 2)

    def _failed(self, failure: DialFailed) -> None:
        if failure.nobody_listens and self._fate_open and self._missing.is_set():
            self._fate_open = False
            self._turned_away(self.name, failure.reason)
        if failure.reason != self.last_failure and self._missing.is_set():
            self.last_failure = failure.reason
            self._complain(failure)

    def _complain(self, failure: DialFailed) -> None:
        log, name, where, reason = self._log, self.name, self.address, failure.reason
        if failure.by_peer:
            log.warning("refusal.received", node=name, address=where, reason=reason)
        elif failure.refused:
            log.warning("peer.refused", node=name, address=where, reason=reason)
        else:
            log.warning("peer.unreachable", node=name, address=where, reason=reason)
