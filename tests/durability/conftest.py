"""A node of its own for each test, which may kill it and start it again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.node_process import NodeProcess


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    """It must not have ended by itself when the test is over."""
    process = NodeProcess(tmp_path)
    try:
        yield process
        assert process.alive, process.log()[-4000:]
    finally:
        process.kill()


@pytest.fixture(params=["restart", "crash"])
def again(request: pytest.FixtureRequest) -> str:
    """How a node is ended before it starts again: in good order, or by SIGKILL."""
    manner: str = request.param
    return manner
