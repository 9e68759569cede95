"""A node's place among others: who is in the cluster, who is reached, and what this node does when it is alone.

Who is a member and who lives is agreed upon like everything else, and made here like queues and users are. Links come
and go by themselves. From both together follows what a partition means for this node.

A node *loses its life* when the store says that this run of it is over, though it runs: its lease ran out while it was
cut off. Others have then begun to delete its transient queues.

That a run is over is believed of the store alone, and only the run itself says so there: by holding nothing any more,
which also happens to it when it is not heard of for the time of its lease, or by being succeeded by another run of the
same name. Nobody declares another node dead. A lost link may come back, and a port that refuses
connections may be closed by a firewall: whoever deletes queues because of either deletes those of a node that lives.

Not here: what the tables mean (`broker.membership`, `broker.membership`), decisions (`broker.network_partitions`), what
a dead node leaves (`broker.cluster.orphaned_queues`).

Who is in the cluster, and who of them runs: what the store that nodes share says of it.

A member may be down; what is alive need not be reachable from here. A node that is no member any more may still be said
to be alive for a moment, until its lease runs out: it counts for nothing.

Invariant: `version` moves whenever anything here does.

Not here: who is reachable (`broker.membership`), what follows (`broker.network_partitions`, `broker.pending_deletes`).

Who can be reached from here, and who cannot though it lives.

Two things are known of another node: whether a link to it stands, which this node sees itself, and whether it is alive,
which the store that nodes share says. Together they make four states:

    link    alive
    yes     yes      connected: all is well
    yes     no       connected: it has just started, is about to stop, or is cut off from the store alone
    no      no       down, as far as anybody can tell
    no      yes      suspected: it may be starting, or may just have died; if it stays so, we are *parted*:
                     others reach it, and we do not

A link goes as soon as its socket does, or when it has been silent for too long; that is the link's to decide. To be
alive ends later, when a lease runs out. So a node that dies is suspected for a while, and one that stays suspected for
longer than a lease lasts is parted from us.

Not here: links (`node.peers`), silence on them (`remote`), what follows from being parted
(`broker.network_partitions`).

Which number a run of a member has that is about to begin: one that no run of any node of its name ever had.

Not here: having it agreed upon (`node.cluster.agent`), what a number means to a ring (`broker.replication.promotion`).
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
class ClusterMember:
    """One node of the cluster; addresses are HOST:PORT, empty where it has none. A witness holds no queues."""

    def __init__(
        self, name: str, kind: str, peer: str, http: str, amqp: str, store: str, witness: bool = False
    ) -> None:
        self.name: str = name
        self.kind: str = kind
        self.peer: str = peer
        self.http: str = http
        self.amqp: str = amqp
        self.store: str = store
        self.witness: bool = witness

    @property
    def disc(self) -> bool:
        """Whether it keeps metadata, and so counts when nodes agree."""
        return self.kind == DISC


@final
class ClusterMembers:
    """All of them."""

    def __init__(self) -> None:
        self.version: int = 0
        self._members: dict[str, ClusterMember] = {}
        self._incarnations: dict[str, int] = {}
        # by name: the first run with the data directory that it has now
        self.born: dict[str, int] = {}

    def put(self, member: ClusterMember) -> None:
        """It is a member from now on, and this is what there is to know of it."""
        self._members[member.name] = member
        self.version += 1

    def forget(self, name: str) -> None:
        if self._members.pop(name, None) is not None:
            self.version += 1

    def begins_at(self, name: str, run: int) -> None:
        """Whatever it was trusted with before that run it has no more."""
        if self.born.get(name, 0) != run:
            self.born[name] = run
            self.version += 1

    def came_alive(self, name: str, incarnation: int) -> None:
        if self._incarnations.get(name) != incarnation:
            self._incarnations[name] = incarnation
            self.version += 1

    def died(self, name: str) -> None:
        if self._incarnations.pop(name, None) is not None:
            self.version += 1

    def get(self, name: str) -> ClusterMember | None:
        return self._members.get(name)

    def incarnation(self, name: str) -> int | None:
        """Which run of its process is alive; none if it is not."""
        return self._incarnations.get(name)

    def names(self) -> list[str]:
        return sorted(self._members)

    def disc_names(self) -> list[str]:
        return [name for name in self.names() if self._members[name].disc]

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
        """All members, those that keep metadata first: an order in which everybody finds the same one ahead."""
        return self.disc_names() + [name for name in self.names() if not self._members[name].disc]

    def addresses(self) -> list[tuple[str, str, str]]:
        """Of each member its name, its peer address and that of its part of the store."""
        found = [self._members[name] for name in self.names()]
        return [(member.name, member.peer, member.store) for member in found]


PARTITIONED_AFTER_MS: Final = 10_000
"""Longer than it takes until a dead node's lease has run out, and until a living one has made its links."""


