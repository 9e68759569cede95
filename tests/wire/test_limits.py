"""Queues with a limit: dropping the head, refusing publishes, and priorities that decide what is the head."""

from typing import Any

import pytest

from tests.support.amqp_client import Channel


def queue_of(channel: Channel, **arguments: Any) -> str:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    queue: str = channel.call("queue.declare", exclusive=True, arguments=named).queue
    return queue


def publish_all(channel: Channel, queue: str, bodies: list[bytes]) -> tuple[set[int], set[int]]:
    channel.confirm()
    for body in bodies:
        channel.publish("", queue, body)
    return channel.outcomes(range(1, len(bodies) + 1))


def drained(channel: Channel, queue: str) -> list[bytes]:
    bodies = []
    while (received := channel.get(queue)) is not None:
        bodies.append(received.body)
    return bodies


LETTERS = [b"a", b"b", b"c", b"d", b"e"]


@pytest.mark.parametrize("overflow", [{}, {"x_overflow": "drop-head"}])
def test_a_full_queue_drops_its_head_and_confirms_all(channel: Channel, overflow: dict[str, str]) -> None:
    queue = queue_of(channel, x_max_length=3, **overflow)
    acked, nacked = publish_all(channel, queue, LETTERS)
    assert (acked, nacked) == ({1, 2, 3, 4, 5}, set())
    assert drained(channel, queue) == [b"c", b"d", b"e"]


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_a_full_queue_refuses_what_comes(channel: Channel, overflow: str) -> None:
    queue = queue_of(channel, x_max_length=3, x_overflow=overflow)
    acked, nacked = publish_all(channel, queue, LETTERS)
    assert (acked, nacked) == ({1, 2, 3}, {4, 5})
    assert drained(channel, queue) == [b"a", b"b", b"c"]


def test_without_confirms_a_refused_message_just_vanishes(channel: Channel) -> None:
    queue = queue_of(channel, x_max_length=1, x_overflow="reject-publish")
    for body in LETTERS:
        channel.publish("", queue, body, mandatory=True)
    assert drained(channel, queue) == [b"a"]


def test_one_refusing_queue_nacks_though_others_keep_their_copy(channel: Channel) -> None:
    full = queue_of(channel, x_max_length=1, x_overflow="reject-publish")
    open_queue = queue_of(channel)
    key = full
    for queue in (full, open_queue):
        channel.call("queue.bind", queue=queue, exchange="amq.direct", routing_key=key)
    channel.confirm()
    channel.publish("amq.direct", key, b"a")
    channel.publish("amq.direct", key, b"b")
    assert channel.outcomes([1, 2]) == ({1}, {2})
    assert drained(channel, open_queue) == [b"a", b"b"]
    assert drained(channel, full) == [b"a"]


def test_a_limit_in_bytes_counts_bodies_only(channel: Channel) -> None:
    queue = queue_of(channel, x_max_length_bytes=10)
    channel.confirm()
    for letter in LETTERS:
        channel.publish("", queue, letter * 4, {"headers": {"long": "x" * 100}})
    channel.confirms(range(1, 6))
    assert drained(channel, queue) == [b"dddd", b"eeee"]


def test_a_body_larger_than_the_whole_queue_empties_it(channel: Channel) -> None:
    queue = queue_of(channel, x_max_length_bytes=10)
    publish_all(channel, queue, [b"small", b"x" * 11])
    assert drained(channel, queue) == []


def test_a_limit_in_bytes_refuses_what_would_exceed_it(channel: Channel) -> None:
    queue = queue_of(channel, x_max_length_bytes=10, x_overflow="reject-publish")
    acked, nacked = publish_all(channel, queue, [b"xxxx", b"yyyy", b"zzzz", b"z", b"z", b"z"])
    assert (acked, nacked) == ({1, 2, 4, 5}, {3, 6})


def test_the_stricter_of_two_limits_counts(channel: Channel) -> None:
    queue = queue_of(channel, x_max_length=2, x_max_length_bytes=3)
    publish_all(channel, queue, [b"a", b"b", b"c", b"dd"])
    assert drained(channel, queue) == [b"c", b"dd"]


def test_only_ready_messages_count(channel: Channel) -> None:
    queue = queue_of(channel, x_max_length=2)
    channel.publish("", queue, b"held")
    assert channel.get(queue, no_ack=False) is not None
    publish_all(channel, queue, [b"a", b"b", b"c"])
    channel.await_counts(queue, 2)
    channel.send("basic.nack", delivery_tag=1, requeue=True)
    assert drained(channel, queue) == [b"b", b"c"]


def test_a_queue_of_no_length_serves_only_a_waiting_consumer(channel: Channel) -> None:
    queue = queue_of(channel, x_max_length=0)
    channel.publish("", queue, b"missed")
    assert channel.get(queue) is None
    channel.consume(queue, no_ack=True)
    channel.publish("", queue, b"caught")
    assert channel.bodies(1) == [b"caught"]


def test_higher_priorities_come_first_and_equals_in_order(channel: Channel) -> None:
    queue = queue_of(channel, x_max_priority=5)
    for number, priority in enumerate([0, 3, 5, 1, 3, 9, None]):
        properties = {} if priority is None else {"priority": priority}
        channel.publish("", queue, str(number).encode(), properties)
    assert drained(channel, queue) == [b"2", b"5", b"1", b"4", b"3", b"0", b"6"]


def test_a_priority_beyond_the_queues_keeps_its_property(channel: Channel) -> None:
    queue = queue_of(channel, x_max_priority=1)
    channel.publish("", queue, b"", {"priority": 9})
    received = channel.get(queue)
    assert received is not None
    assert received.properties == {"priority": 9}


def test_without_priorities_the_property_changes_nothing(channel: Channel) -> None:
    queue = queue_of(channel)
    for priority in (1, 9, 5):
        channel.publish("", queue, str(priority).encode(), {"priority": priority})
    assert drained(channel, queue) == [b"1", b"9", b"5"]


def test_a_full_priority_queue_drops_its_head_which_is_the_highest(channel: Channel) -> None:
    queue = queue_of(channel, x_max_priority=5, x_max_length=2)
    channel.confirm()
    for body, priority in ((b"low", 0), (b"high", 5), (b"middle", 3)):
        channel.publish("", queue, body, {"priority": priority})
    channel.confirms([1, 2, 3])
    assert drained(channel, queue) == [b"middle", b"low"]


def test_a_requeued_message_keeps_its_place_among_its_priority(channel: Channel) -> None:
    queue = queue_of(channel, x_max_priority=2)
    for body, priority in ((b"a", 1), (b"b", 1), (b"c", 2)):
        channel.publish("", queue, body, {"priority": priority})
    for _ in range(2):
        channel.get(queue, no_ack=False)
    channel.send("basic.nack", delivery_tag=0, multiple=True, requeue=True)
    assert drained(channel, queue) == [b"c", b"a", b"b"]
