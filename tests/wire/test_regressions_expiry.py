"""Expiry of messages that come back to their queue, where brokers were found to differ."""

import pytest

from tests.support.amqp_client import Channel, Connection


@pytest.mark.parametrize("method", ["basic.nack", "basic.recover"])
def test_an_expired_message_that_comes_back_behind_another_waits_for_its_turn(
    connection: Connection, channel: Channel, method: str
) -> None:
    queue = channel.call("queue.declare", exclusive=True).queue
    clock = connection.channel()
    timer = clock.call("queue.declare", exclusive=True).queue
    with connection.one_write():
        channel.publish("", queue, b"stays")
        channel.publish("", queue, b"expires", {"expiration": "1000"})
        for _ in range(2):
            channel.send("basic.get", queue=queue)
    for _ in range(2):
        channel.expect("basic.get-ok")
    # published later and to live longer: when this one is gone, the other is overdue
    clock.confirm()
    clock.publish("", timer, b"", {"expiration": "1050"})
    clock.confirms([1])
    clock.await_counts(timer, 0)
    fields = {"delivery_tag": 0, "multiple": True} if method == "basic.nack" else {}
    channel.send(method, requeue=True, **fields)
    if method == "basic.recover":
        channel.expect("basic.recover-ok")
    assert channel.purged(queue) == 2
