"""Commands about policies, and about parameters of components and global parameters.

Not here: validation of policies (`broker.policies.validation`) and parameters
(`broker.policies.parameters.ParameterComponent`), committed definitions (`broker.appliers`), limits of virtual hosts,
which RabbitMQ also calls parameters (`broker.commands.access`).
"""

from typing import Final, final

from warren.broker.commands.control import CommandHandler, ProposedNames
from warren.broker.commands.requests import (
    ClearGlobalParameter,
    ClearParameter,
    ClearPolicy,
    SetGlobalParameter,
    SetParameter,
    SetPolicy,
)
from warren.broker.metadata.access_definitions import vhost_key
from warren.broker.metadata.policy_definitions import (
    GlobalParameterDefinition,
    ParameterDefinition,
    PolicyDefinition,
    global_parameter_key,
    parameter_key,
    policy_key,
)
from warren.broker.metadata.transaction import MetadataTransaction
from warren.broker.model.events import Command
from warren.broker.policies.parameters import Parameter, ParameterComponent
from warren.broker.policies.policies import Policies, Policy
from warren.broker.policies.validation import check_policy, refuse
from warren.broker.vhost import Vhost
from warren.errors import CommandRefused, InvariantBroken

VHOST_STEPS_MAX: Final = 20_000
"""Of all policies, or operator policies, of a virtual host. An ordinary pattern has about ten."""

NO_SUCH_PARAMETER: Final = "Parameter does not exist"
"""RabbitMQ's answer about a missing policy, which is a parameter there."""


@final
class PolicyCommands(CommandHandler):
    """Commands about policies and operator policies."""

    def __init__(self, policies: Policies, vhosts: dict[str, Vhost]) -> None:
        self._policies: Policies = policies
        self._vhosts: dict[str, Vhost] = vhosts

    def kinds(self) -> list[type[Command]]:
        return [SetPolicy, ClearPolicy]

    def check(self, command: Command, proposed: ProposedNames) -> None:
        if isinstance(command, SetPolicy):
            check_vhost(command.policy.vhost, self._vhosts, proposed)
            check_policy(command.policy, command.operator)
            self._check_steps(command.policy, command.operator)
        elif isinstance(command, ClearPolicy) and not self._has(command):
            raise CommandRefused("not_found", NO_SUCH_PARAMETER)

    def _check_steps(self, policy: Policy, operator: bool) -> None:
        """Every new queue is compared with all these patterns within one turn."""
        steps = policy.compiled.steps + self._policies.steps_in(policy.vhost, policy.name, operator)
        if steps > VHOST_STEPS_MAX:
            refuse([f"the patterns of the policies of vhost '{policy.vhost}' are too large: {steps} steps"])

    def _has(self, command: ClearPolicy) -> bool:
        return self._policies.policy(command.vhost, command.name, command.operator) is not None

    def add_changes(self, command: Command, transaction: MetadataTransaction) -> object:
        if isinstance(command, SetPolicy):
            transaction.rely_on(vhost_key(command.policy.vhost))
            transaction.put(_definition_of(command.policy, command.operator))
        elif isinstance(command, ClearPolicy):
            transaction.delete(policy_key(command.operator, command.vhost, command.name))
        else:
            raise InvariantBroken(f"{type(command).__name__} is not about policies")
        return None


def check_vhost(name: str, vhosts: dict[str, Vhost], proposed: ProposedNames) -> None:
    if name not in vhosts and name not in proposed.vhosts:
        raise CommandRefused("not_found", "vhost_not_found")


def add_policies_removal(transaction: MetadataTransaction, policies: Policies, vhost: str) -> None:
    """Delete the policies and parameters of a virtual host."""
    for policy in policies.policies.values():
        if policy.vhost == vhost:
            transaction.delete(policy_key(False, vhost, policy.name))
    for limits in policies.operator_policies.values():
        if limits.vhost == vhost:
            transaction.delete(policy_key(True, vhost, limits.name))
    for parameter in policies.parameters.values():
        if parameter.vhost == vhost:
            transaction.delete(parameter_key(vhost, parameter.component, parameter.name))


def _definition_of(policy: Policy, operator: bool) -> PolicyDefinition:
    return PolicyDefinition(
        operator, policy.vhost, policy.name, policy.pattern, policy.apply_to, policy.definition, policy.priority
    )


POLICY_COMPONENTS: Final = ("policy", "operator_policy")


@final
class ParameterCommands(CommandHandler):
    """Commands about parameters. Components of the node that have parameters register in `components`."""

    def __init__(self, policies: Policies, vhosts: dict[str, Vhost]) -> None:
        self.components: dict[str, ParameterComponent] = {}
        self._policies: Policies = policies
        self._vhosts: dict[str, Vhost] = vhosts

    def kinds(self) -> list[type[Command]]:
        return [SetParameter, ClearParameter, SetGlobalParameter, ClearGlobalParameter]

    def check(self, command: Command, proposed: ProposedNames) -> None:
        if isinstance(command, SetParameter):
            check_vhost(command.vhost, self._vhosts, proposed)
            self._check_parameter(command)
        elif isinstance(command, ClearParameter):
            self._check_clearing(command)
        elif isinstance(command, ClearGlobalParameter) and command.name not in self._policies.global_parameters:
            raise CommandRefused("not_found", NO_SUCH_PARAMETER)

    def _check_clearing(self, command: ClearParameter) -> None:
        found = self._policies.parameters.get((command.vhost, command.component, command.name))
        seen = command.as_seen
        if found is None or (seen is not None and found.value != seen.value):
            raise CommandRefused("not_found", NO_SUCH_PARAMETER)

    def _check_parameter(self, command: SetParameter) -> None:
        if command.component in POLICY_COMPONENTS:
            raise CommandRefused("bad_request", "policies may not be set using this method")
        component = self.components.get(command.component)
        if component is None:
            refuse([f"component {command.component} not found"])
        else:
            parameter = Parameter(command.vhost, command.component, command.name, command.value, command.definer)
            refuse(component.refusals(parameter))

    def add_changes(self, command: Command, transaction: MetadataTransaction) -> object:
        if isinstance(command, SetParameter):
            transaction.rely_on(vhost_key(command.vhost))
            transaction.put(
                ParameterDefinition(command.vhost, command.component, command.name, command.value, command.definer)
            )
        elif isinstance(command, ClearParameter):
            transaction.delete(parameter_key(command.vhost, command.component, command.name))
        elif isinstance(command, SetGlobalParameter):
            transaction.put(GlobalParameterDefinition(command.name, command.value))
        elif isinstance(command, ClearGlobalParameter):
            transaction.delete(global_parameter_key(command.name))
        else:
            raise InvariantBroken(f"{type(command).__name__} is not about parameters")
        return None
