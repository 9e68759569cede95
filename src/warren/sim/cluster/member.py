"""A node of a pretend cluster: its process, its seat at the store that all share, its wires to the others.

::

    alone ── found ──► a member                    its definitions move while clients work
    waiting ── a cluster is there ──► a member     it joins with an empty disk
    a member that starts: waits for the store, says that it lives, begins with what the store holds

What it must remember to be a member (the file that the real shell writes) is `is_member`: it outlives the process, and
is set at one moment. Whatever founding did before that moment is undone when the process dies.

Not here: the process (`sim.process`), the store (`sim.metadata_store`), wires (`sim.cluster.wires`).
"""

from random import Random
from typing import TYPE_CHECKING

from warren.broker.broker import Broker
from warren.broker.commands import BeginSharing
from warren.broker.sharing.moving_in import PassingDefinitions, shared_snapshot
from warren.broker.sharing.runs import next_run
from warren.model.effects import (
    Answered,
    DropPeer,
    Effect,
    KeepMembers,
    Note,
    PauseService,
    Propose,
    ResumeService,
    SendToPeer,
    StartAnew,
)
from warren.model.events import Commanded, MemoryMeasured, SharingGivenUp, SharingReady
from warren.model.settings import DISC, BrokerSettings
from warren.sim.disk import PretendDisk
from warren.sim.metadata_store import Seat
from warren.sim.process import MEMORY_LIMIT_BYTES, Inbox, Meddler, Process
from warren.store.cluster_definitions import AliveDefinition, NodeDefinition, RunDefinition
from warren.store.recovery import Found

if TYPE_CHECKING:
    from warren.sim.cluster.world import ClusterWorld

RETRY_MS = 200
MOVING_MS = 50
FOUNDING = 1
DAMAGE = ("journal.damaged", "queue.stopped", "stream.damaged", "compaction.failed", "link.broken")


