"""The metadata store of a replica set model: compare-and-swap on the replica set's version, and the desired replicas.

A proposal travels, is applied, and is answered, each some time later. It or its answer may get lost, and the proposer
may give up long before it is applied. Every node hears of each version, and of live nodes, in order and late. Without a
majority nothing is applied; a node that is cut off neither hears nor proposes.

The desired replicas are in the store, like policies.

Not here: what nodes do with it (`sim.replica_sets.node`), the policy (`broker.replication.mirroring_policy`).
"""

from dataclasses import dataclass
from typing import NamedTuple

from warren.broker.model.replica_set import NodeIncarnation, ReplicaSet
from warren.broker.replication.mirroring_policy import ALL, MirrorSpec, wanted_master, wanted_members

ALONE = "alone"
"""The mode without mirrors."""


class DesiredReplicas(NamedTuple):
    """The members, as a policy names them, and whether mirrors sync automatically."""

    mode: str = ALL
    copies: int = 0
    names: tuple[str, ...] = ()
    syncs: bool = True

    def spec(self) -> MirrorSpec:
        return MirrorSpec(self.mode, self.copies, list(self.names))


def unmet_desire(wanted: DesiredReplicas, replica_set: ReplicaSet, nodes: list[str]) -> str:
    """How the replica set differs from the desired one while all nodes are there; "" if it does not."""
    if wanted.mode == ALONE:
        return "" if replica_set.members == [replica_set.master] else f"mirrors in {replica_set!r}, and none is wanted"
    members = wanted_members(wanted.spec(), replica_set, nodes, nodes, 0)
    if sorted(members) != sorted(replica_set.members):
        return f"{replica_set!r}, where {members} are wanted"
    master = wanted_master(wanted.spec(), replica_set, nodes)
    return "" if master == replica_set.master else f"{replica_set!r}, where {master} is wanted as master"


@dataclass
class ModelProposal:
    """A proposal in transit."""

    proposer: NodeIncarnation
    version: int
    replica_set: ReplicaSet
    # None: not applied
    succeeded: bool | None = None
    # the proposer does not wait any more
    given_up: bool = False


class ModelNotification(NamedTuple):
    """A notification to a node: a version of the replica set, the desired replicas, or a live incarnation (0: not
    alive)."""

    version: int = 0
    replica_set: ReplicaSet | None = None
    living: NodeIncarnation = ("", 0)
    wanted: DesiredReplicas | None = None
    # the current state, instead of the next change
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

    def propose(self, proposer: NodeIncarnation, version: int, replica_set: ReplicaSet) -> None:
        self.requests.append(ModelProposal(proposer, version, replica_set))

    def apply(self, request: ModelProposal) -> None:
        request.succeeded = request.version == self.version
        if request.succeeded:
            self.version += 1
            self.replica_set = request.replica_set
            self._notify_all(ModelNotification(self.version, self.replica_set))
        if request.given_up:
            self.requests.remove(request)

    def register(self, registered: NodeIncarnation) -> None:
        """The node is alive, and is notified from now on."""
        name, incarnation = registered
        if name not in self.news:
            self.watch_anew(name)
        if self.living.get(name) != incarnation:
            self.living[name] = incarnation
            self._notify_all(ModelNotification(living=registered))

    def watch_anew(self, name: str) -> None:
        """The node gets the current state, without the changes in between."""
        known = [one.living[0] for one in self.news.get(name, []) if one.living[0] and one.living[0] not in self.living]
        self.news[name] = [ModelNotification(self.version, self.replica_set, wanted=self.wanted, anew=True)]
        self.news[name] += [ModelNotification(living=alive) for alive in self.living.items()]
        self.news[name] += [ModelNotification(living=(gone, 0)) for gone in dict.fromkeys(known)]

    def want(self, wanted: DesiredReplicas) -> None:
        self.wanted = wanted
        self._notify_all(ModelNotification(wanted=wanted))

    def expire(self, name: str) -> None:
        """The node's liveness expired."""
        del self.living[name]
        self._notify_all(ModelNotification(living=(name, 0)))

    def ended(self, name: str) -> None:
        """A process ended: it gets no notifications."""
        self.news.pop(name, None)
        for request in [each for each in self.requests if each.proposer[0] == name]:
            request.given_up = True
        self.requests = [each for each in self.requests if not each.given_up or each.succeeded is None]

    def _notify_all(self, news: ModelNotification) -> None:
        for waiting in self.news.values():
            waiting.append(news)

    def snapshot(self) -> object:
        """The state, for comparison."""
        requests = tuple(
            (one.proposer, one.version, repr(one.replica_set), one.succeeded, one.given_up) for one in self.requests
        )
        news = tuple(
            (name, tuple((one.version, repr(one.replica_set), one.living, one.wanted) for one in waiting))
            for name, waiting in self.news.items()
        )
        way = (self.majority, len(self.cut))
        return (repr(self.replica_set), self.version, self.wanted, tuple(self.living.items()), requests, news, way)
