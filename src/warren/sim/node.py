"""A simulated node: a real broker, with a pretend shell round it.

Events that arrive within a moment of one another share a turn, as in the real shell. After a turn the witness is told
what entered and what left; a `Meddler` may come between, which is how a test plants a bug in a core it cannot
change.

A node dies in three ways: it is killed, it loses its power, or it stops because it was asked to. Its memory and its
connections are gone; the next life begins from what is on the disk.

Not here: the asyncio shell (`warren.node`), links (`sim.network`), files (`sim.disk`), what the witness makes of it
(`sim.witness`).
"""

from random import Random
from typing import TYPE_CHECKING

from warren.access.hashing import is_password
from warren.broker.broker import Broker
from warren.model.effects import (
    Answered,
    CloseConnection,
    DropSegments,
    Effect,
    KeepCheckpoint,
    Note,
    PauseReading,
    ReadIndex,
    ReadJournal,
    ResumeReading,
    Seal,
    SendBytes,
    SetTimer,
    StopNode,
    Store,
    VerifyPassword,
)
from warren.model.events import (
    BytesReceived,
    ConnectionLost,
    ConnectionOpened,
    Event,
    MemoryMeasured,
    PasswordVerified,
    StopRequested,
)
from warren.model.settings import BrokerSettings
from warren.session.connection import Connection
from warren.sim.disk import PretendDisk
from warren.sim.network import Link, Spoken
from warren.sim.witness import Witness

if TYPE_CHECKING:
    from warren.sim.world import World

HEARTBEAT_S = 1
MEMORY_LIMIT_BYTES = 1_000_000


class Meddler:
    """Stands between a node and the world; this one leaves everything as it is."""

    def events(self, events: list[Event]) -> list[Event]:
        return events

    def effects(self, effects: list[Effect]) -> list[Effect]:
        return effects


