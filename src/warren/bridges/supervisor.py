"""Which bridges run on this node: those that are wanted, as they are wanted, and of which it is responsible.

Kinds of bridges (shovels, federation) say what is wanted; whenever the host says that something has changed, what is
wanted is compared with what runs. A bridge whose definition is the same is left alone.

Invariant: of one key there is one keeper, and it has stopped, and retired if it had to, before another one with its key
begins. Others do not wait for it: one that hangs on a silent link takes a while to end. Whether it retires is decided
when it has stopped, by what is wanted then: meanwhile it may have been defined again, or deleted.

Not here: what one bridge does (`bridges.keeper`).
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Protocol

from warren.bridges.bridge import Bridge
from warren.bridges.host import Host
from warren.bridges.keeper import Keeper


class Kind(Protocol):
    """A kind of bridges."""

    def wanted(self, host: Host) -> Iterable[Bridge]:
        """All that there should be in the cluster, by what the host says."""


class Supervisor:
    """Starts and stops the bridges of one node."""

    def __init__(self, host: Host, kinds: Sequence[Kind]) -> None:
        self._host = host
        self.kinds = kinds
        self.keepers: dict[str, Keeper] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        # done, and not to be begun again as long as they are defined like this
        self._done: dict[str, Bridge] = {}
        # of each kind, what it wanted last
        self._known: dict[int, list[Bridge]] = {}
        # by key, those that are about to end, and what ends them
        self._ending: dict[str, tuple[Keeper, asyncio.Task[None]]] = {}

    def start(self) -> None:
        self._forget_change = self._host.on_change(self._changed.set)
        self._changed.set()
        self._task = asyncio.get_running_loop().create_task(self._supervise(), name="bridges")

    @property
    def is_idle(self) -> bool:
        """Whether none runs, and none is about to end."""
        return not self.keepers and not self._ending

    def cancel(self) -> None:
        """Begin no more."""
        if self._task is not None:
            self._forget_change()
            self._task.cancel()
            self._task = None

    async def stop(self, patience_s: float | None = None) -> None:
        """End all of them in good order; those, too, that were about to end.

        After `patience_s` none waits any more for the confirms that it lacks.
        """
        self.cancel()
        keepers, self.keepers = self.keepers, {}
        for key, keeper in keepers.items():
            self._begin_end(key, keeper, may_retire=False)
        if self._ending:
            _, late = await asyncio.wait([task for _, task in self._ending.values()], timeout=patience_s)
            if late:
                for keeper, _ in self._ending.values():
                    keeper.hurry()
                await asyncio.wait(late)

    async def restart(self, key: str) -> bool:
        """Whether there is one with that key on this node to begin anew."""
        keeper = self.keepers.get(key)
        if keeper is None:
            return False
        await keeper.restart()
        return True

    async def _supervise(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._look()

    def _look(self) -> None:
        wanted = self._all_wanted()
        self._done = {key: bridge for key, bridge in self._done.items() if wanted.get(key) == bridge}
        own = {key: bridge for key, bridge in wanted.items() if key not in self._done and self._is_own(bridge)}
        for keeper in [keeper for key, keeper in self.keepers.items() if own.get(key) != keeper.bridge]:
            key = keeper.bridge.key
            del self.keepers[key]
            self._begin_end(key, keeper, may_retire=True)
        for key, bridge in own.items():
            if key not in self.keepers and key not in self._ending:
                self.keepers[key] = Keeper(self._host, bridge, self._bridge_done)
                self.keepers[key].start()

    def _begin_end(self, key: str, keeper: Keeper, may_retire: bool) -> None:
        task = asyncio.get_running_loop().create_task(self._end(keeper, may_retire), name=f"end of {key}")
        self._ending[key] = (keeper, task)

    async def _end(self, keeper: Keeper, may_retire: bool) -> None:
        bridge = keeper.bridge
        try:
            await keeper.stop()
            if may_retire and bridge.key not in (wanted := self._all_wanted()):
                await bridge.retire(self._host, wanted.values())
        except Exception as trouble:
            self._host.log.warning("bridge.left_behind", **bridge.describe(), reason=str(trouble))
        finally:
            del self._ending[bridge.key]
            self._changed.set()

    def _all_wanted(self) -> dict[str, Bridge]:
        return {bridge.key: bridge for kind in self.kinds for bridge in self._wanted(kind)}

    def _wanted(self, kind: Kind) -> list[Bridge]:
        """One kind that cannot say what it wants must not cost the others their bridges."""
        try:
            self._known[id(kind)] = list(kind.wanted(self._host))
        except Exception as defect:
            self._host.log.error("bridges.failed", reason=str(defect), exc_info=defect)
        return self._known.get(id(kind), [])

    def _is_own(self, bridge: Bridge) -> bool:
        return bridge.home == self._host.node_name if bridge.home else self._host.responsible_for(bridge.key)

    def _bridge_done(self, keeper: Keeper) -> None:
        self._done[keeper.bridge.key] = keeper.bridge
        self._changed.set()
