"""Contents of queues come by shovels: in order, as they were, counted, and nothing of the shovels stays behind."""

import signal
from pathlib import Path

import pytest

from tests.migrating.moving import Moving, everything_in
from tests.support.rabbitmq import RabbitMQ
from warren.client import Message, Properties

MANY = 20_000


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_everything_comes_in_order_and_the_count_matches(moving: Moving) -> None:
    moving.fill("orders", numbered(3000))
    moving.fill("empty", [])
    moving.fill("bills", numbered(10), {"x-queue-type": "quorum"})
    code, out, err = moving.run()
    assert code == 0, (out, err)
    assert f"queue 'orders' in '{moving.vhost}': RabbitMQ had 3000, 3000 arrived, Warren has 3000: it matches" in out
    channel = moving.at_warren()
    assert everything_in(channel, "orders") == numbered(3000)
    assert everything_in(channel, "bills") == numbered(10)


def test_a_move_leaves_no_shovels_and_no_exchanges_behind(moving: Moving) -> None:
    moving.fill("orders", numbered(50))
    assert moving.run()[0] == 0
    assert moving.shovels() == []
    exchanges = [row["name"] for row in moving.operator.read("exchanges", moving.vhost)]
    assert [name for name in exchanges if name.startswith("migrate-")] == []
    found = moving.at_source().declare_queue("orders", passive=True)
    assert (found.messages, found.consumers) == (0, 0)


def test_a_moved_message_keeps_its_key_properties_and_body(moving: Moving) -> None:
    """Its key is that with which it was published, and a header that would send it elsewhere sends it nowhere."""
    channel = moving.at_source()
    channel.declare_queue("orders", durable=True)
    channel.declare_queue("others", durable=True)
    channel.bind_queue("orders", "amq.topic", "order.*")
    headers = {"CC": ["others"], "count": 7, "nested": {"deep": [1, "two", True]}}
    sent = Properties("text/plain", "utf-8", headers, 2, 3, "c1", "r1", None, "m1", 1_700_000_000, "t", "guest", "a")
    channel.publish(Message(b"body", sent), "amq.topic", "order.new")
    code, out, err = moving.run()
    assert code == 0, (out, err)
    there = moving.at_warren()
    found = there.get("orders")
    assert found is not None
    assert (found.body, found.routing_key) == (b"body", "order.new")
    came = found.properties
    assert {name: getattr(came, name) for name in vars_of(sent)} == vars_of(sent)
    assert there.declare_queue("others", passive=True).messages == 0


def vars_of(properties: Properties) -> dict[str, object]:
    names = ("content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id")
    more = ("reply_to", "expiration", "message_id", "timestamp", "type", "user_id", "app_id")
    return {name: getattr(properties, name) for name in (*names, *more)}


def test_a_stream_is_copied_from_its_beginning(moving: Moving) -> None:
    moving.fill("log", numbered(500), {"x-queue-type": "stream"})
    code, out, err = moving.run()
    assert code == 0, (out, err)
    assert f"queue 'log' in '{moving.vhost}': RabbitMQ has 500, Warren has 500: it matches" in out
    channel = moving.at_warren()
    channel.prefetch(500)
    consumer = channel.consume("log", arguments={"x-stream-offset": "first"})
    came: list[bytes] = []
    while len(came) < 500:
        came += [bytes(delivery.body) for delivery in consumer.batch(20.0)]
    assert came == numbered(500)
    assert moving.run()[0] == 0
    assert moving.operator.read("queues", moving.vhost, "log")["messages"] == 500


def test_a_run_that_was_killed_is_ended_by_the_next(moving: Moving) -> None:
    moving.fill("orders", numbered(MANY))
    command = moving.begin()
    command.await_line("definitions imported")
    await_begun(moving)
    command.send(signal.SIGKILL)
    assert command.end()[0] == -signal.SIGKILL
    assert moving.shovels() == ["migrate-orders"]
    code, out, err = moving.run()
    assert code == 0, (out, err)
    assert everything_in(moving.at_warren(), "orders") == numbered(MANY)


def test_an_interrupted_migration_says_how_to_continue(moving: Moving) -> None:
    moving.fill("orders", numbered(MANY))
    command = moving.begin("--follow")
    command.await_line("step 1: contents are carried until RabbitMQ's publishers are stopped; then press Enter")
    await_begun(moving)
    command.send(signal.SIGINT)
    code, err = command.end()
    assert code == 1
    assert err.endswith("and without --first and --follow it moves the rest\n")
    assert moving.run()[0] == 0
    assert everything_in(moving.at_warren(), "orders") == numbered(MANY)


def await_begun(moving: Moving) -> None:
    """Until something has come to Warren."""
    channel = moving.at_warren()
    while not channel.declare_queue("orders", passive=True).messages:
        pass


@pytest.mark.parametrize("who", ["RabbitMQ", "Warren"])
def test_nothing_is_lost_when_a_broker_is_killed_on_the_way(who: str, moving: Moving, tmp_path: Path) -> None:
    """Messages under way come again: in order, and no more than a shovel's prefetch."""
    server: RabbitMQ = moving.rabbitmq
    moving.fill("orders", numbered(MANY))
    command = moving.begin()
    command.await_line("definitions imported")
    await_begun(moving)
    if who == "RabbitMQ":
        server.kill()
        server.start()
    else:
        moving.node.crash()
    _, err = command.end()
    assert "RabbitMQ's queues are empty; counting" in command.out, (command.out, err)
    came = everything_in(moving.at_warren(), "orders")
    assert list(dict.fromkeys(came)) == numbered(MANY)
    assert moving.at_source().declare_queue("orders", passive=True).messages == 0
    assert len(came) <= MANY + 2000
    assert moving.shovels() == []
