"""Writes policies and parameters down as they change, and brings them back when the node starts.

Not here: keys and values (`store.policy_definitions`).
"""

from typing import final

from warren.policy.parameters import Parameter
from warren.policy.policies import Policies, PolicyListener
from warren.policy.policy import Policy
from warren.store.metadata import Definition, Metadata
from warren.store.policy_definitions import (
    GlobalParameterDefinition,
    ParameterDefinition,
    PolicyDefinition,
    global_parameter_key,
    parameter_key,
    policy_key,
)


@final
class PolicyRecorder(PolicyListener):
    """One node's writer of policies and parameters."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata: Metadata = metadata

    def policy_set(self, policy: Policy, operator: bool) -> None:
        self._put(
            PolicyDefinition(
                operator,
                policy.vhost,
                policy.name,
                policy.pattern,
                policy.apply_to,
                policy.definition,
                policy.priority,
            )
        )

    def policy_cleared(self, policy: Policy, operator: bool) -> None:
        self._metadata.delete(policy_key(operator, policy.vhost, policy.name))

    def parameter_set(self, parameter: Parameter) -> None:
        self._put(ParameterDefinition(parameter.vhost, parameter.component, parameter.name, parameter.value))

    def parameter_cleared(self, parameter: Parameter) -> None:
        self._metadata.delete(parameter_key(parameter.vhost, parameter.component, parameter.name))

    def global_parameter_set(self, name: str, value: object) -> None:
        self._put(GlobalParameterDefinition(name, value))

    def global_parameter_cleared(self, name: str) -> None:
        self._metadata.delete(global_parameter_key(name))

    def _put(self, definition: Definition) -> None:
        self._metadata.put(definition.key(), definition.value())


def load_policies(policies: Policies, definitions: list[Definition]) -> None:
    """Bring back what was recorded; before any queue or exchange is made, and before anybody listens."""
    for one in definitions:
        if isinstance(one, PolicyDefinition):
            policy = Policy(one.vhost, one.name, one.pattern, one.apply_to, one.definition, one.priority)
            policies.set_policy(policy, one.operator)
        elif isinstance(one, ParameterDefinition):
            policies.set_parameter(Parameter(one.vhost, one.component, one.name, one.content))
        elif isinstance(one, GlobalParameterDefinition):
            policies.set_global_parameter(one.name, one.content)
