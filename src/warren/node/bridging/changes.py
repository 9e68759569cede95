"""Who is told when what bridges ask of this node may have another answer.

Everything that changes in a core changes in a turn. So when a turn is over, marks are compared with what they were: the
version of all definitions, that of the cluster's members, and, of the federated queues that somebody asked about,
whether they want more. That costs a node without federated queues next to nothing, and nobody asks by the clock.

Those who listen are called in a step of their own, at most every `EVERY_S`: who declares thousands of queues makes one
change of them.

Not here: the answers (`node.bridging.host`).
"""

import asyncio
from collections.abc import Callable
from typing import Final

from warren.broker.broker import Broker
from warren.node.turns import Turns

EVERY_S: Final = 0.05
Mark = tuple[int, int, bool]


class Changes:
    """Of one core."""

    def __init__(self, core: Broker, turns: Turns, wants_more: Callable[[str, str], bool]) -> None:
        self._core = core
        self._loop = turns.loop
        self._wants_more = wants_more
        # by virtual host and name of queues that were asked about: what the answer was
        self._wishes: dict[tuple[str, str], bool] = {}
        self._mark = self._look()
        self._listeners: list[Callable[[], None]] = []
        self._due: asyncio.TimerHandle | None = None
        self._told_at = 0.0
        turns.after_turn = self._after_turn

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback) if callback in self._listeners else None

    def asked(self, vhost: str, queue: str, wish: bool) -> None:
        """Somebody relies on this until he is told otherwise."""
        self._wishes[vhost, queue] = wish

    def _after_turn(self) -> None:
        mark = self._look()
        if mark != self._mark:
            self._mark = mark
            # whoever still wants to know asks again
            self._wishes.clear()
            self._tell_soon()
        elif self._wishes and any(self._wants_more(*queue) != wish for queue, wish in self._wishes.items()):
            self._tell_soon()

    def _look(self) -> Mark:
        clustering = self._core.clustering
        if clustering is None:
            return (self._core.appliers.version, -1, False)
        membership = clustering.membership
        return (self._core.appliers.version, membership.members.version, membership.paused)

    def _tell_soon(self) -> None:
        if self._due is None and self._listeners:
            wait_s = max(self._told_at + EVERY_S - self._loop.time(), 0.0)
            self._due = self._loop.call_later(wait_s, self._tell)

    def _tell(self) -> None:
        self._due = None
        self._told_at = self._loop.time()
        for listener in list(self._listeners):
            listener()
