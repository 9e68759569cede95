"""Commands of parameters that stand for limits or operator policies."""

import pytest

from warren.admin.http.responses import HttpFault
from warren.admin.resources.policies import parameter_command
from warren.broker.commands.requests import ClearVhostLimits, SetVhostLimits
from warren.broker.model.events import CommandBatch


@pytest.mark.parametrize(("value", "limits"), [({"max-queues": 5}, {"max-queues": 5}), ({}, {}), ([], {})])
def test_limits_of_a_virtual_host_replace_those_it_had(value: object, limits: dict[str, object]) -> None:
    """RabbitMQ exports cleared limits as an empty array."""
    command = parameter_command("v", "vhost-limits", "limits", value, "guest")
    assert isinstance(command, CommandBatch)
    clear, set_ = command.commands
    assert isinstance(clear, ClearVhostLimits)
    assert (clear.vhost, clear.names) == ("v", None)
    assert isinstance(set_, SetVhostLimits)
    assert (set_.vhost, set_.limits) == ("v", limits)


@pytest.mark.parametrize("value", [5, [1], "max-queues", None])
def test_limits_are_an_object(value: object) -> None:
    with pytest.raises(HttpFault, match="limits not a list"):
        parameter_command("v", "vhost-limits", "limits", value, "guest")
