"""Nodes that hold mirrored queues are cut from each other for ten seconds under load, and no promise is broken.

Three nodes on hosts of their own go through several cuts, one after another. A node that reaches the others goes on
after a pause; clients of a node that does not may be refused or cut off, and are served again afterwards.
"""

import time
from pathlib import Path

import pytest

from tests.cluster.mirrored import Scene, await_another_master, mirror_everything
from tests.cluster.mirrored_cuts import CUTS, PARTED, parted_by
from tests.cluster.namespace_trio import HOSTS, NamespaceTrio, namespace_trio
from tests.cluster.promises import Load
from tests.support.deadlines import eventually

pytestmark = pytest.mark.timeout(240)

TRIED = {
    "pause_minority": ("cut off", PARTED, "mute"),
    "ignore": ("cut off", PARTED, "deaf"),
}
"""`bench/failovers` tries more, again and again, and for longer."""

HOLD_S = 10.0
SERVED_S_MAX = 14.0
"""Three seconds of silence, an election, the wait of a new master before its first delivery, and a busy machine."""


@pytest.mark.parametrize("handling", TRIED)
def test_a_master_that_is_cut_off_costs_a_pause_and_nothing_else(tmp_path: Path, handling: str) -> None:
    choices = dict.fromkeys(HOSTS, f"cluster_partition_handling = {handling}\n")
    with namespace_trio(tmp_path, choices) as trio:
        mirror_everything(trio)
        for cut in TRIED[handling]:
            load = Load()
            try:
                cut_the_master_off(trio, load, cut)
            finally:
                load.dismiss()
            trio.mend()


def cut_the_master_off(trio: NamespaceTrio, load: Load, cut: str) -> None:
    parted = parted_by(trio, cut)
    scene = Scene(trio, load, cut, trio.nodes[0], cut=parted)
    scene.populate()
    began = time.monotonic()
    CUTS[cut](trio.world)
    pause_s = scene.await_served(*[node for node in trio.nodes if node not in parted])
    print(f"{cut}: served again after {pause_s:.2f} s")
    assert pause_s < SERVED_S_MAX, cut
    if cut != PARTED:
        await_another_master(trio, scene.queues, scene.master)
    eventually(lambda: time.monotonic() > began + HOLD_S, "it was cut off for long enough")
    trio.world.heal()
    scene.settle()
