"""Faults, drawn from the seed: those of every world, and those of one node's.

Not here: their effects (`sim.simulation`, `sim.process`, `sim.disk`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random

from warren.broker.model.events import DiskMeasured, MemoryMeasured
from warren.sim.cluster.nodes import SimulatedCluster, SimulatedClusterNode
from warren.sim.disk import SimulatedDisk
from warren.sim.simulation import SimulatedConnection

DANGEROUS_STEPS = (
    "change metadata",
    "write",
    "flush",
    "flush new segment",
    "name new segment",
    "flush sealed segment",
    "write checkpoint",
    "flush checkpoint",
    "name checkpoint",
    "sync directory",
    "drop segment",
    "drop index",
    "write index",
    "name index",
)


class WorldFaults(ABC):
    """Strikes now and then until the world is healed."""

    freezes_ms: tuple[int, ...] = ()

    def __init__(self, world: SimulatedCluster) -> None:
        self._world = world
        self._chance = Random(f"{world.seed}/faults")
        self._every_ms = 0
        self._healed = False

    @abstractmethod
    def _draw(self) -> Callable[[], None]:
        """The next fault."""

    def heal(self) -> None:
        """No more faults; their effects are repaired."""
        self._healed = True
        self._world.network.heal()
        for member in self._world.members:
            member.disk.slow = member.disk.full = False
            member.disk.watch = None

    def _wait(self) -> None:
        self._world.schedule(self._chance.randint(1, 2 * self._every_ms), self._strike)

    def _strike(self) -> None:
        if not self._healed:
            self._draw()()
            self._wait()

    def _weighted(self, faults: dict[Callable[[], None], int]) -> Callable[[], None]:
        return self._chance.choices(list(faults), list(faults.values()))[0]

    def _record_fault(self, what: str) -> None:
        self._world.seen[f"fault {what.split()[0]}"] += 1
        self._world.trace.write("fault", what)

    def _member(self) -> SimulatedClusterNode:
        return self._chance.choice(self._world.members)

    def _link(self) -> SimulatedConnection | None:
        links = list(self._world.network.links.values())
        return self._chance.choice(links) if links else None

    # -- faults of every world

    def _reset(self) -> None:
        link = self._link()
        if link is not None:
            self._record_fault(f"reset #{link.number}")
            link.reset()

    def _stall(self) -> None:
        link = self._link()
        if link is not None:
            self._record_fault(f"stall {link.client.name}")
            link.client_stalls(self._chance.choice((20, 200, 1_500)))

    def _freeze(self) -> None:
        member, duration_ms = self._member(), self._chance.choice(self.freezes_ms)
        self._record_fault(f"freeze {member.name} for {duration_ms} ms")
        member.freeze(duration_ms)

    def _slow_disk(self) -> None:
        member = self._member()
        self._record_fault(f"slow disk of {member.name}")
        member.disk.slow = True
        self._world.schedule(self._chance.choice((300, 2_000)), lambda: setattr(member.disk, "slow", False))


class NodeFaults(WorldFaults):
    """The faults of one node's world."""

    freezes_ms = (10, 100, 800)

    def __init__(self, world: SimulatedCluster, every_ms: int, deaths: bool) -> None:
        super().__init__(world)
        self._every_ms = every_ms
        self._deaths = deaths
        if deaths:
            self._ambush()
        self._wait()

    def heal(self) -> None:
        super().heal()
        for node in self._world.members:
            node.add(MemoryMeasured(0, 0))
            node.add(DiskMeasured(1, 0))

    def _draw(self) -> Callable[[], None]:
        deaths = 6 if self._deaths else 0
        return self._weighted(
            {
                self._reset: 30,
                self._silence: 15,
                self._stall: 30,
                self._alarm: 10,
                self._freeze: 10,
                self._slow_disk: 6,
                self._full_disk: 6,
                self._death: 2 * deaths,
                self._stop: deaths,
                self._ambush: 4 * deaths,
            }
        )

    def _silence(self) -> None:
        link = self._link()
        if link is not None:
            self._record_fault(f"silence on #{link.number}")
            # either the client or the node's heartbeat notices first
            link.go_silent(self._chance.choice((2_000, 10_000)))

    def _alarm(self) -> None:
        """Memory runs low, or is plentiful again."""
        node = self._member()
        used_bytes = self._chance.choice((0, 100_000))
        self._record_fault(f"memory of {node.name}: {used_bytes} bytes")
        node.add(MemoryMeasured(used_bytes, 20_000))
        node.add(DiskMeasured(self._chance.choice((0, 2_000)), 1_000))

    def _full_disk(self) -> None:
        node = self._member()
        self._record_fault(f"full disk of {node.name}")
        node.disk.full = True
        self._world.schedule(self._chance.choice((50, 500)), lambda: setattr(node.disk, "full", False))

    # -- deaths

    def _death(self) -> None:
        self._slay(self._member())

    def _stop(self) -> None:
        self._member().stop(self._down_ms())

    def _ambush(self) -> None:
        """The node will die at some step of its disk's work, perhaps a certain one."""
        node = self._member()
        step = self._chance.choice(("", *DANGEROUS_STEPS))
        steps_left = self._chance.randint(1, 20 if step == "" else 2)
        self._record_fault(f"ambush {node.name} at '{step}', {steps_left}")
        strike_at_step(node.disk, step, steps_left, lambda taken: self._caught(node, taken))

    def _caught(self, node: SimulatedClusterNode, taken: str) -> None:
        self._world.seen[f"died at {taken}"] += 1
        self._world.schedule(0, lambda: self._slay(node))

    def _slay(self, node: SimulatedClusterNode) -> None:
        if self._healed:
            return
        if self._chance.random() < 0.5:
            node.lose_power(self._down_ms())
        else:
            node.kill(self._down_ms())
        if self._chance.random() < 0.3:
            # the next life is short: it ends during the first writes
            strike_at_step(node.disk, "", self._chance.randint(1, 12), lambda taken: self._caught(node, taken))

    def _down_ms(self) -> int:
        return self._chance.choice((0, 1, 50, 500))


def strike_at_step(disk: SimulatedDisk, step: str, steps_left: int, strike: Callable[[str], None]) -> None:
    """Call `strike` when a disk begins the step of that name, or any step, for the n-th time."""

    def watch(taken: str) -> None:
        nonlocal steps_left
        if step in ("", taken):
            steps_left -= 1
            if steps_left == 0:
                disk.watch = None
                strike(taken)

    disk.watch = watch
