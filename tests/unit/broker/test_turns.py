"""The work of one turn, its order, and its batching."""

from tests.support.core_driver import Core, content, published, sent_to, spoken, without_notes
from warren.broker.model.effects import SendBytes
from warren.broker.model.events import BytesReceived, ConnectionDropped
from warren.broker.model.settings import BrokerSettings
from warren.wire.methods import (
    BasicAck,
    BasicDeliver,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    QueueDeclare,
    QueueDeclareOk,
    encode_method,
)

WITHOUT_TIMERS = BrokerSettings(consumer_timeout_ms=0)


def test_many_publishes_in_one_read_make_one_delivery_write_and_one_confirm() -> None:
    core = Core(WITHOUT_TIMERS)
    publisher, consumer = core.client(), core.client()
    publisher.declare("q")
    publisher.confirm()
    consumer.consume("q", no_ack=True)
    consumer.heard()
    bodies = [b"%d" % number for number in range(500)]
    deliveries = b"".join(
        encode_method(1, BasicDeliver("c", tag, False, "", "q")) + content(body) for tag, body in enumerate(bodies, 1)
    )
    assert publisher.publish("q", *bodies) == [
        SendBytes(publisher.number, encode_method(1, BasicAck(500, True))),
        SendBytes(consumer.number, deliveries),
    ]


def test_the_reads_of_several_connections_in_one_turn_make_one_write_each() -> None:
    core = Core(WITHOUT_TIMERS)
    publishers = [core.client() for _ in range(3)]
    consumer = core.client()
    consumer.declare("q")
    consumer.consume("q")
    consumer.heard()
    reads = [BytesReceived(one.number, published("q", b"%d" % one.number) * 2) for one in publishers]
    effects = core.turn(*reads)
    assert [type(effect) for effect in effects] == [SendBytes]
    assert consumer.bodies() == [b"1", b"1", b"2", b"2", b"3", b"3"]


def test_a_single_publish_is_confirmed_by_itself() -> None:
    core = Core(WITHOUT_TIMERS)
    client = core.client()
    client.confirm()
    client.declare("q")
    client.publish("q", b"")
    client.publish("q", b"")
    assert client.methods() == [BasicAck(1, False), BasicAck(2, False)]


def test_publishes_that_find_no_queue_are_confirmed_one_by_one() -> None:
    core = Core(WITHOUT_TIMERS)
    client = core.client()
    client.confirm()
    client.publish("nowhere", b"", b"", b"")
    assert client.methods() == [BasicAck(1, False), BasicAck(2, False), BasicAck(3, False)]


def test_a_return_goes_ahead_of_the_confirm_of_its_publish() -> None:
    core = Core(WITHOUT_TIMERS)
    client = core.client()
    client.declare("q")
    client.confirm()
    client.read(published("q") + published("nowhere", b"back", mandatory=True) + published("q"))
    heard = client.heard()
    assert [one.method for one in heard] == [
        BasicReturn(312, "NO_ROUTE", "", "nowhere"),
        BasicAck(2, True),
        BasicAck(3, False),
    ]
    assert heard[0].body == b"back"


def test_confirms_round_a_refused_publish_do_not_overlap() -> None:
    core = Core(WITHOUT_TIMERS)
    client = core.client()
    client.declare("full", {"x-max-length": 1, "x-overflow": "reject-publish"})
    client.declare("roomy")
    client.confirm()
    keys = ["roomy", "roomy", "full", "full", "full", "roomy", "full", "roomy"]
    client.read(b"".join(published(key) for key in keys))
    assert client.methods() == [
        BasicAck(3, True),
        BasicNack(4, False, True),
        BasicNack(5, False, True),
        BasicAck(6, False),
        BasicNack(7, False, True),
        BasicAck(8, False),
    ]


def test_each_channel_gets_confirms_of_its_own_publishes() -> None:
    core = Core(WITHOUT_TIMERS)
    client = core.client(channels=2)
    client.declare("q")
    client.confirm(1)
    client.confirm(2)
    client.read(published("q") + published("q", channel=2) + published("q") + published("q"))
    assert [(one.channel, one.method) for one in client.heard()] == [(1, BasicAck(3, True)), (2, BasicAck(1, False))]


