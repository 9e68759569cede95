"""All policies and parameters of a node, and which of the policies counts for whom.

For each queue and exchange that is one policy, and for a queue one operator policy: of those that fit, the one with the
highest priority, and among equals the one whose name comes first.

Invariants: the lists are those of the dictionaries, in the order of rank; a definition in force is made once for
each pair of policies and is shared, so nobody may change one.

Not here: validation (`policy.validation`), what is planned and recorded (`broker.policy`).
"""

from typing import Final, final

from warren.policy.merging import merged
from warren.policy.parameters import Parameter
from warren.policy.policy import Policy
from warren.wire.values import Table

CLUSTER_NAME: Final = "cluster_name"
CLUSTER_ID: Final = "internal_cluster_id"


@final
class InForce:
    """What policies say of one queue or exchange: their names, empty for none, and the definition."""

    def __init__(self, policy: Policy | None, operator_policy: Policy | None) -> None:
        self.policy: str = "" if policy is None else policy.name
        self.operator_policy: str = "" if operator_policy is None else operator_policy.name
        self.definition: Table = merged(policy, operator_policy)


NOTHING_IN_FORCE: Final = InForce(None, None)


@final
class Policies:
    """One node's policies, operator policies, parameters and global parameters."""

    def __init__(self) -> None:
        # by virtual host and name
        self.policies: dict[tuple[str, str], Policy] = {}
        self.operator_policies: dict[tuple[str, str], Policy] = {}
        # by virtual host, component and name
        self.parameters: dict[tuple[str, str, str], Parameter] = {}
        self.global_parameters: dict[str, object] = {}
        # those of each virtual host, the first in rank first
        self._ranked: dict[str, list[Policy]] = {}
        self._ranked_operator: dict[str, list[Policy]] = {}
        self._in_force: dict[tuple[Policy | None, Policy | None], InForce] = {}

    # -- who is told what

    def for_queue(self, vhost: str, name: str) -> InForce:
        ranked = self._ranked.get(vhost)
        ranked_operator = self._ranked_operator.get(vhost)
        if ranked is None and ranked_operator is None:
            return NOTHING_IN_FORCE
        return self._both(_first_for_queue(ranked, name), _first_for_queue(ranked_operator, name))

    def for_exchange(self, vhost: str, name: str) -> InForce:
        for policy in self._ranked.get(vhost, []):
            if policy.fits_exchange(name):
                return self._both(policy, None)
        return NOTHING_IN_FORCE

    def _both(self, policy: Policy | None, operator_policy: Policy | None) -> InForce:
        if policy is None and operator_policy is None:
            return NOTHING_IN_FORCE
        pair = (policy, operator_policy)
        in_force = self._in_force.get(pair)
        if in_force is None:
            in_force = InForce(policy, operator_policy)
            self._in_force[pair] = in_force
        return in_force

    # -- policies

    def policy(self, vhost: str, name: str, operator: bool) -> Policy | None:
        return (self.operator_policies if operator else self.policies).get((vhost, name))

    def set_policy(self, policy: Policy, operator: bool) -> None:
        """Add a policy, or put it in the place of the one with its name."""
        (self.operator_policies if operator else self.policies)[policy.vhost, policy.name] = policy
        self._rank(policy.vhost, operator)

    def clear_policy(self, vhost: str, name: str, operator: bool) -> None:
        (self.operator_policies if operator else self.policies).pop((vhost, name), None)
        self._rank(vhost, operator)

    def _rank(self, vhost: str, operator: bool) -> None:
        # those of other virtual hosts are what they were: queues there share what they made of them
        kept = [pair for pair in self._in_force if not _is_of(pair, vhost)]
        self._in_force = {pair: self._in_force[pair] for pair in kept}
        among = self.operator_policies if operator else self.policies
        ranked = sorted([policy for policy in among.values() if policy.vhost == vhost], key=_rank_of)
        lists = self._ranked_operator if operator else self._ranked
        if ranked:
            lists[vhost] = ranked
        else:
            lists.pop(vhost, None)

    # -- parameters

    def set_parameter(self, parameter: Parameter) -> None:
        self.parameters[parameter.vhost, parameter.component, parameter.name] = parameter

    def clear_parameter(self, vhost: str, component: str, name: str) -> None:
        self.parameters.pop((vhost, component, name), None)

    def set_global_parameter(self, name: str, value: object) -> None:
        self.global_parameters[name] = value

    def clear_global_parameter(self, name: str) -> None:
        self.global_parameters.pop(name, None)


def _first_for_queue(ranked: list[Policy] | None, name: str) -> Policy | None:
    if ranked is not None:
        for policy in ranked:
            if policy.fits_queue(name):
                return policy
    return None


def _is_of(pair: tuple[Policy | None, Policy | None], vhost: str) -> bool:
    policy, operator_policy = pair
    if policy is not None:
        return policy.vhost == vhost
    return operator_policy is not None and operator_policy.vhost == vhost


def _rank_of(policy: Policy) -> tuple[int, str]:
    return (-policy.priority, policy.name)
