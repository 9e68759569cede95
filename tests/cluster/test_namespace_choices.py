"""Every setting of `cluster_partition_handling`; with each, a minority cannot change definitions.

Three nodes on hosts of their own serve all tests, each with another setting: n1 ignores partitions, n2 restarts itself
(autoheal) when the others have removed it, n3 pauses when it does not reach n1.
"""

from collections.abc import Iterator

import pytest

from tests.cluster.namespace_trio import NamespaceTrio, namespace_trio
from tests.cluster.promises import Load
from tests.cluster.trio import REFUSED_S_MAX, SUSPECTED_S_MAX, accepts, declare, knows
from tests.support.amqp_client import Channel
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.timeout(240)

CHOICES = {
    "n1": "cluster_partition_handling = ignore\n",
    "n2": "cluster_partition_handling = autoheal\n",
    "n3": "cluster_partition_handling = pause_if_all_down\n"
    "cluster_partition_handling.pause_if_all_down.nodes.1 = n1@n1\n",
}


@pytest.fixture(scope="module")
def file_trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NamespaceTrio]:
    with namespace_trio(tmp_path_factory.mktemp("choices"), CHOICES) as made:
        yield made


def put_under_load(trio: NamespaceTrio, load: Load, interrupted: NodeProcess) -> None:
    """Every node has a queue for its own clients, and one for another node's; clients of one may lose connections."""
    for place, home in enumerate(trio.nodes):
        other = trio.nodes[place - 1]
        for queue, user in ((f"own of {home.name}", home), (f"{home.name} for {other.name}", other)):
            channel = trio.channel(home)
            channel.call("queue.delete", queue=queue)
            declare(channel, queue, durable=True)
            load.on(queue, publishing=user, consuming=user, may_be_cut=user is interrupted)
    load.await_progress()


def see_refused(channel: Channel) -> None:
    """The refusal of a node that was to change a definition and reached no majority."""
    close = channel.expect("channel.close", REFUSED_S_MAX, reply_code=406)
    assert close.reply_text.startswith("PRECONDITION_FAILED - the nodes of the cluster could not agree: ")


def see_served(load: Load, queue: str) -> None:
    """Its publisher hears of another confirm."""
    [publisher] = [publisher for publisher in load.publishers if publisher.queue == queue]
    heard = publisher.confirmed
    eventually(lambda: publisher.confirmed > heard, f"{publisher.name} is served")


def await_death(node: NodeProcess, other: NodeProcess, before: int) -> None:
    eventually(lambda: deaths(node, other) > before, f"{other.name} is taken for dead")


def deaths(node: NodeProcess, other: NodeProcess) -> int:
    return node.log().count(f"event=member.dead node={other.name}")


def see_all_served_again(trio: NamespaceTrio, load: Load) -> None:
    eventually(trio.is_whole, "all nodes reach one another")
    load.await_everybody()
    load.settle()


def test_a_node_that_was_taken_for_dead_heals_itself_by_starting_anew(trio: NamespaceTrio, load: Load) -> None:
    n1, n2, n3 = trio.nodes
    put_under_load(trio, load, interrupted=n2)
    client, before = trio.channel(n2), deaths(n1, n2)
    declare(client, "passing")
    trio.world.cut("n2", "n1", "n3")
    client.send("queue.declare", queue="of the minority", durable=True)
    await_death(n1, n2, before)
    see_refused(client)
    see_served(load, f"own of {n2.name}")
    for node in (n1, n3):
        declare(trio.channel(node), f"of the majority at {node.name}", durable=True)
    assert "event=node.outlived" not in n2.log()
    trio.world.heal()
    eventually(lambda: "event=node.outlived" in n2.log(), "n2 starts anew")
    see_all_served_again(trio, load)
    trio.await_known(f"of the majority at {n3.name}")
    trio.await_unanimity("of the minority")
    assert not any(knows(node, "passing") for node in trio.nodes)


def test_a_node_that_ignores_partitions_goes_on_and_one_that_needs_it_pauses(trio: NamespaceTrio, load: Load) -> None:
    n1, n2, n3 = trio.nodes
    put_under_load(trio, load, interrupted=n3)
    client, asking, before = trio.channel(n1), trio.channel(n1), deaths(n2, n1)
    started = n1.log().count("event=node.started")
    trio.world.cut("n1", "n2", "n3")
    asking.send("queue.declare", queue="of the minority", durable=True)
    eventually(lambda: not accepts(n3), "n3 refuses clients", SUSPECTED_S_MAX)
    await_death(n2, n1, before)
    declare(trio.channel(n2), "of the majority", durable=True)
    see_refused(asking)
    for node in (n1, n2):
        see_served(load, f"own of {node.name}")
    assert not accepts(n3)
    trio.world.heal()
    see_all_served_again(trio, load)
    trio.await_known("of the majority")
    trio.await_unanimity("of the minority")
    # the queues of n1 go on
    assert n1.log().count("event=node.started") == started
    declare(client, "of the majority", durable=True)
