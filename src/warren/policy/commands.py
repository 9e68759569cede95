"""The commands that change policies and parameters.

Not here: what becomes of them (`broker.policy_commands`), making a policy of values from outside
(`policy.validation.policy_of`).
"""

from typing import final

from warren.model.commands import Command
from warren.policy.parameters import Parameter
from warren.policy.policy import Policy


@final
class SetPolicy(Command):
    """Add a policy or operator policy, or put it in the place of the one with its name."""

    def __init__(self, policy: Policy, operator: bool) -> None:
        self.policy = policy
        self.operator = operator


@final
class ClearPolicy(Command):
    """Remove a policy or operator policy."""

    def __init__(self, vhost: str, name: str, operator: bool) -> None:
        self.vhost = vhost
        self.name = name
        self.operator = operator


@final
class SetParameter(Command):
    """Set a parameter of a component."""

    def __init__(self, vhost: str, component: str, name: str, value: object) -> None:
        self.vhost = vhost
        self.component = component
        self.name = name
        self.value = value


@final
class ClearParameter(Command):
    """Remove a parameter of a component; with `as_seen`, if it still says the same."""

    def __init__(self, vhost: str, component: str, name: str, as_seen: Parameter | None = None) -> None:
        self.vhost = vhost
        self.component = component
        self.name = name
        self.as_seen = as_seen


@final
class SetGlobalParameter(Command):
    """Set a parameter of the whole cluster."""

    def __init__(self, name: str, value: object) -> None:
        self.name = name
        self.value = value


@final
class ClearGlobalParameter(Command):
    """Remove a parameter of the whole cluster."""

    def __init__(self, name: str) -> None:
        self.name = name
