"""Members that come back without the data they were trusted with, or with another name: real processes."""

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.member_nodes import MemberNodes, channel_to, eventually, joining, ready_in
from tests.support.node_process import NodeProcess
from tests.support.operator import Operator

COUNT = 20
QUEUE = "orders"


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[MemberNodes]:
    made = MemberNodes(tmp_path)
    yield made
    made.destroy()


@pytest.fixture
def held(nodes: MemberNodes) -> list[NodeProcess]:
    """Two nodes that hold a queue, and a witness."""
    cat = nodes.start("cat")
    dog = nodes.start("dog", *joining(cat))
    owl = nodes.start("owl", *joining(cat), "--witness")
    with channel_to(cat) as channel:
        channel.call("queue.declare", queue=QUEUE, durable=True, arguments={"x-ha-mode": "all"})
    eventually(lambda: holders(owl) == [cat.name, dog.name])
    return [cat, dog, owl]


def holders(node: NodeProcess) -> list[str]:
    """Who has all of the queue, as a node tells; nobody if none of them is there."""
    told = Operator(node.addresses["http"]).read("queues", "/", QUEUE)
    return sorted([told["node"], *told.get("synchronised_slave_nodes", [])]) if "node" in told else []


def publish(node: NodeProcess, count: int) -> None:
    with channel_to(node) as channel:
        channel.confirm()
        for number in range(count):
            channel.publish("", QUEUE, str(number).encode(), {"delivery_mode": 2})
        channel.confirms(range(1, count + 1))


@pytest.mark.parametrize("lost", ["journal", "everything"])
def test_a_node_that_lost_its_messages_waits_for_one_that_has_them(held: list[NodeProcess], lost: str) -> None:
    cat, dog, owl = held
    publish(owl, COUNT)
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
        assert channel.next().reply_code == 404, "nobody who lives has what was confirmed"
    cat.start()
    eventually(lambda: ready_in(dog, QUEUE) == COUNT)
    eventually(lambda: holders(owl) == [cat.name, dog.name])


def test_what_a_node_publishes_after_a_reset_is_not_taken_for_what_it_published_before(
    nodes: MemberNodes, held: list[NodeProcess]
) -> None:
    cat, dog, owl = held
    publish(dog, COUNT)
    nodes.done(dog, "stop_app")
    nodes.done(dog, "reset")
    nodes.done(dog, "start_app")
    nodes.join(dog, cat)
    eventually(lambda: holders(owl) == [cat.name, dog.name])
    publish(dog, COUNT + 5)
    assert ready_in(owl, QUEUE) == 2 * COUNT + 5


def test_a_node_with_another_name_holds_what_it_held(nodes: MemberNodes, held: list[NodeProcess]) -> None:
    cat, dog, owl = held
    publish(owl, COUNT)
    nodes.done(dog, "stop_app")
    publish(owl, COUNT)
    nodes.done(dog, "rename_cluster_node", "dog@localhost", "fox@localhost")
    nodes.done(dog, "start_app")
    eventually(lambda: holders(owl) == [cat.name, "fox@localhost"])
    nodes.done(cat, "stop_app")
    eventually(lambda: holders(owl) == ["fox@localhost"])
    nodes.done(cat, "rename_cluster_node", "cat@localhost", "elk@localhost")
    nodes.done(cat, "start_app")
    eventually(lambda: holders(owl) == ["elk@localhost", "fox@localhost"])
    assert ready_in(owl, QUEUE) == 2 * COUNT
