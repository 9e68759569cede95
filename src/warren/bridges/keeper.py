"""Keeps one bridge alive: begins its lives, one after another, and knows how it stands.

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
from collections.abc import Callable, Mapping
from typing import Final, Literal

from warren.bridges.bridge import Bridge, Life
from warren.bridges.carrying.caution import Caution, MessageRefused
from warren.bridges.carrying.tally import Tally
from warren.bridges.host import Host
from warren.errors import WarrenError

State = Literal["starting", "running", "terminated"]
STARTING: Final = "starting"
RUNNING: Final = "running"
TERMINATED: Final = "terminated"

RESTART_ANSWER_S: Final = 1.5
"""Less than one node waits for the answer of another one."""

SAY_AGAIN_S: Final = 60.0
REFUSED_PAUSE_MAX_S: Final = 60.0


class Keeper:
    """One bridge of this node."""

    def __init__(self, host: Host, bridge: Bridge, on_done: "Callable[[Keeper], None]") -> None:
        self.bridge = bridge
        self.tally = Tally()
        self._caution = Caution()
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
                    "bridge.completed", **self.bridge.describe(), messages=self.tally.confirmed or self.tally.published
                )
                self._on_done(self)
                return
            if not delay_s:
                return
            await asyncio.sleep(delay_s)

    def _life(self) -> Life:
        return Life(self._host, self.bridge.describe(), self.tally, self._is_up, self._caution)

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
