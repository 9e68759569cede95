"""The replica set of a queue, as the cluster agreed on it: an epoch, a master, members, and the in-sync set.

A `ReplicaSet` never changes; each method returns a new one, to be proposed. The in-sync set is in the order of joining,
the longest member first.

Invariants: the master is a member and in sync; every replica in sync is a member; no node is listed twice.

Not here: when to propose a change (`broker.replication.master`, `broker.replication.promotion`).
"""

from typing import Final, final

from warren.errors import InvariantBroken

POSITION_BITS: Final = 44
"""The positions of an epoch have so many bits: more than a queue can use in a year."""

FIRST_EPOCH: Final = 1

NodeIncarnation = tuple[str, int]
"""The name of a node, and the number of one start of its process."""


@final
class ReplicaSet:
    """One version of a queue's replica set."""

    def __init__(self, epoch: int, master: str, members: list[str], in_sync: list[NodeIncarnation]) -> None:
        self.epoch: int = epoch
        self.master: str = master
        self.members: list[str] = members
        self.in_sync: list[NodeIncarnation] = in_sync

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ReplicaSet)
            and self.epoch == other.epoch
            and self.master == other.master
            and self.members == other.members
            and self.in_sync == other.in_sync
        )

    def __hash__(self) -> int:
        return hash((self.epoch, self.master))

    def __repr__(self) -> str:
        return f"ReplicaSet({self.epoch}, {self.master!r}, {self.members!r}, {self.in_sync!r})"

    @property
    def master_incarnation(self) -> NodeIncarnation:
        """The incarnation of the master that is in sync."""
        for replica in self.in_sync:
            if replica[0] == self.master:
                return replica
        raise InvariantBroken(f"the master {self.master} is not in sync")

    def first_position(self) -> int:
        """The first position of this epoch. No two epochs have a position in common."""
        return self.epoch << POSITION_BITS

    def synced_names(self) -> list[str]:
        return [name for name, _incarnation in self.in_sync]

    def synced_incarnation(self, name: str) -> int:
        """The incarnation of a member that is in sync; 0 if it is not."""
        for synced, incarnation in self.in_sync:
            if synced == name:
                return incarnation
        return 0

    def admitting(self, replicas: list[NodeIncarnation]) -> "ReplicaSet":
        """With these incarnations in sync: their backfill is complete."""
        names = {name for name, _incarnation in replicas}
        stay = [replica for replica in self.in_sync if replica[0] not in names]
        return ReplicaSet(self.epoch, self.master, self.members, [*stay, *replicas])

    def dropping(self, names: list[str]) -> "ReplicaSet":
        """Without these nodes in the in-sync set; they stay members."""
        return ReplicaSet(
            self.epoch, self.master, self.members, [replica for replica in self.in_sync if replica[0] not in names]
        )

    def with_members(self, members: list[str]) -> "ReplicaSet":
        """With these members; the master must be one of them."""
        return ReplicaSet(
            self.epoch, self.master, members, [replica for replica in self.in_sync if replica[0] in members]
        )

    def promoting(self, replica: NodeIncarnation) -> "ReplicaSet":
        """With another master after the loss of the old one, which must be backfilled if it comes back.

        If this incarnation was in sync, the other mirrors stay in sync. If not, their contents may differ from its own,
        so it is in sync alone.
        """
        name = replica[0]
        members = self.members if name in self.members else [*self.members, name]
        stay = [one for one in self.in_sync if one[0] not in (name, self.master)] if replica in self.in_sync else []
        return ReplicaSet(self.epoch + 1, name, members, [replica, *stay])

    def handing_over(self, replica: NodeIncarnation) -> "ReplicaSet":
        """With another master that is in sync; the old master becomes a mirror and stays in sync."""
        others = [one for one in self.in_sync if one[0] not in (replica[0], self.master)]
        return ReplicaSet(self.epoch + 1, replica[0], self.members, [replica, *others, self.master_incarnation])

    def renaming(self, old: str, new: str) -> "ReplicaSet":
        """With a new name for a node that is not running; its contents stay."""
        # after an interrupted rename, the node may be listed with both names
        members = [new if name == old else name for name in self.members if name != new]
        replicas = [(new if name == old else name, incarnation) for name, incarnation in self.in_sync if name != new]
        return ReplicaSet(self.epoch, new if self.master == old else self.master, members, replicas)

    def check(self) -> None:
        """Raise `InvariantBroken` if an invariant does not hold."""
        synced = self.synced_names()
        if len(set(synced)) != len(synced) or len(set(self.members)) != len(self.members):
            raise InvariantBroken(f"a node is listed twice in {self!r}")
        if self.master not in synced or not set(synced) <= set(self.members):
            raise InvariantBroken(f"a replica in sync is not a member, or the master is not in sync, in {self!r}")
