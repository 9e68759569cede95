"""Queues of real nodes that become mirrored while clients use them, and outlive the node that had them alone."""

import pytest

from tests.cluster.mirrored import await_another_master, await_in_sync, mirror_everything
from tests.cluster.promises import Load
from tests.cluster.trio import Trio, declare
from tests.support.deadlines import eventually

pytestmark = pytest.mark.timeout(240)

QUEUES = ["mirrored later", "mirrored later and passing"]


@pytest.mark.parametrize("end", ["restart", "kill"])
def test_a_queue_becomes_mirrored_under_load_and_outlives_its_home(fresh_trio: Trio, load: Load, end: str) -> None:
    home, *others = fresh_trio.nodes
    for queue in QUEUES:
        declare(fresh_trio.channel(home), queue, durable=queue == QUEUES[0])
        for node in fresh_trio.nodes:
            load.publish(queue, node, may_be_cut=node is home)
        load.consume(queue, others[0], may_be_cut=False)
    load.consume(QUEUES[0], home, may_be_cut=True)
    load.await_progress()
    mirror_everything(fresh_trio)
    await_in_sync(fresh_trio, QUEUES)
    load.await_progress(100)
    fresh_trio.hang_up()
    if end == "kill":
        home.kill()
        await_another_master(fresh_trio, QUEUES, home)
        home.start()
    else:
        home.restart()
    eventually(fresh_trio.is_whole, "all nodes reach one another")
    await_in_sync(fresh_trio, QUEUES)
    load.await_everybody()
    load.settle()
    assert not load.ledger.refused
