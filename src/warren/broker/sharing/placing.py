"""Gives a new queue its home: the node it lives on, and the run of that node it ends with, if it does.

Not here: the rules (`cluster.placement`).
"""

from typing import final

from warren.broker.membership import Membership
from warren.broker.names import FreshNames
from warren.broker.sharing.homes import Home, QueueHomes
from warren.cluster.placement import CLIENT_LOCAL, Candidate, locator_of, place
from warren.policy.keys import MASTER_LOCATOR
from warren.policy.mirroring_keys import MODE, PARAMS
from warren.policy.policies import Policies
from warren.wire.values import Table


@final
class QueuePlacer:
    """Knows what counts for a queue that a client of this node declares."""

    def __init__(
        self, setting: str, membership: Membership, homes: QueueHomes, policies: Policies, names: FreshNames
    ) -> None:
        self._setting: str = setting
        self._membership: Membership = membership
        self._homes: QueueHomes = homes
        self._policies: Policies = policies
        self._names: FreshNames = names

    def home_for(
        self,
        vhost: str,
        name: str,
        durable: bool,
        exclusive: bool,
        arguments: Table,
        planned: dict[str, int] | None = None,
    ) -> Home:
        """Where the queue is to live; so many are planned along with it, by their nodes."""
        node = self._membership.own
        if not exclusive:
            policy = self._policies.for_queue(vhost, name).definition
            locator = locator_of(arguments.get("x-queue-master-locator"), policy.get(MASTER_LOCATOR), self._setting)
            listed = _listed(policy, arguments)
            candidates = self._candidates(planned or {})
            if locator != CLIENT_LOCAL:
                node = place(locator, node, candidates, listed, self._names.draw())
            elif listed and node not in listed:
                # those that are to hold it come before the one that asked for it, if any of them runs
                running = [name for name in listed if name in [candidate.name for candidate in candidates]]
                node = running[0] if running else node
        return node, 0 if durable and not exclusive else self._run_of(node)

    def _candidates(self, planned: dict[str, int]) -> list[Candidate]:
        """Nodes that are reached and live; one that is paused does not claim to."""
        members, own = self._membership.members, self._membership.own
        reached = [name for name in members.alive_names() if self._membership.suspicion.is_connected(name)]
        names = [name for name in reached if name != own] + [own]
        return [Candidate(name, self._homes.count(name) + planned.get(name, 0)) for name in names]

    def _run_of(self, node: str) -> int:
        if node == self._membership.own:
            return self._membership.incarnation
        return self._membership.members.incarnation(node) or 0


def _listed(policy: Table, arguments: Table) -> list[str]:
    """The nodes on which a policy, or the queue's own arguments, want copies, if any are named."""
    mode, params = policy.get(MODE), policy.get(PARAMS)
    if MODE not in policy:
        mode, params = arguments.get("x-" + MODE), arguments.get("x-" + PARAMS)
    if mode != "nodes" or not isinstance(params, list):
        return []
    return [name for name in params if isinstance(name, str)]
