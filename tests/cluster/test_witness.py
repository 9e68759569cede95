"""Two nodes with queues and a witness without: real processes; either of the two nodes may be killed."""

import json
from typing import Any

from tests.cluster.member_nodes import MemberNodes, channel_to, ended, holders, joining, publish, ready_in
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess
from tests.support.operator import Operator

MESSAGES = [b"x"] * 20
QUEUE = "orders"


def queue_at(node: NodeProcess) -> dict[str, Any]:
    """The row of the queue at a node, once the node knows of a master."""
    found: dict[str, Any] = {}

    def is_somewhere() -> bool:
        found.clear()
        found.update(Operator(node.addresses["http"]).read("queues", "/", QUEUE))
        return "node" in found

    eventually(is_somewhere)
    return found


def kinds_shown_by(node: NodeProcess) -> dict[str, tuple[str, bool | None]]:
    rows = Operator(node.addresses["http"]).read("nodes")
    return {row["name"]: (row["type"], row.get("witness")) for row in rows}


def test_a_queue_on_two_nodes_and_a_witness_outlives_the_loss_of_either(nodes: MemberNodes) -> None:
    cat = nodes.start("cat")
    dog = nodes.start("dog", *joining(cat))
    owl = nodes.start("owl", *joining(cat), "--witness")
    by_name = {node.name: node for node in (cat, dog)}
    with channel_to(owl) as channel:
        channel.call("queue.declare", queue=QUEUE, durable=True, arguments={"x-ha-mode": "all"})
        channel.call("queue.declare", queue="mine", exclusive=True)
        assert Operator(owl.addresses["http"]).read("queues", "/", "mine")["node"] == owl.name
    eventually(lambda: holders(owl, QUEUE) == [cat.name, dog.name])
    publish(owl, QUEUE, MESSAGES)
    for _ in range(2):
        master = by_name[queue_at(owl)["node"]]
        other = dog if master is cat else cat
        master.kill()
        publish(owl, QUEUE, MESSAGES)
        eventually(lambda other=other: queue_at(owl)["node"] == other.name)  # type: ignore[misc]
        master.start()
        eventually(lambda: holders(owl, QUEUE) == [cat.name, dog.name])
    assert ready_in(owl, QUEUE) == 3 * len(MESSAGES)
    assert sorted(queue_at(owl)["ring"]["members"]) == sorted(by_name)


def test_a_witness_is_shown_as_one_and_only_a_node_without_queues_becomes_one(nodes: MemberNodes) -> None:
    cat = nodes.start("cat")
    owl = nodes.start("owl", *joining(cat), "--witness")
    kinds = {cat.name: ("disc", None), owl.name: ("disc", True)}
    eventually(lambda: kinds_shown_by(cat) == kinds)
    told = nodes.done(cat, "-q", "cluster_status")
    assert "Witnesses\n\nowl@localhost\n" in told
    assert json.loads(nodes.done(cat, "-q", "cluster_status", "--formatter", "json"))["witness_nodes"] == [owl.name]
    with channel_to(owl) as channel:
        channel.call("queue.declare", queue=QUEUE, durable=True)
    assert queue_at(cat)["node"] == cat.name
    cat.kill()
    refused = nodes.spawn("cat", "--witness", port=cat.addresses["peer"][1])
    assert ended(refused) == 2
    assert "cat@localhost cannot be a witness while it holds queues: 'orders' in vhost '/'; " in refused.log()


def test_a_witness_does_not_start_alone(nodes: MemberNodes) -> None:
    alone = nodes.spawn("owl", "--witness")
    assert ended(alone) == 2
    assert "owl@localhost is to be a witness, which needs others that hold queues" in alone.log()
