"""The shovels of a move and their URIs."""

import pytest

from warren.bridges.shovel_definition import shovel_errors
from warren.broker.policies.parameters import Parameter
from warren.cli.migrate.queues import (
    MARK,
    FoundQueue,
    QueueName,
    exchange_name,
    is_marked,
    is_ours,
    shovel_name,
    shovel_value,
    with_foreign_exchanges,
    with_vhost,
)

ORDERS = FoundQueue(QueueName("a/b", "orders"))


def test_a_shovel_moves_one_queue_through_its_own_exchange_and_acks_confirmed_messages() -> None:
    value = shovel_value(ORDERS, "amqp://user:word@old:5672/a%2Fb")
    assert shovel_name(ORDERS.queue) == "migrate-orders"
    assert (value["src-queue"], value["dest-exchange"]) == ("orders", "migrate-orders")
    assert "dest-exchange-key" not in value
    assert (value["dest-uri"], value["ack-mode"]) == ("amqp:///a%2Fb", "on-confirm")
    assert value["src-consumer-args"] == {"x-warren-migration": True}


def test_objects_made_by_a_move_are_recognised_by_their_mark() -> None:
    assert is_marked(shovel_value(ORDERS, "amqp://old")["src-consumer-args"])
    assert is_marked({"x-warren-migration": True, "x-stream-offset": "first"})
    others: list[object] = [{}, [], None, {"x-priority": 5}]
    assert not any(map(is_marked, others))


def test_a_shovel_publishes_mandatory_messages_and_its_definition_is_valid() -> None:
    value = shovel_value(ORDERS, "amqp://user:word@old:5672/a%2Fb")
    assert value["dest-mandatory"] is True
    assert shovel_errors(Parameter("a/b", "shovel", "migrate-orders", value)) == []


def test_a_stream_is_read_from_its_beginning() -> None:
    value = shovel_value(FoundQueue(ORDERS.queue, type="stream"), "amqp://old")
    assert value["src-consumer-args"] == {"x-warren-migration": True, "x-stream-offset": "first"}


def test_a_foreign_shovel_is_distinguished_from_ours() -> None:
    value = shovel_value(ORDERS, "amqp://old")
    assert is_ours("migrate-orders", value)
    assert not is_ours("migrate-all", value)
    assert not is_ours("migrate-orders", {**value, "dest-exchange": "others"})


def test_a_foreign_exchange_is_distinguished_from_ours() -> None:
    road, queue = {"vhost": "a/b", "name": "migrate-orders"}, ORDERS.queue
    assert with_foreign_exchanges([queue], [{**road, "arguments": {}}]) == [queue]
    assert with_foreign_exchanges([queue], [{**road, "arguments": dict(MARK)}]) == []
    assert with_foreign_exchanges([queue], [{**road, "vhost": "/"}, {**road, "name": "migrate-others"}]) == []


def test_a_queue_with_the_longest_of_names_has_an_exchange_too() -> None:
    assert len(exchange_name(QueueName("/", "ü" * 127)).encode()) < 255


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("amqp://u:p@old:5672", "amqp://u:p@old:5672/a%2Fb"),
        ("amqp://u:p@old:5672/%2F", "amqp://u:p@old:5672/a%2Fb"),
        ("amqps://old/x?verify=verify_none", "amqps://old/a%2Fb?verify=verify_none"),
    ],
)
def test_an_address_is_given_a_virtual_host(uri: str, expected: str) -> None:
    assert with_vhost(uri, "a/b") == expected
