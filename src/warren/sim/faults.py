"""What goes wrong, and when: one fault after another, drawn from the seed.

Not here: what a fault does to those it strikes (`sim.network`, `sim.node`).
"""

from random import Random
from typing import TYPE_CHECKING

from warren.model.events import MemoryMeasured

if TYPE_CHECKING:
    from warren.sim.network import Link
    from warren.sim.world import World


class Faults:
    """Strikes now and then until the world is healed."""

    def __init__(self, world: "World", every_ms: int, restarts: bool) -> None:
        self._world = world
        self._chance = Random(f"{world.seed}/faults")
        self._every_ms = every_ms
        self._restarts = restarts
        self._healed = False
        self._wait()

    def heal(self) -> None:
        """No more faults; what they left behind is put right."""
        self._healed = True
        self._world.network.heal()
        for node in self._world.nodes:
            node.add(MemoryMeasured(0, 0))

    def _wait(self) -> None:
        self._world.schedule(self._chance.randint(1, 2 * self._every_ms), self._strike)

    def _strike(self) -> None:
        if self._healed:
            return
        weights = (30, 15, 30, 10, 10, 3 if self._restarts else 0)
        fault = self._chance.choices(
            (self._reset, self._silence, self._stall, self._alarm, self._freeze, self._restart), weights
        )[0]
        fault()
        self._wait()

    def _link(self) -> "Link | None":
        links = list(self._world.network.links.values())
        return self._chance.choice(links) if links else None

    def _reset(self) -> None:
        link = self._link()
        if link is not None:
            self._world.trace.say("fault", f"reset #{link.number}")
            link.reset()

    def _silence(self) -> None:
        link = self._link()
        if link is not None:
            self._world.trace.say("fault", f"silence on #{link.number}")
            # either the client or the node's heartbeat is the first to find out
            link.go_silent(self._chance.choice((2_000, 10_000)))

    def _stall(self) -> None:
        link = self._link()
        if link is not None:
            self._world.trace.say("fault", f"{link.client.name} stops reading")
            link.client_stalls(self._chance.choice((20, 200, 1_500)))

    def _alarm(self) -> None:
        """Memory seems to run low, or to be plentiful again."""
        node = self._chance.choice(self._world.nodes)
        used_bytes = self._chance.choice((0, 100_000))
        self._world.trace.say("fault", f"{node.name} uses {used_bytes} bytes")
        node.add(MemoryMeasured(used_bytes, 20_000))

    def _freeze(self) -> None:
        node = self._chance.choice(self._world.nodes)
        duration_ms = self._chance.choice((10, 100, 800))
        self._world.trace.say("fault", f"{node.name} stands still for {duration_ms} ms")
        node.freeze(duration_ms)

    def _restart(self) -> None:
        self._chance.choice(self._world.nodes).restart()
