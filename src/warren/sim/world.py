"""The pretend world: one clock, one heap of things to come, and everything chance decides drawn from the seed.

A step is one thing that happens: a piece of bytes arrives, a node takes its turn, a client acts, a fault strikes. Time
stands still in between. Two runs with one seed are the same to the last byte, whatever the interpreter's hash seed.

Not here: who lives in it (`sim.workload`), how a run goes (`sim.run`).
"""

import heapq
from collections.abc import Callable
from random import Random

from warren.model.effects import Answered
from warren.model.settings import BrokerSettings
from warren.sim.checkers import Checkers
from warren.sim.client import Client
from warren.sim.fabric import Fabric
from warren.sim.history import History, QueuePlan
from warren.sim.network import Network
from warren.sim.node import HEARTBEAT_S, Meddler, Node
from warren.sim.operator import Operator
from warren.sim.trace import Trace
from warren.sim.undo import UndoLog

START_MS = 1_000_000


class World:
    """A run's world."""

    def __init__(
        self,
        seed: int,
        trace: Trace,
        checkers: Checkers,
        meddler: Meddler | None = None,
        settings: BrokerSettings | None = None,
    ) -> None:
        self.seed = seed
        self.now_ms = START_MS
        self.trace = trace
        self.checkers = checkers
        self.plans: dict[str, QueuePlan] = {}
        undo = UndoLog()
        self.history = History(undo)
        self.fabric = Fabric(self.plans, undo)
        self.network = Network(self, Random(f"{seed}/network"))
        self.steps_taken = 0
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = 0
        self.clients: list[Client] = []
        self.operator: Operator | None = None
        trace.now_ms = self.elapsed_ms
        self.nodes = [Node(self, "one", settings or self._settings(), meddler or Meddler())]

    def elapsed_ms(self) -> int:
        return self.now_ms - START_MS

    def _settings(self) -> BrokerSettings:
        """Segments so small that they fill, and so little memory that messages go to disk; sometimes."""
        chance = Random(f"{self.seed}/settings")
        return BrokerSettings(
            heartbeat_s=HEARTBEAT_S,
            segment_bytes=chance.choice((2_000, 8_000, 30_000)),
            paging_ratio=chance.choice((0.0, 0.001, 0.05, 2.0)),
        )

    def command_answered(self, effect: Answered) -> None:
        if self.operator is not None:
            self.operator.command_answered(effect)

    def schedule(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._serial += 1
        heapq.heappush(self._heap, (self.now_ms + delay_ms, self._serial, action))

    def step(self) -> None:
        """The next thing happens."""
        at_ms, _serial, action = heapq.heappop(self._heap)
        self.now_ms = at_ms
        self.steps_taken += 1
        action()

    def run_until(self, met: Callable[[], bool], steps_max: int) -> bool:
        """Step until a condition is met, the steps are used up or something is wrong; whether it was met."""
        for _ in range(steps_max):
            if met() or self.checkers.complaints:
                break
            self.step()
        return met()
