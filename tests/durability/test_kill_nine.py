"""A node under load survives SIGKILL at any moment without breaking a promise; one that promises too early is caught.

`WARREN_KILLS` sets how often each node is killed; `bench/kills` runs many.
"""

import os
from pathlib import Path

import pytest

from tests.durability.siege import LITTLE_MEMORY, SMALL_SEGMENT_BYTES, Siege, altered_node

KILLS = int(os.environ.get("WARREN_KILLS", "8"))
HASTE_S = 0.05
HASTY_KILLS = 3
HASTY_KILLS_MAX = 15


@pytest.mark.timeout(240 + 10 * KILLS)
@pytest.mark.parametrize(
    "memory", [pytest.param("", id="enough-memory"), pytest.param(LITTLE_MEMORY, id="little-memory")]
)
def test_no_promise_is_broken_by_kill_nine(tmp_path: Path, memory: str) -> None:
    node = altered_node(tmp_path, SMALL_SEGMENT_BYTES, configuration=memory)
    try:
        siege = Siege(node, seed=KILLS)
        while not siege.books.complaints and (siege.kills < KILLS or not siege.proves_something()):
            siege.round()
        siege.finish()
    except BaseException:
        node.kill()
        raise
    node.stop()
    assert siege.books.complaints[:20] == []
    assert "queue.stopped" not in node.log()
    tally = siege.books.tally
    for what in ("confirmed", "certain", "redelivered", "dead letters", "whole transactions", "moved"):
        assert tally[what] > 0, f"the load was too small to prove anything: {tally}"


def test_a_node_that_confirms_before_it_flushes_is_caught(tmp_path: Path) -> None:
    # the queues are on disk before the first kill: they are declared on a node that does not lie
    siege = Siege(altered_node(tmp_path, SMALL_SEGMENT_BYTES), seed=1)
    siege.node.stop()
    hasty = siege.node = altered_node(tmp_path, SMALL_SEGMENT_BYTES, haste_s=HASTE_S)
    try:
        # nothing is missing after a life in which a busy machine has confirmed nothing
        while siege.kills < HASTY_KILLS or (not siege.books.tally["missing"] and siege.kills < HASTY_KILLS_MAX):
            siege.round()
    finally:
        hasty.kill()
    # an unaltered node shows which messages are left
    siege.node = altered_node(tmp_path, SMALL_SEGMENT_BYTES)
    try:
        siege.finish()
    finally:
        siege.node.kill()
    # the list of complaints is bounded, so earlier ones may leave no room for this one
    assert siege.books.tally["lost"] > 0
