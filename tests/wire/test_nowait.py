"""Methods that ask for no answer get none, and do their work all the same."""

from typing import Any

import pytest

from tests.support.amqp_client import Channel, Connection
from tests.wire.conftest import Unique
from tests.wire.faults import expect_fault


def test_declaring_and_deleting_a_queue_without_an_answer(channel: Channel, unique: Unique) -> None:
    queue = unique("quiet")
    channel.send("queue.declare", queue=queue, nowait=True)
    assert channel.counts(queue) == (0, 0)
    channel.send("queue.delete", queue=queue, nowait=True)
    channel.send("queue.declare", queue=queue, passive=True)
    expect_fault(channel, 404, f"NOT_FOUND - no queue '{queue}' in vhost '/'", "queue.declare")


def test_a_nameless_queue_declared_without_an_answer_is_known_as_the_last_one(channel: Channel) -> None:
    channel.send("queue.declare", exclusive=True, nowait=True)
    channel.call("queue.bind", exchange="amq.fanout")
    assert channel.call("queue.purge").message_count == 0


def test_declaring_and_deleting_an_exchange_without_an_answer(channel: Channel, unique: Unique) -> None:
    exchange = unique("quiet")
    channel.send("exchange.declare", exchange=exchange, type="topic", nowait=True)
    channel.call("exchange.declare", exchange=exchange, passive=True)
    channel.send("exchange.delete", exchange=exchange, nowait=True)
    channel.send("exchange.declare", exchange=exchange, passive=True)
    expect_fault(channel, 404, f"NOT_FOUND - no exchange '{exchange}' in vhost '/'", "exchange.declare")


def test_binding_and_purging_without_an_answer(channel: Channel, unique: Unique) -> None:
    source, target = unique("source"), unique("target")
    for exchange in (source, target):
        channel.send("exchange.declare", exchange=exchange, type="fanout", nowait=True)
    queue = channel.call("queue.declare", exclusive=True).queue
    channel.send("queue.bind", queue=queue, exchange=target, nowait=True)
    channel.send("exchange.bind", source=source, destination=target, nowait=True)
    channel.publish(source, "")
    assert channel.purged(queue) == 1
    channel.publish(source, "")
    channel.send("queue.purge", queue=queue, nowait=True)
    assert channel.purged(queue) == 0
    channel.send("exchange.unbind", source=source, destination=target, nowait=True)
    channel.publish(source, "")
    assert channel.purged(queue) == 0


def test_consuming_and_cancelling_without_an_answer(channel: Channel) -> None:
    queue = channel.call("queue.declare", exclusive=True).queue
    channel.send("basic.consume", queue=queue, consumer_tag="quiet", no_ack=True, nowait=True)
    channel.publish("", queue, b"x")
    channel.expect("basic.deliver", consumer_tag="quiet")
    channel.send("basic.cancel", consumer_tag="quiet", nowait=True)
    channel.await_counts(queue, 0, consumers=0)
    channel.publish("", queue, b"y")
    assert channel.purged(queue) == 1


def test_selecting_confirms_without_an_answer(channel: Channel) -> None:
    channel.send("confirm.select", nowait=True)
    channel.publish("", "nobody")
    channel.expect("basic.ack", delivery_tag=1)


@pytest.mark.parametrize(
    ("method", "fields", "text"),
    [
        ("queue.declare", {"queue": "nothing", "passive": True}, "no queue 'nothing' in vhost '/'"),
        ("queue.purge", {"queue": "nothing"}, "no queue 'nothing' in vhost '/'"),
        ("queue.bind", {"queue": "nothing", "exchange": "amq.direct"}, "no queue 'nothing' in vhost '/'"),
        ("basic.consume", {"queue": "nothing", "consumer_tag": "c"}, "no queue 'nothing' in vhost '/'"),
        ("exchange.declare", {"exchange": "nothing", "passive": True}, "no exchange 'nothing' in vhost '/'"),
    ],
)
def test_an_error_is_sent_despite_nowait(channel: Channel, method: str, fields: dict[str, Any], text: str) -> None:
    channel.send(method, nowait=True, **fields)
    expect_fault(channel, 404, f"NOT_FOUND - {text}", method)


def test_many_quiet_methods_are_done_in_order(connection: Connection, unique: Unique) -> None:
    channel = connection.channel()
    queue = unique("quiet")
    for _ in range(20):
        channel.send("queue.declare", queue=queue, nowait=True)
        channel.send("queue.delete", queue=queue, nowait=True)
    channel.send("queue.declare", queue=queue, exclusive=True, nowait=True)
    assert channel.counts(queue) == (0, 0)
