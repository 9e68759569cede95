"""The simulated world of one node: a cluster of one with an observer, and an operator who changes a policy.

The policies change how every queue works (paging, counting, timers) and drop nothing, so all promises to clients hold
with them as without. An answered change survives the node. A change without an answer when the node died may have been
made or not; the next life shows which.

Not here: time (`sim.simulation`), the process (`sim.process`), clients (`sim.workload`), the run (`sim.run`), the
observer (`sim.observer`).
"""

from collections import deque
from random import Random

from warren.broker.commands.requests import ClearPolicy, SetPolicy
from warren.broker.model.effects import AppendRecords, CompleteCommand
from warren.broker.model.events import (
    BytesReceived,
    Command,
    CommandReceived,
    ConnectionDropped,
    ConnectionOpened,
    StopRequested,
)
from warren.broker.model.journal import MetadataChange
from warren.broker.model.settings import BrokerSettings
from warren.broker.policies.policies import Policy
from warren.broker.sessions.connection import CLOSING, Connection
from warren.sim.cluster.nodes import SimulatedCluster, SimulatedClusterNode
from warren.sim.history import MessageHistory, QueueSpec, UndoLog
from warren.sim.observer import Invariant, InvariantSet, NodeObserver
from warren.sim.process import HEARTBEAT_S, MEMORY_LIMIT_BYTES, Inbox, Interceptor
from warren.sim.report import RunTrace
from warren.sim.routing_model import RoutingModel
from warren.sim.simulation import SentMethod, SimulatedConnection
from warren.wire.field_tables import Table


