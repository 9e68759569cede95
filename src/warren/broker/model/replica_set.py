"""Who holds a queue, as it was agreed upon: an epoch, a master, members, and which of them are in sync.

A `ReplicaSet` never changes; each method makes another one, to be proposed. Those who are in sync stand in the order in
which they came to be, the eldest first.

Invariants: the master is a member and in sync; whoever is in sync is a member; nobody stands twice.

Not here: when to propose what (`broker.replication.master`, `broker.replication.promotion`).
"""

from typing import Final, final

from warren.errors import InvariantBroken

POSITION_BITS: Final = 44
"""An epoch has so many positions of its own, more than can be given out in a year."""

NodeIncarnation = tuple[str, int]
"""A node, and one run of its process."""


@final
class ReplicaSet:
    """One queue's, in one version."""

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
        return f"Ring({self.epoch}, {self.master!r}, {self.members!r}, {self.in_sync!r})"

    @property
    def master_incarnation(self) -> NodeIncarnation:
        """The run of the master that is in sync."""
        for run in self.in_sync:
            if run[0] == self.master:
                return run
        raise InvariantBroken(f"the master {self.master} is not in sync")

    def first_position(self) -> int:
        """The first that the master of this epoch gives out: no two epochs have one in common."""
        return self.epoch << POSITION_BITS

    def synced_names(self) -> list[str]:
        return [name for name, _incarnation in self.in_sync]

    def synced_incarnation(self, name: str) -> int:
        """The incarnation of a member that is in sync; 0 if it is not."""
        for synced, incarnation in self.in_sync:
            if synced == name:
                return incarnation
        return 0

    def admitting(self, runs: list[NodeIncarnation]) -> "ReplicaSet":
        """These have caught up."""
        names = {name for name, _incarnation in runs}
        stay = [run for run in self.in_sync if run[0] not in names]
        return ReplicaSet(self.epoch, self.master, self.members, [*stay, *runs])

    def dropping(self, names: list[str]) -> "ReplicaSet":
        """These are not in sync any more; members they remain."""
        return ReplicaSet(self.epoch, self.master, self.members, [run for run in self.in_sync if run[0] not in names])

    def with_members(self, members: list[str]) -> "ReplicaSet":
        """These are to hold the queue; the master is one of them."""
        return ReplicaSet(self.epoch, self.master, members, [run for run in self.in_sync if run[0] in members])

    def promoting(self, run: NodeIncarnation) -> "ReplicaSet":
        """Another master; the old one has to catch up, should it come back.

        If this very run was in sync the others stay so. If it was not, only it knows what it has.
        """
        name = run[0]
        members = self.members if name in self.members else [*self.members, name]
        stay = [one for one in self.in_sync if one[0] not in (name, self.master)] if run in self.in_sync else []
        return ReplicaSet(self.epoch + 1, name, members, [run, *stay])

    def handing_over(self, run: NodeIncarnation) -> "ReplicaSet":
        """Another master, that is in sync; the old one goes on as a mirror, and has all that it had."""
        others = [one for one in self.in_sync if one[0] not in (run[0], self.master)]
        return ReplicaSet(self.epoch + 1, run[0], self.members, [run, *others, self.master_incarnation])

    def renaming(self, old: str, new: str) -> "ReplicaSet":
        """A node that does not run is called otherwise from now on, and has what it had."""
        # one that was interrupted while it was renamed may be known by both names
        members = [new if name == old else name for name in self.members if name != new]
        runs = [(new if name == old else name, run) for name, run in self.in_sync if name != new]
        return ReplicaSet(self.epoch, new if self.master == old else self.master, members, runs)

    def check(self) -> None:
        """Raise `InvariantBroken` if this cannot be a ring."""
        synced = self.synced_names()
        if len(set(synced)) != len(synced) or len(set(self.members)) != len(self.members):
            raise InvariantBroken(f"somebody stands twice in {self!r}")
        if self.master not in synced or not set(synced) <= set(self.members):
            raise InvariantBroken(f"in sync is who is no member, or the master is not, in {self!r}")
