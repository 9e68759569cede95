"""A node of its own, and the witness that is told what entered and what left with every turn.

Not here: its process (`sim.process`), what the witness makes of it (`sim.witness`).
"""

from typing import TYPE_CHECKING

from warren.broker.broker import Broker
from warren.model.effects import Answered, Note, Store
from warren.model.events import BytesReceived, ConnectionLost, ConnectionOpened, MemoryMeasured, StopRequested
from warren.model.settings import BrokerSettings
from warren.session.connection import Connection
from warren.sim.network import Link, Spoken
from warren.sim.process import MEMORY_LIMIT_BYTES, Inbox, Meddler, Process
from warren.sim.witness import Witness

if TYPE_CHECKING:
    from warren.sim.world import World


class Node(Process):
    """One node, alone."""

    def __init__(self, world: "World", name: str, settings: BrokerSettings, meddler: Meddler) -> None:
        super().__init__(world, name, settings, meddler)
        self.witness = Witness(world.history, world.fabric, self.disk, world.checkers)
        self._world = world
        # by connection: methods that arrived and wait for the node to act on them
        self._held_back: dict[int, list[Spoken]] = {}
        # links that are there as far as the node knows
        self._known: dict[int, Link] = {}
        self._start()

    def accept(self, link: Link, event: ConnectionOpened) -> None:
        self._known[link.number] = link
        super().accept(link, event)

    def stop(self, down_ms: int = 0) -> None:
        super().stop(down_ms)
        self.witness.stopping = self.stopping

    # -- lives

    def _begin_life(self) -> None:
        world = self._world
        try:
            seed = f"{world.seed}/{self.name}/{self.lives}".encode()
            self.broker = Broker(self.settings, seed, self.disk.found(world.now_ms))
        except Exception as error:
            world.checkers.complain("the node starts", f"{self.name} raised {type(error).__name__}: {error}")
            return
        world.trace.say(self.name, f"begins life {self.lives}")
        self.up = True
        world.checkers.recovered(self)
        self.add(MemoryMeasured(0, MEMORY_LIMIT_BYTES))

    def _life_ended(self, clean: bool) -> None:
        self._held_back.clear()
        self._known.clear()
        self.witness.node_died(clean)

    # -- turns

    def _take_turn(self, inbox: Inbox) -> None:
        waiting = self.broker.turn.inputs
        resumed = {connection.connection_id for connection in waiting if isinstance(connection, Connection)}
        effects = self._handle(inbox)
        if effects is None:
            return
        stores = [self.disk.base_no + effect.batch_no for effect in effects if isinstance(effect, Store)]
        undo = self._world.history.undo
        undo.certain(self.disk.flushed_no)
        undo.batch_no = stores[0] if stores else undo.batch_no
        self._tell_witness(inbox, resumed)
        effects = self._meddled(effects)
        self.witness.left(effects, self._kept_back(), self._world.now_ms)
        undo.batch_no = stores[-1] if stores else undo.batch_no
        for effect in effects:
            self._carry_out(effect)
        self._world.checkers.turned(self)

    def _batch(self) -> tuple[Inbox, Inbox]:
        """A loss shares a turn with what came before it, unless its client takes messages without acks: what it was
        given in that very turn would be gone, and nobody could have seen it."""
        for index, (event, _spoken) in enumerate(self._inbox):
            if isinstance(event, ConnectionLost) and index:
                said = [said for _event, spoken in self._inbox[:index] for said in spoken]
                if self.witness.takes_without_ack(event.connection_id, said):
                    return self._inbox[:index], self._inbox[index:]
        return super()._batch()

    def _tell_witness(self, inbox: Inbox, resumed: set[int]) -> None:
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

    def _noted(self, note: Note) -> None:
        self.witness.noted(note)

    def _answered(self, effect: Answered) -> None:
        self._world.command_answered(effect)

    def _seen(self, what: str) -> None:
        self._world.history.seen[what] += 1
