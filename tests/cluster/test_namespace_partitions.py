"""Nodes on hosts of their own are cut from each other, or badly connected, under load; a minority pauses.

Three nodes serve all tests; each test leaves them as it found them. Clients that a cut does not stop notice nothing;
the others are served again afterwards, with every confirmed message.
"""

import itertools
from collections.abc import Iterator

import pytest

from tests.cluster.namespace_trio import HOSTS, NamespaceTrio, namespace_trio
from tests.cluster.promises import Load, take_for_certain
from tests.cluster.trio import SUSPECTED_S_MAX, accepts, declare, knows
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.timeout(240)

PARTED_S_MAX = 20.0
"""Suspicion, ten seconds in which the other one still lives, and the delay of a busy machine."""


@pytest.fixture(scope="module")
def file_trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NamespaceTrio]:
    choices = dict.fromkeys(HOSTS, "cluster_partition_handling = pause_minority\n")
    with namespace_trio(tmp_path_factory.mktemp("parted"), choices) as made:
        yield made


def put_under_load(trio: NamespaceTrio, load: Load) -> None:
    """Clients everywhere; only those of n3, which is going to pause, may lose their connections.

    Each home has a queue with several consumers, and one with a single consumer that must get messages in order.
    """
    n1, n2, n3 = trio.nodes
    for home in (n1, n3):
        channel = trio.channel(home)
        for queue in (queue_at(home), row_at(home)):
            channel.call("queue.delete", queue=queue)
            declare(channel, queue, durable=True)
            take_for_certain(load.ledger, trio.channel(n2), queue, 50)
        load.on(queue_at(home), publishing=n3, consuming=n3, may_be_cut=True)
    load.on(queue_at(n1), publishing=n2, consuming=n2)
    load.on(queue_at(n3), publishing=n1, consuming=n1)
    load.on(row_at(n1), publishing=n1, consuming=n3, may_be_cut=True)
    load.on(row_at(n3), publishing=n2, consuming=n1)
    load.await_progress()


def queue_at(home: NodeProcess) -> str:
    return f"work at {home.name}"


def row_at(home: NodeProcess) -> str:
    return f"row at {home.name}"


def see_all_served_again(trio: NamespaceTrio, load: Load) -> None:
    """All clients are served again, and no promised message is missing."""
    eventually(trio.is_whole, "all nodes reach one another")
    load.await_everybody()
    load.settle()


def lost(node: NodeProcess, other: NodeProcess) -> int:
    """How often a node has suspected another."""
    return node.log().count(f"event=peer.lost node={other.name}")


def await_suspicion(node: NodeProcess, other: NodeProcess, before: int) -> None:
    eventually(lambda: lost(node, other) > before, f"{node.name} suspects {other.name}", SUSPECTED_S_MAX)


def test_a_node_that_is_cut_off_pauses_and_resumes_by_itself(trio: NamespaceTrio, load: Load) -> None:
    n1, n2, n3 = trio.nodes
    put_under_load(trio, load)
    client, before = trio.channel(n3), lost(n1, n3)
    trio.world.cut("n3", "n1", "n2")
    # n3 reads this before it knows that it is alone
    client.send("queue.declare", queue="of the minority", durable=True)
    await_suspicion(n1, n3, before)
    eventually(lambda: not accepts(n3), "n3 refuses clients", SUSPECTED_S_MAX)
    client.connection.expect_end(320)
    declare(trio.channel(n1), "of the majority", durable=True)
    assert knows(n2, "of the majority")
    load.await_progress()
    assert n3.alive
    assert not accepts(n3)
    trio.world.heal()
    see_all_served_again(trio, load)
    trio.await_known("of the majority")
    # the change that n3 was asked for is known to all nodes, or to none
    trio.await_unanimity("of the minority")


def test_of_two_nodes_that_do_not_reach_each_other_the_later_one_pauses(trio: NamespaceTrio, load: Load) -> None:
    n1, n2, n3 = trio.nodes
    put_under_load(trio, load)
    client, before = trio.channel(n1), lost(n1, n3)
    trio.world.cut("n1", "n3")
    await_suspicion(n1, n3, before)
    # n1 waits for n3, which lives, for some seconds; then it does without
    for node in (n1, n2):
        declare(trio.channel(node), f"parted at {node.name}", durable=True)
    eventually(lambda: not accepts(n3), "n3 refuses clients", PARTED_S_MAX)
    load.await_progress()
    assert not accepts(n3)
    # the earlier connection is served throughout
    declare(client, queue_at(n1), durable=True)
    trio.world.heal()
    see_all_served_again(trio, load)
    for home in (n1, n2):
        trio.await_known(f"parted at {home.name}")


@pytest.mark.parametrize("handicap", ["deaf", "mute"])
def test_a_node_that_is_cut_off_in_one_direction_pauses_and_leaves_the_others_alone(
    trio: NamespaceTrio, load: Load, handicap: str
) -> None:
    n1, n2, n3 = trio.nodes
    put_under_load(trio, load)
    before = lost(n1, n3)
    for other in ("n1", "n2"):
        sender, receiver = (other, "n3") if handicap == "deaf" else ("n3", other)
        trio.world.cut_one_way(sender, receiver)
    await_suspicion(n1, n3, before)
    eventually(lambda: not accepts(n3), "n3 refuses clients", SUSPECTED_S_MAX)
    declare(trio.channel(n2), f"not for the {handicap}", durable=True)
    load.await_progress()
    assert not accepts(n3)
    trio.world.heal()
    see_all_served_again(trio, load)
    trio.await_known(f"not for the {handicap}")


def test_slow_links_cost_time_and_broken_ones_are_made_again(trio: NamespaceTrio, load: Load) -> None:
    n1, n2, n3 = trio.nodes
    proxies = [trio.detour(*pair) for pair in itertools.combinations(HOSTS, 2)]
    for proxy in proxies:
        proxy.delay_s = 0.05
    eventually(trio.is_whole, "all nodes reach one another")
    put_under_load(trio, load)
    before = [lost(node, other) for node in trio.nodes for other in trio.nodes]
    for node in (n2, n3):
        declare(trio.channel(node), f"from afar at {node.name}", durable=True)
        assert all(knows(asked, f"from afar at {node.name}") for asked in trio.nodes)
    load.await_progress()
    assert [lost(node, other) for node in trio.nodes for other in trio.nodes] == before
    for proxy in proxies:
        proxy.break_connections()
        load.await_everybody()
    assert lost(n1, n3) > before[2]
    see_all_served_again(trio, load)


@pytest.mark.parametrize("hearing", ["n1", "n3"])
def test_a_link_that_is_silent_in_one_direction_is_suspected_in_time(
    trio: NamespaceTrio, load: Load, hearing: str
) -> None:
    n1, _n2, n3 = trio.nodes
    proxy = trio.detour("n1", "n3")
    eventually(trio.is_whole, "all nodes reach one another")
    put_under_load(trio, load)
    listening, silent = (n1, n3) if hearing == "n1" else (n3, n1)
    before = lost(listening, silent)
    proxy.silence(towards=trio.world.address(hearing))
    await_suspicion(listening, silent, before)
    eventually(lambda: not knows(silent, listening.name), f"{silent.name} does without {listening.name}")
    proxy.speak()
    see_all_served_again(trio, load)
