"""Faults of a simulated cluster, drawn from the seed.

Not here: their effects (`sim.cluster.nodes`, `sim.cluster.metadata_store`).
"""

from random import Random

from warren.broker.model.events import MemoryMeasured
from warren.sim.cluster.nodes import SimulatedClusterNode
from warren.sim.cluster.world import ClusterWorld
from warren.sim.faults import DANGEROUS_STEPS, strike_at_step

SHORT_MS, LONG_MS = (300, 2_000), (4_000, 9_000, 14_000)


class ClusterFaults:
    """Strikes now and then until the world is healed."""

    def __init__(self, world: ClusterWorld, every_ms: int) -> None:
        self._world = world
        self._chance = Random(f"{world.seed}/faults")
        self._every_ms = every_ms
        self._healed = False
        self._wait()

    def heal(self) -> None:
        """No more faults; their effects are repaired."""
        world = self._world
        self._healed = True
        world.network.heal()
        for link in world.peer_links.all:
            link.mend()
        if not world.store.majority:
            world.store.set_majority(True)
        for member in world.members:
            member.cut_off_from_store(False)
            member.disk.slow = False
            member.disk.watch = None
            member.add(MemoryMeasured(0, 0))

    def _wait(self) -> None:
        self._world.schedule(self._chance.randint(1, 2 * self._every_ms), self._strike)

    def _strike(self) -> None:
        if self._healed:
            return
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
        fault = self._chance.choices(list(faults), list(faults.values()))[0]
        fault()
        self._wait()

    def _say(self, what: str) -> None:
        self._world.seen[f"fault {what.split()[0]}"] += 1
        self._world.trace.say("fault", what)

    def _member(self) -> SimulatedClusterNode:
        return self._chance.choice(self._world.members)

    def _duration_ms(self) -> int:
        return self._chance.choice((*SHORT_MS, *LONG_MS))

    # -- clients

    def _reset(self) -> None:
        links = list(self._world.network.links.values())
        if links:
            link = self._chance.choice(links)
            self._say(f"reset #{link.number}")
            link.reset()

    def _stall(self) -> None:
        links = list(self._world.network.links.values())
        if links:
            link = self._chance.choice(links)
            self._say(f"stall {link.client.name}")
            link.client_stalls(self._chance.choice((20, 200, 1_500)))

    # -- nodes

    def _freeze(self) -> None:
        member, duration_ms = self._member(), self._chance.choice((100, 800, 4_000))
        self._say(f"freeze {member.name} for {duration_ms} ms")
        member.freeze(duration_ms)

    def _slow_disk(self) -> None:
        member = self._member()
        self._say(f"slow disk of {member.name}")
        member.disk.slow = True
        self._world.schedule(self._chance.choice((300, 2_000)), lambda: setattr(member.disk, "slow", False))

    def _death(self) -> None:
        member = self._member()
        down_ms = self._chance.choice((0, 100, 1_000, 5_000, 9_000))
        if self._chance.random() < 0.5:
            self._say(f"kill {member.name} for {down_ms} ms")
            member.kill(down_ms)
        else:
            self._say(f"power of {member.name} is gone for {down_ms} ms")
            member.lose_power(down_ms)

    def _ambush(self) -> None:
        """A node will lose power at some step of its disk's work, perhaps a certain one."""
        member, down_ms = self._member(), self._chance.choice((0, 1_000, 5_000))
        step = self._chance.choice(("", *DANGEROUS_STEPS))
        self._say(f"ambush {member.name} at '{step}'")

        def strike(_taken: str) -> None:
            self._world.schedule(0, lambda: member.lose_power(down_ms))

        strike_at_step(member.disk, step, self._chance.randint(1, 5), strike)

    def _slow_death(self) -> None:
        """A node loses power while its disk is behind."""
        member = self._member()
        self._say(f"waning of {member.name}")
        member.disk.slow = True
        self._world.schedule(self._chance.randint(50, 1_000), lambda: self._fall(member))

    def _fall(self, member: SimulatedClusterNode) -> None:
        member.disk.slow = False
        if not self._healed:
            member.lose_power(self._chance.choice((0, 1_000, 5_000)))

    def _stop(self) -> None:
        member = self._member()
        down_ms = self._chance.choice((0, 100, 1_000, 5_000))
        self._say(f"stop {member.name} for {down_ms} ms")
        member.stop(down_ms)

    # -- links

    def _cut_wire(self) -> None:
        link, duration_ms = self._chance.choice(self._world.peer_links.all), self._duration_ms()
        self._say(f"cut {link.members[0].name} from {link.members[1].name} for {duration_ms} ms")
        for place in (0, 1):
            link.set_cut(place, True)
        self._world.schedule(duration_ms, link.mend)

    def _cut_one_way(self) -> None:
        link, place, duration_ms = self._chance.choice(self._world.peer_links.all), self._chance.choice((0, 1)), 0
        duration_ms = self._duration_ms()
        one, other = link.members[place].name, link.members[1 - place].name
        self._say(f"mute {one} to {other} for {duration_ms} ms")
        link.set_cut(place, True)
        self._world.schedule(duration_ms, link.mend)

    def _isolate(self) -> None:
        """A node reaches no other node, and not the store."""
        member, duration_ms = self._member(), self._duration_ms()
        self._say(f"isolate {member.name} for {duration_ms} ms")
        wires = self._world.peer_links.of(member.name)
        for link in wires:
            for place in (0, 1):
                link.set_cut(place, True)
            self._world.schedule(duration_ms, link.mend)
        self._cut_from_store(member, duration_ms)

    # -- the store

    def _cut_store(self) -> None:
        member, duration_ms = self._member(), self._duration_ms()
        self._say(f"unstore {member.name} for {duration_ms} ms")
        self._cut_from_store(member, duration_ms)

    def _cut_from_store(self, member: SimulatedClusterNode, duration_ms: int) -> None:
        member.cut_off_from_store(True)
        self._world.schedule(duration_ms, lambda: member.cut_off_from_store(False))

    def _lose_majority(self) -> None:
        store, duration_ms = self._world.store, self._duration_ms()
        self._say(f"majority is lost for {duration_ms} ms")
        store.set_majority(False)
        self._world.schedule(duration_ms, lambda: store.set_majority(True))

    def _forget_history(self) -> None:
        self._say("forget what was changed")
        self._world.store.forget_history()
