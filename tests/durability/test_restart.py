"""After a restart: durable objects and persistent messages are there, with all their properties."""

import contextlib
import hashlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.durability.visiting import PERSISTENT, bodies, declare, exists, routed, store, taken, visit
from tests.support.amqp_client import Connection
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess

TEN = [b"%d" % number for number in range(10)]

MOVABLE_CLOCK = """
import os, sys, time

ahead_ns, wall_ns = int(os.environ.get("HOURS_AHEAD", "0")) * 3600 * 10**9, time.time_ns
time.time_ns = lambda: wall_ns() + ahead_ns
from warren.cli.main import main
sys.exit(main())
"""


@pytest.fixture
def movable(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node that starts with its wall clock `HOURS_AHEAD` of the true time."""
    process = NodeProcess(tmp_path, command=[sys.executable, "-c", MOVABLE_CLOCK])
    yield process
    process.kill()


def start_again(node: NodeProcess, manner: str) -> None:
    """`restart` or `crash`."""
    getattr(node, manner)()


def disk_bytes(path: Path) -> int:
    taken_bytes = 0
    for file in path.rglob("*"):
        # some come and go meanwhile
        with contextlib.suppress(FileNotFoundError):
            taken_bytes += file.stat().st_blocks * 512 if file.is_file() else 0
    return taken_bytes


def test_durable_exchanges_and_queues_come_back_and_transient_ones_do_not(node: NodeProcess, again: str) -> None:
    arguments = {"alternate-exchange": "other", "x-custom": [1, "two", {"three": True}]}
    with visit(node) as channel:
        channel.call("exchange.declare", exchange="durable", type="topic", durable=True, arguments=arguments)
        channel.call("exchange.declare", exchange="transient", type="topic")
        channel.call("queue.declare", queue="durable", durable=True, arguments={"x-max-length": 7})
        channel.call("queue.declare", queue="transient")
        channel.call("queue.declare", queue="exclusive", durable=True, exclusive=True)
    start_again(node, again)
    assert exists(node, "exchange", "durable")
    assert exists(node, "queue", "durable")
    assert not exists(node, "exchange", "transient")
    assert not exists(node, "queue", "transient")
    assert not exists(node, "queue", "exclusive")
    with visit(node) as channel:
        channel.call("exchange.declare", exchange="durable", type="topic", durable=True, arguments=arguments)
        channel.send("queue.declare", queue="durable", durable=True, arguments={"x-max-length": 8})
        assert channel.expect("channel.close").reply_code == 406


def test_bindings_come_back_when_both_ends_are_durable(node: NodeProcess, again: str) -> None:
    with visit(node) as channel:
        for name, kind in (("first", "topic"), ("second", "headers")):
            channel.call("exchange.declare", exchange=name, type=kind, durable=True)
        channel.call("exchange.declare", exchange="transient", type="fanout")
        for queue in ("kept", "unbound", "undone"):
            channel.call("queue.declare", queue=queue, durable=True)
        channel.call("exchange.bind", destination="second", source="first", routing_key="a.#")
        matching = {"x-match": "all", "colour": "red"}
        channel.call("queue.bind", queue="kept", exchange="second", arguments=matching)
        channel.call("queue.bind", queue="kept", exchange="transient")
        channel.call("queue.bind", queue="unbound", exchange="first", routing_key="b")
        channel.call("queue.unbind", queue="unbound", exchange="first", routing_key="b")
        channel.call("queue.bind", queue="undone", exchange="first", routing_key="c")
        channel.call("queue.delete", queue="undone")
    start_again(node, again)
    with visit(node) as channel:
        channel.confirm()
        assert routed(channel, "first", "a.b.c", {"colour": "red"})
        assert not routed(channel, "first", "a.b.c", {"colour": "blue"})
        assert not routed(channel, "first", "b")
        assert not routed(channel, "first", "c")
        channel.call("exchange.declare", exchange="transient", type="fanout")
        assert not routed(channel, "transient", "")


def test_persistent_messages_come_back_in_order_and_transient_ones_do_not(node: NodeProcess, again: str) -> None:
    declare(node, "q")
    with visit(node) as channel:
        channel.confirm()
        for number, body in enumerate(TEN):
            channel.publish("", "q", body, {"delivery_mode": 1 + number % 2, "message_id": f"m{number}"})
        channel.confirms(range(1, 11))
    start_again(node, again)
    messages = taken(node, "q")
    assert [message.body for message in messages] == TEN[1::2]
    assert [message.properties["message_id"] for message in messages] == ["m1", "m3", "m5", "m7", "m9"]
    assert not any(message.redelivered for message in messages)


def test_deleted_purged_and_acked_messages_do_not_come_back(node: NodeProcess, again: str) -> None:
    for queue in ("deleted", "purged", "acked"):
        declare(node, queue)
        store(node, queue, TEN)
    with visit(node) as channel:
        assert channel.call("queue.delete", queue="deleted").message_count == 10
        assert channel.purged("purged") == 10
        channel.consume("acked")
        tag = channel.deliveries(10)[6].delivery_tag
        channel.ack(tag, multiple=True)
        # the confirm on the same channel shows that all earlier changes are on disk
        channel.confirm()
        channel.publish("", "purged", b"later", PERSISTENT)
        channel.confirms([1])
    start_again(node, again)
    assert not exists(node, "queue", "deleted")
    assert bodies(node, "purged") == [b"later"]
    assert bodies(node, "acked") == TEN[7:]


def test_only_messages_taken_by_get_are_marked_as_redelivered(node: NodeProcess, again: str) -> None:
    for queue in ("fetched", "untouched"):
        declare(node, queue)
        store(node, queue, TEN)
    consumer = Connection.opened(node.amqp)
    channel = consumer.channel()
    fetched = [channel.get("fetched", no_ack=False) for _ in range(3)]
    assert [message.redelivered for message in fetched if message] == [False] * 3
    if again == "restart":
        consumer.close()
    start_again(node, again)
    consumer.cut()
    assert [message.redelivered for message in taken(node, "untouched")] == [False] * 10
    assert [message.redelivered for message in taken(node, "fetched")] == [True] * 3 + [False] * 7


def test_delivered_messages_are_marked_as_redelivered_and_after_a_crash_a_few_more(
    node: NodeProcess, again: str
) -> None:
    """The delivery watermark is written ahead of a turn's deliveries; a node that stops with SIGTERM resets it."""
    declare(node, "q")
    store(node, "q", TEN)
    consumer = Connection.opened(node.amqp)
    channel = consumer.channel()
    channel.call("basic.qos", prefetch_count=3)
    channel.consume("q")
    assert [delivery.redelivered for delivery in channel.deliveries(3)] == [False] * 3
    if again == "restart":
        consumer.close()
    start_again(node, again)
    consumer.cut()
    marks = [message.redelivered for message in taken(node, "q")]
    marked = sum(marks)
    assert marks == [True] * marked + [False] * (10 - marked)
    assert marked == 3 if again == "restart" else 3 <= marked <= 6


def test_priorities_come_back(node: NodeProcess, again: str) -> None:
    declare(node, "q", {"x-max-priority": 3})
    for priority in (0, 3, 1, 9, 2, 0):
        store(node, "q", [b"%d" % priority], priority=priority)
    start_again(node, again)
    messages = taken(node, "q")
    assert [message.properties["priority"] for message in messages] == [3, 9, 2, 1, 0, 0]
    assert not any(message.redelivered for message in messages)


def test_a_limit_of_length_holds_over_a_restart(node: NodeProcess, again: str) -> None:
    declare(node, "q", {"x-max-length": 4})
    store(node, "q", TEN)
    start_again(node, again)
    store(node, "q", [b"10"])
    assert bodies(node, "q") == [*TEN[7:], b"10"]


def test_time_to_live_goes_on_while_the_node_is_down(node: NodeProcess) -> None:
    declare(node, "late")
    declare(node, "q", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late"})
    store(node, "q", [b"brief"], expiration="1000")
    store(node, "q", [b"long"], expiration="600000")
    expired_at = time.monotonic() + 1.0
    node.kill()
    time.sleep(max(0.0, expired_at - time.monotonic()))
    node.start()
    with visit(node) as channel:
        channel.await_counts("late", 1)
        channel.await_counts("q", 1)
    [letter] = taken(node, "late")
    assert (letter.body, letter.headers["x-death"][0]["reason"]) == (b"brief", "expired")
    [message] = taken(node, "q")
    assert (message.body, message.properties["expiration"]) == (b"long", "600000")


def test_a_time_to_live_that_is_not_over_ends_when_it_would_have(node: NodeProcess, again: str) -> None:
    declare(node, "q", {"x-message-ttl": 3000})
    begun = time.monotonic()
    store(node, "q", [b"brief"])
    start_again(node, again)
    with visit(node) as channel:
        while channel.counts("q")[0]:
            time.sleep(0.01)
            assert time.monotonic() < begun + 30
    taken_s = time.monotonic() - begun
    assert taken_s > 2.9


def test_the_story_of_a_dead_letter_comes_back_to_the_byte(node: NodeProcess, again: str) -> None:
    declare(node, "dead")
    declare(node, "q", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    store(node, "q", [b"letter"], headers={"tries": 1}, content_type="text/plain")
    with visit(node) as channel:
        channel.consume("dead")
        channel.send("basic.get", queue="q")
        channel.send("basic.reject", delivery_tag=channel.expect("basic.get-ok").delivery_tag, requeue=False)
        before = channel.expect("basic.deliver")
        # until something later is confirmed, the rejection is in no file
        channel.confirm()
        channel.publish("", "q", b"later", PERSISTENT)
        channel.confirms([1])
    start_again(node, again)
    [after] = taken(node, "dead")
    assert (after.header, after.body, after.redelivered) == (before.header, b"letter", True)
    [death] = after.headers["x-death"]
    assert (death["reason"], death["queue"], death["count"]) == ("rejected", "q", 1)


def test_returns_are_counted_over_restarts(node: NodeProcess, again: str) -> None:
    declare(node, "dead")
    arguments = {"x-delivery-limit": 3, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    declare(node, "q", arguments)
    store(node, "q", [b"poison"])
    for _ in range(4):
        with visit(node) as channel:
            channel.confirm()
            message = channel.get("q", no_ack=False)
            assert message is not None
            channel.send("basic.nack", delivery_tag=message.delivery_tag, requeue=True)
            channel.publish("", "dead", b"nacked", PERSISTENT)
            channel.confirms([1])
        start_again(node, again)
    assert bodies(node, "q") == []
    assert sorted(bodies(node, "dead")) == [b"nacked"] * 4 + [b"poison"]


def test_delayed_messages_arrive_when_they_are_due(node: NodeProcess, again: str) -> None:
    declare(node, "q")
    with visit(node) as channel:
        delayed = {"x-delayed-type": "direct"}
        channel.call("exchange.declare", exchange="d", type="x-delayed-message", durable=True, arguments=delayed)
        channel.call("queue.bind", queue="q", exchange="d", routing_key="k")
    begun = time.monotonic()
    store(node, "k", [b"soon"], exchange="d", headers={"x-delay": 100})
    store(node, "k", [b"later"], exchange="d", headers={"x-delay": 4000})
    start_again(node, again)
    with visit(node) as channel:
        channel.connection.deadline_s = 30
        channel.consume("q", no_ack=True)
        assert channel.bodies(2) == [b"soon", b"later"]
    assert time.monotonic() - begun > 3.9


def test_a_durable_queue_that_deletes_itself_waits_for_its_consumer(node: NodeProcess, again: str) -> None:
    declare(node, "q", auto_delete=True)
    store(node, "q", TEN)
    start_again(node, again)
    with visit(node) as channel:
        channel.consume("q", "c")
        assert channel.bodies(10) == TEN
        channel.call("basic.cancel", consumer_tag="c")
    assert not exists(node, "queue", "q")
    # the deletion is promised only when a later change is confirmed
    declare(node, "later")
    start_again(node, again)
    assert not exists(node, "queue", "q")


def test_an_unused_queue_expires_counting_from_the_restart(
    movable: NodeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = movable
    declare(node, "q", {"x-expires": 5000})
    node.kill()
    monkeypatch.setenv("HOURS_AHEAD", "1")
    started = time.monotonic()
    node.start()
    with visit(node) as channel:
        channel.confirm()
        eventually(lambda: not routed(channel, "", "q"), "the queue has expired", pause_s=0.02)
    assert time.monotonic() - started >= 5.0
    declare(node, "later")
    node.crash()
    assert not exists(node, "queue", "q")


def test_a_queue_the_node_named_keeps_its_name(node: NodeProcess, again: str) -> None:
    with visit(node) as channel:
        name = channel.call("queue.declare", durable=True).queue
    store(node, name, TEN)
    start_again(node, again)
    with visit(node) as channel:
        assert channel.call("queue.declare", durable=True).queue != name
    assert bodies(node, name) == TEN


def test_headers_as_large_as_a_frame_come_back(node: NodeProcess, again: str) -> None:
    headers: dict[str, Any] = {f"header-{number}": "v" * 640 for number in range(100)}
    declare(node, "q")
    store(node, "q", [b"small"], headers=headers)
    start_again(node, again)
    [message] = taken(node, "q")
    assert (message.body, message.headers) == (b"small", headers)


def test_a_message_for_many_queues_is_stored_once(node: NodeProcess) -> None:
    queues = [f"q{number}" for number in range(300)]
    with visit(node) as channel:
        channel.call("exchange.declare", exchange="fan", type="fanout", durable=True)
        for queue in queues:
            channel.send("queue.declare", queue=queue, durable=True, nowait=True)
            channel.send("queue.bind", queue=queue, exchange="fan", nowait=True)
        channel.counts(queues[-1])
    before = disk_bytes(node.data)
    body = os.urandom(1_000_000)
    store(node, "", [body] * 5, exchange="fan")
    assert disk_bytes(node.data) - before < 10_000_000
    node.crash()
    with visit(node) as channel:
        assert {channel.counts(queue) for queue in queues} == {(5, 0)}
    assert [message.body == body for message in taken(node, "q299")] == [True] * 5


def test_a_segment_that_a_node_left_behind_takes_no_more_room_than_its_records(node: NodeProcess, again: str) -> None:
    """A node writes zeros ahead of its records; the next start cuts off the rest of them."""
    declare(node, "q")
    for body in TEN[:3]:
        store(node, "q", [body])
        start_again(node, again)
    # orders are carried out one after another: when this is confirmed, those of the start are done
    store(node, "q", [TEN[3]])
    *left, _active = sorted((node.data / "journal").glob("*.seg"))
    assert len(left) == 3
    assert all(0 < segment.stat().st_size < 4096 for segment in left)
    assert bodies(node, "q") == TEN[:4]


def test_a_message_of_a_hundred_megabytes_comes_back(node: NodeProcess, again: str) -> None:
    body = os.urandom(1_000_000) * 100
    with pika.BlockingConnection(pika.ConnectionParameters(*node.amqp)) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        channel.basic_publish("", "q", body, pika.BasicProperties(delivery_mode=2))
    start_again(node, again)
    with pika.BlockingConnection(pika.ConnectionParameters(*node.amqp)) as connection:
        _, _, received = connection.channel().basic_get("q", auto_ack=True)
    assert hashlib.sha256(received).digest() == hashlib.sha256(body).digest()


def test_a_queue_copy_keeps_its_messages_and_goes_on_copying(node: NodeProcess, again: str) -> None:
    declare(node, "copy", {"x-copy-from": [{"src_name": "source", "routing_key": "source.#"}, "other"]})
    declare(node, "source")
    store(node, "source", TEN[:5])
    start_again(node, again)
    store(node, "source", TEN[5:])
    assert bodies(node, "source") == TEN
    assert bodies(node, "copy") == TEN
