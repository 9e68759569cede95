"""A shovel while it is defined: its first and last message, and changes of its definition."""

from tests.bridges.queue_pair import Unique
from tests.bridges.shovels.conftest import Shoveller
from tests.support.deadlines import eventually
from warren.client import blocking


def test_a_shovel_with_a_count_ends_after_it_and_deletes_itself(here: Shoveller, unique: Unique) -> None:
    name, copy = unique("from"), unique("to")
    here.fill(name, 10)
    with here.shovel(name, src_uri="amqp://", src_queue=name, dest_uri="amqp://", dest_queue=copy, src_delete_after=4):
        eventually(lambda: not here.is_defined(name))
        assert here.row(name) == {"state": "gone"}
        assert (here.length(name), here.length(copy)) == (6, 4)
    here.forget_queues(name, copy)


def test_a_shovel_with_queue_length_ends_after_the_initial_messages_in_any_mode(
    here: Shoveller, unique: Unique
) -> None:
    name, copy = unique("from"), unique("to")
    for at, ack_mode in enumerate(("on-confirm", "on-publish", "no-ack")):
        here.fill(name, 1000)
        ends = {"src_uri": "amqp://", "src_queue": name, "dest_uri": "amqp://", "dest_queue": copy}
        with here.shovel(name, ack_mode=ack_mode, src_delete_after="queue-length", **ends):
            eventually(lambda: not here.is_defined(name))
        assert (here.length(name), here.length(copy)) == (0, 1000 * (at + 1))
    here.forget_queues(name, copy)


def test_an_empty_queue_is_done_with_at_once(here: Shoveller, unique: Unique) -> None:
    name, copy = unique("from"), unique("to")
    for after in ("queue-length", 0):
        ends = {"src_uri": "amqp://", "src_queue": name, "dest_uri": "amqp://", "dest_queue": copy}
        with here.shovel(name, src_delete_after=after, **ends):
            eventually(lambda: not here.is_defined(name))
    here.forget_queues(name, copy)


def test_a_shovel_moves_messages_from_an_exchange_to_an_exchange(
    here: Shoveller, there: Shoveller, unique: Unique
) -> None:
    name, copy = unique("from"), unique("to")
    with blocking.connect(here.amqp) as own, blocking.connect(there.amqp) as far:
        publishing, taking = own.channel(confirms=True), far.channel()
        taking.declare_queue(copy, durable=True)
        taking.bind_queue(copy, "amq.direct", copy)
        with here.shovel(
            name,
            src_uri="amqp://",
            src_exchange="amq.topic",
            src_exchange_key=f"{name}.#",
            dest_uri=there.amqp,
            dest_exchange="amq.direct",
            dest_exchange_key=copy,
        ):
            row = here.until_state(name, "running")
            assert (row["src_exchange_key"], row["dest_exchange"]) == (f"{name}.#", "amq.direct")
            publishing.publish(b"unwanted", "amq.topic", "other")
            publishing.publish(b"wanted", "amq.topic", f"{name}.it")
            assert [delivery.body for delivery in there.take(copy, 1)] == [b"wanted"]
    there.forget_queues(copy)


def test_without_a_destination_messages_keep_exchange_and_key(
    here: Shoveller, there: Shoveller, unique: Unique
) -> None:
    name = unique("same")
    there.length(name)
    here.fill(name, 3)
    with here.shovel(name, src_uri="amqp://", src_queue=name, dest_uri=there.amqp):
        assert [delivery.body for delivery in there.take(name, 3)] == [b"0", b"1", b"2"]
    here.forget_queues(name)
    there.forget_queues(name)


def test_a_change_of_its_definition_takes_effect(here: Shoveller, unique: Unique) -> None:
    name, first, second = unique("from"), unique("one"), unique("two")
    here.fill(name, 3)
    with here.shovel(name, src_uri="amqp://", src_queue=name, dest_uri="amqp://", dest_queue=first):
        here.take(first, 3)
        here.define(name, src_uri="amqp://", src_queue=name, dest_uri="amqp://", dest_queue=second)
        eventually(lambda: here.row(name).get("dest_queue") == second)
        here.fill(name, 3)
        here.take(second, 3)
        # they are confirmed when they are on disk, which is no reason for a consumer to wait
        eventually(lambda: here.row(name).get("forwarded") == 3, lambda: str(here.row(name)))
        assert here.length(first) == 0
    here.forget_queues(name, first, second)


def test_a_restart_loses_and_doubles_nothing(here: Shoveller, there: Shoveller, unique: Unique) -> None:
    name, copy = unique("from"), unique("to")
    here.fill(name, 20_000)
    ends = {"src_uri": "amqp://", "src_queue": name, "dest_uri": there.amqp, "dest_queue": copy}
    with here.shovel(name, src_prefetch_count=50, **ends):
        for wanted in (1000, 2000, 3000):
            eventually(lambda wanted=wanted: here.row(name).get("forwarded", 0) >= wanted)  # type: ignore[misc]
            assert here.call("DELETE", "shovels", "vhost", "/", name, "restart")[0] == 204
        eventually(lambda: here.length(name) == 0)
        eventually(lambda: there.length(copy) >= 20_000)
        assert here.row(name)["uncertain"] == 0
    assert [delivery.body for delivery in there.take(copy, 20_000)] == [b"%d" % at for at in range(20_000)]
    here.forget_queues(name)
    there.forget_queues(copy)


def test_a_destination_that_is_deleted_comes_back_and_nothing_is_lost(
    here: Shoveller, there: Shoveller, unique: Unique
) -> None:
    name, copy = unique("from"), unique("to")
    here.fill(name, 1)
    ends = {"src_uri": "amqp://", "src_queue": name, "dest_uri": there.amqp, "dest_queue": copy}
    with here.shovel(name, reconnect_delay=0.2, **ends):
        there.take(copy, 1)
        there.forget_queues(copy)
        here.fill(name, 500)
        # the shovel makes it again, when it knows that nothing has arrived
        eventually(lambda: there.call("GET", "queues", "/", copy)[0] == 200)
        assert [delivery.body for delivery in there.take(copy, 500)] == [b"%d" % at for at in range(500)]
        eventually(lambda: here.length(name) == 0)
    here.forget_queues(name)
    there.forget_queues(copy)


def test_a_stream_is_transferred_from_the_offset_in_the_consumer_arguments(
    here: Shoveller, there: Shoveller, unique: Unique
) -> None:
    name, copy = unique("stream"), unique("to")
    with blocking.connect(there.amqp) as connection:
        channel = connection.channel(confirms=True)
        channel.declare_queue(name, durable=True, arguments={"x-queue-type": "stream"})
        for at in range(20):
            channel.publish(b"%d" % at, routing_key=name)
    with here.shovel(
        name,
        src_uri=there.amqp,
        src_queue=name,
        src_consumer_args={"x-stream-offset": 5},
        src_prefetch_count=4,
        dest_uri="amqp://",
        dest_queue=copy,
    ):
        assert [delivery.body for delivery in here.take(copy, 15)] == [b"%d" % at for at in range(5, 20)]
    here.forget_queues(copy)
    there.forget_queues(name)
