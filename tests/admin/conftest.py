"""One node for each module of tests, and its API."""

from collections.abc import Iterator

import pytest

from tests.admin.calling import Api
from tests.support.node_process import NodeProcess


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    running = NodeProcess(tmp_path_factory.mktemp("node"), "--name", "hare@here")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def api(node: NodeProcess) -> Api:
    return Api(node)
