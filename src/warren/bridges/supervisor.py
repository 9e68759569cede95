"""Runs the bridges of this node: starts, restarts, stops and retires them.

The kinds of bridges (shovels, federation) say which bridges the cluster should have. Whenever the host reports a
change, `BridgeSupervisor` compares them with the ones that run. Bridges with an unchanged definition are left alone.
One `BridgeWorker` keeps one bridge running:

::

    starting ──is_up──► running ──broke──► terminated ──after its delay──► starting
        └──────────────broke─────────────────▲

Invariants: a key has one worker, which has stopped, and retired if needed, before another worker with its key starts.
Other workers do not wait for that: a bridge on a silent connection takes a while to stop. Whether it retires is decided
after it stopped, by the definitions of that moment. A worker has one run at a time, and none after `stop`. A restart
during a restart is the same restart. A run is cancelled once, because a second cancellation cuts its cleanup short;
only `hurry` cancels again.

The error that ended a run is the *reason*. A repeated reason is logged once a minute. A message that the destination
refuses breaks the bridge each time, so the delay grows. A bridge that returned from its run is done (`on_done`).

Not here: what a bridge does (`bridges.shovels`, `bridges.federation.links`).
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol

from warren.bridges.bridge import Bridge, BridgeRun
from warren.bridges.host import BridgeHost
from warren.bridges.settlement import BridgeStats, MessageRefused, PoisonMessageGuard
from warren.errors import WarrenError

State = Literal["starting", "running", "terminated"]
STARTING: Final = "starting"
RUNNING: Final = "running"
TERMINATED: Final = "terminated"

RESTART_ANSWER_S: Final = 1.5
"""Shorter than the time one node waits for another's answer."""

LOG_AGAIN_S: Final = 60.0
REFUSED_PAUSE_MAX_S: Final = 60.0


class BridgeWorker:
    """One bridge of this node."""

    def __init__(self, host: BridgeHost, bridge: Bridge, on_done: "Callable[[BridgeWorker], None]") -> None:
        self.bridge = bridge
        self.stats = BridgeStats()
        self._poison_guard = PoisonMessageGuard()
        self.state: State = STARTING
        # seconds since 1970
        self.since = time.time()
        self.reason = ""
        # reported by the latest run that was up
        self.facts: Mapping[str, object] = {}
        self.is_done = False
        # number of runs
        self.lives = 0
        self._logged = ""
        self._logged_at = 0.0
        self._host = host
        self._on_done = on_done
        self._task: asyncio.Task[None] | None = None
        self._restarting: asyncio.Task[None] | None = None
        self._is_stopped = False

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._keep(), name=self.bridge.key)

    async def stop(self) -> None:
        """Stop for good. Returns when all connections are closed."""
        self._is_stopped = True
        await self._end_life()

    def hurry(self) -> None:
        """Stop waiting for outstanding confirms; the undecided messages are logged."""
        if self._task is not None and not self._task.done():
            self._task.cancel()

    async def restart(self) -> None:
        """Start a new run. The caller may go away meanwhile.

        Returns when the run has started, or soon: a run with slow last confirms ends and restarts later.
        """
        if self._is_stopped:
            return
        if self._restarting is None:
            self._restarting = asyncio.get_running_loop().create_task(self._restart(), name=f"{self.bridge.key} anew")
        await asyncio.wait([self._restarting], timeout=RESTART_ANSWER_S)

    async def _restart(self) -> None:
        try:
            await self._end_life()
            if not self._is_stopped:
                self._stands(STARTING, "")
                self.start()
        finally:
            self._restarting = None

    async def _end_life(self) -> None:
        task = self._task
        if task is not None and not task.done():
            if not task.cancelling():
                task.cancel()
            # a cancelled caller must not cancel the run again
            await asyncio.wait([task])

    async def _keep(self) -> None:
        # refused messages in a row
        refusals = 0
        while True:
            self._stands(STARTING, self.reason)
            self.lives += 1
            delay_s = self.bridge.reconnect_delay_s
            try:
                await self.bridge.live(self._new_run())
            except MessageRefused as refusal:
                delay_s = min(delay_s * 2**refusals, max(delay_s, REFUSED_PAUSE_MAX_S))
                refusals = min(refusals + 1, 30)
                self._broke(str(refusal), None, delay_s)
            except (WarrenError, OSError, TimeoutError, ValueError) as trouble:
                refusals = 0
                self._broke(str(trouble) or type(trouble).__name__, None, delay_s)
            except Exception as defect:
                self._broke(f"a defect: {type(defect).__name__}: {defect}", defect, delay_s)
            else:
                self.is_done = True
                self._host.log.info(
                    "bridge.completed", **self.bridge.describe(), messages=self.stats.confirmed or self.stats.published
                )
                self._on_done(self)
                return
            if not delay_s:
                return
            await asyncio.sleep(delay_s)

    def _new_run(self) -> BridgeRun:
        return BridgeRun(self._host, self.bridge.describe(), self.stats, self._is_up, self._poison_guard)

    def _is_up(self, facts: Mapping[str, object]) -> None:
        self.facts = facts
        self._stands(RUNNING, "")
        self._host.log.info("bridge.started", **self.bridge.describe())

    def _broke(self, reason: str, defect: Exception | None, delay_s: float) -> None:
        self._stands(TERMINATED, reason)
        if reason == self._logged and time.monotonic() - self._logged_at < LOG_AGAIN_S:
            return
        self._logged, self._logged_at = reason, time.monotonic()
        fields = {**self.bridge.describe(), "reason": reason, "again_in_s": delay_s}
        if defect is None:
            self._host.log.warning("bridge.broke", **fields)
        else:
            self._host.log.error("bridge.failed", **fields, exc_info=defect)

    def _stands(self, state: State, reason: str) -> None:
        if (state, reason) != (self.state, self.reason):
            self.state = state
            self.reason = reason
            self.since = time.time()


