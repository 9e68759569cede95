"""Which bridges run on this node: those that are wanted, as they are wanted, and of which it is responsible.

Kinds of bridges (shovels, federation) say what is wanted; whenever the host says that something has changed, what is
wanted is compared with what runs. A bridge whose definition is the same is left alone.

Invariant: of one key there is one keeper, and it has stopped, and retired if it had to, before another one with its key
begins. Others do not wait for it: one that hangs on a silent link takes a while to end. Whether it retires is decided
when it has stopped, by what is wanted then: meanwhile it may have been defined again, or deleted.

Not here: what one bridge does (`bridges.supervisor`).

Keeps one bridge alive: begins its lives, one after another, and knows how it stands.

::

    starting ──is_up──► running ──broke──► terminated ──after its delay──► starting
        └──────────────broke─────────────────▲

Invariant: one life at a time, and none once it was stopped. Whoever asks to begin anew while that is under way has
asked for the same; what is ending is told so once, for a second word cuts short what it has to put in order. Only who
has no more time says it.

What broke it is the *reason*, a sentence; one that repeats itself is written to the log once a minute. A message that
the destination will not have breaks it again and again: then its delay grows. A bridge that returned from its life is
done, and whoever keeps the keeper is told (`on_done`).

Not here: which bridges there are (`bridges.supervisor`).
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal, Protocol

from warren.bridges.bridge import Bridge, BridgeRun
from warren.bridges.host import BridgeHost
from warren.bridges.settlement import BridgeStats, MessageRefused, PoisonMessageGuard
from warren.errors import WarrenError

State = Literal["starting", "running", "terminated"]
STARTING: Final = "starting"
RUNNING: Final = "running"
TERMINATED: Final = "terminated"

RESTART_ANSWER_S: Final = 1.5
"""Less than one node waits for the answer of another one."""

SAY_AGAIN_S: Final = 60.0
REFUSED_PAUSE_MAX_S: Final = 60.0


class BridgeWorker:
    """One bridge of this node."""

    def __init__(self, host: BridgeHost, bridge: Bridge, on_done: "Callable[[BridgeWorker], None]") -> None:
        self.bridge = bridge
        self.stats = BridgeStats()
        self._poison_guard = PoisonMessageGuard()
        self.state: State = STARTING
        # in seconds since 1970
        self.since = time.time()
        self.reason = ""
        # what the life under way, or the last one that got so far, said when it was up
        self.facts: Mapping[str, object] = {}
        self.is_done = False
        # how often it was begun
        self.lives = 0
        self._said = ""
        self._said_at = 0.0
        self._host = host
        self._on_done = on_done
        self._task: asyncio.Task[None] | None = None
        self._restarting: asyncio.Task[None] | None = None
        self._is_stopped = False

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._keep(), name=self.bridge.key)

    async def stop(self) -> None:
        """For good. Returns when it has closed what it had open."""
        self._is_stopped = True
        await self._end_life()

    def hurry(self) -> None:
        """It is ending, and may wait no longer for what it lacks; that is in doubt then, and told."""
        if self._task is not None and not self._task.done():
            self._task.cancel()

    async def restart(self) -> None:
        """Begin a life anew; whoever asked may go away meanwhile.

        Returns when it has begun, or soon: one whose last confirms take long ends and begins all the same.
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
            # who is cancelled while he waits must not cancel it again
            await asyncio.wait([task])

    async def _keep(self) -> None:
        # how often in a row a message was refused
        refusals = 0
        while True:
            self._stands(STARTING, self.reason)
            self.lives += 1
            delay_s = self.bridge.reconnect_delay_s
            try:
                await self.bridge.live(self._life())
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

    def _life(self) -> BridgeRun:
        return BridgeRun(self._host, self.bridge.describe(), self.stats, self._is_up, self._poison_guard)

    def _is_up(self, facts: Mapping[str, object]) -> None:
        self.facts = facts
        self._stands(RUNNING, "")
        self._host.log.info("bridge.started", **self.bridge.describe())

    def _broke(self, reason: str, defect: Exception | None, delay_s: float) -> None:
        self._stands(TERMINATED, reason)
        if reason == self._said and time.monotonic() - self._said_at < SAY_AGAIN_S:
            return
        self._said, self._said_at = reason, time.monotonic()
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


class BridgeKind(Protocol):
    """A kind of bridges."""

    def wanted(self, host: BridgeHost) -> Iterable[Bridge]:
        """All that there should be in the cluster, by what the host says."""


class BridgeSupervisor:
    """Starts and stops the bridges of one node."""

    def __init__(self, host: BridgeHost, kinds: Sequence[BridgeKind]) -> None:
        self._host = host
        self.kinds = kinds
        self.keepers: dict[str, BridgeWorker] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        # done, and not to be begun again as long as they are defined like this
        self._done: dict[str, Bridge] = {}
        # of each kind, what it wanted last
        self._known: dict[int, list[Bridge]] = {}
        # by key, those that are about to end, and what ends them
        self._ending: dict[str, tuple[BridgeWorker, asyncio.Task[None]]] = {}

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
        """One kind that cannot say what it wants must not cost the others their bridges."""
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