def test_a_channel_closed_in_the_same_read_has_its_confirms_first() -> None:
    core = Core(WITHOUT_TIMERS)
    client = core.client()
    client.declare("q")
    client.confirm()
    client.read(published("q") * 3 + spoken(ChannelClose(200, "bye")))
    assert client.methods() == [BasicAck(3, True), ChannelCloseOk()]


def test_a_channel_that_fails_in_the_same_read_has_its_confirms_first() -> None:
    core = Core(WITHOUT_TIMERS)
    client = core.client()
    client.declare("q")
    client.confirm()
    client.read(published("q") * 2 + published("q", exchange="missing") + published("q"))
    methods = client.methods()
    assert methods[0] == BasicAck(2, True)
    assert [method.name for method in methods] == ["basic.ack", "channel.close"]


def test_a_channel_number_reopened_in_the_same_read_counts_anew() -> None:
    core = Core(WITHOUT_TIMERS)
    client = core.client()
    client.declare("q")
    client.confirm()
    again = spoken(ChannelClose(200, "bye"), ChannelOpen(), ConfirmSelect(nowait=True))
    client.read(published("q") * 3 + again + published("q") * 2)
    assert client.methods() == [BasicAck(3, True), ChannelCloseOk(), ChannelOpenOk(), BasicAck(2, True)]


def test_a_declaration_and_its_use_in_one_read_are_answered_in_order() -> None:
    core = Core(WITHOUT_TIMERS)
    client = core.client()
    client.read(spoken(QueueDeclare(queue="q")) + published("q", b"body") + spoken(BasicGet(queue="q", no_ack=True)))
    heard = client.heard()
    assert [one.method.name for one in heard] == ["queue.declare-ok", "basic.get-ok"]
    assert heard[0].method == QueueDeclareOk("q", 0, 0)
    assert heard[1].body == b"body"


def test_a_publish_cut_anywhere_between_two_reads_is_one_message() -> None:
    core = Core(WITHOUT_TIMERS)
    client = core.client()
    client.declare("q")
    client.consume("q", no_ack=True)
    client.heard()
    frames = published("q", b"body")
    for cut in range(1, len(frames)):
        client.read(frames[:cut])
        assert client.bodies() == []
        client.read(frames[cut:])
        assert client.bodies() == [b"body"]


def test_a_message_dead_lettered_in_a_turn_reaches_its_dead_letter_queue_in_that_turn() -> None:
    core = Core(WITHOUT_TIMERS)
    client = core.client()
    client.declare("grave")
    client.declare("short", {"x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"})
    client.consume("grave", no_ack=True)
    client.heard()
    effects = client.publish("short", b"1", b"2", b"3")
    assert client.bodies() == [b"1", b"2"]
    assert len(without_notes(effects)) == 1


def test_events_of_unknown_connections_are_ignored() -> None:
    core = Core(WITHOUT_TIMERS)
    client = core.client()
    client.lose()
    assert core.turn(BytesReceived(client.number, b"late"), ConnectionDropped(client.number)) == []


def test_deliveries_of_a_lost_connection_go_to_the_others_in_the_same_turn() -> None:
    core = Core(WITHOUT_TIMERS)
    first, second = core.client(), core.client()
    first.declare("q")
    first.consume("q")
    first.publish("q", b"1", b"2")
    second.consume("q")
    second.heard()
    effects = first.lose()
    assert second.bodies() == [b"1", b"2"]
    assert len(sent_to(second, effects)) == 1


def test_a_publish_whose_content_never_comes_is_no_message() -> None:
    core = Core(WITHOUT_TIMERS)
    client, other = core.client(), core.client()
    client.declare("q")
    client.say(BasicPublish("", "q"))
    client.lose()
    other.say(BasicGet(queue="q"))
    assert other.names() == ["basic.get-empty"]


def test_time_never_runs_backwards() -> None:
    core = Core(WITHOUT_TIMERS)
    client = core.client()
    client.declare("q", {"x-message-ttl": 1000})
    core.broker.handle([BytesReceived(client.number, published("q", b"lives a second"))], core.now_ms - 5_000)
    core.pass_ms(999)
    client.say(BasicGet(queue="q"))
    assert client.bodies() == [b"lives a second"]
