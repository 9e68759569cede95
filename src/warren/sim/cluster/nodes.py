"""A simulated cluster: its nodes, the links between them, and the store they share. A node alone is a cluster of one.

::

    alone ── found ──► a member                    its definitions move while clients work
    waiting ── a cluster exists ──► a member       it joins with an empty disk
    a member that starts: waits for the store, registers as alive, begins with the state of the store

`is_member` stands for the cluster file of the real shell: it survives the process, and is set at one moment. A founding
that was not finished by then is undone when the process dies.

**Links.** Each two nodes have one link, which may be cut either way:

::

    one ──────────────► two      bytes, in order, in pieces, after a while
        ◄──────────────          a cut direction holds its bytes, and neither end is told

A *run* of a link is one connection. Each end learns by itself that it has begun, and that it is over: by a close after
the last bytes, by silence, or because the other end dials again. A killed node closes its runs; a node without power
says nothing. Once a node is down and its host is up, the others are told that its port refuses connections. A firewall
between two nodes says the same of live nodes. A sender is told when too much is in transit, and when that is over; it
may send on all the same.

Invariant: an end gets a run's bytes between its `PeerConnected` and its `PeerLost`, in the order they were sent.

Not here: the process (`sim.process`), the store (`sim.cluster.metadata_store`), what the bytes mean (`broker.links`),
faults (`sim.cluster.faults`), rules (`sim.cluster.world`, `sim.world`).
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from warren.broker.broker import Broker
from warren.broker.cluster.join import TransientDefinitions, shared_snapshot
from warren.broker.commands.requests import JoinCluster
from warren.broker.journal.recovery import StartupState
from warren.broker.membership import next_incarnation
from warren.broker.metadata.cluster_definitions import IncarnationDefinition, LivenessDefinition, NodeDefinition
from warren.broker.metadata.store import Snapshot
from warren.broker.model.effects import (
    CompleteCommand,
    DropPeer,
    Effect,
    Note,
    PauseService,
    ProposeTransaction,
    RestartNode,
    ResumeService,
    SaveMembers,
    SendToPeer,
)
from warren.broker.model.events import (
    CommandReceived,
    MemoryMeasured,
    MetadataMigrated,
    MetadataMigrationFailed,
    PeerConnected,
    PeerLost,
    PeerReceived,
    PeerWritesPaused,
    PeerWritesResumed,
)
from warren.broker.model.settings import DISC, BrokerSettings
from warren.sim.cluster.metadata_store import SimulatedMetadataStore, SimulatedStoreClient
from warren.sim.disk import SimulatedDisk
from warren.sim.process import HEARTBEAT_S, MEMORY_LIMIT_BYTES, Inbox, Interceptor, SimulatedProcess
from warren.sim.report import RunTrace, ViolationLog
from warren.sim.simulation import SimulatedConnection, SimulatedHost, Simulation

RETRY_MS = 200
MOVING_MS = 50
FOUNDING = 1
DAMAGE = ("journal.damaged", "queue.stopped", "stream.damaged", "compaction.failed", "link.broken")


class SimulatedClusterNode(SimulatedProcess):
    """One node, through all its lives."""

    def __init__(
        self, world: "SimulatedCluster", name: str, settings: BrokerSettings, interceptor: Interceptor
    ) -> None:
        super().__init__(world, name, settings, interceptor)
        self.is_member = False
        # whether it joins as a witness
        self.is_witness = False
        # the nodes it keeps links to
        self.peers: dict[str, None] = {}
        self.store_client: SimulatedStoreClient | None = None
        self.paused = False
        self._world = world
        self._cut_off = False
        self._without_power = False
        # whether founding is interrupted before it is certain
        self._interrupted = False

    def start(self) -> None:
        """Start for the first time."""
        self._start()

    def host_refuses(self) -> bool:
        """Whether its host is up and refuses connections."""
        return not self.up and self.lives > 0 and not self._without_power

    # -- the store

    def cut_off_from_store(self, cut_off: bool) -> None:
        self._cut_off = cut_off
        if self.store_client is not None:
            if cut_off:
                self.store_client.cut()
            else:
                self.store_client.mend()

    def reaches_store(self) -> bool:
        return self._world.store.majority and not self._cut_off

    # -- founding

    def found(self, interrupted: bool = False) -> None:
        """Found a cluster, unless that is interrupted before it is certain."""
        self._interrupted = interrupted
        self.add(CommandReceived(FOUNDING, JoinCluster()))

    def _answered(self, effect: CompleteCommand) -> None:
        if isinstance(effect.result, TransientDefinitions):
            passing, life = effect.result, self.lives
            self._world.schedule(MOVING_MS, lambda: self._move_in(passing, life))

    def _move_in(self, passing: TransientDefinitions, life: int) -> None:
        if life != self.lives or not self.up:
            return
        if self._interrupted:
            self.add(MetadataMigrationFailed())
            return
        store = self._world.store
        self.disk.asked = self.disk.incarnation
        incarnation = IncarnationDefinition(self.name, self.disk.incarnation, 0, self.disk.identity)
        definitions = [*passing.definitions, self._definition(), incarnation]
        store.move_in(passing.revision, shared_snapshot(self.disk.values, definitions, self.name, passing.revision))
        self.is_member = True
        self._world.trace.write(self.name, "founds a cluster")
        revision, snapshot = self._open_store_client()
        self.add(MetadataMigrated(revision, snapshot))

    def _definition(self) -> NodeDefinition:
        return NodeDefinition(self.name, DISC, f"{self.name}:25672", witness=self.is_witness)

    def _open_store_client(self) -> tuple[int, dict[str, tuple[int, int, bytes]]]:
        store = self._world.store
        self.store_client = store.client(self.add, store.revision)
        self._hold_life()
        return store.snapshot()

    def _hold_life(self) -> None:
        assert self.store_client is not None
        alive = LivenessDefinition(self.name, self.disk.incarnation)
        self.store_client.hold_at_once(alive.key(), alive.value())

    # -- lives

    def _begin_life(self) -> None:
        self._without_power = False
        self._seek_store(self.lives)

    def _seek_store(self, life: int) -> None:
        """A member needs the store to start."""
        if life != self.lives or self.up:
            return
        world = self._world
        if not self.is_member:
            self._make_core(self.disk.found(world.now_ms))
        elif self.reaches_store():
            self._enlist()
            self._register_incarnation()
            found = self.disk.found(world.now_ms)
            found.share(*self._open_store_client())
            self._make_core(found)
        else:
            world.schedule(RETRY_MS, lambda: self._seek_store(life))

    def join(self) -> None:
        """Be a member from the first life on."""
        self.is_member = True

    def _enlist(self) -> None:
        store, definition = self._world.store, self._definition()
        if store.modified(definition.key()) == 0:
            store.commit(ProposeTransaction(0, [], [(definition.key(), definition.value())], [], []))

    def _register_incarnation(self) -> None:
        store, disk = self._world.store, self.disk
        counted, _seen_at = next_incarnation(
            self.name, disk.incarnation, disk.identity, disk.asked, store.snapshot()[1]
        )
        store.commit(ProposeTransaction(0, [], [(counted.key(), counted.value())], [], []))
        disk.incarnation = disk.asked = counted.incarnation

    def lose_disk(self, down_ms: int = 0) -> None:
        """The host breaks down for that long, and comes back with an empty disk."""
        self.lose_power(down_ms)
        world, identity = self._world, self.disk.identity + 1
        self.disk = SimulatedDisk(Random(f"{world.seed}/{self.name}/disk {identity}"), world.schedule, self.add)
        self.disk.identity = identity

    def _make_core(self, found: StartupState) -> None:
        world = self._world
        try:
            self.broker = Broker(self.settings, f"{world.seed}/{self.name}/{self.lives}".encode(), found)
        except Exception as error:
            world.checkers.complain("the node starts", f"{self.name} raised {type(error).__name__}: {error}")
            return
        world.trace.write(self.name, f"begins life {self.lives}")
        self.up = True
        self.paused = False
        self.peers = {}
        world.started(self)
        self.add(MemoryMeasured(0, world.memory_limit_bytes()))

    def freeze(self, duration_ms: int) -> None:
        self._world.disrupted()
        super().freeze(duration_ms)

    def _thaw(self) -> None:
        self._world.disrupted()
        super()._thaw()

    def lose_power(self, down_ms: int = 0) -> None:
        self._without_power = self.up
        super().lose_power(down_ms)

    def _life_ended(self, clean: bool) -> None:
        self._world.process_ended(self)
        for link in self._world.peer_links.of(self.name):
            link.process_ended(self, silently=self._without_power)
        if self.store_client is not None:
            if clean:
                self.store_client.stop()
            else:
                self.store_client.crash()
        self.store_client = None

    # -- turns

    def _take_turn(self, inbox: Inbox) -> None:
        effects = self._handle(inbox)
        if effects is None:
            return
        for effect in self._intercepted(effects):
            self._carry_out(effect)
        if self.up:
            self._world.turned(self)

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, SendToPeer):
            self._world.peer_links.between(self.name, effect.node).send(self, effect.data)
        elif isinstance(effect, DropPeer):
            self._world.peer_links.between(self.name, effect.node).drop(self, effect.reason)
        elif isinstance(effect, ProposeTransaction):
            assert self.store_client is not None, "only members propose"
            self.store_client.propose(effect)
        elif isinstance(effect, SaveMembers):
            self.peers = {name: None for name, _peer, _store in effect.members if name != self.name}
        elif isinstance(effect, PauseService | ResumeService):
            self._pause(isinstance(effect, PauseService))
        elif isinstance(effect, RestartNode):
            self.stop()
        else:
            super()._carry_out(effect)

    def _pause(self, paused: bool) -> None:
        self._seen("node paused" if paused else "node resumed")
        self.paused = paused
        if self.store_client is not None:
            if paused:
                self.store_client.let_go()
            else:
                self._hold_life()

    def _noted(self, note: Note) -> None:
        self._seen(note.name)
        if note.level == "critical" or note.name in DAMAGE:
            self._world.checkers.complain(self._world.damage_rule, f"{self.name} noted {note.name}: {note.fields}")

    def _seen(self, what: str) -> None:
        self._world.seen[what] += 1


SILENCE_MS = 3_000
LOOK_EVERY_MS = 400


@dataclass(eq=False)
class SimulatedLinkEnd:
    """One end of a run."""

    member: "SimulatedClusterNode"
    life: int
    incarnation: int
    # it was notified that the run has begun; it was notified, or has decided, that it is over
    connected: bool = False
    over: bool = False
    received_at_ms: int = 0
    # in transit to it; first the begin, last the close
    coming: deque[bytes | str] = field(default_factory=deque)
    scheduled: bool = False
    since_ms: int = 0
    # its sender was told to pause
    full: bool = False

    def lives(self) -> bool:
        return self.member.up and self.member.lives == self.life

    def coming_bytes(self) -> int:
        return sum(len(thing) for thing in self.coming if isinstance(thing, bytes))


BEGUN = "begun"
CLOSED = "closed"


class SimulatedLink:
    """The link between two nodes."""

    def __init__(
        self,
        world: "SimulatedCluster",
        chance: Random,
        buffers: Random,
        one: "SimulatedClusterNode",
        other: "SimulatedClusterNode",
    ) -> None:
        self.members = (one, other)
        # by the index of the node whose bytes do not arrive
        self.cut = [False, False]
        # whether a firewall refuses connections in the name of both
        self.fenced = False
        self.run: tuple[SimulatedLinkEnd, SimulatedLinkEnd] | None = None
        self._world = world
        self._chance = chance
        self.high_water_bytes = buffers.choice((1_000, 10_000, 1_000_000))
        # which life of which node was reported as refusing
        self._refused: dict[str, int] = {}
        world.schedule(chance.randint(1, LOOK_EVERY_MS), self._look)

    def joins(self, name: str) -> bool:
        return any(member.name == name for member in self.members)

    def mend(self) -> None:
        for place in (0, 1):
            self.set_cut(place, False)

    def set_cut(self, place: int, cut: bool) -> None:
        """Whether this node's bytes arrive."""
        if self.cut[place] != cut:
            self._world.disrupted()
        self.cut[place] = cut
        self._stir(1 - place)

    def set_fenced(self, fenced: bool) -> None:
        """Whether there is a firewall between the two."""
        self.fenced = fenced
        self._refused.clear()
        for place in (0, 1):
            self.set_cut(place, fenced)

    def quiet(self) -> bool:
        """Whether both ends have received everything, over a whole run."""
        return self.run is not None and all(end.lives() and not end.coming and not end.over for end in self.run)

    def whole_since_ms(self) -> int | None:
        """Since when both ends know of the run; None if one of them does not."""
        if self.run is None or not all(end.lives() and end.connected and not end.over for end in self.run):
            return None
        return max(end.since_ms for end in self.run)

    # -- the nodes' side

    def send(self, sender: "SimulatedClusterNode", data: bytes) -> None:
        place = self.members.index(sender)
        if self.run is not None and self.run[place].connected and not self.run[place].over:
            self.run[1 - place].coming.append(data)
            self._stir(1 - place)
            self._watch_level(self.run, 1 - place)

    def drop(self, dropper: "SimulatedClusterNode", reason: str) -> None:
        self._give_up(self.members.index(dropper), reason)

    def process_ended(self, ended: "SimulatedClusterNode", silently: bool) -> None:
        """A node's process is over; its host closes the run, unless it went too."""
        place = self.members.index(ended)
        if self.run is None or self.run[place].over:
            return
        self.run[place].over = True
        self.run[place].coming.clear()
        if not silently:
            self.run[1 - place].coming.append(CLOSED)
            self._stir(1 - place)

    # -- transit

    def _stir(self, place: int) -> None:
        """Let the next item arrive at an end, unless the direction is cut."""
        if self.run is None:
            return
        end = self.run[place]
        if end.coming and not end.scheduled and not self.cut[1 - place]:
            end.scheduled = True
            run = self.run
            self._world.schedule(self._world.network.delay_ms(), lambda: self._arrive(run, place))

    def _arrive(self, run: tuple[SimulatedLinkEnd, SimulatedLinkEnd], place: int) -> None:
        end = run[place]
        end.scheduled = False
        if run is not self.run or not end.coming or self.cut[1 - place]:
            return
        if not end.lives() or end.over:
            end.coming.clear()
            return
        thing = end.coming.popleft()
        other = run[1 - place]
        if isinstance(thing, bytes):
            size = self._world.network.piece_bytes(len(thing))
            if size < len(thing):
                end.coming.appendleft(thing[size:])
            end.member.add(PeerReceived(other.member.name, thing[:size]))
            self._watch_level(run, place)
        elif thing == BEGUN:
            end.connected = True
            end.since_ms = end.received_at_ms = self._world.now_ms
            end.member.add(PeerConnected(other.member.name, other.incarnation))
        else:
            self._end(end, other, "it was closed")
        self._stir(place)

    def _watch_level(self, run: tuple[SimulatedLinkEnd, SimulatedLinkEnd], place: int) -> None:
        """Tell the sender to pause or to resume."""
        end, sender = run[place], run[1 - place]
        coming_bytes = end.coming_bytes()
        if not end.full and coming_bytes > self.high_water_bytes:
            end.full = True
            sender.member.add(PeerWritesPaused(end.member.name))
        elif end.full and coming_bytes <= self.high_water_bytes // 4:
            end.full = False
            if sender.lives() and not sender.over:
                sender.member.add(PeerWritesResumed(end.member.name))

    # -- begin and end of runs

    def _look(self) -> None:
        self._world.schedule(self._chance.randint(LOOK_EVERY_MS // 2, LOOK_EVERY_MS), self._look)
        if self.run is not None:
            for place in (0, 1):
                self._listen(place)
        for place in (0, 1):
            self._ask_host(place)
        whole = self.run is not None and not any(end.over for end in self.run)
        if not whole and self._can_connect():
            self._connect()

    def _listen(self, place: int) -> None:
        """An end that hears nothing for too long gives up."""
        assert self.run is not None
        end, other = self.run[place], self.run[1 - place]
        if not end.connected or end.over:
            return
        if other.lives() and not other.over and not other.member.frozen and not self.cut[1 - place]:
            end.received_at_ms = self._world.now_ms
        elif self._world.now_ms - end.received_at_ms > SILENCE_MS and not end.member.frozen:
            self._give_up(place, "it is silent")

    def _ask_host(self, place: int) -> None:
        """Whether the other node's host refuses connections."""
        asker, asked = self.members[place], self.members[1 - place]
        linked = self.run is not None and not self.run[place].over and self.run[place].lives()
        if not asker.up or linked or asked.name not in asker.peers:
            return
        refused = self.fenced or (asked.host_refuses() and not any(self.cut))
        if refused and self._refused.get(asked.name) != asked.lives:
            self._refused[asked.name] = asked.lives
            asker.add(PeerLost(asked.name, "connection refused", True))

    def _can_connect(self) -> bool:
        one, other = self.members
        if any(self.cut) or not one.up or not other.up or one.frozen or other.frozen:
            return False
        return one.name in other.peers or other.name in one.peers

    def _connect(self) -> None:
        if self.run is not None:
            for place in (0, 1):
                self._end(self.run[place], self.run[1 - place], "it dials anew")
        first, second = (SimulatedLinkEnd(member, member.lives, member.disk.incarnation) for member in self.members)
        self.run = (first, second)
        for place in (0, 1):
            self.run[place].coming.append(BEGUN)
            self._stir(place)

    def _give_up(self, place: int, reason: str) -> None:
        if self.run is None or self.run[place].over:
            return
        self._end(self.run[place], self.run[1 - place], reason)
        if not self.run[1 - place].over:
            self.run[1 - place].coming.append(CLOSED)
            self._stir(1 - place)

    def _end(self, end: SimulatedLinkEnd, other: SimulatedLinkEnd, reason: str) -> None:
        if end.over:
            return
        end.over = True
        end.coming.clear()
        if end.connected and end.lives():
            self._world.disrupted()
            end.member.add(PeerLost(other.member.name, reason, False))


class SimulatedLinks:
    """All links of a world."""

    def __init__(self, world: "SimulatedCluster", members: list["SimulatedClusterNode"]) -> None:
        chance, buffers = Random(f"{world.seed}/wires"), Random(f"{world.seed}/buffers")
        self.all = [
            SimulatedLink(world, chance, buffers, one, other)
            for place, one in enumerate(members)
            for other in members[place + 1 :]
        ]

    def between(self, one: str, other: str) -> SimulatedLink:
        return next(link for link in self.all if link.joins(one) and link.joins(other))

    def of(self, name: str) -> list[SimulatedLink]:
        return [link for link in self.all if link.joins(name)]


NAMES = ("one", "two", "three", "four", "five")
NODES_MAX = len(NAMES)

MakeInterceptor = Callable[[str], Interceptor]


class ObservedMetadataStore(SimulatedMetadataStore):
    """Reports every change at the moment it happens."""

    def __init__(self, world: "SimulatedCluster", delay_ms: Callable[[], int]) -> None:
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


class SimulatedCluster(Simulation):
    """The nodes, the links between them and the store they share. Subclasses add the rules."""

    damage_rule = "the node lives"
    """The rule that a node breaks when it finds its data damaged."""

    def __init__(
        self,
        seed: int,
        nodes: int,
        trace: RunTrace,
        checkers: ViolationLog,
        make_interceptor: MakeInterceptor | None = None,
        settings: Callable[[str], BrokerSettings] | None = None,
    ) -> None:
        super().__init__(seed, trace, checkers)
        self.seen: Counter[str] = Counter()
        # when a node or a link ended or was suspended
        self.disruptions_ms: list[int] = []
        self.exclusive_names: list[str] = []
        # queues that go with their last consumer, and when it left
        self.deserted_ms: dict[str, int] = {}
        self._chance = Random(f"{seed}/cluster")
        self._store_delay_ms = self._chance.choice((1, 5, 30, 150))
        self.store = ObservedMetadataStore(self, self._delay_ms)
        settings = settings or self._settings()
        self.members: list[SimulatedClusterNode] = []
        for name in NAMES[:nodes]:
            interceptor = Interceptor() if make_interceptor is None else make_interceptor(name)
            self.members.append(self._make_node(name, settings(name), interceptor))
        self.peer_links = SimulatedLinks(self, self.members)
        self.members[0].start()

    def _make_node(self, name: str, settings: BrokerSettings, interceptor: Interceptor) -> SimulatedClusterNode:
        return SimulatedClusterNode(self, name, settings, interceptor)

    def memory_limit_bytes(self) -> int:
        return 0 if self.network.calm else MEMORY_LIMIT_BYTES

    def hosts(self) -> Sequence[SimulatedHost]:
        return [member for member in self.members if member.lives] or self.members[:1]

    def member(self, name: str) -> SimulatedClusterNode:
        return next(member for member in self.members if member.name == name)

    def _settings(self) -> Callable[[str], BrokerSettings]:
        """Segments so small that they fill, and sometimes so little memory that messages go to disk."""
        chance = self._chance
        segment_bytes = chance.choice((2_000, 8_000, 30_000))
        paging_ratio = chance.choice((0.0, 0.001, 0.05, 2.0))
        handling = chance.choice(("ignore", "ignore", "pause_minority", "autoheal"))
        work_a_turn = Random(f"{self.seed}/budget").choice((3, 20, 16_000))
        return lambda name: BrokerSettings(
            node_name=name,
            heartbeat_s=HEARTBEAT_S,
            segment_bytes=segment_bytes,
            paging_ratio=paging_ratio,
            partition_handling=handling,
            work_a_turn=work_a_turn,
        )

    def _delay_ms(self) -> int:
        return self._chance.randint(0, 1 if self.network.calm else self._store_delay_ms)

    # -- founding and joining

    def found(self) -> None:
        """The first node founds a cluster."""
        self.members[0].found()

    def join(self) -> None:
        """All other nodes join."""
        for member in self.members[1:]:
            if not member.lives:
                member.join()
                member.start()

    def whole(self) -> bool:
        """Whether all nodes run and are connected with each other, and the store answers."""
        if not self.store.majority or not all(member.up and member.is_member for member in self.members):
            return False
        return all(link.whole_since_ms() is not None for link in self.peer_links.all)

    # -- disruptions

    def disrupted(self) -> None:
        self.disruptions_ms.append(self.now_ms)

    @property
    def disruptions(self) -> int:
        """The number of disruptions."""
        return len(self.disruptions_ms)

    @property
    def disrupted_ms(self) -> int:
        """The time of the last one."""
        return self.disruptions_ms[-1] if self.disruptions_ms else 0

    # -- for the rules

    def started(self, member: SimulatedClusterNode) -> None:
        """A node has recovered from its disk."""

    def process_ended(self, member: SimulatedClusterNode) -> None:
        self.disrupted()

    def definition_changed(self, key: str, value: bytes | None) -> None:
        """The store is about to change."""

    def turned(self, member: SimulatedClusterNode) -> None:
        """A node has finished a turn."""

    def is_open(self, link: SimulatedConnection, channel: int) -> bool:
        """Whether a channel is open on both sides."""
        if link.serial not in self.network.links:
            return False
        connection = self.member(link.node.name).broker.connections.get(link.number)
        found = None if connection is None else connection.channels.get(channel)
        return found is not None and not found.closing
