"""A queue of another node, used as one of this node is.

Not here: any mixture of operations (`test_same_as_local`), lost links (`test_lost_links`).
"""

from tests.support.core_driver import Client, published
from tests.unit.broker.links.linked import Together
from tests.unit.broker.sessions.journalled import PERSISTENT, persistent
from warren.broker.model.events import WritesPaused
from warren.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicReject,
    ChannelClose,
    TxCommit,
    TxCommitOk,
    TxSelect,
)


def deliveries(client: Client) -> list[bytes]:
    return [heard.body for heard in client.heard() if heard.method.name == "basic.deliver"]


def test_publishes_of_another_node_are_in_the_queue_in_order(nodes: Together, client: Client) -> None:
    queue = nodes.place("q", "there")
    client.publish("q", b"1", b"2", b"3")
    nodes.settle()
    assert queue.ready_count() == 3
    reader = nodes.client("there")
    reader.consume("q")
    assert deliveries(reader) == [b"1", b"2", b"3"]


def test_a_message_for_several_queues_goes_over_the_link_once(nodes: Together, client: Client) -> None:
    queues = [nodes.place(name, "there") for name in "abc"]
    for queue in queues:
        client.bind(queue.name, "amq.fanout")
    nodes.settle()
    client.publish("", b"x" * 1000, b"y" * 1000, exchange="amq.fanout")
    assert sum(len(effect.data) for effect in nodes["here"].sent) < 3000
    nodes.settle()
    assert [queue.ready_count() for queue in queues] == [2, 2, 2]
    reader = nodes.client("there")
    reader.consume("c")
    assert deliveries(reader) == [b"x" * 1000, b"y" * 1000]


def test_a_queue_that_its_home_does_not_know_yet_is_found_later(nodes: Together, client: Client) -> None:
    queue = nodes.place("q", "there")
    topology = nodes["there"].node.only_vhost.topology
    topology.remove_queue(queue)
    client.confirm()
    client.publish("q", b"1")
    nodes.settle()
    assert client.methods() == [BasicNack(1, requeue=True)]
    topology.add_queue(queue)
    client.publish("q", b"2")
    nodes.settle()
    assert client.methods() == [BasicAck(2)]
    assert queue.ready_count() == 1


def test_a_client_elsewhere_consumes_and_acks(nodes: Together, client: Client) -> None:
    queue = nodes.place("q", "there")
    nodes.client("there").publish("q", b"1", b"2", b"3")
    client.consume("q")
    nodes.settle()
    heard = client.heard()
    assert heard[0].method == BasicConsumeOk("c")
    assert [one.body for one in heard[1:]] == [b"1", b"2", b"3"]
    assert (queue.ready_count(), queue.unacked_count(), queue.consumer_count()) == (0, 3, 1)
    client.say(BasicAck(2, multiple=True))
    nodes.settle()
    assert queue.unacked_count() == 1


def test_unacked_deliveries_are_requeued_when_their_channel_closes(nodes: Together, client: Client) -> None:
    queue = nodes.place("q", "there")
    nodes.client("there").publish("q", b"1", b"2")
    client.consume("q")
    nodes.settle()
    client.say(ChannelClose(200, "bye", 0, 0))
    nodes.settle()
    assert (queue.ready_count(), queue.unacked_count(), queue.consumer_count()) == (2, 0, 0)
    again = nodes.client("here")
    again.consume("q")
    nodes.settle()
    redelivered = [one.method.redelivered for one in again.heard()[1:]]  # type: ignore[attr-defined]
    assert redelivered == [True, True]


def test_no_consumer_of_a_closing_channel_gets_requeued_deliveries_of_another(nodes: Together, client: Client) -> None:
    nodes.place("q", "there")
    client.consume("q", tag="one")
    client.consume("q", tag="two")
    nodes.settle()
    nodes.client("there").publish("q", b"1", b"2")
    nodes.settle()
    heir = nodes.client("there")
    heir.consume("q")
    client.say(ChannelClose(200, "bye", 0, 0))
    nodes.settle()
    assert deliveries(heir) == [b"1", b"2"]


