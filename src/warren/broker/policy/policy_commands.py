"""Operators' commands about policies: checked whole, then at work at once on everything they concern.

Not here: what a policy may say (`policy.validation`), who is concerned (`broker.policy.governor`).
"""

from typing import Final, final

from warren.broker.control import CommandHandler, Planned
from warren.broker.vhost import Vhost
from warren.errors import InvariantBroken, Refused
from warren.model.commands import Command
from warren.policy.commands import ClearPolicy, SetPolicy
from warren.policy.policies import Policies
from warren.policy.validation import check_policy

NO_SUCH_PARAMETER: Final = "Parameter does not exist"
"""What RabbitMQ, to which a policy is a parameter, says of one that is not there."""


@final
class PolicyCommands(CommandHandler):
    """Checks them and carries them out."""

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

    def carry_out(self, command: Command) -> object:
        if isinstance(command, SetPolicy):
            policy = command.policy
            self._policies.set_policy(policy, command.operator)
            self._vhosts[policy.vhost].policy_changed(policy.name, policy, command.operator)
        elif isinstance(command, ClearPolicy):
            self._policies.clear_policy(command.vhost, command.name, command.operator)
            self._vhosts[command.vhost].policy_changed(command.name, None, command.operator)
        else:
            raise InvariantBroken(f"{type(command).__name__} is not about policies")
        return None


def check_vhost(name: str, vhosts: dict[str, Vhost], planned: Planned) -> None:
    if name not in vhosts and name not in planned.vhosts:
        raise Refused("not_found", "vhost_not_found")
