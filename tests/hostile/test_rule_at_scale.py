"""The rule of `tests.hostile.rule`, in scenes with large queues and many of them. Each has a node of its own.

Not here: the scenes that take seconds (`test_rule`).
"""

import pytest

from tests.hostile.performance import perform
from tests.hostile.rule import check_holds
from tests.hostile.scenes import amqp, http, peers
from tests.hostile.scenes.scene import Scene
from tests.support.node_process import NodeProcess

SCENES = [scene for scene in (*amqp.SCENES, *http.SCENES, *peers.SCENES) if not scene.quick]


@pytest.mark.parametrize("scene", SCENES, ids=str)
def test_a_hostile_client_delays_others_by_less_than_the_rule_says(node: NodeProcess, scene: Scene) -> None:
    perform(scene, node)
    check_holds(node)
