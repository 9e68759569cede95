"""The pretend world of a cluster: its nodes, the wires between them, the store they share, and the clients' books.

The first node starts alone. It founds the cluster when it is told to, and the others join then.

Not here: time (`sim.clockwork`), who uses the cluster (`sim.cluster.workload`), what goes wrong (`sim.cluster.faults`).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from warren.model.settings import BrokerSettings
from warren.sim.checkers import Checkers
from warren.sim.clockwork import Clockwork, Host
from warren.sim.cluster.member import Member
from warren.sim.cluster.promises import Promises
from warren.sim.cluster.rules import Rules
from warren.sim.cluster.wires import Wires
from warren.sim.metadata_store import PretendStore
from warren.sim.network import Link
from warren.sim.process import HEARTBEAT_S, Meddler
from warren.sim.trace import Trace
from warren.store.metadata import Snapshot

NAMES = ("one", "two", "three", "four", "five")
NODES_MAX = len(NAMES)

MakeMeddler = Callable[[str], Meddler]


class WatchedStore(PretendStore):
    """Shows every change at the moment it happens."""

    def __init__(self, world: "ClusterWorld", delay_ms: Callable[[], int]) -> None:
        super().__init__(world, delay_ms)
        self._world = world

    def move_in(self, revision: int, snapshot: Snapshot) -> None:
        for key, (_created, value) in snapshot.items():
            self._world.definition_changed(key, value)
        super().move_in(revision, snapshot)

    def _change(self, changes: list[tuple[str, bytes | None]]) -> int:
        for key, value in changes:
            self._world.definition_changed(key, value)
        return super()._change(changes)


class ClusterWorld(Clockwork):
    """A run's world."""

    def __init__(
        self,
        seed: int,
        nodes: int,
        trace: Trace,
        checkers: Checkers,
        make_meddler: MakeMeddler | None = None,
        settings: Callable[[str], BrokerSettings] | None = None,
    ) -> None:
        super().__init__(seed, trace, checkers)
        self.seen: Counter[str] = Counter()
        # when a node or a link between two ended, or stood still
        self.disruptions_ms: list[int] = []
        self.exclusive_names: list[str] = []
        # queues that go with their last consumer, and when that was
        self.deserted_ms: dict[str, int] = {}
        self.promises = Promises(self)
        self.rules = Rules(self)
        self._chance = Random(f"{seed}/cluster")
        self._store_delay_ms = self._chance.choice((1, 5, 30, 150))
        self.store = WatchedStore(self, self._delay_ms)
        settings = settings or self._settings()
        self.members: list[Member] = []
        for name in NAMES[:nodes]:
            meddler = Meddler() if make_meddler is None else make_meddler(name)
            self.members.append(Member(self, name, settings(name), meddler))
        self.wires = Wires(self, self.members)
        self.members[0].start()

    def hosts(self) -> Sequence[Host]:
        return [member for member in self.members if member.lives] or self.members[:1]

    def member(self, name: str) -> Member:
        return next(member for member in self.members if member.name == name)

    def _settings(self) -> Callable[[str], BrokerSettings]:
        """Segments so small that they fill, and so little memory that messages go to disk; sometimes."""
        chance = self._chance
        segment_bytes = chance.choice((2_000, 8_000, 30_000))
        paging_ratio = chance.choice((0.0, 0.001, 0.05, 2.0))
        handling = chance.choice(("ignore", "ignore", "pause_minority", "autoheal"))
        return lambda name: BrokerSettings(
            node_name=name,
            heartbeat_s=HEARTBEAT_S,
            segment_bytes=segment_bytes,
            paging_ratio=paging_ratio,
            partition_handling=handling,
        )

    def _delay_ms(self) -> int:
        return self._chance.randint(0, 1 if self.network.calm else self._store_delay_ms)

    # -- how it comes about

    def found(self) -> None:
        """The first node founds a cluster."""
        self.members[0].found()

    def join(self) -> None:
        """Everybody else joins."""
        for member in self.members[1:]:
            if not member.lives:
                member.join()
                member.start()

    def whole(self) -> bool:
        """Whether everybody runs, and is connected with everybody, and the store is there."""
        if not self.store.majority or not all(member.up and member.is_member for member in self.members):
            return False
        return all(wire.whole_since_ms() is not None for wire in self.wires.all)

    # -- what happens

    def disrupted(self) -> None:
        self.disruptions_ms.append(self.now_ms)

    @property
    def disruptions(self) -> int:
        """How many there were."""
        return len(self.disruptions_ms)

    @property
    def disrupted_ms(self) -> int:
        """When the last one was."""
        return self.disruptions_ms[-1] if self.disruptions_ms else 0

    def process_ended(self, member: Member) -> None:
        self.disrupted()
        self.promises.process_ended(member.name)

    def definition_changed(self, key: str, value: bytes | None) -> None:
        self.promises.definition_changed(key, value)
        self.rules.definition_changed(key, value)

    def turned(self, member: Member) -> None:
        self.rules.turned(member)

    def is_open(self, link: Link, channel: int) -> bool:
        """Whether a channel is, on both sides of a link."""
        if link.serial not in self.network.links:
            return False
        connection = self.member(link.node.name).broker.connections.get(link.number)
        found = None if connection is None else connection.channels.get(channel)
        return found is not None and not found.closing
