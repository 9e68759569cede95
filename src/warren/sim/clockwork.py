"""What every pretend world is made of: one clock, one heap of things to come, and who can be connected to.

A step is one thing that happens: a piece of bytes arrives, a node takes its turn, a client acts, a fault strikes. Time
stands still in between. Two runs with one seed are the same to the last byte, whatever the interpreter's hash seed.

Not here: who lives in a world (`sim.world`, `sim.cluster.world`).
"""

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING

from warren.model.events import ConnectionOpened, Event
from warren.sim.checkers import Checkers
from warren.sim.network import Link, Network, Spoken
from warren.sim.trace import Trace

if TYPE_CHECKING:
    from warren.sim.client import Client

START_MS = 1_000_000


class Host(ABC):
    """Whatever clients connect to."""

    name: str
    up: bool

    @abstractmethod
    def accept(self, link: Link, event: ConnectionOpened) -> None: ...

    @abstractmethod
    def forget(self, link: Link) -> None: ...

    @abstractmethod
    def add(self, event: Event, spoken: list[Spoken] | None = None) -> None: ...


class Clockwork(ABC):
    """A world's time and its network."""

    def __init__(self, seed: int, trace: Trace, checkers: Checkers) -> None:
        self.seed = seed
        self.now_ms = START_MS
        self.trace = trace
        self.checkers = checkers
        self.network = Network(self, Random(f"{seed}/network"))
        self.steps_taken = 0
        self.clients: list[Client] = []
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = 0
        trace.now_ms = self.elapsed_ms

    @abstractmethod
    def hosts(self) -> Sequence[Host]:
        """Those that clients choose from."""

    def elapsed_ms(self) -> int:
        return self.now_ms - START_MS

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
