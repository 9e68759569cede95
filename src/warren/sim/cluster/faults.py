"""Faults of a simulated cluster, drawn from the seed.

Not here: their effects (`sim.cluster.nodes`, `sim.cluster.metadata_store`).
"""

from collections.abc import Callable

from warren.broker.model.events import MemoryMeasured
from warren.sim.cluster.nodes import SimulatedCluster, SimulatedClusterNode
from warren.sim.faults import DANGEROUS_STEPS, WorldFaults, strike_at_step

SHORT_MS, LONG_MS = (300, 2_000), (4_000, 9_000, 14_000)


class ClusterFaults(WorldFaults):
    """The faults of a cluster."""

    freezes_ms = (100, 800, 4_000)

    def __init__(self, world: SimulatedCluster, every_ms: int) -> None:
        super().__init__(world)
        self._every_ms = every_ms
        self._wait()

    def heal(self) -> None:
        super().heal()
        world = self._world
        for link in world.peer_links.all:
            link.mend()
        if not world.store.majority:
            world.store.set_majority(True)
        for member in world.members:
            member.cut_off_from_store(False)
            member.add(MemoryMeasured(0, 0))

    def _draw(self) -> Callable[[], None]:
        faults = {
            self._reset: 10,
            self._stall: 10,
            self._freeze: 8,
            self._slow_disk: 4,
            self._cut_wire: 15,
            self._cut_one_way: 10,
            self._isolate: 10,
            self._cut_store: 15,
            self._lose_majority: 5,
            self._forget_history: 5,
            self._death: 15,
            self._ambush: 15,
            self._slow_death: 15,
            self._stop: 10,
        }
        return self._weighted(faults)

    def _duration_ms(self) -> int:
        return self._chance.choice((*SHORT_MS, *LONG_MS))

    # -- nodes

    def _death(self) -> None:
        member = self._member()
        down_ms = self._chance.choice((0, 100, 1_000, 5_000, 9_000))
        if self._chance.random() < 0.5:
            self._record_fault(f"kill {member.name} for {down_ms} ms")
            member.kill(down_ms)
        else:
            self._record_fault(f"power of {member.name} is gone for {down_ms} ms")
            member.lose_power(down_ms)

    def _ambush(self) -> None:
        """A node will lose power at some step of its disk's work, perhaps a certain one."""
        member, down_ms = self._member(), self._chance.choice((0, 1_000, 5_000))
        step = self._chance.choice(("", *DANGEROUS_STEPS))
        self._record_fault(f"ambush {member.name} at '{step}'")

        def strike(_taken: str) -> None:
            self._world.schedule(0, lambda: member.lose_power(down_ms))

        strike_at_step(member.disk, step, self._chance.randint(1, 5), strike)

    def _slow_death(self) -> None:
        """A node loses power while its disk is behind."""
        member = self._member()
        self._record_fault(f"waning of {member.name}")
        member.disk.slow = True
        self._world.schedule(self._chance.randint(50, 1_000), lambda: self._fall(member))

    def _fall(self, member: SimulatedClusterNode) -> None:
        member.disk.slow = False
        if not self._healed:
            member.lose_power(self._chance.choice((0, 1_000, 5_000)))

    def _stop(self) -> None:
        member = self._member()
        down_ms = self._chance.choice((0, 100, 1_000, 5_000))
        self._record_fault(f"stop {member.name} for {down_ms} ms")
        member.stop(down_ms)

    # -- links

    def _cut_wire(self) -> None:
        link, duration_ms = self._chance.choice(self._world.peer_links.all), self._duration_ms()
        self._record_fault(f"cut {link.members[0].name} from {link.members[1].name} for {duration_ms} ms")
        for place in (0, 1):
            link.set_cut(place, True)
        self._world.schedule(duration_ms, link.mend)

    def _cut_one_way(self) -> None:
        link, place, duration_ms = self._chance.choice(self._world.peer_links.all), self._chance.choice((0, 1)), 0
        duration_ms = self._duration_ms()
        one, other = link.members[place].name, link.members[1 - place].name
        self._record_fault(f"mute {one} to {other} for {duration_ms} ms")
        link.set_cut(place, True)
        self._world.schedule(duration_ms, link.mend)

    def _isolate(self) -> None:
        """A node reaches no other node, and not the store."""
        member, duration_ms = self._member(), self._duration_ms()
        self._record_fault(f"isolate {member.name} for {duration_ms} ms")
        wires = self._world.peer_links.of(member.name)
        for link in wires:
            for place in (0, 1):
                link.set_cut(place, True)
            self._world.schedule(duration_ms, link.mend)
        self._cut_from_store(member, duration_ms)

    # -- the store

    def _cut_store(self) -> None:
        member, duration_ms = self._member(), self._duration_ms()
        self._record_fault(f"unstore {member.name} for {duration_ms} ms")
        self._cut_from_store(member, duration_ms)

    def _cut_from_store(self, member: SimulatedClusterNode, duration_ms: int) -> None:
        member.cut_off_from_store(True)
        self._world.schedule(duration_ms, lambda: member.cut_off_from_store(False))

    def _lose_majority(self) -> None:
        store, duration_ms = self._world.store, self._duration_ms()
        self._record_fault(f"majority is lost for {duration_ms} ms")
        store.set_majority(False)
        self._world.schedule(duration_ms, lambda: store.set_majority(True))

    def _forget_history(self) -> None:
        self._record_fault("forget what was changed")
        self._world.store.forget_history()
