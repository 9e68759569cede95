"""The pretend store in which the ring is agreed upon, by compare-and-swap on its version.

A proposal travels, is applied, and is answered, each some time later; its answer may get lost, or it may itself, and
whoever proposed may give up waiting long before it is applied. Every node hears of each version, and of who lives, in
order and late. While there is no majority, nothing is applied; a node that is cut off hears and says nothing.

Not here: what nodes make of it (`sim.replica_sets.node`).

What an operator wants of a pretend ring, and what its master makes of that: who holds the queue, and who leads.

What is wanted is agreed upon in the store, as policies are, and heard of like everything there. A node that is about to
stop wants another to be master instead, and does not come back to that.

Not here: the rules (`broker.replication.mirroring_policy`), carrying them out (`broker.replication.master`).
"""

from dataclasses import dataclass
from typing import NamedTuple

from warren.broker.model.replica_set import NodeIncarnation, ReplicaSet
from warren.broker.replication.mirroring_policy import ALL, MirrorSpec, wanted_master, wanted_members

ALONE = "alone"
"""What is wanted if nobody wants mirrors."""


class DesiredReplicas(NamedTuple):
    """Which members, as a policy says it, and whether newcomers catch up by themselves."""

    mode: str = ALL
    copies: int = 0
    names: tuple[str, ...] = ()
    syncs: bool = True

    def spec(self) -> MirrorSpec:
        return MirrorSpec(self.mode, self.copies, list(self.names))


def unmet_desire(wanted: DesiredReplicas, replica_set: ReplicaSet, nodes: list[str]) -> str:
    """How the replica set differs from the desired one while all nodes are there; "" if it does not."""
    if wanted.mode == ALONE:
        return "" if replica_set.members == [replica_set.master] else f"mirrors in {replica_set!r}, which nobody wants"
    members = wanted_members(wanted.spec(), replica_set, nodes, nodes, 0)
    if sorted(members) != sorted(replica_set.members):
        return f"{replica_set!r}, where {members} are wanted"
    master = wanted_master(wanted.spec(), replica_set, nodes)
    return "" if master == replica_set.master else f"{replica_set!r}, where {master} is wanted as master"


@dataclass
class ModelProposal:
    """A proposal under way."""

    run: NodeIncarnation
    version: int
    replica_set: ReplicaSet
    # None: not applied
    succeeded: bool | None = None
    # whoever proposed does not wait any more
    given_up: bool = False


class ModelNotification(NamedTuple):
    """Something to tell a node: another version of the ring, what is wanted of it, or who lives (a run 0 does not)."""

    version: int = 0
    replica_set: ReplicaSet | None = None
    run: NodeIncarnation = ("", 0)
    wanted: DesiredReplicas | None = None
    # not what came next, but how things are by now
    anew: bool = False


class ModelMetadataStore:
    """The store."""

    def __init__(self, replica_set: ReplicaSet) -> None:
        self.replica_set = replica_set
        self.version = 1
        self.wanted = DesiredReplicas()
        self.living: dict[str, int] = {}
        self.requests: list[ModelProposal] = []
        self.news: dict[str, list[ModelNotification]] = {}
        self.majority = True
        self.cut: set[str] = set()

    def propose(self, run: NodeIncarnation, version: int, replica_set: ReplicaSet) -> None:
        self.requests.append(ModelProposal(run, version, replica_set))

    def apply(self, request: ModelProposal) -> None:
        request.succeeded = request.version == self.version
        if request.succeeded:
            self.version += 1
            self.replica_set = request.replica_set
            self._tell(ModelNotification(self.version, self.replica_set))
        if request.given_up:
            self.requests.remove(request)

    def register(self, run: NodeIncarnation) -> None:
        """That run lives, and wants to hear everything from now on."""
        name, incarnation = run
        if name not in self.news:
            self.watch_anew(name)
        if self.living.get(name) != incarnation:
            self.living[name] = incarnation
            self._tell(ModelNotification(run=run))

    def watch_anew(self, name: str) -> None:
        """It is told how things are, and not what they were in between."""
        known = [one.run[0] for one in self.news.get(name, []) if one.run[0] and one.run[0] not in self.living]
        self.news[name] = [ModelNotification(self.version, self.replica_set, wanted=self.wanted, anew=True)]
        self.news[name] += [ModelNotification(run=alive) for alive in self.living.items()]
        self.news[name] += [ModelNotification(run=(gone, 0)) for gone in dict.fromkeys(known)]

    def want(self, wanted: DesiredReplicas) -> None:
        self.wanted = wanted
        self._tell(ModelNotification(wanted=wanted))

    def expire(self, name: str) -> None:
        """Nothing was heard of it for too long."""
        del self.living[name]
        self._tell(ModelNotification(run=(name, 0)))

    def ended(self, name: str) -> None:
        """A process is no more: nobody is told anything."""
        self.news.pop(name, None)
        for request in [each for each in self.requests if each.run[0] == name]:
            request.given_up = True
        self.requests = [each for each in self.requests if not each.given_up or each.succeeded is None]

    def _tell(self, news: ModelNotification) -> None:
        for waiting in self.news.values():
            waiting.append(news)

    def snapshot(self) -> object:
        """All of it, to be compared."""
        requests = tuple(
            (one.run, one.version, repr(one.replica_set), one.succeeded, one.given_up) for one in self.requests
        )
        news = tuple(
            (name, tuple((one.version, repr(one.replica_set), one.run, one.wanted) for one in waiting))
            for name, waiting in self.news.items()
        )
        way = (self.majority, len(self.cut))
        return (repr(self.replica_set), self.version, self.wanted, tuple(self.living.items()), requests, news, way)
