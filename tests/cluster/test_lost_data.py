"""Members that come back without the data they were trusted with, or with another name: real processes."""

import shutil
import signal

import pytest

from tests.cluster.member_nodes import MemberNodes, channel_to, holders, joining, publish, ready_in
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess

COUNT = 20
QUEUE = "orders"


@pytest.fixture
def held(nodes: MemberNodes) -> list[NodeProcess]:
    """Two nodes that hold a queue, and a witness."""
    cat = nodes.start("cat")
    dog = nodes.start("dog", *joining(cat))
    owl = nodes.start("owl", *joining(cat), "--witness")
    with channel_to(cat) as channel:
        channel.call("queue.declare", queue=QUEUE, durable=True, arguments={"x-ha-mode": "all"})
    eventually(lambda: holders(owl, QUEUE) == [cat.name, dog.name])
    return [cat, dog, owl]


@pytest.mark.parametrize("lost", ["journal", "everything"])
def test_a_node_that_lost_its_messages_waits_for_one_that_has_them(held: list[NodeProcess], lost: str) -> None:
    cat, dog, owl = held
    publish(owl, QUEUE, [b"x"] * COUNT)
    # a mirror that outlives its master is promoted, so the mirror must not run when the master ends
    dog.process.send_signal(signal.SIGSTOP)
    cat.kill()
    dog.kill()
    shutil.rmtree(dog.data / "journal")
    if lost == "everything":
        for path in dog.data.glob("metadata.db*"):
            path.unlink()
    dog.start()
    eventually(lambda: "node.without_past" in dog.log())
    with channel_to(dog) as channel:
        channel.send("queue.declare", queue=QUEUE, passive=True)
        assert channel.next().reply_code == 404, "no running node has the confirmed messages"
    cat.start()
    eventually(lambda: ready_in(dog, QUEUE) == COUNT)
    eventually(lambda: holders(owl, QUEUE) == [cat.name, dog.name])


def test_messages_of_a_node_after_a_reset_are_not_taken_for_earlier_ones(
    nodes: MemberNodes, held: list[NodeProcess]
) -> None:
    cat, dog, owl = held
    publish(dog, QUEUE, [b"x"] * COUNT)
    nodes.done(dog, "stop_app")
    nodes.done(dog, "reset")
    nodes.done(dog, "start_app")
    nodes.join(dog, cat)
    eventually(lambda: holders(owl, QUEUE) == [cat.name, dog.name])
    publish(dog, QUEUE, [b"x"] * (COUNT + 5))
    assert ready_in(owl, QUEUE) == 2 * COUNT + 5


def test_a_renamed_node_keeps_its_replicas(nodes: MemberNodes, held: list[NodeProcess]) -> None:
    cat, dog, owl = held
    publish(owl, QUEUE, [b"x"] * COUNT)
    nodes.done(dog, "stop_app")
    publish(owl, QUEUE, [b"x"] * COUNT)
    nodes.done(dog, "rename_cluster_node", "dog@localhost", "fox@localhost")
    nodes.done(dog, "start_app")
    eventually(lambda: holders(owl, QUEUE) == [cat.name, "fox@localhost"])
    nodes.done(cat, "stop_app")
    eventually(lambda: holders(owl, QUEUE) == ["fox@localhost"])
    nodes.done(cat, "rename_cluster_node", "cat@localhost", "elk@localhost")
    nodes.done(cat, "start_app")
    eventually(lambda: holders(owl, QUEUE) == ["elk@localhost", "fox@localhost"])
    assert ready_in(owl, QUEUE) == 2 * COUNT
