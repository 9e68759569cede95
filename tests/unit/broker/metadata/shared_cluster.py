"""Nodes with a pretend store that only run transactions: for tests of shared metadata, membership and orphaned queues.

Each has a turn, an applier that records everything, and a link to every other node.
"""

import heapq
from collections.abc import Callable

from warren.broker.metadata.backend import MetadataApplier, MetadataAppliers
from warren.broker.metadata.definition_kinds import DEFINITION_READERS
from warren.broker.metadata.shared_backend import SharedMetadataBackend
from warren.broker.metadata.store import Definition, key_path
from warren.broker.metadata.transaction import TransactionWaiter
from warren.broker.model.effects import Effect, Note, ProposeTransaction
from warren.broker.model.events import (
    DefinitionsChanged,
    DefinitionsCurrent,
    DefinitionsReplaced,
    Event,
    TransactionDecided,
)
from warren.broker.model.turn import Turn
from warren.sim.cluster.metadata_store import SimulatedMetadataStore, SimulatedStoreClient


class Clock:
    """Scheduled callbacks, in order."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = 0

    def schedule(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._serial += 1
        heapq.heappush(self._heap, (self.now_ms + delay_ms, self._serial, action))

    def pass_ms(self, milliseconds: int) -> None:
        """Run everything that is due within this time."""
        end_ms = self.now_ms + milliseconds
        while self._heap and self._heap[0][0] <= end_ms:
            self.now_ms, _serial, action = heapq.heappop(self._heap)
            action()
        self.now_ms = end_ms


class Maker(MetadataApplier):
    """Applies everything, and records the ids of all keys."""

    def __init__(self, kinds: list[str]) -> None:
        self._kinds = kinds
        self.made: dict[str, tuple[int, bytes]] = {}
        self.story: list[str] = []

    def kinds(self) -> list[str]:
        return self._kinds

    def put(self, definition: Definition, revision: int) -> None:
        self.made[definition.key()] = (revision, definition.value())
        self.story.append(f"+{definition.key()}")

    def delete(self, parts: list[str]) -> None:
        key = key_path(parts[0], parts[1:])
        self.made.pop(key, None)
        self.story.append(f"-{key}")


class Ending(TransactionWaiter):
    """Records the outcome."""

    def __init__(self) -> None:
        self.outcomes: list[str] = []

    def committed(self) -> None:
        self.outcomes.append("committed")

    def outdated(self) -> None:
        self.outcomes.append("outdated")

    def failed(self, reason: str) -> None:
        self.outcomes.append(f"failed: {reason}")


class SharingNode:
    """One node and its backend."""

    def __init__(self, name: str, cluster: "SharingCluster") -> None:
        self.name = name
        self.turn = Turn()
        self.turn.now_ms = cluster.clock.now_ms
        self.maker = Maker(list(DEFINITION_READERS))
        self.appliers = MetadataAppliers()
        self.appliers.add(self.maker)
        self.backend = SharedMetadataBackend(self.turn, self.appliers)
        self.notes: list[Note] = []
        self.proposed: list[ProposeTransaction] = []
        # whether its proposals are lost
        self.losing = False
        self._cluster = cluster
        self.seat: SimulatedStoreClient = cluster.store.client(self.take)

    def take(self, event: Event) -> None:
        """One event is one turn."""
        self.turn.now_ms = self._cluster.clock.now_ms
        if isinstance(event, TransactionDecided):
            self.backend.decided(event)
        elif isinstance(event, DefinitionsChanged):
            self.backend.changed(event)
        elif isinstance(event, DefinitionsReplaced):
            self.backend.replaced(event)
        elif isinstance(event, DefinitionsCurrent):
            self.backend.current(event)
        self.end_turn()

    def end_turn(self) -> None:
        """Carry out the effects of the turn, and set its timers."""
        self.turn.now_ms = self._cluster.clock.now_ms
        self.turn.fire_timers()
        effects: list[Effect] = self.turn.effects
        self.turn.effects = []
        for effect in effects:
            if isinstance(effect, ProposeTransaction):
                self.proposed.append(effect)
                if not self.losing:
                    self.seat.propose(effect)
            elif isinstance(effect, Note):
                self.notes.append(effect)
        unreported = self.backend.take_unreported()
        if unreported:
            self._cluster.notify_peers(self, unreported)
        next_ms = self.turn.next_timer_ms()
        if next_ms:
            self._cluster.clock.schedule(max(0, next_ms - self._cluster.clock.now_ms), self._wake)

    def _wake(self) -> None:
        if 0 < self.turn.next_timer_ms() <= self._cluster.clock.now_ms:
            self.end_turn()


class SharingCluster:
    """Nodes, a store, and links that can be cut."""

    def __init__(self, *names: str, delay_ms: Callable[[], int] = lambda: 1) -> None:
        self.clock = Clock()
        self.store = SimulatedMetadataStore(self.clock, delay_ms)
        self.nodes: dict[str, SharingNode] = {}
        for name in names:
            self.start(name)

    def start(self, name: str, equip: Callable[[SharingNode], None] = lambda node: None) -> SharingNode:
        """Start a node; `equip` may add appliers before it gets the snapshot."""
        node = SharingNode(name, self)
        equip(node)
        for other in self.nodes.values():
            self._link(node, other)
        self.nodes[name] = node
        self.clock.pass_ms(10)
        return node

    def lose(self, node: SharingNode) -> None:
        """Kill a node."""
        node.seat.crash()
        del self.nodes[node.name]
        for other in self.nodes.values():
            other.backend.peer_over(node.name)
            other.end_turn()

    def part(self, one: SharingNode, other: SharingNode) -> None:
        """Cut a link."""
        for node, lost in ((one, other), (other, one)):
            node.backend.peer_lost(lost.name)
            node.end_turn()

    def notify_peers(self, sender: SharingNode, revision: int) -> None:
        for node in self.nodes.values():
            if node is not sender:
                self.clock.schedule(1, self._notification(node, sender.name, revision))

    def _link(self, one: SharingNode, other: SharingNode) -> None:
        for node, peer in ((one, other), (other, one)):
            node.backend.peer_connected(peer.name, 1)
            node.backend.peer_applied(peer.name, peer.backend.applied)

    def _notification(self, listener: SharingNode, sender: str, revision: int) -> Callable[[], None]:
        def notify() -> None:
            listener.backend.peer_applied(sender, revision)
            listener.end_turn()

        return notify
