"""Operators' commands about policies.

Not here: what a policy may say (`policy.validation`), how it comes into force (`broker.policy.applier`).
"""

from typing import Final, final

from warren.broker.control import CommandHandler, Planned
from warren.broker.vhost import Vhost
from warren.errors import InvariantBroken, Refused
from warren.model.commands import Command
from warren.policy.commands import ClearPolicy, SetPolicy
from warren.policy.policies import Policies
from warren.policy.policy import Policy
from warren.policy.validation import check_policy
from warren.store.access_definitions import vhost_key
from warren.store.plan import Plan
from warren.store.policy_definitions import PolicyDefinition, parameter_key, policy_key

NO_SUCH_PARAMETER: Final = "Parameter does not exist"
"""What RabbitMQ, to which a policy is a parameter, says of one that is not there."""


@final
class PolicyCommands(CommandHandler):
    """Checks and plans them."""

    def __init__(self, policies: Policies, vhosts: dict[str, Vhost]) -> None:
        self._policies: Policies = policies
        self._vhosts: dict[str, Vhost] = vhosts

    def kinds(self) -> list[type[Command]]:
        return [SetPolicy, ClearPolicy]

    def check(self, command: Command, planned: Planned) -> None:
        if isinstance(command, SetPolicy):
            check_vhost(command.policy.vhost, self._vhosts, planned)
            check_policy(command.policy, command.operator)
        elif isinstance(command, ClearPolicy) and not self._has(command):
            raise Refused("not_found", NO_SUCH_PARAMETER)

    def _has(self, command: ClearPolicy) -> bool:
        return self._policies.policy(command.vhost, command.name, command.operator) is not None

    def plan(self, command: Command, plan: Plan) -> object:
        if isinstance(command, SetPolicy):
            plan.rely_on(vhost_key(command.policy.vhost))
            plan.put(_definition_of(command.policy, command.operator))
        elif isinstance(command, ClearPolicy):
            plan.delete(policy_key(command.operator, command.vhost, command.name))
        else:
            raise InvariantBroken(f"{type(command).__name__} is not about policies")
        return None


def check_vhost(name: str, vhosts: dict[str, Vhost], planned: Planned) -> None:
    if name not in vhosts and name not in planned.vhosts:
        raise Refused("not_found", "vhost_not_found")


def plan_oblivion(plan: Plan, policies: Policies, vhost: str) -> None:
    """A virtual host goes, and whatever was said of it."""
    for policy in policies.policies.values():
        if policy.vhost == vhost:
            plan.delete(policy_key(False, vhost, policy.name))
    for limits in policies.operator_policies.values():
        if limits.vhost == vhost:
            plan.delete(policy_key(True, vhost, limits.name))
    for parameter in policies.parameters.values():
        if parameter.vhost == vhost:
            plan.delete(parameter_key(vhost, parameter.component, parameter.name))


def _definition_of(policy: Policy, operator: bool) -> PolicyDefinition:
    return PolicyDefinition(
        operator, policy.vhost, policy.name, policy.pattern, policy.apply_to, policy.definition, policy.priority
    )
