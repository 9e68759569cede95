"""Policies, operator policies and parameters of a node, and which policy is effective.

A policy adds to the arguments of every queue or exchange whose name matches its pattern. For each queue and exchange
one policy is effective, and for a queue also one operator policy: of those that match, the one with the highest
priority, and among equals the first by name.

A policy and an operator policy are merged. Where both have a key, the lower number counts: an operator policy limits
and never allows more. All its keys are numbers.

Invariants: the ranked lists have the policies of the dictionaries, in the order of rank. An effective definition is
made once for each pair of policies and shared, so it must not be changed.

Not here: validation (`broker.policies.validation`), the effect of a definition (`broker.queues.settings`,
`broker.routing`), commands (`broker.commands.policies`).
"""

from typing import Final, final

from warren.broker.model.name_pattern import NamePattern
from warren.broker.policies.parameters import Parameter
from warren.wire.field_tables import Table

ALL: Final = "all"
QUEUES: Final = "queues"
EXCHANGES: Final = "exchanges"


@final
class Policy:
    """One policy or operator policy of a virtual host; its definition is in the order of its keys."""

    def __init__(
        self,
        vhost: str,
        name: str,
        pattern: str,
        apply_to: str = ALL,
        definition: Table | None = None,
        priority: int = 0,
    ) -> None:
        self.vhost: str = vhost
        self.name: str = name
        self.pattern: str = pattern
        self.apply_to: str = apply_to
        given: Table = {} if definition is None else definition
        self.definition: Table = {key: given[key] for key in sorted(given)}
        self.priority: int = priority
        self.compiled: NamePattern = NamePattern(pattern)

    def fits_queue(self, name: str) -> bool:
        return self.apply_to != EXCHANGES and self.compiled.matches(name)

    def fits_exchange(self, name: str) -> bool:
        return self.apply_to != QUEUES and self.compiled.matches(name)


def merged_definition(policy: Policy | None, operator_policy: Policy | None) -> Table:
    """The effective definition, in the order of its keys."""
    if operator_policy is None:
        return {} if policy is None else policy.definition
    if policy is None:
        return operator_policy.definition
    limits = operator_policy.definition
    both: Table = {**policy.definition, **limits}
    for key in limits:
        if key in policy.definition:
            both[key] = _lower(policy.definition[key], limits[key])
    return {key: both[key] for key in sorted(both)}


def _lower(one: object, limit: object) -> object:
    return one if isinstance(one, int) and isinstance(limit, int) and one < limit else limit


CLUSTER_NAME: Final = "cluster_name"
CLUSTER_ID: Final = "internal_cluster_id"


@final
class EffectivePolicy:
    """The effective policies of one queue or exchange: their names, empty for none, and the merged definition."""

    def __init__(self, policy: Policy | None, operator_policy: Policy | None) -> None:
        self.policy: str = "" if policy is None else policy.name
        self.operator_policy: str = "" if operator_policy is None else operator_policy.name
        self.definition: Table = merged_definition(policy, operator_policy)


NO_EFFECTIVE_POLICY: Final = EffectivePolicy(None, None)


@final
class Policies:
    """The policies, operator policies, parameters and global parameters of one node."""

    def __init__(self) -> None:
        # by virtual host and name
        self.policies: dict[tuple[str, str], Policy] = {}
        self.operator_policies: dict[tuple[str, str], Policy] = {}
        # by virtual host, component and name
        self.parameters: dict[tuple[str, str, str], Parameter] = {}
        self.global_parameters: dict[str, object] = {}
        # the policies of each virtual host, in the order of rank
        self._ranked: dict[str, list[Policy]] = {}
        self._ranked_operator: dict[str, list[Policy]] = {}
        self._effective: dict[tuple[Policy | None, Policy | None], EffectivePolicy] = {}

    # -- effective policies

    def for_queue(self, vhost: str, name: str) -> EffectivePolicy:
        ranked = self._ranked.get(vhost)
        ranked_operator = self._ranked_operator.get(vhost)
        if ranked is None and ranked_operator is None:
            return NO_EFFECTIVE_POLICY
        return self._both(_first_for_queue(ranked, name), _first_for_queue(ranked_operator, name))

    def for_exchange(self, vhost: str, name: str) -> EffectivePolicy:
        for policy in self._ranked.get(vhost, []):
            if policy.fits_exchange(name):
                return self._both(policy, None)
        return NO_EFFECTIVE_POLICY

    def _both(self, policy: Policy | None, operator_policy: Policy | None) -> EffectivePolicy:
        if policy is None and operator_policy is None:
            return NO_EFFECTIVE_POLICY
        pair = (policy, operator_policy)
        effective = self._effective.get(pair)
        if effective is None:
            effective = EffectivePolicy(policy, operator_policy)
            self._effective[pair] = effective
        return effective

    def steps_in(self, vhost: str, without: str, operator: bool) -> int:
        """How large the patterns are that a new name is compared with, without those of one policy."""
        ranked = (self._ranked_operator if operator else self._ranked).get(vhost, [])
        return sum([policy.compiled.steps for policy in ranked if policy.name != without])

    # -- policies

    def policy(self, vhost: str, name: str, operator: bool) -> Policy | None:
        return (self.operator_policies if operator else self.policies).get((vhost, name))

    def set_policy(self, policy: Policy, operator: bool) -> None:
        """Add a policy, or replace the one with its name."""
        (self.operator_policies if operator else self.policies)[policy.vhost, policy.name] = policy
        self._rank(policy.vhost, operator)

    def clear_policy(self, vhost: str, name: str, operator: bool) -> None:
        (self.operator_policies if operator else self.policies).pop((vhost, name), None)
        self._rank(vhost, operator)

    def _rank(self, vhost: str, operator: bool) -> None:
        # other virtual hosts keep theirs: queues there share settings made from them
        kept = [pair for pair in self._effective if not _is_of(pair, vhost)]
        self._effective = {pair: self._effective[pair] for pair in kept}
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