def test_prefetch_holds_at_the_home(nodes: Together, client: Client) -> None:
    queue = nodes.place("q", "there")
    nodes.client("there").publish("q", b"1", b"2", b"3")
    client.say(BasicQos(0, 2, False))
    client.heard()
    client.consume("q")
    nodes.settle()
    assert deliveries(client) == [b"1", b"2"]
    assert (queue.ready_count(), queue.unacked_count()) == (1, 2)
    client.say(BasicAck(1))
    nodes.settle()
    assert deliveries(client) == [b"3"]


def test_a_global_prefetch_holds_at_the_home_whenever_it_is_set(nodes: Together, client: Client) -> None:
    queue = nodes.place("q", "there")
    client.say(BasicQos(0, 3, True))
    client.heard()
    client.consume("q")
    nodes.settle()
    client.say(BasicQos(0, 1, True))
    nodes.settle()
    nodes.client("there").publish("q", b"1", b"2", b"3", b"4")
    nodes.settle()
    assert deliveries(client) == [b"1"]
    assert (queue.ready_count(), queue.unacked_count()) == (3, 1)
    client.say(BasicQos(0, 0, True))
    nodes.settle()
    assert deliveries(client) == [b"2", b"3", b"4"]


def test_a_prefetch_that_two_consumers_share_holds_at_the_client(nodes: Together, client: Client) -> None:
    nodes.place("q", "there")
    client.say(BasicQos(0, 1, True))
    client.consume("q", tag="one")
    client.consume("q", tag="two")
    nodes.settle()
    nodes.client("there").publish("q", b"1", b"2", b"3")
    nodes.settle()
    for tag, body in enumerate([b"1", b"2", b"3"], 1):
        assert deliveries(client) == [body]
        client.say(BasicAck(tag))
        nodes.settle()


def test_a_consumer_without_acks_takes_everything(nodes: Together, client: Client) -> None:
    queue = nodes.place("q", "there")
    bodies = [b"%d" % number for number in range(5000)]
    nodes.client("there").publish("q", *bodies)
    client.consume("q", no_ack=True)
    nodes.settle()
    assert deliveries(client) == bodies
    assert (queue.ready_count(), queue.unacked_count()) == (0, 0)


def test_messages_that_a_cancelled_consumer_did_not_get_are_not_redelivered(nodes: Together, client: Client) -> None:
    queue = nodes.place("q", "there")
    client.consume("q")
    nodes.settle()
    nodes.client("there").publish("q", b"1")
    nodes.settle()
    client.heard()
    nodes["here"].turn(WritesPaused(client.number))
    nodes.client("there").publish("q", b"2", b"3")
    nodes.settle()
    assert queue.unacked_count() == 3
    client.say(BasicCancel("c"))
    nodes.settle()
    assert client.methods() == [BasicCancelOk("c")]
    assert (queue.ready_count(), queue.unacked_count(), queue.consumer_count()) == (2, 1, 0)
    other = nodes.client("there")
    other.consume("q")
    assert [one.method.redelivered for one in other.heard()[1:]] == [False, False]  # type: ignore[attr-defined]


def test_messages_that_a_cancelled_consumer_did_not_get_are_marked_after_later_deliveries(
    nodes: Together, client: Client
) -> None:
    nodes.place("q", "there")
    nodes["here"].turn(WritesPaused(client.number))
    client.consume("q")
    nodes.settle()
    nodes.client("there").publish("q", b"1")
    nodes.settle()
    other = nodes.client("there")
    other.consume("q", tag="d")
    client.say(BasicCancel("c"))
    # the other consumer gets a later message before the home handles the cancel
    nodes.client("there").publish("q", b"2", b"3")
    nodes.settle()
    given = [(one.body, one.method.redelivered) for one in other.heard() if isinstance(one.method, BasicDeliver)]
    assert given == [(b"3", False), (b"1", True), (b"2", True)]


def test_get_returns_a_message_or_get_empty(nodes: Together, client: Client) -> None:
    queue = nodes.place("q", "there")
    client.say(BasicGet("q", no_ack=False))
    nodes.settle()
    assert client.methods() == [BasicGetEmpty()]
    nodes.client("there").publish("q", b"1", b"2")
    client.say(BasicGet("q", no_ack=False))
    nodes.settle()
    (heard,) = client.heard()
    assert (heard.method, heard.body) == (BasicGetOk(1, False, "", "q", 1), b"1")
    client.say(BasicReject(1, requeue=True))
    nodes.settle()
    assert (queue.ready_count(), queue.unacked_count()) == (2, 0)
    client.say(BasicGet("q", no_ack=True))
    nodes.settle()
    assert client.methods() == [BasicGetOk(2, True, "", "q", 1)]
    assert (queue.ready_count(), queue.unacked_count()) == (1, 0)


