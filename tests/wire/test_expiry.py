"""Messages and queues that expire: per queue, per message, at once, and what keeps an expiring queue alive."""

import time
from typing import Any

import pytest

from tests.support.amqp_client import Channel
from tests.wire.conftest import Connect, Unique

# A broker's clock may count whole milliseconds.
CLOCK_TICK_S = 0.001


def queue_of(channel: Channel, **arguments: Any) -> str:
    queue: str = channel.call("queue.declare", exclusive=True, arguments=arguments).queue
    return queue


def test_messages_expire_after_the_queues_ttl(channel: Channel) -> None:
    queue = queue_of(channel, **{"x-message-ttl": 150})
    begun = time.monotonic()
    channel.confirm()
    for _ in range(3):
        channel.publish("", queue)
    channel.confirms([1, 2, 3])
    channel.await_counts(queue, 0)
    assert time.monotonic() - begun > 0.15 - CLOCK_TICK_S


def test_a_message_expires_after_its_own_ttl(channel: Channel) -> None:
    queue = queue_of(channel)
    channel.confirm()
    channel.publish("", queue, b"brief", {"expiration": "100"})
    channel.publish("", queue, b"lasting")
    channel.confirms([1, 2])
    channel.await_counts(queue, 1)
    received = channel.get(queue)
    assert received is not None
    assert received.body == b"lasting"


@pytest.mark.parametrize(("queue_ttl", "expiration"), [(60000, "100"), (100, "60000")])
def test_the_shorter_ttl_counts(channel: Channel, queue_ttl: int, expiration: str) -> None:
    queue = queue_of(channel, **{"x-message-ttl": queue_ttl})
    channel.confirm()
    channel.publish("", queue, b"", {"expiration": expiration})
    channel.confirms([1])
    channel.await_counts(queue, 0)


def test_a_message_behind_a_lasting_one_expires_only_at_the_head(channel: Channel) -> None:
    queue, probe = queue_of(channel), queue_of(channel, **{"x-message-ttl": 100})
    channel.confirm()
    channel.publish("", queue, b"lasting")
    channel.publish("", queue, b"brief", {"expiration": "1"})
    channel.publish("", probe)
    channel.confirms([1, 2, 3])
    channel.await_counts(probe, 0)
    assert channel.counts(queue) == (2, 0)
    received = channel.get(queue)
    assert received is not None
    assert received.body == b"lasting"
    assert channel.get(queue) is None


def test_a_message_with_no_time_at_all_reaches_only_a_waiting_consumer(channel: Channel) -> None:
    queue = queue_of(channel, **{"x-message-ttl": 0})
    channel.confirm()
    channel.publish("", queue, b"missed")
    channel.confirms([1])
    assert channel.get(queue) is None
    channel.consume(queue, no_ack=True)
    channel.publish("", queue, b"caught")
    replies = [channel.next() for _ in range(2)]
    assert {reply.name for reply in replies} == {"basic.ack", "basic.deliver"}
    assert [reply.body for reply in replies if reply.name == "basic.deliver"] == [b"caught"]


def test_an_expiration_of_zero_drops_the_message_unless_someone_waits(channel: Channel) -> None:
    queue = queue_of(channel)
    channel.publish("", queue, b"missed", {"expiration": "0"})
    assert channel.get(queue) is None
    channel.consume(queue, no_ack=True)
    channel.publish("", queue, b"caught", {"expiration": "0"})
    assert channel.bodies(1) == [b"caught"]


def test_a_delivered_message_does_not_expire_until_it_returns(channel: Channel) -> None:
    queue = queue_of(channel, **{"x-message-ttl": 100})
    probe = queue_of(channel, **{"x-message-ttl": 200})
    channel.consume(queue, "c")
    channel.publish("", queue, b"held")
    channel.deliveries(1)
    channel.confirm()
    channel.publish("", probe)
    channel.confirms([1])
    channel.await_counts(probe, 0)
    channel.call("basic.cancel", consumer_tag="c")
    channel.send("basic.nack", delivery_tag=1, requeue=True)
    assert channel.get(queue) is None


def test_an_unused_queue_expires(connect: Connect, unique: Unique) -> None:
    queue = unique("lease")
    channel = connect().channel()
    begun = time.monotonic()
    channel.call("queue.declare", queue=queue, arguments={"x-expires": 200})
    channel.publish("", queue, b"does not count as use")
    await_gone_without_asking(channel, queue)
    assert time.monotonic() - begun > 0.2 - CLOCK_TICK_S


def await_gone_without_asking(channel: Channel, queue: str) -> None:
    """A mandatory message asks whether a queue exists without counting as its use."""
    deadline = time.monotonic() + 30
    asking = channel.connection.channel()
    asking.confirm()
    while time.monotonic() < deadline:
        asking.publish("", queue, b"", mandatory=True)
        if asking.next().name == "basic.return":
            asking.expect("basic.ack")
            return
    raise AssertionError(f"{queue} never expired")


def test_a_consumer_keeps_an_expiring_queue_and_its_end_starts_the_lease(connect: Connect, unique: Unique) -> None:
    queue, probe = unique("lease"), unique("probe")
    channel, other = connect().channel(), connect().channel()
    with channel.connection.one_write():
        channel.send("queue.declare", queue=queue, arguments={"x-expires": 1000})
        channel.send("basic.consume", queue=queue)
    channel.expect("queue.declare-ok")
    tag = channel.expect("basic.consume-ok").consumer_tag
    other.call("queue.declare", queue=probe, arguments={"x-expires": 1300})
    await_gone_without_asking(other, probe)
    assert channel.counts(queue) == (0, 1)
    channel.call("basic.cancel", consumer_tag=tag)
    await_gone_without_asking(other, queue)


@pytest.mark.parametrize(("method", "fields"), [("queue.declare", {"passive": False}), ("basic.get", {})])
def test_declaring_again_or_getting_renews_the_lease(
    connect: Connect, unique: Unique, method: str, fields: dict[str, Any]
) -> None:
    queue = unique("lease")
    # longer than a busy machine leaves this process waiting
    lease_s = 4.0
    arguments = {"x-expires": int(1000 * lease_s)}
    channel, other = connect().channel(), connect().channel()
    channel.call("queue.declare", queue=queue, arguments=arguments)
    begun = time.monotonic()
    while time.monotonic() - begun < lease_s + 0.5:
        if method == "queue.declare":
            channel.call(method, queue=queue, arguments=arguments, **fields)
        else:
            assert channel.get(queue) is None
    await_gone_without_asking(other, queue)


def test_the_expiration_property_reaches_the_consumer(channel: Channel) -> None:
    queue = queue_of(channel)
    channel.publish("", queue, b"", {"expiration": "60000"})
    received = channel.get(queue)
    assert received is not None
    assert received.properties == {"expiration": "60000"}
