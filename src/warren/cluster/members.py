"""Who is in the cluster, and who of them runs: what the store that nodes share says of it.

A member may be down; what is alive need not be reachable from here. A node that is no member any more may still be said
to be alive for a moment, until its lease runs out: it counts for nothing.

Invariant: `version` moves whenever anything here does.

Not here: who is reachable (`cluster.suspicion`), what follows (`cluster.partitions`, `broker.departures`).
"""

from typing import final

from warren.model.settings import DISC


@final
class Member:
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
class Members:
    """All of them."""

    def __init__(self) -> None:
        self.version: int = 0
        self._members: dict[str, Member] = {}
        self._incarnations: dict[str, int] = {}
        # by name: the first run with the data directory that it has now
        self.born: dict[str, int] = {}

    def put(self, member: Member) -> None:
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

    def get(self, name: str) -> Member | None:
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
