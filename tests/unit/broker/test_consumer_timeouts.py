"""Deliveries that time out: their channel is closed, or they are requeued, depending on the settings."""

import pytest

from tests.support.core_driver import Client, Core, published
from warren.broker.model.settings import REQUEUE_DELIVERY, BrokerSettings
from warren.wire.methods import BasicAck, BasicDeliver, BasicGet, BasicQos, ChannelClose, QueueDeclare, QueueDeclareOk

LIMIT_MS = 10_000
# checked every half limit, to the second
LATEST_MS = LIMIT_MS + LIMIT_MS // 2 + 1_000


def closing() -> Core:
    return Core(BrokerSettings(consumer_timeout_ms=LIMIT_MS))


def requeueing() -> Core:
    return Core(BrokerSettings(consumer_timeout_ms=LIMIT_MS, consumer_timeout_action=REQUEUE_DELIVERY))


def consumer_of(core: Core) -> Client:
    client = core.client(channels=2)
    client.declare("q")
    client.consume("q")
    client.heard()
    return client


def ready(core: Core) -> tuple[int, int]:
    queue = core.broker.vhosts["/"].topology.queues["q"]
    return queue.ready_count(), queue.unacked_count()


def test_a_channel_with_a_late_delivery_is_closed_and_the_message_returns() -> None:
    core = closing()
    client = consumer_of(core)
    client.publish("q", b"x")
    client.heard()
    core.pass_ms(LATEST_MS)
    text = (
        "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 10000 ms. "
        "This timeout value can be configured, see consumers doc guide to learn more"
    )
    assert client.methods() == [ChannelClose(406, text)]
    assert ready(core) == (1, 0)
    assert core.note_names()[-1] == "channel.failed"


def test_no_delivery_is_late_within_its_limit() -> None:
    core = closing()
    client = consumer_of(core)
    for number in range(20):
        client.publish("q", b"x")
        core.pass_ms(LIMIT_MS - 1_500)
        client.say(BasicAck(number + 1))
    assert client.names() == ["basic.deliver"] * 20


def test_a_late_get_counts_as_well() -> None:
    core = closing()
    client = core.client()
    client.declare("q")
    client.publish("q", b"x")
    client.say(BasicGet(queue="q"))
    core.pass_ms(LATEST_MS)
    assert client.names() == ["basic.get-ok", "channel.close"]


def test_the_other_channels_of_the_connection_live_on() -> None:
    core = closing()
    client = consumer_of(core)
    client.publish("q", b"x")
    core.pass_ms(LATEST_MS)
    client.heard()
    client.say(QueueDeclare(queue="q", passive=True), channel=2)
    assert client.methods() == [QueueDeclareOk("q", 1, 0)]


def test_deliveries_that_need_no_ack_are_never_late() -> None:
    core = closing()
    client = core.client()
    client.declare("q")
    client.consume("q", no_ack=True)
    client.publish("q", b"x")
    core.pass_ms(3 * LATEST_MS)
    assert client.names() == ["basic.consume-ok", "basic.deliver"]


def test_where_deliveries_return_only_the_late_ones_do() -> None:
    core = requeueing()
    client = consumer_of(core)
    client.say(BasicQos(prefetch_count=0))
    client.publish("q", b"early")
    core.pass_ms(LIMIT_MS - 1_000)
    client.publish("q", b"later")
    client.heard()
    core.pass_ms(LATEST_MS - LIMIT_MS)
    heard = client.heard()
    assert [one.body for one in heard] == [b"early"]
    assert heard[0].method == BasicDeliver("c", 3, True, "", "q")
    assert core.note_names()[-1] == "delivery.timed_out"
    client.say(BasicAck(2), BasicAck(3))
    assert client.heard() == []
    assert ready(core) == (0, 0)


def test_the_late_ack_of_a_requeued_delivery_is_tolerated_once() -> None:
    core = requeueing()
    client = consumer_of(core)
    client.publish("q", b"x")
    core.pass_ms(LATEST_MS)
    client.heard()
    client.say(BasicAck(1))
    assert client.heard() == []
    assert ready(core) == (0, 1)
    client.say(BasicAck(1))
    (fault,) = client.methods()
    assert isinstance(fault, ChannelClose)
    assert fault.reply_text == "PRECONDITION_FAILED - unknown delivery tag 1"


def test_a_requeued_delivery_may_go_to_another_consumer() -> None:
    core = requeueing()
    first, second = core.client(), core.client()
    first.declare("q")
    for client in (first, second):
        client.consume("q", no_ack=False)
        client.heard()
    first.publish("q", b"x")
    assert (len(first.heard()), len(second.heard())) == (1, 0)
    core.pass_ms(LATEST_MS)
    assert (first.bodies(), second.bodies()) == ([], [b"x"])


@pytest.mark.parametrize("action", ["close", REQUEUE_DELIVERY])
def test_a_limit_of_nothing_is_no_limit(action: str) -> None:
    core = Core(BrokerSettings(consumer_timeout_ms=0, consumer_timeout_action=action))
    client = consumer_of(core)
    client.publish("q", b"x")
    core.pass_ms(10**9)
    assert client.names() == ["basic.deliver"]


def test_a_short_limit_is_looked_at_more_often_than_a_long_one() -> None:
    short, long = Core(BrokerSettings(consumer_timeout_ms=400)), Core(BrokerSettings())
    for core in (short, long):
        core.turn()
    assert (short.timer_at_ms - short.now_ms, long.timer_at_ms - long.now_ms) == (200, 60_000)


def test_a_backlog_behind_a_late_delivery_is_not_late() -> None:
    core = requeueing()
    client = core.client()
    client.declare("q")
    client.say(BasicQos(prefetch_count=1))
    client.consume("q")
    client.read(published("q", b"1") + published("q", b"2"))
    client.heard()
    core.pass_ms(LATEST_MS)
    assert [one.body for one in client.heard()] == [b"1"]
