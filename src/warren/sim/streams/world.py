"""The world of one node with streams, and what goes wrong in it.

Not here: what clients do (`sim.streams.clients`), how a run goes (`sim.streams.run`).
"""

from collections import Counter
from collections.abc import Sequence
from random import Random

from warren.broker.broker import Broker
from warren.model.effects import Answered, Note
from warren.model.events import MemoryMeasured
from warren.model.settings import BrokerSettings
from warren.sim.checkers import Checkers
from warren.sim.clockwork import Clockwork, Host
from warren.sim.faults import DANGEROUS_STEPS, lie_in_wait
from warren.sim.process import HEARTBEAT_S, Inbox, Meddler, Process
from warren.sim.trace import Trace

MEMORY_LIMIT_BYTES = 40_000_000
ARCHIVE_STEPS = (
    "cut archive",
    "write archive",
    "flush archive",
    "sync archive directory",
    "drop archive",
)


class StreamNode(Process):
    """A node that must never find a stream damaged."""

    def __init__(self, world: "StreamWorld", settings: BrokerSettings) -> None:
        super().__init__(world, "one", settings, Meddler())
        self._world = world
        self._start()

    def _begin_life(self) -> None:
        world = self._world
        try:
            seed = f"{world.seed}/{self.name}/{self.lives}".encode()
            self.broker = Broker(self.settings, seed, self.disk.found(world.now_ms))
        except Exception as error:
            world.checkers.complain("the node starts", f"it raised {type(error).__name__}: {error}")
            return
        self.up = True
        self.add(MemoryMeasured(0, MEMORY_LIMIT_BYTES))

    def _life_ended(self, clean: bool) -> None:
        return

    def _take_turn(self, inbox: Inbox) -> None:
        effects = self._handle(inbox)
        if effects is None:
            return
        for effect in self._meddled(effects):
            self._carry_out(effect)
        try:
            self.broker.check()
        except Exception as error:
            self._world.checkers.complain("the node checks itself", f"{type(error).__name__}: {error}")

    def _noted(self, note: Note) -> None:
        if note.name in ("queue.stopped", "stream.damaged", "journal.damaged") or note.level == "critical":
            self._world.checkers.complain("nothing is damaged", f"{note.name}: {note.fields}")

    def _answered(self, effect: Answered) -> None:
        return

    def _seen(self, what: str) -> None:
        self._world.seen[what] += 1


class StreamWorld(Clockwork):
    """A run's world."""

    def __init__(self, seed: int, trace: Trace, checkers: Checkers) -> None:
        super().__init__(seed, trace, checkers)
        chance = Random(f"{seed}/settings")
        self.seen: Counter[str] = Counter()
        # with little memory every flush makes a chunk
        self.tight = chance.random() < 0.7
        settings = BrokerSettings(
            heartbeat_s=HEARTBEAT_S,
            segment_bytes=chance.choice((2_000, 30_000, 4_000_000)),
            paging_ratio=0.0 if self.tight else 2.0,
        )
        self.node = StreamNode(self, settings)

    def hosts(self) -> Sequence[Host]:
        return [self.node]


class StreamFaults:
    """Deaths at every step, slow disks and full ones, until the world is healed."""

    def __init__(self, world: StreamWorld) -> None:
        self._world = world
        self._chance = Random(f"{world.seed}/faults")
        self._healed = False
        self._every_ms = self._chance.choice((100, 400, 2_000))
        self._wait()

    def heal(self) -> None:
        self._healed = True
        disk = self._world.node.disk
        disk.slow = disk.full = False
        disk.watch = None
        self._world.network.heal()

    def _wait(self) -> None:
        self._world.schedule(self._chance.randint(1, 2 * self._every_ms), self._strike)

    def _strike(self) -> None:
        if self._healed:
            return
        kinds = (self._ambush, self._ambush, self._ambush, self._die, self._slow, self._full, self._stop)
        self._chance.choice(kinds)()
        self._wait()

    def _ambush(self) -> None:
        """The node will die at some step of its disk's work."""
        step = self._chance.choice(("", *ARCHIVE_STEPS, *ARCHIVE_STEPS, *DANGEROUS_STEPS))
        lie_in_wait(self._world.node.disk, step, self._chance.randint(1, 4), self._caught)

    def _caught(self, step: str) -> None:
        self._world.seen[f"died at {step}"] += 1
        self._world.schedule(0, self._die)

    def _die(self) -> None:
        if self._healed:
            return
        node = self._world.node
        self._chance.choice((node.kill, node.lose_power, node.lose_power))(self._chance.choice((0, 50)))

    def _stop(self) -> None:
        self._world.node.stop(50)

    def _slow(self) -> None:
        disk = self._world.node.disk
        disk.slow = True
        self._world.schedule(500, lambda: setattr(disk, "slow", False))

    def _full(self) -> None:
        disk = self._world.node.disk
        disk.full = True
        self._world.schedule(200, lambda: setattr(disk, "full", False))