@final
class Reachability:
    """What one node sees of the others."""

    def __init__(self, own: str) -> None:
        self._own: str = own
        # connected nodes, and which run of their process that is
        self._connected: dict[str, int] = {}
        # since when nodes live and are not reached
        self._suspected_since_ms: dict[str, int] = {}

    def connected(self, node: str, incarnation: int) -> None:
        self._connected[node] = incarnation

    def lost(self, node: str) -> None:
        self._connected.pop(node, None)

    def is_connected(self, node: str) -> bool:
        return node == self._own or node in self._connected

    def reachable(self, members: ClusterMembers) -> list[str]:
        """Members that are connected, this node among them."""
        return [name for name in members.names() if self.is_connected(name)]

    def suspected(self, members: ClusterMembers) -> list[str]:
        """Members that are not connected and said to live."""
        return [name for name in members.alive_names() if not self.is_connected(name)]

    def partitioned(self, members: ClusterMembers, now_ms: int) -> list[str]:
        """Those that have been suspected for so long that they must live. To be asked regularly."""
        suspected = self.suspected(members)
        since = self._suspected_since_ms
        self._suspected_since_ms = {name: since.get(name, now_ms) for name in suspected}
        return [name for name in suspected if now_ms - self._suspected_since_ms[name] >= PARTITIONED_AFTER_MS]


@trait
class LivenessListener:
    """Whoever must act when nodes come alive, die, or are members no longer."""

    @abstractmethod
    def liveness_changed(self) -> None: ...


@final
class ClusterMembership(MetadataApplier):
    """What one node, in one run, knows of its cluster."""

    def __init__(self, own: str, incarnation: int, handling: PartitionHandling, turn: Turn) -> None:
        self.own: str = own
        self.incarnation: int = incarnation
        self.members: ClusterMembers = ClusterMembers()
        self.reachability: Reachability = Reachability(own)
        self.listener: LivenessListener | None = None
        # whether this run was said to be alive, and then not any more
        self.lease_lost: bool = False
        self._was_alive: bool = False
        # of other nodes the last run that was seen to end
        self._ended: dict[str, int] = {}
        self._turn: Turn = turn
        self._partitions: PartitionWatch = PartitionWatch(handling)

    # -- what was agreed upon

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
        self.members.put(
            ClusterMember(
                definition.name,
                definition.kind,
                definition.peer,
                definition.http,
                definition.amqp,
                definition.store,
                definition.witness,
            )
        )

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
        """Whether the store said that this run of another node is over, and not that it lives since."""
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
        """What this node is to do, as `broker.network_partitions` names it; to be asked every `CHECK_EVERY_MS`, and
        whenever a
        link comes or goes."""
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
    name: str, run: int, data: int, asked: int, known: MetadataSnapshot
) -> tuple[IncarnationDefinition, int]:
    """What is to be kept, and the revision at which what is kept was seen.

    `run` is what the node's disk counts, `asked` the last run that it asked to have counted.
    """
    kept = known.get(incarnation_key(name))
    if kept is None:
        # in a cluster of before runs were counted, rings tell of those that matter
        return IncarnationDefinition(name, _latest_in_sync(name, known), 0, data).followed_by(run, data, asked), 0
    last = decode_definition(incarnation_key(name), kept[2])
    assert isinstance(last, IncarnationDefinition), "its key says so"
    return last.followed_by(run, data, asked), kept[1]


def all_queues(known: MetadataSnapshot) -> list[QueueDefinition]:
    found = [decode_definition(key, kept[2]) for key, kept in known.items() if key.startswith(f"{QUEUES}/")]
    return [queue for queue in found if isinstance(queue, QueueDefinition)]


def _latest_in_sync(name: str, known: MetadataSnapshot) -> int:
    replica_sets = [queue.replica_set for queue in all_queues(known) if queue.replica_set is not None]
    return max([0, *[replica_set.synced_incarnation(name) for replica_set in replica_sets]])
