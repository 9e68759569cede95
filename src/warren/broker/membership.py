"""A node's place among others: who is in the cluster, who is reached, and what this node does when it is alone.

Who is a member and who lives is agreed upon like everything else, and made here like queues and users are. Links come
and go by themselves. From both together follows what a partition means for this node.

A node *loses its life* when the store says that this run of it is over, though it runs: its lease ran out while it was
cut off. Others have then begun to delete its transient queues.

That a run is over is believed of the store alone, and only the run itself says so there: by holding nothing any more,
which also happens to it when it is not heard of for the time of its lease, or by being succeeded by another run of the
same name. Nobody declares another node dead. A lost link may come back, and a port that refuses
connections may be closed by a firewall: whoever deletes queues because of either deletes those of a node that lives.

Not here: what the tables mean (`cluster.members`, `cluster.suspicion`), decisions (`cluster.partitions`), what a dead
node leaves (`broker.sharing.leftovers`).
"""

from abc import abstractmethod
from typing import final

from mypy_extensions import trait

from warren.broker.applying import Applier
from warren.cluster.members import Member, Members
from warren.cluster.partitions import PartitionHandling, PartitionWatch, View
from warren.cluster.suspicion import Suspicion
from warren.model.turn import Turn
from warren.store.cluster_definitions import ALIVE, NODES, RUNS, AliveDefinition, NodeDefinition, RunDefinition
from warren.store.metadata import Definition


@trait
class LifeWatcher:
    """Whoever must act when nodes come alive, die, or are members no longer."""

    @abstractmethod
    def lives_changed(self) -> None: ...


@final
class Membership(Applier):
    """What one node, in one run, knows of its cluster."""

    def __init__(self, own: str, incarnation: int, handling: PartitionHandling, turn: Turn) -> None:
        self.own: str = own
        self.incarnation: int = incarnation
        self.members: Members = Members()
        self.suspicion: Suspicion = Suspicion(own)
        self.watcher: LifeWatcher | None = None
        # whether this run was said to be alive, and then not any more
        self.life_lost: bool = False
        self._lives: bool = False
        # of other nodes the last run that was seen to end
        self._ended: dict[str, int] = {}
        self._turn: Turn = turn
        self._partitions: PartitionWatch = PartitionWatch(handling)

    # -- what was agreed upon

    def kinds(self) -> list[str]:
        return [NODES, RUNS, ALIVE]

    def put(self, definition: Definition, revision: int) -> None:
        if isinstance(definition, NodeDefinition):
            self._joined(definition)
        elif isinstance(definition, RunDefinition):
            self.members.begins_at(definition.name, definition.born)
        elif isinstance(definition, AliveDefinition):
            self._came_alive(definition)

    def delete(self, parts: list[str]) -> None:
        name = parts[1]
        if parts[0] == NODES:
            if self.members.get(name) is not None:
                self._turn.note("info", "member.left", {"node": name})
            self.members.forget(name)
            self._tell()
        elif parts[0] == ALIVE:
            self._died(name)

    def _joined(self, definition: NodeDefinition) -> None:
        if self.members.get(definition.name) is None:
            self._turn.note("info", "member.joined", {"node": definition.name, "kind": definition.kind})
        self.members.put(
            Member(
                definition.name,
                definition.kind,
                definition.peer,
                definition.http,
                definition.amqp,
                definition.store,
                definition.witness,
            )
        )

    def _came_alive(self, definition: AliveDefinition) -> None:
        name, incarnation = definition.name, definition.incarnation
        if self.members.incarnation(name) == incarnation:
            return
        self._turn.note("info", "member.alive", {"node": name, "incarnation": incarnation})
        self._ended[name] = incarnation - 1
        self.members.came_alive(name, incarnation)
        if name == self.own:
            self.life_lost = self.life_lost or (self._lives and incarnation != self.incarnation)
            self._lives = self._lives or incarnation == self.incarnation
        self._tell()

    def _died(self, name: str) -> None:
        incarnation = self.members.incarnation(name)
        if incarnation is None:
            return
        self._ended[name] = incarnation
        self._turn.note("info", "member.dead", {"node": name})
        self.members.died(name)
        if name == self.own and self._lives:
            self.life_lost = True
        self._tell()

    def _tell(self) -> None:
        if self.watcher is not None:
            self.watcher.lives_changed()

    def has_ended(self, node: str, incarnation: int) -> bool:
        """Whether the store said that this run of another node is over, and not that it lives since."""
        return self._ended.get(node, 0) >= incarnation

    # -- links

    def peer_connected(self, node: str, incarnation: int) -> None:
        self.suspicion.connected(node, incarnation)

    def peer_lost(self, node: str) -> None:
        self.suspicion.lost(node)

    # -- partitions

    @property
    def paused(self) -> bool:
        return self._partitions.paused

    def look(self, store_reached: bool) -> str:
        """What this node is to do, as `cluster.partitions` names it; to be asked every `CHECK_EVERY_MS`, and whenever a
        link comes or goes."""
        members, suspicion = self.members, self.suspicion
        view = View(
            self.own,
            members.names_by_rank(),
            members.disc_names(),
            suspicion.reachable(members),
            suspicion.parted(members, int(self._turn.now_ms)),
            store_reached,
            self.life_lost,
        )
        return self._partitions.look(view)