class Node:
    """One node of the world."""

    def __init__(self, world: "World", name: str, settings: BrokerSettings, meddler: Meddler) -> None:
        self.name = name
        self.disk = PretendDisk(Random(f"{world.seed}/{name}/disk"), world.schedule, self.add)
        self.witness = Witness(world.history, world.fabric, self.disk, world.checkers)
        self.links: dict[int, Link] = {}
        self.lives = 0
        self.up = False
        self._world = world
        self._settings = settings
        self._meddler = meddler
        self._chance = Random(f"{world.seed}/{name}")
        self._inbox: list[tuple[Event, list[Spoken]]] = []
        # by connection: methods that arrived and wait for the node to act on them
        self._held_back: dict[int, list[Spoken]] = {}
        # links that are there as far as the node knows
        self._known: dict[int, Link] = {}
        self._turn_scheduled = False
        self._timer_serial = 0
        self._frozen = False
        self._down_ms = 0
        self.broker: Broker
        self._start()

    def accept(self, link: Link, event: ConnectionOpened) -> None:
        self.links[link.number] = link
        self._known[link.number] = link
        self.add(event)

    def forget(self, link: Link) -> None:
        self.links.pop(link.number, None)

    def add(self, event: Event, spoken: list[Spoken] | None = None) -> None:
        """Something happened: it is part of the next turn."""
        if self.up:
            self._inbox.append((event, spoken or []))
            self._schedule_turn()

    def busy(self) -> bool:
        """Whether something happened to it that it has not looked at, or waits for the disk."""
        return bool(self._inbox) or not self.up or not self.disk.idle()

    # -- life and death

    def kill(self, down_ms: int = 0) -> None:
        """The process dies, and is started again after a while."""
        if self.up:
            self.disk.kill()
            self._die("was killed", down_ms)

    def lose_power(self, down_ms: int = 0) -> None:
        if self.up:
            self.disk.lose_power()
            self._die("lost its power", down_ms)

    def stop(self, down_ms: int = 0) -> None:
        """Ask the process to end; it is started again after a while."""
        if self.up and not self.witness.stopping:
            self._world.trace.say(self.name, "is asked to stop")
            self.witness.stopping = True
            self._down_ms = down_ms
            self.add(StopRequested())

    def _stopped(self, life: int) -> None:
        """The core is done; the process ends when the disk is, too."""
        if life != self.lives or not self.up:
            return
        if not self.disk.idle():
            self._world.schedule(1, lambda: self._stopped(life))
            return
        self.disk.kill()
        self._die("stopped", self._down_ms, clean=True)

    def _die(self, how: str, down_ms: int, clean: bool = False) -> None:
        self._world.trace.say(self.name, how)
        self._world.history.seen[f"node {how}"] += 1
        self.up = False
        self._timer_serial += 1
        self._inbox.clear()
        self._held_back.clear()
        self._known.clear()
        for link in list(self.links.values()):
            link.node_died()
        self.witness.node_died(clean)
        if down_ms:
            self._world.schedule(down_ms, self._start)
        else:
            self._start()

    def _start(self) -> None:
        world = self._world
        self.lives += 1
        self.disk.start()
        try:
            seed = f"{world.seed}/{self.name}/{self.lives}".encode()
            self.broker = Broker(self._settings, seed, self.disk.found(world.now_ms))
        except Exception as error:
            world.checkers.complain("the node starts", f"{self.name} raised {type(error).__name__}: {error}")
            return
        world.trace.say(self.name, f"begins life {self.lives}")
        self.up = True
        world.checkers.recovered(self)
        self.add(MemoryMeasured(0, MEMORY_LIMIT_BYTES))

    def freeze(self, duration_ms: int) -> None:
        """The process is stopped for a while: time passes, events wait."""
        self._frozen = True
        self._world.schedule(duration_ms, self._thaw)

    def _thaw(self) -> None:
        self._frozen = False
        self._schedule_turn()

    # -- turns

    def _schedule_turn(self) -> None:
        if not self._turn_scheduled:
            self._turn_scheduled = True
            self._world.schedule(0 if self._world.network.calm else self._chance.randint(0, 2), self._run_turn)

    def _timer_due(self, serial: int) -> None:
        if serial == self._timer_serial:
            self._schedule_turn()

    def _run_turn(self) -> None:
        self._turn_scheduled = False
        if self._frozen or not self.up:
            return
        inbox, self._inbox = self._batch()
        if self._inbox:
            self._schedule_turn()
        if self._world.trace.on:
            for event, _spoken in inbox:
                self._world.trace.event(self.name, event)
        waiting = self.broker.turn.inputs
        resumed = {connection.connection_id for connection in waiting if isinstance(connection, Connection)}
        try:
            effects = self.broker.handle(self._meddler.events([event for event, _ in inbox]), self._world.now_ms)
        except Exception as error:
            self._world.checkers.complain("the node lives", f"{self.name} raised {type(error).__name__}: {error}")
            return
        stores = [self.disk.base_no + effect.batch_no for effect in effects if isinstance(effect, Store)]
        undo = self._world.history.undo
        undo.certain(self.disk.flushed_no)
        undo.batch_no = stores[0] if stores else undo.batch_no
        self._tell_witness(inbox, resumed)
        effects = self._meddler.effects(effects)
        if self._world.trace.on:
            for effect in effects:
                self._world.trace.effect(self.name, effect)
        self.witness.left(effects, self._kept_back(), self._world.now_ms)
        undo.batch_no = stores[-1] if stores else undo.batch_no
        for effect in effects:
            self._carry_out(effect)
        self._world.checkers.turned(self)

    def _batch(self) -> tuple[list[tuple[Event, list[Spoken]]], list[tuple[Event, list[Spoken]]]]:
        """What this turn takes, and what is left for the next.

        A loss shares a turn with what came before it, unless its client takes messages without acks: what it was given
        in that very turn would be gone, and nobody could have seen it.
        """
        for index, (event, _spoken) in enumerate(self._inbox):
            if isinstance(event, ConnectionLost) and index:
                said = [said for _event, spoken in self._inbox[:index] for said in spoken]
                if self.witness.takes_without_ack(event.connection_id, said):
                    return self._inbox[:index], self._inbox[index:]
        return self._inbox, []

    def _tell_witness(self, inbox: list[tuple[Event, list[Spoken]]], resumed: set[int]) -> None:
        """Show what entered, but for what the node holds back unread until its answers are gone."""
        now_ms = self._world.now_ms
        stopped = any(isinstance(event, StopRequested) for event, _spoken in inbox)
        for number, waiting in list(self._held_back.items()):
            del self._held_back[number]
            # a node that is asked to stop looks only at what it was about to look at
            if number in self.broker.connections and (not stopped or number in resumed):
                self.witness.heard_client(number, self._acted_on(number, waiting), now_ms)
        for event, spoken in inbox:
            if isinstance(event, BytesReceived):
                spoken = self._acted_on(event.connection_id, spoken)
            elif isinstance(event, ConnectionLost):
                self._known.pop(event.connection_id, None)
            self.witness.entered(event, spoken, now_ms)

    def _acted_on(self, number: int, spoken: list[Spoken]) -> list[Spoken]:
        connection, link = self.broker.connections.get(number), self._known.get(number)
        if connection is None or link is None or not connection.held:
            return spoken
        reader = connection.reader
        unread_bytes = len(reader.data) - reader.position + reader.buffered_bytes()
        read_to = link.handed_over - unread_bytes
        self._held_back.setdefault(number, []).extend(said for said in spoken if said.end_offset > read_to)
        return [said for said in spoken if said.end_offset <= read_to]

    def _kept_back(self) -> dict[int, bytes]:
        """What the node wrote to its clients and keeps until the disk has what it speaks of."""
        return {
            number: b"".join(connection._gate._pieces)
            for number, connection in self.broker.connections.items()
            if connection._gate.kept_bytes
        }

    def _carry_out(self, effect: Effect) -> None:
        self._world.history.seen[type(effect).__name__] += 1
        if isinstance(effect, SetTimer):
            self._timer_serial += 1
            serial = self._timer_serial
            self._world.schedule(max(0, effect.at_ms - self._world.now_ms), lambda: self._timer_due(serial))
        elif isinstance(effect, Store | Seal | KeepCheckpoint | DropSegments):
            self.disk.order(effect)
        elif isinstance(effect, ReadIndex | ReadJournal):
            self.disk.read(effect)
        elif isinstance(effect, VerifyPassword):
            good = is_password(effect.password, effect.algorithm, effect.password_hash)
            self._later(self._chance.randint(1, 100), PasswordVerified(effect.ticket, good))
        elif isinstance(effect, Note):
            self.witness.noted(effect)
        elif isinstance(effect, Answered):
            self._world.command_answered(effect)
        elif isinstance(effect, StopNode):
            life = self.lives
            self._world.schedule(0, lambda: self._stopped(life))
        elif isinstance(effect, SendBytes | CloseConnection | PauseReading | ResumeReading):
            link = self.links.get(effect.connection_id)
            if link is not None:
                self._move_bytes(link, effect)

    def _later(self, delay_ms: int, event: Event) -> None:
        """Something will have happened, if the node lives to see it."""
        life = self.lives
        self._world.schedule(delay_ms, lambda: self.add(event) if life == self.lives else None)

    def _move_bytes(self, link: Link, effect: SendBytes | CloseConnection | PauseReading | ResumeReading) -> None:
        if isinstance(effect, SendBytes):
            link.node_writes(effect.data)
        elif isinstance(effect, CloseConnection):
            link.node_closes()
        else:
            link.node_reads(isinstance(effect, ResumeReading))
