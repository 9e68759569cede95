"""Backlogs far beyond a node's memory limit: the node accepts them, stays small, delivers them and frees the disk.

The memory of the process is sampled throughout: it may exceed the watermark only by little.
"""

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.durability.streaming import BODY_BYTES, drain, stream
from tests.durability.visiting import DEADLINE_S, visit
from tests.support.node_process import NodeProcess
from warren.node.process import core_kind

WATERMARK_BYTES = 120_000_000
ABOVE_BYTES_MAX = 60_000_000
# a core that is not compiled takes its time
COUNT = 300_000 if core_kind() == "compiled" else 150_000
FILES_BYTES_MAX = 240_000_000
"""Once all is consumed: a segment that is being written, a dead one not worth the trouble, and the spare one."""


class Watch:
    """The most memory a node ever used."""

    def __init__(self, node: NodeProcess) -> None:
        self.most_bytes = 0
        self._node = node
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(0.02):
            # there is nothing to see of a node that is just being started again
            with contextlib.suppress(OSError, IndexError):
                self.most_bytes = max(self.most_bytes, self._node.resident_bytes())

    def end(self) -> None:
        self._over.set()
        self._thread.join()


@pytest.fixture
def small_node(tmp_path: Path) -> Iterator[NodeProcess]:
    node = NodeProcess(tmp_path, configuration=f"vm_memory_high_watermark.absolute = {WATERMARK_BYTES}\n")
    watch = Watch(node)
    try:
        yield node
        watch.end()
        assert watch.most_bytes < WATERMARK_BYTES + ABOVE_BYTES_MAX, f"it used {watch.most_bytes:,} bytes"
        node.stop()
    finally:
        watch.end()
        node.kill()


def files_bytes(node: NodeProcess) -> int:
    sizes = 0
    for path in node.data.rglob("*"):
        # segments come and go meanwhile
        with contextlib.suppress(FileNotFoundError):
            sizes += path.stat().st_blocks * 512
    return sizes


def declare(node: NodeProcess, queue: str, durable: bool, arguments: dict[str, Any]) -> None:
    with visit(node) as channel:
        channel.call("queue.declare", queue=queue, durable=durable, arguments=arguments)


def check_drained(node: NodeProcess, queue: str) -> None:
    """Everything comes back, in order, once; and its room on the disk is free soon after."""
    for expected, (number, redelivered) in enumerate(drain(node.amqp, queue, COUNT)):
        assert (number, redelivered) == (expected, False)
    deadline = time.monotonic() + DEADLINE_S
    while (held := files_bytes(node)) > FILES_BYTES_MAX:
        assert time.monotonic() < deadline, f"{held:,} bytes are still in use"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("durable", "persistent", "arguments"),
    [
        pytest.param(True, True, {}, id="persistent"),
        pytest.param(False, False, {}, id="transient"),
        pytest.param(True, False, {}, id="transient-in-a-durable-queue"),
        pytest.param(True, True, {"x-queue-mode": "lazy"}, id="lazy"),
    ],
)
def test_a_backlog_beyond_memory_comes_back_in_order(
    small_node: NodeProcess, durable: bool, persistent: bool, arguments: dict[str, Any]
) -> None:
    declare(small_node, "q", durable, arguments)
    stream(small_node.amqp, "", "q", range(COUNT), persistent)
    assert files_bytes(small_node) > COUNT * BODY_BYTES / 2
    check_drained(small_node, "q")


def test_a_backlog_beyond_memory_outlives_a_crash(small_node: NodeProcess) -> None:
    declare(small_node, "q", True, {})
    stream(small_node.amqp, "", "q", range(COUNT))
    small_node.crash()
    with visit(small_node) as channel:
        assert channel.counts("q") == (COUNT, 0)
    check_drained(small_node, "q")