class ObservedNode(SimulatedClusterNode):
    """One node, alone, and its observer."""

    def __init__(self, world: "NodeWorld", name: str, settings: BrokerSettings, interceptor: Interceptor) -> None:
        super().__init__(world, name, settings, interceptor)
        self.observer = NodeObserver(world.history, world.routing, self, world.checkers)
        self._world: NodeWorld = world
        # by connection: methods that arrived and that the node has not read yet
        self._held_back: dict[int, list[SentMethod]] = {}
        # connections with a closed socket and input that the node has not handled yet
        self._leaving: dict[int, ConnectionDropped] = {}
        # connections that the node has not lost yet
        self._known: dict[int, SimulatedConnection] = {}

    def accept(self, link: SimulatedConnection, event: ConnectionOpened) -> None:
        self._known[link.number] = link
        super().accept(link, event)

    def stop(self, down_ms: int = 0) -> None:
        super().stop(down_ms)
        self.observer.stopping = self.stopping

    def _life_ended(self, clean: bool) -> None:
        super()._life_ended(clean)
        self._held_back.clear()
        self._leaving.clear()
        self._known.clear()
        self.observer.node_died(clean)

    # -- turns

    def _take_turn(self, inbox: Inbox) -> None:
        waiting = self.broker.turn.inputs
        before = dict(self.broker.connections)
        resumed = [connection.connection_id for connection in waiting if isinstance(connection, Connection)]
        effects = self._handle(inbox)
        if effects is None:
            return
        batches = [effect for effect in effects if isinstance(effect, AppendRecords)]
        stores = [self.disk.base_no + batch.batch_no for batch in batches]
        undo = self._world.history.undo
        undo.unbinds = deque(
            self.disk.base_no + batch.batch_no for batch in batches for change in batch.changes if _is_unbind(change)
        )
        undo.certain(self.disk.flushed_no)
        undo.batch_no = stores[0] if stores else undo.batch_no
        self._notify_observer(inbox, resumed, before)
        effects = self._intercepted(effects)
        self.observer.left(effects, self._kept_back(), self._world.now_ms)
        undo.batch_no = stores[-1] if stores else undo.batch_no
        for effect in effects:
            self._carry_out(effect)
        self._world.checkers.turned(self.observer)

    def _batch(self) -> tuple[Inbox, Inbox]:
        """A lost connection shares a turn with earlier events, unless its client consumes without acks: its deliveries
        of that turn would be gone unseen. A request to stop has a turn of its own: input that the node held back is
        discarded then, and the observer could not tell it from handled input."""
        for index, (event, _spoken) in enumerate(self._inbox):
            if isinstance(event, StopRequested):
                cut = index or 1
                return self._inbox[:cut], self._inbox[cut:]
            # held input goes on ahead of all events
            if isinstance(event, ConnectionDropped) and (index or self.broker.turn.inputs):
                sent = [sent for _event, spoken in self._inbox[:index] for sent in spoken]
                if self.observer.takes_without_ack(event.connection_id, sent):
                    return self._inbox[:index], self._inbox[index:]
        return super()._batch()

    def _notify_observer(self, inbox: Inbox, resumed: list[int], before: dict[int, Connection]) -> None:
        """Show the input in the order in which the node handles it, except what it leaves unread.

        `resumed` are the connections whose held input goes on; `before` has the connections before this turn.
        A connection whose socket is closed ends when the node has handled the input that it had read.
        """
        now_ms = self._world.now_ms
        stopped = any(isinstance(event, StopRequested) for event, _spoken in inbox)
        for number in resumed + [number for number in self._held_back if number not in resumed]:
            waiting = self._held_back.pop(number, [])
            # a node that is asked to stop handles only the input it was about to read
            # input of a connection that was lost in this turn may have been handled before
            if number in resumed or (number in self.broker.connections and not stopped):
                self.observer.client_methods_received(number, self._acted_on(number, waiting, before), now_ms)
        for event, spoken in inbox:
            if isinstance(event, BytesReceived):
                spoken = self._acted_on(event.connection_id, spoken, before)
            elif isinstance(event, ConnectionDropped) and event.connection_id in self.broker.connections:
                self._leaving[event.connection_id] = event
                continue
            elif isinstance(event, ConnectionDropped):
                self._forget(event.connection_id)
            self.observer.entered(event, spoken, now_ms)
        for number, dropped in list(self._leaving.items()):
            if number not in self.broker.connections:
                del self._leaving[number]
                self._forget(number)
                self.observer.entered(dropped, [], now_ms)

    def _forget(self, number: int) -> None:
        """The node has lost this connection."""
        self._known.pop(number, None)
        self._held_back.pop(number, None)

    def _acted_on(self, number: int, spoken: list[SentMethod], before: dict[int, Connection]) -> list[SentMethod]:
        # a connection that was lost in this turn may have left input unread
        connection = self.broker.connections.get(number) or before.get(number)
        link = self._known.get(number)
        if connection is None or link is None or not (connection.held or connection.state == CLOSING):
            return spoken
        reader = connection.reader
        unread_bytes = len(reader.data) - reader.position + reader.buffered_bytes()
        # a part of the input may be left for the next turn (`_batch`)
        for event, _spoken in self._inbox:
            if isinstance(event, BytesReceived) and event.connection_id == number:
                unread_bytes += len(event.data)
        read_to = link.handed_over - unread_bytes
        self._held_back.setdefault(number, []).extend(sent for sent in spoken if sent.end_offset > read_to)
        return [sent for sent in spoken if sent.end_offset <= read_to]

    def _kept_back(self) -> dict[int, bytes]:
        """Output to clients that the node holds until the disk has the batch it depends on."""
        return {
            number: b"".join(connection._gate._pieces)
            for number, connection in self.broker.connections.items()
            if connection._gate.kept_bytes
        }

    def _answered(self, effect: CompleteCommand) -> None:
        self._world.command_answered(effect)


def _is_unbind(change: MetadataChange) -> bool:
    return change.value is None and change.key.startswith("bindings/")


POLICY_NAME = "changing"
FAR_OFF = 1_000_000_000
POLICY_DEFINITIONS: tuple[Table | None, ...] = (
    None,
    {"queue-mode": "lazy"},
    {"queue-mode": "default"},
    {"max-length": FAR_OFF, "max-length-bytes": FAR_OFF},
    {"message-ttl": FAR_OFF},
    {"expires": FAR_OFF, "delivery-limit": FAR_OFF},
)
"""The policy's definitions in turn; None: it is cleared."""


