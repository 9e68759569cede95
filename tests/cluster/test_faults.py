"""Real nodes of a cluster are killed, frozen and restarted under load, and no client's promise is broken.

Three nodes serve all tests; each test leaves them as it found them.
"""

import shutil
import signal
import time

import pytest

from tests.cluster.promises import PERSISTENT, Load, take_for_certain
from tests.cluster.trio import REFUSED_S_MAX, SUSPECTED_S_MAX, Trio, accepts, declare, knows, refusal
from tests.support.amqp_client import Channel
from tests.support.deadlines import DEADLINE_S, eventually
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.timeout(240)

BLOCKED_S_MAX = 30.0


def home_is_down(home: NodeProcess, queue: str) -> tuple[int, str]:
    return 404, f"NOT_FOUND - home node '{home.name}' of durable queue '{queue}' in vhost '/' is down or inaccessible"


def see_queue_unavailable(channel: Channel, node: NodeProcess, home: NodeProcess, queue: str) -> None:
    """A node's refusal for a queue with its home down."""
    assert refusal(node, "queue.declare", queue=queue, durable=True, passive=True) == home_is_down(home, queue)
    assert refusal(node, "basic.consume", queue=queue) == home_is_down(home, queue)
    channel.confirm()
    channel.publish("", queue, b"home is away", PERSISTENT)
    assert channel.outcomes([1]) == (set(), {1})
    channel.publish("", queue, b"home is away", PERSISTENT, mandatory=True)
    assert channel.next().name == "basic.return"
    assert channel.outcomes([2]) == (set(), {2})


def test_a_queue_whose_home_is_killed_is_unavailable_and_comes_back_with_all_it_promised(
    trio: Trio, load: Load
) -> None:
    n1, n2, n3 = trio.nodes
    for queue in ("work", "hoard"):
        declare(trio.channel(n1), queue, durable=True)
    take_for_certain(load.ledger, trio.channel(n2), "work", 50)
    load.on("work", publishing=n2, consuming=n3)
    load.on("work", publishing=n3, consuming=n2)
    load.publish("hoard", n2)
    load.await_progress()
    assert load.ledger.waiting["hoard"] > 0
    n1.kill()
    for consumer in load.consumers:
        assert consumer.cancelled.wait(DEADLINE_S), "the consumers are cancelled"
    for node in (n2, n3):
        see_queue_unavailable(trio.channel(node), node, n1, "work")
    eventually(lambda: bool(load.ledger.refused), "publishes are refused")
    n1.start()
    load.consume("hoard", n3)
    load.await_progress()
    load.settle()


def test_transient_objects_of_a_lost_node_vanish_everywhere_and_those_of_other_nodes_stay(trio: Trio) -> None:
    n1, n2, n3 = trio.nodes
    passing = {"transient": {}, "exclusive": {"exclusive": True}, "auto-delete": {"auto_delete": True}}
    for node in (n1, n2):
        channel = trio.channel(node)
        for kind, fields in passing.items():
            declare(channel, f"{kind} of {node.name}", **fields)
    watching = trio.channel(n3)
    watching.consume(f"transient of {n1.name}", "c")
    n1.kill()
    watching.expect("basic.cancel", consumer_tag="c")
    for node in (n2, n3):
        for kind in passing:
            gone = f"{kind} of {n1.name}"
            eventually(lambda node=node, gone=gone: _is_unknown(node, gone), f"{gone} is gone")  # type: ignore[misc]
        assert knows(node, f"transient of {n2.name}")
        assert knows(node, f"auto-delete of {n2.name}")
    declare(channel, f"exclusive of {n2.name}", exclusive=True)
    n1.start()
    for kind in passing:
        assert _is_unknown(n1, f"{kind} of {n1.name}")


def _is_unknown(node: NodeProcess, queue: str) -> bool:
    expected = (404, f"NOT_FOUND - no queue '{queue}' in vhost '/'")
    return refusal(node, "queue.declare", queue=queue, passive=True) == expected


