"""Who cannot carry out commands about mirrors."""

import pytest

from tests.support.core_driver import Core
from tests.unit.broker.commanding import refusal
from warren.broker.commands import StopSynchronising, SynchroniseMirrors
from warren.model.commands import Command


@pytest.mark.parametrize("kind", [SynchroniseMirrors, StopSynchronising])
def test_a_node_that_has_no_master_of_the_queue_refuses(kind: type[SynchroniseMirrors]) -> None:
    core = Core()
    core.client().declare("plain")
    for name in ("plain", "nothing"):
        command: Command = kind("/", name)
        assert refusal(core, command) == ("not_found", "not_master")
