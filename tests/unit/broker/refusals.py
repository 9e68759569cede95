"""Commands of an operator to a core."""

import pytest

from tests.support.core_driver import Core
from warren.broker.commands.requests import ClearPolicy, SetPolicy
from warren.broker.model.events import Command
from warren.broker.policies.policies import Policy
from warren.broker.queues.queue import Queue
from warren.broker.routing.exchanges import Exchange
from warren.errors import CommandRefused


def refusal(core: Core, command: Command) -> tuple[str, str]:
    """The kind and the reason of a refusal."""
    with pytest.raises(CommandRefused) as refused:
        core.command(command)
    return refused.value.kind, refused.value.reason


def set_policy(
    core: Core,
    pattern: str,
    definition: dict[str, object],
    name: str = "p",
    apply_to: str = "all",
    priority: int = 0,
    operator: bool = False,
) -> None:
    core.command(SetPolicy(Policy("/", name, pattern, apply_to, definition, priority), operator))


def clear_policy(core: Core, name: str = "p", operator: bool = False) -> None:
    core.command(ClearPolicy("/", name, operator))


def queue_of(core: Core, name: str) -> Queue:
    queue = core.broker.vhosts["/"].topology.queues[name]
    assert isinstance(queue, Queue)
    return queue


def exchange_of(core: Core, name: str) -> Exchange:
    return core.broker.vhosts["/"].topology.exchanges[name]
