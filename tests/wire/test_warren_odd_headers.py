"""Invalid headers that crash the queue process in RabbitMQ, and do no harm in Warren."""

from typing import Any

import pytest

from tests.support.amqp_client import Channel
from tests.support.amqp_values import Typed

ODD_DEATHS: tuple[Any, ...] = (
    [1, "a", {"foo": 1}],
    [{"queue": 1, "reason": []}],
    [{"queue": None, "count": "many"}],
    {"count": 1},
    [[]],
    Typed("x", b"\0"),
)


@pytest.mark.parametrize("odd", ODD_DEATHS, ids=str)
def test_a_message_with_an_odd_x_death_still_becomes_a_dead_letter(channel: Channel, odd: Any) -> None:
    dead = channel.call("queue.declare", exclusive=True).queue
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    queue = channel.call("queue.declare", exclusive=True, arguments=arguments).queue
    channel.publish("", queue, b"odd", {"headers": {"x-death": odd}})
    assert channel.get(queue, no_ack=False) is not None
    channel.send("basic.reject", delivery_tag=1)
    channel.await_counts(dead, 1)
    letter = channel.get(dead)
    assert letter is not None
    newest = letter.headers["x-death"][0]
    assert (newest["queue"], newest["reason"], newest["count"]) == (queue, "rejected", 1)
