"""The bytes that the node counts as held: every message it has, and no others.

Each test ends with everything consumed, dropped or closed; the count must be 0 again.
"""

import pytest

from tests.support.core_driver import Client, Core, content, published, spoken
from warren.broker.model.settings import BrokerSettings
from warren.wire.methods import (
    BasicAck,
    BasicGet,
    BasicNack,
    BasicPublish,
    ChannelClose,
    ExchangeDelete,
    QueueDelete,
    QueuePurge,
    TxCommit,
    TxRollback,
    TxSelect,
)
from warren.wire.properties import Properties

BODY = bytes(50_000)


@pytest.fixture
def client(core: Core) -> Client:
    client = core.client()
    client.declare("q")
    assert core.held_bytes() == 0
    return client


def delayed(key: str, milliseconds: int) -> bytes:
    return published(key, BODY, "late", Properties(headers={"x-delay": milliseconds}))


def test_a_message_is_held_until_it_is_acked(core: Core, client: Client) -> None:
    client.publish("q", BODY, BODY)
    assert core.held_bytes() > 100_000
    client.consume("q")
    assert core.held_bytes() > 100_000
    client.say(BasicAck(1))
    assert 50_000 < core.held_bytes() < 100_000
    client.say(BasicAck(2))
    assert core.held_bytes() == 0


def test_a_message_that_needs_no_ack_is_held_until_it_is_sent(core: Core, client: Client) -> None:
    client.publish("q", BODY)
    client.say(BasicGet(queue="q", no_ack=True))
    assert core.held_bytes() == 0


def test_a_message_in_two_queues_is_held_in_both(core: Core, client: Client) -> None:
    client.declare("r")
    client.bind("q", "amq.fanout")
    client.bind("r", "amq.fanout")
    client.publish("", BODY, exchange="amq.fanout")
    both = core.held_bytes()
    client.say(QueuePurge(queue="r"))
    assert core.held_bytes() * 2 == both
    client.say(QueueDelete(queue="q"))
    assert core.held_bytes() == 0


@pytest.mark.parametrize("requeue", [True, False])
def test_a_refused_message_is_held_as_long_as_it_stays(core: Core, client: Client, requeue: bool) -> None:
    client.publish("q", BODY)
    client.say(BasicGet(queue="q"))
    client.say(BasicNack(delivery_tag=1, requeue=requeue))
    assert (core.held_bytes() > 0) is requeue
    client.say(QueuePurge(queue="q"))
    assert core.held_bytes() == 0


def test_a_message_without_a_queue_is_not_held(core: Core, client: Client) -> None:
    client.publish("nowhere", BODY)
    client.read(published("nowhere", BODY, mandatory=True))
    assert core.held_bytes() == 0


@pytest.mark.parametrize("end", ["queue.delete", "lose", "expire"])
def test_a_queue_that_ends_holds_nothing(core: Core, client: Client, end: str) -> None:
    client.declare("mine", {"x-expires": 1000}, exclusive=True)
    client.publish("mine", BODY, BODY)
    client.say(BasicGet(queue="mine"))
    if end == "queue.delete":
        client.say(QueueDelete(queue="mine"))
    elif end == "lose":
        client.lose()
    else:
        core.pass_ms(1001)
    assert core.held_bytes() == 0


def test_an_expired_message_is_held_no_more(core: Core, client: Client) -> None:
    client.declare("short", {"x-message-ttl": 100})
    client.publish("short", BODY, BODY)
    core.pass_ms(101)
    assert core.held_bytes() == 0


def test_a_dead_letter_is_held_where_it_went(core: Core, client: Client) -> None:
    client.declare("short", {"x-message-ttl": 100, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
    client.publish("short", BODY)
    core.pass_ms(101)
    assert core.held_bytes() > 50_000
    client.say(QueuePurge(queue="q"))
    assert core.held_bytes() == 0


@pytest.mark.parametrize("end", ["complete", "channel.close", "lose", "interrupt"])
def test_content_on_its_way_is_held_until_it_is_complete_or_given_up(core: Core, client: Client, end: str) -> None:
    frames = content(bytes(300_000))
    client.read(spoken(BasicPublish("", "nowhere")) + frames[:200_000])
    assert core.held_bytes() > 100_000
    if end == "complete":
        client.read(frames[200_000:])
    elif end == "lose":
        client.lose()
    else:
        # another frame where content is due closes the connection
        rest = frames[200_000 : 14 + 8 + 131_072 * 2]
        client.read(rest + spoken(ChannelClose(200, "bye") if end == "channel.close" else BasicGet(queue="q")))
        assert client.names() == ["connection.close"]
    assert core.held_bytes() == 0


def test_content_refused_for_its_size_is_not_held() -> None:
    core = Core(BrokerSettings(max_message_size=100_000))
    client = core.client()
    frames = content(bytes(300_000))
    client.read(spoken(BasicPublish("", "nowhere")) + frames[:140_000])
    # its header is enough to refuse it
    assert client.names() == ["channel.close"]
    client.read(frames[140_000:])
    assert client.heard() == []
    assert core.held_bytes() == 0


@pytest.mark.parametrize("end", ["commit", "rollback", "channel.close", "lose"])
def test_bytes_held_by_a_transaction_are_released_at_its_end(core: Core, client: Client, end: str) -> None:
    client.say(TxSelect())
    client.publish("nowhere", BODY, BODY)
    assert core.held_bytes() > 100_000
    if end == "lose":
        client.lose()
    else:
        methods = {"commit": TxCommit(), "rollback": TxRollback(), "channel.close": ChannelClose(200, "bye")}
        client.say(methods[end])
    assert core.held_bytes() == 0


def test_acks_of_a_transaction_count_when_it_commits(core: Core, client: Client) -> None:
    client.publish("q", BODY)
    client.say(TxSelect(), BasicGet(queue="q"), BasicAck(1))
    assert core.held_bytes() > 50_000
    client.say(TxCommit())
    assert core.held_bytes() == 0


def test_a_delayed_message_is_held_while_it_waits(core: Core, client: Client) -> None:
    client.declare_exchange("late", "x-delayed-message", {"x-delayed-type": "direct"})
    client.read(delayed("k", 1000) + delayed("k", 2000))
    assert core.held_bytes() > 100_000
    core.pass_ms(1000)
    assert 50_000 < core.held_bytes() < 100_000
    core.pass_ms(1000)
    assert core.held_bytes() == 0


def test_messages_of_a_delaying_exchange_are_let_go_when_it_is_deleted(core: Core, client: Client) -> None:
    client.declare_exchange("late", "x-delayed-message", {"x-delayed-type": "direct"})
    client.bind("q", "late")
    client.read(delayed("k", 1000))
    client.say(ExchangeDelete(exchange="late"))
    assert core.held_bytes() == 0
