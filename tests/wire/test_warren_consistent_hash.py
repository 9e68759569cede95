"""The x-consistent-hash exchange. RabbitMQ has it as a plugin, with which each of these conversations holds too."""

from typing import Any

import pytest

from tests.support.amqp_client import Channel
from tests.wire.conftest import Unique
from tests.wire.faults import expect_fault


def ring(channel: Channel, unique: Unique, weights: list[str], **arguments: Any) -> tuple[str, list[str]]:
    """An exchange and one queue for each weight."""
    exchange = unique("ring")
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    channel.call("exchange.declare", exchange=exchange, type="x-consistent-hash", arguments=named)
    queues = [channel.call("queue.declare", exclusive=True).queue for _ in weights]
    for queue, weight in zip(queues, weights, strict=True):
        channel.call("queue.bind", queue=queue, exchange=exchange, routing_key=weight)
    return exchange, queues


def shares(channel: Channel, queues: list[str]) -> list[int]:
    return [channel.purged(queue) for queue in queues]


def test_every_message_goes_to_one_queue_by_weight(channel: Channel, unique: Unique) -> None:
    exchange, queues = ring(channel, unique, ["10", "20", "30"])
    for number in range(3000):
        channel.publish(exchange, f"key {number}")
    found = shares(channel, queues)
    assert sum(found) == 3000
    assert 250 < found[0] < 850
    assert 650 < found[1] < 1400
    assert 1050 < found[2] < 2000


def test_the_same_key_always_goes_to_the_same_queue(channel: Channel, unique: Unique) -> None:
    exchange, queues = ring(channel, unique, ["1", "1", "1"])
    for _ in range(50):
        channel.publish(exchange, "constant")
    assert sorted(shares(channel, queues)) == [0, 0, 50]


def test_a_queue_that_joins_takes_keys_only_for_itself(channel: Channel, unique: Unique) -> None:
    exchange, queues = ring(channel, unique, ["1", "1", "1"])
    keys = [f"key {number}" for number in range(200)]
    before = homes(channel, exchange, queues, keys)
    joined = channel.call("queue.declare", exclusive=True).queue
    channel.call("queue.bind", queue=joined, exchange=exchange, routing_key="1")
    after = homes(channel, exchange, [*queues, joined], keys)
    moved = [key for key in keys if after[key] != before[key]]
    assert 0 < len(moved) < 150
    assert {after[key] for key in moved} == {joined}


def homes(channel: Channel, exchange: str, queues: list[str], keys: list[str]) -> dict[str, str]:
    """Which queue each key goes to."""
    for key in keys:
        channel.publish(exchange, key, key.encode())
    found = {}
    for queue in queues:
        while (received := channel.get(queue)) is not None:
            found[received.body.decode()] = queue
    assert set(found) == set(keys)
    return found


@pytest.mark.parametrize(
    ("arguments", "constant", "varied"),
    [
        ({"hash_header": "who"}, {"headers": {"who": "me"}}, lambda n: {"headers": {"who": str(n)}}),
        ({"hash_property": "message_id"}, {"message_id": "me"}, lambda n: {"message_id": str(n)}),
        ({"hash_property": "correlation_id"}, {"correlation_id": "me"}, lambda n: {"correlation_id": str(n)}),
        ({"hash_property": "timestamp"}, {"timestamp": 7}, lambda n: {"timestamp": n}),
    ],
)
def test_something_else_than_the_key_may_decide(
    channel: Channel, unique: Unique, arguments: dict[str, str], constant: dict[str, Any], varied: Any
) -> None:
    exchange, queues = ring(channel, unique, ["1", "1"], **arguments)
    for number in range(50):
        channel.publish(exchange, str(number), b"", constant)
    assert sorted(shares(channel, queues)) == [0, 50]
    for number in range(200):
        channel.publish(exchange, "constant", b"", varied(number))
    assert 0 not in shares(channel, queues)
    for number in range(50):
        channel.publish(exchange, str(number))
    assert sorted(shares(channel, queues)) == [0, 50], "messages without it belong together"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
        (
            {"hash-property": "message_id", "hash-header": "who"},
            "hash-header and hash-property are mutually exclusive",
        ),
    ],
)
def test_an_exchange_that_cannot_hash_is_refused(
    channel: Channel, unique: Unique, arguments: dict[str, str], complaint: str
) -> None:
    channel.send("exchange.declare", exchange=unique("ring"), type="x-consistent-hash", arguments=arguments)
    expect_fault(channel, 406, f"PRECONDITION_FAILED - {complaint}", "exchange.declare")


@pytest.mark.parametrize(
    ("weight", "complaint"),
    [
        ("0", "The binding key must be greater than 0"),
        ("-1", "The binding key must be greater than 0"),
        ("heavy", 'The binding key must be an integer: <<"heavy">>'),
        ("1.5", 'The binding key must be an integer: <<"1.5">>'),
        ("", "The binding key must be an integer: <<>>"),
    ],
)
def test_a_weight_must_be_a_positive_number(channel: Channel, unique: Unique, weight: str, complaint: str) -> None:
    exchange, _ = ring(channel, unique, [])
    queue = channel.call("queue.declare", queue=unique("weighed"), exclusive=True).queue
    channel.send("queue.bind", queue=queue, exchange=exchange, routing_key=weight)
    expect_fault(channel, 406, f"PRECONDITION_FAILED - {complaint}", "queue.bind")


def test_without_bindings_nothing_is_routed(channel: Channel, unique: Unique) -> None:
    exchange, queues = ring(channel, unique, ["1"])
    channel.call("queue.unbind", queue=queues[0], exchange=exchange, routing_key="1")
    channel.publish(exchange, "k", mandatory=True)
    channel.expect("basic.return", reply_text="NO_ROUTE")