def test_a_rolling_restart_loses_nothing(trio: Trio, load: Load) -> None:
    n1, n2, n3 = trio.nodes
    for home, publishing, consuming in ((n1, n2, n3), (n2, n3, n1), (n3, n1, n2)):
        queue = f"rolling at {home.name}"
        declare(trio.channel(home), queue, durable=True)
        load.on(queue, publishing, consuming, may_be_cut=True)
    trio.hang_up()
    load.await_progress()
    for node in trio.nodes:
        node.restart()
        eventually(trio.is_whole, f"{node.name} is back")
        load.await_progress(100)
    load.settle()


@pytest.mark.parametrize("with_etcd", [False, True], ids=["node", "machine"])
def test_a_node_that_freezes_is_suspected_and_goes_on_as_if_nothing_had_happened(
    trio: Trio, load: Load, with_etcd: bool
) -> None:
    n1, n2, n3 = trio.nodes
    client = trio.channel(n1)
    declare(client, "frozen", durable=True)
    load.on("frozen", publishing=n2, consuming=n3)
    load.on("frozen", publishing=n1, consuming=n1)
    load.await_progress()
    before = n2.log()
    n1.process.send_signal(signal.SIGSTOP)
    if with_etcd:
        trio.signal_etcd(n1, signal.SIGSTOP)
    lost = f"event=peer.lost node={n1.name}"
    eventually(lambda: n2.log().count(lost) > before.count(lost), "n2 suspects n1", SUSPECTED_S_MAX)
    dead = f"event=member.dead node={n1.name}"
    eventually(lambda: n2.log().count(dead) > before.count(dead), "n1 is taken for dead")
    see_queue_unavailable(trio.channel(n2), n2, n1, "frozen")
    # n1 reads this before it knows the outcome
    client.send("queue.declare", queue="after the frost", durable=True)
    n1.process.send_signal(signal.SIGCONT)
    if with_etcd:
        trio.signal_etcd(n1, signal.SIGCONT)
    client.expect("queue.declare-ok")
    eventually(trio.is_whole, "all nodes reach one another")
    load.await_progress()
    load.settle()
    assert all(knows(node, "after the frost") for node in trio.nodes)
    client.call("queue.delete", queue="after the frost")


def test_all_nodes_and_their_etcd_killed_at_once_come_back_with_everything_durable(trio: Trio, load: Load) -> None:
    n1, n2, n3 = trio.nodes
    channel = trio.channel(n1)
    channel.call("exchange.declare", exchange="lasting", type="fanout", durable=True)
    for queue in ("lasting", "hoard"):
        declare(channel, queue, durable=True)
    channel.call("queue.bind", queue="lasting", exchange="lasting")
    declare(trio.channel(n3), "passing")
    take_for_certain(load.ledger, trio.channel(n2), "lasting", 50)
    load.on("lasting", publishing=n2, consuming=n3, may_be_cut=True)
    load.publish("hoard", n3, may_be_cut=True)
    load.await_progress()
    assert load.ledger.waiting["hoard"] > 0
    for node in trio.nodes:
        node.kill()
        trio.signal_etcd(node, signal.SIGKILL)
    trio.start(*trio.nodes)
    eventually(trio.is_whole, "all nodes reach one another")
    load.consume("hoard", n2)
    load.await_progress()
    load.settle()
    channel = trio.channel(n3)
    channel.publish("lasting", "", b"still bound")
    eventually(lambda: channel.counts("lasting")[0] == 1, "the binding is back")
    for node in trio.nodes:
        assert _is_unknown(node, "passing")


def test_a_node_without_a_majority_pauses_and_resumes_by_itself(trio: Trio) -> None:
    n1, n2, n3 = trio.nodes
    n3.configure(trio.configuration + "cluster_partition_handling = pause_minority\n")
    n3.restart()
    eventually(trio.is_whole, "all nodes reach one another")
    client = trio.channel(n3)
    n1.kill()
    n2.kill()
    eventually(lambda: not accepts(n3), "n3 refuses clients")
    client.connection.expect_end(320)
    assert n3.alive
    trio.start(n1, n2)
    eventually(lambda: accepts(n3), "n3 takes clients again")
    eventually(trio.is_whole, "all nodes reach one another")


