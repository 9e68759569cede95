"""Commands about mirrors on a node without the master."""

import pytest

from tests.support.core_driver import Core
from tests.unit.broker.refusals import refusal
from warren.broker.commands.requests import CancelSync, SyncMirrors
from warren.broker.model.events import Command


@pytest.mark.parametrize("kind", [SyncMirrors, CancelSync])
def test_a_node_without_the_master_of_the_queue_refuses(kind: type[SyncMirrors]) -> None:
    core = Core()
    core.client().declare("plain")
    for name in ("plain", "nothing"):
        command: Command = kind("/", name)
        assert refusal(core, command) == ("not_found", "not_master")
