"""A simulated process: a real broker with a simulated shell.

Events that arrive within a moment of one another share a turn, as in the real shell. An `Interceptor` between the
broker and the world lets a test plant a bug in a broker that it cannot change.

A process ends in three ways: it is killed, it loses power, or it is asked to stop. Its memory and its connections are
gone; the next life begins from the disk.

Not here: the asyncio shell (`warren.node`), client connections (`sim.simulation`), files (`sim.disk`), a node of a
cluster (`sim.cluster.nodes`).
"""

from abc import abstractmethod
from random import Random

from warren.broker.access.passwords import is_password
from warren.broker.broker import Broker
from warren.broker.model.effects import (
    AppendRecords,
    CloseConnection,
    CompleteCommand,
    DropArchive,
    DropSegments,
    Effect,
    Note,
    PauseReading,
    ReadArchive,
    ReadIndex,
    ReadJournal,
    ResumeReading,
    SealSegment,
    SendBytes,
    SetTimer,
    StopNode,
    VerifyPassword,
    WriteArchive,
    WriteCheckpoint,
)
from warren.broker.model.events import ConnectionOpened, Event, PasswordVerified, StopRequested
from warren.broker.model.settings import BrokerSettings
from warren.sim.disk import SimulatedDisk
from warren.sim.simulation import SentMethod, SimulatedConnection, SimulatedHost, Simulation

HEARTBEAT_S = 1
MEMORY_LIMIT_BYTES = 1_000_000

Inbox = list[tuple[Event, list[SentMethod]]]
"""Events, each with the client methods it completes."""


class Interceptor:
    """Stands between a node and the world; this one changes nothing."""

    def events(self, events: list[Event]) -> list[Event]:
        return events

    def effects(self, effects: list[Effect]) -> list[Effect]:
        return effects


