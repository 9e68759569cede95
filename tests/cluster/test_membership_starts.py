"""Nodes that start after a crash or a change: they remove leftovers before they accept clients."""

from tests.cluster.deadly_store import DeadlyStore
from tests.cluster.etcd_world import member_of
from tests.cluster.member_nodes import MemberNodes, channel_to, declare, joining, queues_of, ready_in
from tests.support.deadlines import eventually, run
from tests.support.node_process import NodeProcess

LEFTOVERS = 700


def test_after_a_crash_clients_are_accepted_when_transient_queues_are_gone(nodes: MemberNodes) -> None:
    cat = nodes.start("cat")
    dog = nodes.start("dog", *joining(cat))
    declare(cat, "kept", b"one")
    with channel_to(cat) as channel:
        for number in range(LEFTOVERS):
            channel.send("queue.declare", queue=f"brief{number}")
        for _ in range(LEFTOVERS):
            assert channel.next().name == "queue.declare-ok"
    for node in (cat, dog):
        node.kill()
        node.spawn()
    for node in (cat, dog):
        node.await_ready()
        with channel_to(node) as channel:
            channel.send("queue.declare", queue=f"brief{LEFTOVERS - 1}", passive=True)
            assert channel.next().name == "channel.close"
        assert queues_of(node) == ["kept"]
    eventually(lambda: ready_in(dog, "kept") == 1)


def test_after_a_stop_of_all_nodes_clients_are_accepted_when_transient_exchanges_are_gone(nodes: MemberNodes) -> None:
    cat = nodes.start("cat")
    dog = nodes.start("dog", *joining(cat))
    with channel_to(cat) as channel:
        for number in range(LEFTOVERS):
            channel.send("exchange.declare", exchange=f"brief{number}", type="fanout")
        for _ in range(LEFTOVERS):
            assert channel.next().name == "exchange.declare-ok"
    dog.stop()
    cat.restart()
    with channel_to(cat) as channel:
        channel.send("exchange.declare", exchange=f"brief{LEFTOVERS - 1}", passive=True)
        assert channel.next().reply_code == 404


def unable_to_clear_up(nodes: MemberNodes, store: DeadlyStore) -> NodeProcess:
    """A node that is about to start: it will find a queue `brief`, and its removal is not agreed to."""
    cat = nodes.start("cat", configuration=f"cluster.etcd.endpoints.1 = {store.endpoint}\n")
    # it would clear up
    nodes.start("dog", *joining(cat), configuration=f"cluster.etcd.endpoints.1 = {store.far}\n").stop()
    with channel_to(cat) as channel:
        channel.call("queue.declare", queue="brief")
        cat.kill()
    store.be_stubborn()
    cat.spawn()
    return cat


def test_a_node_that_cannot_clear_up_lets_clients_in_after_a_while(nodes: MemberNodes, store: DeadlyStore) -> None:
    cat = unable_to_clear_up(nodes, store)
    cat.await_ready()
    assert queues_of(cat) == ["brief"]
    store.give_in()
    eventually(lambda: queues_of(cat) == [])


def test_a_node_that_cannot_clear_up_stops_when_it_is_told(nodes: MemberNodes, store: DeadlyStore) -> None:
    cat = unable_to_clear_up(nodes, store)
    eventually(lambda: store.refused)
    cat.stop()
    assert cat.log().count("event=node.started") == 1


def test_a_lone_node_starts_without_an_etcd_after_an_interrupted_founding(nodes: MemberNodes) -> None:
    cat = nodes.start("cat", configuration="cluster.etcd.binary = /nowhere/etcd\n")
    declare(cat, "kept", b"one")
    cat.stop()
    leftovers = cat.data / "etcd"

    async def begin() -> None:
        member = member_of(leftovers, "cat@localhost")
        await member.found()
        await member.stop()

    run(begin())
    assert (leftovers / "data").exists()
    cat.start()
    assert not leftovers.exists()
    assert ready_in(cat, "kept") == 1
    eventually(lambda: "event=etcd.not_removed" in cat.log())