def test_a_memory_alarm_of_one_node_blocks_publishers_of_all(trio: Trio) -> None:
    n1, n2, n3 = trio.nodes
    clients = [trio.channel(node) for node in (n2, n3)]
    filling = trio.channel(n1)
    declare(filling, "heavy")
    for _ in range(10):
        filling.publish("", "heavy", bytes(100_000))
    eventually(lambda: filling.counts("heavy")[0] == 10, "n1 holds messages")
    trio.ctl(n1, "set_vm_memory_high_watermark", "absolute", "1MB")
    for client in clients:
        client.publish("", n2.name, b"in vain")
        client.connection.expect(0, "connection.blocked", BLOCKED_S_MAX)
    trio.ctl(n1, "set_vm_memory_high_watermark", "0.4")
    for client in clients:
        client.connection.expect(0, "connection.unblocked", BLOCKED_S_MAX)
    filling.call("queue.delete", queue="heavy")


def test_an_etcd_member_that_is_killed_is_started_again_and_definitions_change_all_the_while(trio: Trio) -> None:
    n1, n2, _n3 = trio.nodes
    killed = trio.etcd_pid(n1)
    channels = [trio.channel(node) for node in (n1, n2)]
    trio.signal_etcd(n1, signal.SIGKILL)
    declared = 0
    while trio.etcd_pid(n1) in (0, killed):
        for channel in channels:
            declared += 1
            declare(channel, f"declared {declared}", durable=True)
    for number in range(1, declared + 1):
        channels[number % 2].call("queue.delete", queue=f"declared {number}")


def test_without_a_majority_of_etcd_nothing_can_be_declared_and_messages_flow(trio: Trio, load: Load) -> None:
    n1, n2, n3 = trio.nodes
    declare(trio.channel(n1), "flowing", durable=True)
    load.on("flowing", publishing=n2, consuming=n3)
    load.await_progress()
    channels = {f"not at {node.name}": trio.channel(node) for node in trio.nodes}
    for node in (n2, n3):
        trio.signal_etcd(node, signal.SIGSTOP)
    start = time.monotonic()
    for queue, channel in channels.items():
        channel.send("queue.declare", queue=queue, durable=True)
    load.await_progress()
    for channel in channels.values():
        close = channel.expect("channel.close", REFUSED_S_MAX, reply_code=406)
        assert close.reply_text.startswith("PRECONDITION_FAILED - the nodes of the cluster could not agree: ")
    assert time.monotonic() < start + REFUSED_S_MAX
    for node in (n2, n3):
        trio.signal_etcd(node, signal.SIGCONT)
    for node in trio.nodes:
        eventually(
            lambda node=node: refusal(node, "queue.declare", queue="now", durable=True) == (0, ""),  # type: ignore[misc]
            f"{node.name} can change definitions again",
        )
    # a resumed member may make a change that was requested before; then all nodes know it
    for queue in channels:
        eventually(
            lambda queue=queue: len({knows(node, queue) for node in trio.nodes}) == 1,  # type: ignore[misc]
            f"all nodes know the same of {queue}",
        )
        declare(trio.channel(n1), queue, durable=True)
        assert all(knows(node, queue) for node in trio.nodes)
    load.settle()


def test_a_node_that_lost_the_data_of_its_etcd_comes_back_as_a_new_member(trio: Trio) -> None:
    _n1, n2, n3 = trio.nodes
    keeping = trio.channel(n3)
    keeping.confirm()
    keeping.publish("", n3.name, b"kept", PERSISTENT)
    keeping.confirms([1])
    n3.kill()
    trio.signal_etcd(n3, signal.SIGKILL)
    eventually(lambda: not trio.etcd_pid(n3), "its member is gone")
    shutil.rmtree(trio.etcd_directory(n3))
    declare(trio.channel(n2), "declared meanwhile", durable=True)
    n3.start()
    eventually(trio.is_whole, "all nodes reach one another")
    channel = trio.channel(n3)
    kept = channel.get(n3.name)
    assert kept is not None
    assert kept.body == b"kept"
    # its member has a vote: with another one stopped, two of three still agree
    trio.signal_etcd(n2, signal.SIGSTOP)
    channel.call("queue.delete", queue="declared meanwhile")