class RunningLoop(Protocol):
    """A loop that runs until it is cancelled."""

    def cancel(self) -> object: ...


class BridgeKind(Protocol):
    """A kind of bridge."""

    def wanted(self, host: BridgeHost) -> Iterable[Bridge]:
        """All bridges of this kind that the cluster should have."""


class BridgeSupervisor:
    """Starts and stops the bridges of one node."""

    def __init__(self, host: BridgeHost, kinds: Sequence[BridgeKind]) -> None:
        self._host = host
        self.kinds = kinds
        self.keepers: dict[str, BridgeWorker] = {}
        self._changed = asyncio.Event()
        self._loop: RunningLoop | None = None
        # done, and not started again while their definition stays the same
        self._done: dict[str, Bridge] = {}
        # by kind: the bridges it wanted last
        self._known: dict[int, list[Bridge]] = {}
        # by key: workers that are stopping, and the tasks that stop them
        self._ending: dict[str, tuple[BridgeWorker, asyncio.Task[None]]] = {}

    def start(self, run: Callable[[Callable[[], Coroutine[Any, Any, None]]], RunningLoop]) -> None:
        """`run` runs the supervisor's loop, and starts it again if it fails."""
        self._forget_change = self._host.on_change(self._changed.set)
        self._loop = run(self._supervise)

    @property
    def is_idle(self) -> bool:
        """Whether no worker runs and none is stopping."""
        return not self.keepers and not self._ending

    def cancel(self) -> None:
        """Start no more bridges."""
        if self._loop is not None:
            self._forget_change()
            self._loop.cancel()
            self._loop = None

    async def stop(self, patience_s: float | None = None) -> None:
        """Stop all workers in good order, those included that are already stopping.

        After `patience_s` no worker waits for confirms any more.
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
        """Whether this node has a bridge with that key to restart."""
        keeper = self.keepers.get(key)
        if keeper is None:
            return False
        await keeper.restart()
        return True

    async def _supervise(self) -> None:
        # at the start, and after a failure, which may have missed a change
        self._changed.set()
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
                self.keepers[key] = BridgeWorker(self._host, bridge, self._bridge_done)
                self.keepers[key].start()

    def _begin_end(self, key: str, keeper: BridgeWorker, may_retire: bool) -> None:
        task = asyncio.get_running_loop().create_task(self._end(keeper, may_retire), name=f"end of {key}")
        self._ending[key] = (keeper, task)

    async def _end(self, keeper: BridgeWorker, may_retire: bool) -> None:
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

    def _wanted(self, kind: BridgeKind) -> list[Bridge]:
        """A kind that raises must not stop the bridges of other kinds."""
        try:
            self._known[id(kind)] = list(kind.wanted(self._host))
        except Exception as defect:
            self._host.log.error("bridges.failed", reason=str(defect), exc_info=defect)
        return self._known.get(id(kind), [])

    def _is_own(self, bridge: Bridge) -> bool:
        return bridge.home == self._host.node_name if bridge.home else self._host.responsible_for(bridge.key)

    def _bridge_done(self, keeper: BridgeWorker) -> None:
        self._done[keeper.bridge.key] = keeper.bridge
        self._changed.set()