class SimulatedProcess(SimulatedHost):
    """The process of one node, through all its lives."""

    broker: Broker

    def __init__(self, simulation: Simulation, name: str, settings: BrokerSettings, interceptor: Interceptor) -> None:
        self.name = name
        self.settings = settings
        self.disk = SimulatedDisk(Random(f"{simulation.seed}/{name}/disk"), simulation.schedule, self.add)
        self.links: dict[int, SimulatedConnection] = {}
        self.lives = 0
        self.up = False
        self.stopping = False
        self.frozen = False
        self.simulation = simulation
        self._interceptor = interceptor
        self._chance = Random(f"{simulation.seed}/{name}")
        self._inbox: Inbox = []
        self._turn_scheduled = False
        self._timer_serial = 0
        self._down_ms = 0

    # -- for subclasses

    @abstractmethod
    def _begin_life(self) -> None:
        """Make the broker, and be up."""

    @abstractmethod
    def _life_ended(self, clean: bool) -> None:
        """The process is gone."""

    @abstractmethod
    def _take_turn(self, inbox: Inbox) -> None:
        """Run the broker, and carry out its effects."""

    @abstractmethod
    def _noted(self, note: Note) -> None: ...

    @abstractmethod
    def _answered(self, effect: CompleteCommand) -> None: ...

    # -- events

    def accept(self, link: SimulatedConnection, event: ConnectionOpened) -> None:
        self.links[link.number] = link
        self.add(event)

    def forget(self, link: SimulatedConnection) -> None:
        self.links.pop(link.number, None)

    def add(self, event: Event, spoken: list[SentMethod] | None = None) -> None:
        """Add an event to the next turn."""
        if self.up:
            self._inbox.append((event, spoken or []))
            self._schedule_turn()

    def busy(self) -> bool:
        """Whether an event or the disk is outstanding."""
        return bool(self._inbox) or not self.up or not self.disk.idle()

    def freeze(self, duration_ms: int) -> None:
        """The process is suspended for a while: time passes, events wait."""
        self.frozen = True
        self.simulation.schedule(duration_ms, self._thaw)

    def _thaw(self) -> None:
        self.frozen = False
        self._schedule_turn()

    # -- lives

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
        if self.up and not self.stopping:
            self.simulation.trace.write(self.name, "is asked to stop")
            self.stopping = True
            self._down_ms = down_ms
            self.add(StopRequested())

    def _stopped(self, life: int) -> None:
        """The broker is done; the process ends when the disk is, too."""
        if life != self.lives or not self.up:
            return
        if not self.disk.idle():
            self.simulation.schedule(1, lambda: self._stopped(life))
            return
        self.disk.kill()
        self._die("stopped", self._down_ms, clean=True)

    def _die(self, how: str, down_ms: int, clean: bool = False) -> None:
        self.simulation.trace.write(self.name, how)
        self._seen(f"node {how}")
        self.up = False
        self.stopping = False
        self._timer_serial += 1
        self._inbox.clear()
        for link in list(self.links.values()):
            link.node_died()
        self._life_ended(clean)
        if down_ms:
            self.simulation.schedule(down_ms, self._start)
        else:
            self._start()

    def _start(self) -> None:
        self.lives += 1
        self.disk.start()
        self._begin_life()

    # -- turns

    def _schedule_turn(self) -> None:
        if not self._turn_scheduled:
            self._turn_scheduled = True
            calm = self.simulation.network.calm
            self.simulation.schedule(0 if calm else self._chance.randint(0, 2), self._run_turn)

    def _timer_due(self, serial: int) -> None:
        if serial == self._timer_serial:
            self._schedule_turn()

    def _run_turn(self) -> None:
        self._turn_scheduled = False
        if self.frozen or not self.up:
            return
        inbox, self._inbox = self._batch()
        if self._inbox:
            self._schedule_turn()
        if self.simulation.trace.on:
            for event, _spoken in inbox:
                self.simulation.trace.event(self.name, event)
        self._take_turn(inbox)

    def _batch(self) -> tuple[Inbox, Inbox]:
        """The events of this turn, and those left for the next."""
        return self._inbox, []

    def _handle(self, inbox: Inbox) -> list[Effect] | None:
        """The broker's effects; None if it raised."""
        try:
            events = self._interceptor.events([event for event, _spoken in inbox])
            return self.broker.handle(events, self.simulation.now_ms)
        except Exception as error:
            text = f"{self.name} raised {type(error).__name__}: {error}"
            self.simulation.checkers.complain("the node lives", text)
            return None

    def _intercepted(self, effects: list[Effect]) -> list[Effect]:
        effects = self._interceptor.effects(effects)
        if self.simulation.trace.on:
            for effect in effects:
                self.simulation.trace.effect(self.name, effect)
        return effects

    def _carry_out(self, effect: Effect) -> None:
        self._seen(type(effect).__name__)
        if isinstance(effect, SetTimer):
            self._timer_serial += 1
            serial = self._timer_serial
            delay_ms = max(0, effect.at_ms - self.simulation.now_ms)
            self.simulation.schedule(delay_ms, lambda: self._timer_due(serial))
        elif isinstance(effect, AppendRecords | SealSegment | WriteCheckpoint | DropSegments):
            self.disk.order(effect)
        elif isinstance(effect, ReadIndex | ReadJournal):
            self.disk.read(effect)
        elif isinstance(effect, WriteArchive | DropArchive):
            self.disk.archives.order(effect)
        elif isinstance(effect, ReadArchive):
            self.disk.archives.read(effect)
        elif isinstance(effect, VerifyPassword):
            good = is_password(effect.password, effect.algorithm, effect.password_hash)
            self._later(self._chance.randint(1, 100), PasswordVerified(effect.ticket, good))
        elif isinstance(effect, Note):
            self._noted(effect)
        elif isinstance(effect, CompleteCommand):
            self._answered(effect)
        elif isinstance(effect, StopNode):
            life = self.lives
            self.simulation.schedule(0, lambda: self._stopped(life))
        elif isinstance(effect, SendBytes | CloseConnection | PauseReading | ResumeReading):
            link = self.links.get(effect.connection_id)
            if link is not None:
                _move_bytes(link, effect)

    def _later(self, delay_ms: int, event: Event) -> None:
        """Add an event later, if this life lasts that long."""
        life = self.lives
        self.simulation.schedule(delay_ms, lambda: self.add(event) if life == self.lives else None)

    @abstractmethod
    def _seen(self, what: str) -> None:
        """Count how often each kind of event happens."""


def _move_bytes(link: SimulatedConnection, effect: SendBytes | CloseConnection | PauseReading | ResumeReading) -> None:
    if isinstance(effect, SendBytes):
        link.node_writes(effect.data)
    elif isinstance(effect, CloseConnection):
        link.node_closes()
    else:
        link.node_reads(isinstance(effect, ResumeReading))
