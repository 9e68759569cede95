"""The incarnations of the other nodes, as far as this node knows: alive, connected, or ended.

An incarnation is known to have ended if the metadata store says so, or if the node's port refused a connection after
the last link was lost: then no process listens there.

Not here: membership and liveness (`broker.membership`), links (`broker.links.link`).
"""

from typing import final

from warren.broker.membership import ClusterMembership
from warren.broker.model.replica_set import NodeIncarnation
from warren.broker.replication.delivery_lease import IncarnationWatch
from warren.errors import InvariantBroken


@final
class PeerIncarnations(IncarnationWatch):
    """The other nodes, as one node sees them."""

    def __init__(self, membership: ClusterMembership) -> None:
        self.own: NodeIncarnation = (membership.own, membership.incarnation)
        self._membership: ClusterMembership = membership
        # by node: the incarnation that this node has a link to
        self._connected: dict[str, int] = {}
        # nodes whose ports refuse connections, and the last known incarnation of each
        self._refusing: dict[str, int] = {}

    def connected(self, node: str, incarnation: int) -> None:
        self._connected[node] = incarnation
        self._refusing.pop(node, None)

    def lost(self, node: str, refused: bool) -> None:
        """The link is lost; `refused`: a new connection was refused."""
        incarnation = self._connected.pop(node, 0)
        if refused:
            self._refusing[node] = max(incarnation, self._refusing.get(node, 0), self.alive(node))

    def alive(self, node: str) -> int:
        """The incarnation of a node that is alive by the metadata store; 0 if there is none."""
        return self._membership.members.incarnation(node) or 0

    def all_alive(self) -> dict[str, int]:
        """All incarnations that are alive, this node's among them."""
        found = {name: self.alive(name) for name in self._membership.members.alive_names()}
        return {**found, self.own[0]: self.own[1]}

    def reached(self, node: str) -> int:
        """The incarnation of a node that this node has a link to; 0 if there is none."""
        return self._connected.get(node, 0)

    def reached_or_own(self, node: str) -> int:
        return self.own[1] if node == self.own[0] else self.reached(node)

    def has_ended(self, incarnation: NodeIncarnation) -> bool:
        return self.has_ended_by_store(incarnation) or self._refusing.get(incarnation[0], 0) >= incarnation[1]

    def has_ended_by_store(self, incarnation: NodeIncarnation) -> bool:
        return self._membership.has_ended(incarnation[0], incarnation[1])

    def may_hold_queues(self) -> list[str]:
        """The names of all members that hold queues; a witness does not."""
        return self._membership.members.holding_names()

    def first_with_data(self) -> dict[str, int]:
        """By node: the first incarnation with its current data directory."""
        return self._membership.members.born

    def check(self) -> None:
        """Raise `InvariantBroken` if a node has a link to this one and counts as ended."""
        for node in self._refusing:
            if node in self._connected:
                raise InvariantBroken(f"{node} is connected, and its port refuses connections")