class PolicyOperator(Invariant):
    """Gives one command after another until the world is calm."""

    rule = "answered changes of policy are kept"

    def __init__(self, world: "NodeWorld") -> None:
        self._world = world
        self._chance = Random(f"{world.seed}/operator")
        self._every_ms = self._chance.choice((50, 500, 1_000_000))
        self._calm = False
        self._ticket = 0
        self._waiting = False
        # the possible definitions: more than one until the outcome of a change is known
        self._possible: list[Table | None] = [None]
        self._wait()

    def calm(self) -> None:
        """No more changes."""
        self._calm = True

    def command_answered(self, effect: CompleteCommand) -> None:
        if effect.ticket != self._ticket:
            return
        self._waiting = False
        if effect.refusal:
            self._world.checkers.complain(self.rule, f"a good command was refused: {effect.reason}")
        self._possible = self._possible[-1:]
        self._world.history.seen["policy changed"] += 1

    def recovered(self, observer: NodeObserver) -> str:
        self._waiting = False
        policy = observer.node.broker.policies.policies.get(("/", POLICY_NAME))
        found = None if policy is None else policy.definition
        if found not in self._possible:
            return f"{observer.node.name} finds {found}, where one of {self._possible} is due"
        self._possible = [found]
        return ""

    def _wait(self) -> None:
        self._world.schedule(self._chance.randint(1, 2 * self._every_ms), self._act)

    def _act(self) -> None:
        if self._calm:
            return
        node = self._chance.choice(self._world.members)
        if node.up and not self._waiting:
            self._ticket += 1
            self._waiting = True
            node.add(CommandReceived(self._ticket, self._command()))
        self._wait()

    def _command(self) -> Command:
        wanted = self._chance.choice([one for one in POLICY_DEFINITIONS if one != self._possible[-1]])
        self._possible.append(wanted)
        if wanted is None:
            return ClearPolicy("/", POLICY_NAME, False)
        return SetPolicy(Policy("/", POLICY_NAME, "", "queues", dict(wanted)), False)


class NodeWorld(SimulatedCluster):
    """A cluster of one, with an observer at its node."""

    def __init__(
        self,
        seed: int,
        trace: RunTrace,
        checkers: InvariantSet,
        interceptor: Interceptor | None = None,
        settings: BrokerSettings | None = None,
    ) -> None:
        self.specs: dict[str, QueueSpec] = {}
        undo = UndoLog()
        self.history = MessageHistory(undo)
        self.routing = RoutingModel(self.specs, undo)
        self.operator: PolicyOperator | None = None
        self.checkers: InvariantSet = checkers
        node_settings, node_interceptor = settings or _settings(seed), interceptor or Interceptor()
        super().__init__(seed, 1, trace, checkers, lambda _name: node_interceptor, lambda _name: node_settings)
        self.seen = self.history.seen

    def _make_node(self, name: str, settings: BrokerSettings, interceptor: Interceptor) -> ObservedNode:
        self.node = ObservedNode(self, name, settings, interceptor)
        return self.node

    def memory_limit_bytes(self) -> int:
        return MEMORY_LIMIT_BYTES

    def started(self, member: SimulatedClusterNode) -> None:
        self.checkers.recovered(self.node.observer)

    def command_answered(self, effect: CompleteCommand) -> None:
        if self.operator is not None:
            self.operator.command_answered(effect)


def _settings(seed: int) -> BrokerSettings:
    """Segments so small that they fill, sometimes so little memory that messages go to disk, and short turns."""
    chance = Random(f"{seed}/settings")
    return BrokerSettings(
        heartbeat_s=HEARTBEAT_S,
        segment_bytes=chance.choice((2_000, 8_000, 30_000)),
        paging_ratio=chance.choice((0.0, 0.001, 0.05, 2.0)),
        work_a_turn=chance.choice((3, 20, 16_000)),
    )
