"""The members of a cluster, which of them are alive and reachable, and how this node reacts to partitions.

Membership and liveness are metadata: they are committed in the shared store and applied here. Links come and go by
themselves. Two facts are known of another node: whether this node has a link to it, and whether the store says that it
is alive. Together they make four states:

    link    alive
    yes     yes      connected
    yes     no       connected: it has just started, is about to stop, or is cut off only from the store
    no      no       down
    no      yes      suspected: it may be starting, or may just have died; if it stays so, this node is
                     *partitioned* from it: other nodes reach it, and this one does not

A link ends when its socket does, or when it was silent for too long. Liveness ends later, when a lease expires. So a
node that dies is suspected for a while, and a node that stays suspected for longer than a lease is partitioned.

A member may be down; a node that is alive need not be reachable from here. A node that is no longer a member may be
alive until its lease expires: it does not count.

A node *loses its lease* when the store says that this incarnation has ended although it runs, because it was cut off.
Other nodes have then begun to delete its transient queues.

Only the store is believed about the end of an incarnation. It ends when the node gives up its lease, when the lease
expires, or when a later incarnation of the same name follows. No node declares another one dead: a lost link may come
back, and a refused connection may be a firewall's, so acting on either could delete queues of a node that is alive.

Invariant: `ClusterMembers.version` grows with every change.

Not here: links (`node.peers`), silence on links (`broker.links`), decisions about partitions
(`broker.network_partitions`), queues of dead nodes (`broker.cluster.orphaned_queues`), committing a new incarnation
(`node.cluster.agent`), the meaning of an incarnation for a replica set (`broker.replication.promotion`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import trait

from warren.broker.metadata.backend import MetadataApplier
from warren.broker.metadata.cluster_definitions import (
    INCARNATIONS,
    LIVENESS,
    NODES,
    IncarnationDefinition,
    LivenessDefinition,
    NodeDefinition,
    incarnation_key,
)
from warren.broker.metadata.definition_kinds import decode_definition
from warren.broker.metadata.store import Definition
from warren.broker.metadata.topology_definitions import QUEUES, QueueDefinition
from warren.broker.model.events import MetadataSnapshot
from warren.broker.model.settings import DISC
from warren.broker.model.turn import Turn
from warren.broker.network_partitions import PartitionHandling, PartitionView, PartitionWatch


@final
class ClusterMembers:
    """All members, and the incarnations that are alive."""

    def __init__(self) -> None:
        self.version: int = 0
        self._members: dict[str, NodeDefinition] = {}
        self._incarnations: dict[str, int] = {}
        # by name: the first incarnation with the node's current data directory
        self.born: dict[str, int] = {}

    def put(self, member: NodeDefinition) -> None:
        """Add a member, or replace its facts."""
        self._members[member.name] = member
        self.version += 1

    def forget(self, name: str) -> None:
        if self._members.pop(name, None) is not None:
            self.version += 1

    def begins_at(self, name: str, incarnation: int) -> None:
        """The node lost its data before that incarnation."""
        if self.born.get(name, 0) != incarnation:
            self.born[name] = incarnation
            self.version += 1

    def came_alive(self, name: str, incarnation: int) -> None:
        if self._incarnations.get(name) != incarnation:
            self._incarnations[name] = incarnation
            self.version += 1

    def died(self, name: str) -> None:
        if self._incarnations.pop(name, None) is not None:
            self.version += 1

    def get(self, name: str) -> NodeDefinition | None:
        return self._members.get(name)

    def incarnation(self, name: str) -> int | None:
        """The incarnation that is alive; None if the node is not."""
        return self._incarnations.get(name)

    def names(self) -> list[str]:
        return sorted(self._members)

    def disc_names(self) -> list[str]:
        return [name for name in self.names() if self._members[name].kind == DISC]

    def is_witness(self, name: str) -> bool:
        member = self._members.get(name)
        return member is not None and member.witness

    def holding_names(self) -> list[str]:
        """Members that may hold queues."""
        return [name for name in self.names() if not self._members[name].witness]

    def alive_names(self) -> list[str]:
        """Members that are alive."""
        return [name for name in self.names() if name in self._incarnations]

    def names_by_rank(self) -> list[str]:
        """All members, disc nodes first, in an order that is the same on every node."""
        return self.disc_names() + [name for name in self.names() if self._members[name].kind != DISC]

    def addresses(self) -> list[tuple[str, str, str]]:
        """The name, peer address and store address of each member."""
        found = [self._members[name] for name in self.names()]
        return [(member.name, member.peer, member.store) for member in found]


PARTITIONED_AFTER_MS: Final = 10_000
"""Longer than the lease of a dead node lasts, and than a started node takes to make its links."""


@final
class Reachability:
    """The links of one node to the others."""

    def __init__(self, own: str) -> None:
        self._own: str = own
        # connected nodes and their incarnations
        self._connected: dict[str, int] = {}
        # when members that are alive were first found not connected
        self._suspected_since_ms: dict[str, int] = {}

    def connected(self, node: str, incarnation: int) -> None:
        self._connected[node] = incarnation

    def lost(self, node: str) -> None:
        self._connected.pop(node, None)

    def is_connected(self, node: str) -> bool:
        return node == self._own or node in self._connected

    def reachable(self, members: ClusterMembers) -> list[str]:
        """Members that are connected, this node included."""
        return [name for name in members.names() if self.is_connected(name)]

    def suspected(self, members: ClusterMembers) -> list[str]:
        """Members that are alive and not connected."""
        return [name for name in members.alive_names() if not self.is_connected(name)]

    def partitioned(self, members: ClusterMembers, now_ms: int) -> list[str]:
        """Members that have been suspected for so long that they must be alive. Must be called regularly."""
        suspected = self.suspected(members)
        since = self._suspected_since_ms
        self._suspected_since_ms = {name: since.get(name, now_ms) for name in suspected}
        return [name for name in suspected if now_ms - self._suspected_since_ms[name] >= PARTITIONED_AFTER_MS]


@trait
class LivenessListener:
    """Called when nodes come alive, die, or leave the cluster."""

    @abstractmethod
    def liveness_changed(self) -> None: ...


@final
class ClusterMembership(MetadataApplier):
    """The cluster, as one incarnation of one node knows it."""

    def __init__(self, own: str, incarnation: int, handling: PartitionHandling, turn: Turn) -> None:
        self.own: str = own
        self.incarnation: int = incarnation
        self.members: ClusterMembers = ClusterMembers()
        self.reachability: Reachability = Reachability(own)
        self.listener: LivenessListener | None = None
        # this incarnation was alive according to the store, and then no longer
        self.lease_lost: bool = False
        self._was_alive: bool = False
        # the last ended incarnation of each other node
        self._ended: dict[str, int] = {}
        self._turn: Turn = turn
        self._partitions: PartitionWatch = PartitionWatch(handling)

    # -- committed definitions

    def kinds(self) -> list[str]:
        return [NODES, INCARNATIONS, LIVENESS]

    def put(self, definition: Definition, revision: int) -> None:
        if isinstance(definition, NodeDefinition):
            self._joined(definition)
        elif isinstance(definition, IncarnationDefinition):
            self.members.begins_at(definition.name, definition.born)
        elif isinstance(definition, LivenessDefinition):
            self._came_alive(definition)

    def delete(self, parts: list[str]) -> None:
        name = parts[1]
        if parts[0] == NODES:
            if self.members.get(name) is not None:
                self._turn.note("info", "member.left", {"node": name})
            self.members.forget(name)
            self._notify()
        elif parts[0] == LIVENESS:
            self._died(name)

    def _joined(self, definition: NodeDefinition) -> None:
        if self.members.get(definition.name) is None:
            self._turn.note("info", "member.joined", {"node": definition.name, "kind": definition.kind})
        self.members.put(definition)

    def _came_alive(self, definition: LivenessDefinition) -> None:
        name, incarnation = definition.name, definition.incarnation
        if self.members.incarnation(name) == incarnation:
            return
        self._turn.note("info", "member.alive", {"node": name, "incarnation": incarnation})
        self._ended[name] = incarnation - 1
        self.members.came_alive(name, incarnation)
        if name == self.own:
            self.lease_lost = self.lease_lost or (self._was_alive and incarnation != self.incarnation)
            self._was_alive = self._was_alive or incarnation == self.incarnation
        self._notify()

    def _died(self, name: str) -> None:
        incarnation = self.members.incarnation(name)
        if incarnation is None:
            return
        self._ended[name] = incarnation
        self._turn.note("info", "member.dead", {"node": name})
        self.members.died(name)
        if name == self.own and self._was_alive:
            self.lease_lost = True
        self._notify()

    def _notify(self) -> None:
        if self.listener is not None:
            self.listener.liveness_changed()

    def has_ended(self, node: str, incarnation: int) -> bool:
        """Whether the store said that this incarnation of another node has ended, and not that it is alive since."""
        return self._ended.get(node, 0) >= incarnation

    # -- links

    def peer_connected(self, node: str, incarnation: int) -> None:
        self.reachability.connected(node, incarnation)

    def peer_lost(self, node: str) -> None:
        self.reachability.lost(node)

    # -- partitions

    @property
    def paused(self) -> bool:
        return self._partitions.paused

    def look(self, store_reached: bool) -> str:
        """The action that this node must take, as `broker.network_partitions` names it.

        Called every `CHECK_EVERY_MS`, and whenever a link comes or goes.
        """
        members, reachability = self.members, self.reachability
        view = PartitionView(
            self.own,
            members.names_by_rank(),
            members.disc_names(),
            reachability.reachable(members),
            reachability.partitioned(members, int(self._turn.now_ms)),
            store_reached,
            self.lease_lost,
        )
        return self._partitions.look(view)


def next_incarnation(
    name: str, incarnation: int, data: int, asked: int, known: MetadataSnapshot
) -> tuple[IncarnationDefinition, int]:
    """The definition of an incarnation that is about to begin, with a number that no node of that name ever had.

    Also the revision of the definition that it replaces. `incarnation` is the count on the node's disk, `asked` the
    last one for which the node asked for a number.
    """
    kept = known.get(incarnation_key(name))
    if kept is None:
        # a cluster from before incarnations were counted: replica sets have those that matter
        return IncarnationDefinition(name, _latest_in_sync(name, known), 0, data).followed_by(
            incarnation, data, asked
        ), 0
    last = decode_definition(incarnation_key(name), kept[2])
    assert isinstance(last, IncarnationDefinition), "the key is that of an incarnation"
    return last.followed_by(incarnation, data, asked), kept[1]


def all_queues(known: MetadataSnapshot) -> list[QueueDefinition]:
    found = [decode_definition(key, kept[2]) for key, kept in known.items() if key.startswith(f"{QUEUES}/")]
    return [queue for queue in found if isinstance(queue, QueueDefinition)]


def _latest_in_sync(name: str, known: MetadataSnapshot) -> int:
    replica_sets = [queue.replica_set for queue in all_queues(known) if queue.replica_set is not None]
    return max([0, *[replica_set.synced_incarnation(name) for replica_set in replica_sets]])