def test_a_message_got_for_a_client_that_is_gone_is_requeued_unmarked(nodes: Together, client: Client) -> None:
    queue = nodes.place("q", "there")
    nodes.client("there").publish("q", b"1")
    client.say(BasicGet("q", no_ack=False))
    client.lose()
    nodes.settle()
    assert (queue.ready_count(), queue.unacked_count()) == (1, 0)
    other = nodes.client("there")
    other.say(BasicGet("q", no_ack=False))
    assert other.methods() == [BasicGetOk(1, False, "", "q", 0)]


def test_an_exclusive_consumer_keeps_others_out(nodes: Together, client: Client) -> None:
    nodes.place("q", "there")
    nodes.client("there").say(BasicConsume("q", "alone", exclusive=True))
    client.consume("q")
    nodes.settle()
    (close,) = client.methods()
    assert isinstance(close, ChannelClose)
    assert (close.reply_code, close.reply_text) == (403, "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use")


def test_a_confirm_waits_for_the_home_and_its_disk() -> None:
    nodes = Together("here", "there", flushes=False)
    nodes.place("q", "there", durable=True)
    client = nodes.client("here")
    client.confirm()
    client.read(persistent("q", b"1", b"2", b"3"))
    nodes.settle()
    assert client.methods() == []
    nodes["there"].flush()
    nodes.settle()
    assert client.methods() == [BasicAck(3, multiple=True)]


def test_a_full_queue_elsewhere_refuses(nodes: Together, client: Client) -> None:
    nodes.place("q", "there", {"x-max-length": 1, "x-overflow": "reject-publish"})
    client.confirm()
    client.publish("q", b"1", b"2", b"3")
    nodes.settle()
    assert client.methods() == [BasicNack(2, requeue=True), BasicNack(3, requeue=True), BasicAck(1)]
    (counter,) = nodes["here"].connections[client.number].channels[1].publish_counters()
    assert (counter.published, counter.confirmed) == (3, 1)


def test_a_message_for_queues_here_and_elsewhere_is_confirmed_when_all_have_it() -> None:
    nodes = Together("here", "there", "yonder", flushes=False)
    client = nodes.client("here")
    for name, home in (("a", "here"), ("b", "there"), ("c", "yonder")):
        nodes.place(name, home, durable=True)
        client.bind(name, "amq.fanout")
    nodes.settle()
    client.confirm()
    client.read(published("", b"1", "amq.fanout", PERSISTENT))
    nodes.settle()
    for node in ("yonder", "here"):
        nodes[node].flush()
        nodes.settle()
        assert client.methods() == []
    nodes["there"].flush()
    nodes.settle()
    assert client.methods() == [BasicAck(1)]


def test_a_commit_waits_for_the_homes_of_its_publishes_and_acks() -> None:
    nodes = Together("here", "there", flushes=False)
    nodes.place("q", "there", durable=True)
    client = nodes.client("here")
    client.say(TxSelect())
    client.read(persistent("q", b"1"))
    client.heard()
    client.say(TxCommit())
    nodes.settle()
    assert client.methods() == []
    nodes["there"].flush()
    nodes.settle()
    assert client.methods() == [TxCommitOk()]
    client.say(BasicGet("q", no_ack=False))
    nodes.settle()
    client.heard()
    client.say(BasicAck(1), TxCommit())
    nodes.settle()
    assert client.methods() == []
    nodes["there"].flush()
    nodes.settle()
    assert client.methods() == [TxCommitOk()]
    assert nodes["there"].queue("q").unacked_count() == 0


def test_a_queue_deleted_at_home_cancels_consumers_everywhere(nodes: Together, client: Client) -> None:
    nodes.place("q", "there")
    client.consume("q")
    nodes.settle()
    client.heard()
    home = nodes["there"]
    home.node.only_vhost.delete_queue(home.queue("q"))
    nodes.settle()
    home.turn()
    nodes.settle()
    assert client.methods() == [BasicCancel("c", nowait=True)]
