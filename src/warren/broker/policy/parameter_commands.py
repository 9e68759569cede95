"""Operators' commands about parameters, of components and global ones.

Not here: what a component takes (`policy.parameters.ParameterComponent`); policies and the limits of virtual hosts,
which RabbitMQ also calls parameters and which have commands of their own.
"""

from typing import Final, final

from warren.broker.control import CommandHandler, Planned
from warren.broker.policy.policy_commands import NO_SUCH_PARAMETER, check_vhost
from warren.broker.vhost import Vhost
from warren.errors import InvariantBroken, Refused
from warren.model.commands import Command
from warren.policy.commands import ClearGlobalParameter, ClearParameter, SetGlobalParameter, SetParameter
from warren.policy.parameters import Parameter, ParameterComponent
from warren.policy.policies import Policies
from warren.policy.validation import refuse
from warren.store.access_definitions import vhost_key
from warren.store.plan import Plan
from warren.store.policy_definitions import (
    GlobalParameterDefinition,
    ParameterDefinition,
    global_parameter_key,
    parameter_key,
)

POLICY_COMPONENTS: Final = ("policy", "operator_policy")


@final
class ParameterCommands(CommandHandler):
    """Checks and plans them. Parts of the node that have parameters add themselves to its components."""

    def __init__(self, policies: Policies, vhosts: dict[str, Vhost]) -> None:
        self.components: dict[str, ParameterComponent] = {}
        self._policies: Policies = policies
        self._vhosts: dict[str, Vhost] = vhosts

    def kinds(self) -> list[type[Command]]:
        return [SetParameter, ClearParameter, SetGlobalParameter, ClearGlobalParameter]

    def check(self, command: Command, planned: Planned) -> None:
        if isinstance(command, SetParameter):
            check_vhost(command.vhost, self._vhosts, planned)
            self._check_parameter(command)
        elif isinstance(command, ClearParameter):
            self._check_clearing(command)
        elif isinstance(command, ClearGlobalParameter) and command.name not in self._policies.global_parameters:
            raise Refused("not_found", NO_SUCH_PARAMETER)

    def _check_clearing(self, command: ClearParameter) -> None:
        found = self._policies.parameters.get((command.vhost, command.component, command.name))
        seen = command.as_seen
        if found is None or (seen is not None and found.value != seen.value):
            raise Refused("not_found", NO_SUCH_PARAMETER)

    def _check_parameter(self, command: SetParameter) -> None:
        if command.component in POLICY_COMPONENTS:
            raise Refused("bad_request", "policies may not be set using this method")
        component = self.components.get(command.component)
        if component is None:
            refuse([f"component {command.component} not found"])
        else:
            parameter = Parameter(command.vhost, command.component, command.name, command.value)
            refuse(component.refusals(parameter))

    def plan(self, command: Command, plan: Plan) -> object:
        if isinstance(command, SetParameter):
            plan.rely_on(vhost_key(command.vhost))
            plan.put(ParameterDefinition(command.vhost, command.component, command.name, command.value))
        elif isinstance(command, ClearParameter):
            plan.delete(parameter_key(command.vhost, command.component, command.name))
        elif isinstance(command, SetGlobalParameter):
            plan.put(GlobalParameterDefinition(command.name, command.value))
        elif isinstance(command, ClearGlobalParameter):
            plan.delete(global_parameter_key(command.name))
        else:
            raise InvariantBroken(f"{type(command).__name__} is not about parameters")
        return None