class Member(Process):
    """One node, through all its lives."""

    def __init__(self, world: "ClusterWorld", name: str, settings: BrokerSettings, meddler: Meddler) -> None:
        super().__init__(world, name, settings, meddler)
        self.is_member = False
        # whether it is one that holds no queues, from when it joins
        self.is_witness = False
        # those it keeps links to
        self.peers: dict[str, None] = {}
        self.seat: Seat | None = None
        self.paused = False
        self._world = world
        self._cut_off = False
        self._without_power = False
        # called when this node was to become the first of a cluster: whether it did
        self._interrupted = False

    def start(self) -> None:
        """For the first time."""
        self._start()

    def host_refuses(self) -> bool:
        """Whether its host is there, and says that nobody listens."""
        return not self.up and self.lives > 0 and not self._without_power

    # -- the store

    def cut_off_from_store(self, cut_off: bool) -> None:
        self._cut_off = cut_off
        if self.seat is not None:
            if cut_off:
                self.seat.cut()
            else:
                self.seat.mend()

    def reaches_store(self) -> bool:
        return self._world.store.majority and not self._cut_off

    # -- founding

    def found(self, interrupted: bool = False) -> None:
        """Be the first of a cluster, unless that is interrupted before it is certain."""
        self._interrupted = interrupted
        self.add(Commanded(FOUNDING, BeginSharing()))

    def _answered(self, effect: Answered) -> None:
        if isinstance(effect.result, PassingDefinitions):
            passing, life = effect.result, self.lives
            self._world.schedule(MOVING_MS, lambda: self._move_in(passing, life))

    def _move_in(self, passing: PassingDefinitions, life: int) -> None:
        if life != self.lives or not self.up:
            return
        if self._interrupted:
            self.add(SharingGivenUp())
            return
        store = self._world.store
        self.disk.asked = self.disk.incarnation
        run = RunDefinition(self.name, self.disk.incarnation, 0, self.disk.identity)
        definitions = [*passing.definitions, self._definition(), run]
        store.move_in(passing.revision, shared_snapshot(self.disk.values, definitions, self.name, passing.revision))
        self.is_member = True
        self._world.trace.say(self.name, "founds a cluster")
        revision, snapshot = self._take_seat()
        self.add(SharingReady(revision, snapshot))

    def _definition(self) -> NodeDefinition:
        return NodeDefinition(self.name, DISC, f"{self.name}:25672", witness=self.is_witness)

    def _take_seat(self) -> tuple[int, dict[str, tuple[int, int, bytes]]]:
        store = self._world.store
        self.seat = store.seat(self.add, store.revision)
        self._hold_life()
        return store.snapshot()

    def _hold_life(self) -> None:
        assert self.seat is not None
        alive = AliveDefinition(self.name, self.disk.incarnation)
        self.seat.hold_at_once(alive.key(), alive.value())

    # -- lives

    def _begin_life(self) -> None:
        self._without_power = False
        self._seek_store(self.lives)

    def _seek_store(self, life: int) -> None:
        """A member needs the store to begin."""
        if life != self.lives or self.up:
            return
        world = self._world
        if not self.is_member:
            self._make_core(self.disk.found(world.now_ms))
        elif self.reaches_store():
            self._enlist()
            self._count_run()
            found = self.disk.found(world.now_ms)
            found.share(*self._take_seat())
            self._make_core(found)
        else:
            world.schedule(RETRY_MS, lambda: self._seek_store(life))

    def join(self) -> None:
        """Be of the cluster from the first life on."""
        self.is_member = True

    def _enlist(self) -> None:
        store, definition = self._world.store, self._definition()
        if store.modified(definition.key()) == 0:
            store.commit(Propose(0, [], [(definition.key(), definition.value())], [], []))

    def _count_run(self) -> None:
        store, disk = self._world.store, self.disk
        counted, _seen_at = next_run(self.name, disk.incarnation, disk.identity, disk.asked, store.snapshot()[1])
        store.commit(Propose(0, [], [(counted.key(), counted.value())], [], []))
        disk.incarnation = disk.asked = counted.run

    def lose_disk(self, down_ms: int = 0) -> None:
        """The host breaks down for so long, and comes back with an empty disk."""
        self.lose_power(down_ms)
        world, identity = self._world, self.disk.identity + 1
        self.disk = PretendDisk(Random(f"{world.seed}/{self.name}/disk {identity}"), world.schedule, self.add)
        self.disk.identity = identity

    def _make_core(self, found: Found) -> None:
        world = self._world
        try:
            self.broker = Broker(self.settings, f"{world.seed}/{self.name}/{self.lives}".encode(), found)
        except Exception as error:
            world.checkers.complain("the node starts", f"{self.name} raised {type(error).__name__}: {error}")
            return
        world.trace.say(self.name, f"begins life {self.lives}")
        self.up = True
        self.paused = False
        self.peers = {}
        self.add(MemoryMeasured(0, 0 if world.network.calm else MEMORY_LIMIT_BYTES))

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
        for wire in self._world.wires.of(self.name):
            wire.process_ended(self, silently=self._without_power)
        if self.seat is not None:
            if clean:
                self.seat.stop()
            else:
                self.seat.crash()
        self.seat = None

    # -- turns

    def _take_turn(self, inbox: Inbox) -> None:
        effects = self._handle(inbox)
        if effects is None:
            return
        for effect in self._meddled(effects):
            self._carry_out(effect)
        if self.up:
            self._world.turned(self)

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, SendToPeer):
            self._world.wires.between(self.name, effect.node).send(self, effect.data)
        elif isinstance(effect, DropPeer):
            self._world.wires.between(self.name, effect.node).drop(self, effect.reason)
        elif isinstance(effect, Propose):
            assert self.seat is not None, "only members propose"
            self.seat.propose(effect)
        elif isinstance(effect, KeepMembers):
            self.peers = {name: None for name, _peer, _store in effect.members if name != self.name}
        elif isinstance(effect, PauseService | ResumeService):
            self._pause(isinstance(effect, PauseService))
        elif isinstance(effect, StartAnew):
            self.stop()
        else:
            super()._carry_out(effect)

    def _pause(self, paused: bool) -> None:
        self._seen("node paused" if paused else "node resumed")
        self.paused = paused
        if self.seat is not None:
            if paused:
                self.seat.let_go()
            else:
                self._hold_life()

    def _noted(self, note: Note) -> None:
        self._seen(note.name)
        if note.level == "critical" or note.name in DAMAGE:
            self._world.checkers.complain("the node lives", f"{self.name} noted {note.name}: {note.fields}")

    def _seen(self, what: str) -> None:
        self._world.seen[what] += 1
