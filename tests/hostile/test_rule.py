"""The rule of `tests.hostile.rule`, in every scene that takes seconds. The scenes share a node.

Not here: scenes with large queues and many of them (`test_rule_at_scale`), figures (`bench/hostile`).
"""

from collections.abc import Iterator

import pytest

from tests.hostile.conftest import serving
from tests.hostile.performance import perform
from tests.hostile.rule import check_holds
from tests.hostile.scenes import amqp, http, peers
from tests.hostile.scenes.scene import Scene
from tests.support.node_process import NodeProcess

SCENES = [scene for scene in (*amqp.SCENES, *http.SCENES, *peers.SCENES) if scene.quick]


@pytest.fixture(scope="module")
def shared_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    yield from serving(tmp_path_factory.mktemp("shared"))


@pytest.mark.parametrize("scene", SCENES, ids=str)
def test_a_hostile_client_delays_others_by_less_than_the_rule_says(shared_node: NodeProcess, scene: Scene) -> None:
    perform(scene, shared_node)
    check_holds(shared_node)
