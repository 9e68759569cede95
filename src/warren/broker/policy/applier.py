"""Policies and parameters as they were agreed upon; a policy is at work at once on everything it concerns.

Policies may come before their virtual host, and go after it: one that is made looks at the policies there are.

Not here: who is concerned (`broker.policy.governor`), keys and values (`store.policy_definitions`).
"""

from typing import final

from warren.broker.applying import Applier
from warren.broker.vhost import Vhost
from warren.errors import InvariantBroken
from warren.policy.parameters import Parameter
from warren.policy.policies import Policies
from warren.policy.policy import Policy
from warren.store.metadata import Definition
from warren.store.policy_definitions import (
    GLOBAL_PARAMETERS,
    OPERATOR_POLICIES,
    PARAMETERS,
    POLICIES,
    GlobalParameterDefinition,
    ParameterDefinition,
    PolicyDefinition,
)


@final
class PolicyApplier(Applier):
    """The writer of policies and parameters."""

    def __init__(self, policies: Policies, vhosts: dict[str, Vhost]) -> None:
        self._policies: Policies = policies
        self._vhosts: dict[str, Vhost] = vhosts

    def kinds(self) -> list[str]:
        return [POLICIES, OPERATOR_POLICIES, PARAMETERS, GLOBAL_PARAMETERS]

    def put(self, definition: Definition, revision: int) -> None:
        if isinstance(definition, PolicyDefinition):
            self._set_policy(definition)
        elif isinstance(definition, ParameterDefinition):
            self._policies.set_parameter(
                Parameter(definition.vhost, definition.component, definition.name, definition.content)
            )
        elif isinstance(definition, GlobalParameterDefinition):
            self._policies.set_global_parameter(definition.name, definition.content)
        else:
            raise InvariantBroken(f"{definition.key()} is neither a policy nor a parameter")

    def delete(self, parts: list[str]) -> None:
        kind = parts[0]
        if kind == PARAMETERS:
            self._policies.clear_parameter(parts[1], parts[2], parts[3])
        elif kind == GLOBAL_PARAMETERS:
            self._policies.clear_global_parameter(parts[1])
        else:
            self._clear_policy(parts[1], parts[2], kind == OPERATOR_POLICIES)

    def _set_policy(self, definition: PolicyDefinition) -> None:
        policy = Policy(
            definition.vhost,
            definition.name,
            definition.pattern,
            definition.apply_to,
            definition.definition,
            definition.priority,
        )
        self._policies.set_policy(policy, definition.operator)
        vhost = self._vhosts.get(policy.vhost)
        if vhost is not None:
            vhost.policy_changed(policy.name, policy, definition.operator)

    def _clear_policy(self, vhost_name: str, name: str, operator: bool) -> None:
        self._policies.clear_policy(vhost_name, name, operator)
        vhost = self._vhosts.get(vhost_name)
        if vhost is not None:
            vhost.policy_changed(name, None, operator)
