"""Queues of real nodes that become mirrored while clients use them, and outlive the node that had them alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.mirrored import await_another_master, await_in_sync, mirror_everything
from tests.cluster.promises import Load
from tests.cluster.trio import Trio, declare, eventually

pytestmark = pytest.mark.timeout(240)

QUEUES = ["mirrored later", "mirrored later and passing"]


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[Trio]:
    made = Trio(tmp_path)
    yield made
    made.destroy()


@pytest.fixture
def load() -> Iterator[Load]:
    made = Load()
    yield made
    made.dismiss()


@pytest.mark.parametrize("end", ["restart", "kill"])
def test_a_queue_becomes_mirrored_under_load_and_outlives_its_home(trio: Trio, load: Load, end: str) -> None:
    home, *others = trio.nodes
    for queue in QUEUES:
        declare(trio.channel(home), queue, durable=queue == QUEUES[0])
        for node in trio.nodes:
            load.publish(queue, node, may_be_cut=node is home)
        load.consume(queue, others[0], may_be_cut=False)
    load.consume(QUEUES[0], home, may_be_cut=True)
    load.await_progress()
    mirror_everything(trio)
    await_in_sync(trio, QUEUES)
    load.await_progress(100)
    trio.hang_up()
    if end == "kill":
        home.kill()
        await_another_master(trio, QUEUES, home)
        home.start()
    else:
        home.restart()
    eventually(trio.is_whole, "all nodes reach one another")
    await_in_sync(trio, QUEUES)
    load.await_everybody()
    load.settle()
    assert not load.ledger.refused
