"""Nodes for the tests with hostile clients.

Not here: the clients.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.node_process import NodeProcess
from tests.support.ports import free_port

HANDSHAKE_S = 6.0
"""Short, and yet longer than a normal handshake takes on a busy machine."""
SETTINGS = f"handshake_timeout = {HANDSHAKE_S * 1000:.0f}\n"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node that has little patience for handshakes."""
    yield from serving(tmp_path, SETTINGS)


@pytest.fixture
def small_node(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node that may use 150 MB, and not the disk in their place."""
    limits = "vm_memory_high_watermark.absolute = 150MB\nvm_memory_high_watermark_paging_ratio = 2\n"
    yield from serving(tmp_path, SETTINGS + limits)


def serving(directory: Path, configuration: str = SETTINGS) -> Iterator[NodeProcess]:
    """A node until the test is over; it must have survived, without an internal error in its log."""
    node = started(directory, configuration)
    try:
        yield node
        assert "level=critical" not in node.log()
        node.stop()
    finally:
        if node.process.poll() is None:
            node.kill()


def started(directory: Path, configuration: str = SETTINGS) -> NodeProcess:
    """A node with a port for metrics."""
    metrics = free_port()
    node = NodeProcess(directory, configuration=f"{configuration}prometheus.tcp.port = {metrics}\n")
    node.addresses["metrics"] = ("127.0.0.1", metrics)
    return node
