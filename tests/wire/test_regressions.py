"""Conversations in which brokers were found to differ, by `bench/differential`, each as small as it would go."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.amqp_client import Channel, Connection

Unique = Callable[[str], str]
REPLY_TO = "amq.rabbitmq.reply-to"


def own_queue(channel: Channel, **arguments: Any) -> str:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    queue: str = channel.call("queue.declare", exclusive=True, arguments=named).queue
    return queue


# Which of several faults is named


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        (
            {"delivery_mode": 0, "headers": {"CC": "a"}},
            'invalid message: {unacceptable_type_in_header,"CC",longstr}',
        ),
        ({"delivery_mode": 0, "reply_to": REPLY_TO}, "fast reply consumer does not exist"),
        ({"user_id": "mallory", "reply_to": REPLY_TO}, "fast reply consumer does not exist"),
    ],
)
def test_a_publish_with_two_faults_is_refused_for_the_first(
    channel: Channel, properties: dict[str, Any], text: str
) -> None:
    channel.publish("", "anywhere", properties=properties)
    channel.expect_close(406, f"PRECONDITION_FAILED - {text}", "basic.publish")


def test_a_second_reply_consumer_with_any_tag_is_refused(channel: Channel) -> None:
    channel.consume(REPLY_TO, "r", no_ack=True)
    channel.send("basic.consume", queue=REPLY_TO, consumer_tag="r", no_ack=True)
    channel.expect_close(406, "PRECONDITION_FAILED - reply consumer already set", "basic.consume")


ARGUMENTS_AS_COMPARED = {
    "x-expires": 3_600_000,
    "x-message-ttl": 3_600_000,
    "x-dead-letter-exchange": "e",
    "x-dead-letter-routing-key": "k",
    "x-max-length": 5,
    "x-max-length-bytes": 5000,
    "x-max-priority": 3,
    "x-overflow": "drop-head",
    "x-queue-mode": "lazy",
    "x-queue-version": 1,
    "x-single-active-consumer": True,
    "x-queue-master-locator": "client-local",
}


@pytest.mark.parametrize("first", range(len(ARGUMENTS_AS_COMPARED)))
def test_a_redeclare_is_refused_for_the_first_argument_that_differs(
    channel: Channel, unique: Unique, first: int
) -> None:
    queue = unique("queue")
    channel.call("queue.declare", queue=queue, exclusive=True)
    arguments = dict(list(ARGUMENTS_AS_COMPARED.items())[first:])
    channel.send("queue.declare", queue=queue, exclusive=True, arguments=arguments)
    close = channel.expect("channel.close", reply_code=406)
    assert f"inequivalent arg '{next(iter(arguments))}'" in close.reply_text


def test_an_exchange_that_exists_is_compared_before_its_arguments_are_checked(channel: Channel, unique: Unique) -> None:
    exchange = unique("exchange")
    channel.call("exchange.declare", exchange=exchange, type="direct")
    channel.send("exchange.declare", exchange=exchange, type="topic", arguments={"alternate-exchange": 5})
    text = f"inequivalent arg 'type' for exchange '{exchange}' in vhost '/': received 'topic' but current is 'direct'"
    channel.expect_close(406, f"PRECONDITION_FAILED - {text}", "exchange.declare")


def test_an_unknown_exchange_type_is_refused_before_the_default_exchange_is(
    connection: Connection, channel: Channel
) -> None:
    channel.send("exchange.declare", exchange="", type="DIRECT")
    connection.expect_close(503, "COMMAND_INVALID - unknown exchange type 'DIRECT'", "exchange.declare")


def test_the_arguments_of_a_binding_are_checked_before_the_owner_of_its_queue(
    connect: Callable[[], Connection], channel: Channel
) -> None:
    queue = own_queue(channel)
    stranger = connect().channel()
    stranger.send("queue.bind", queue=queue, exchange="amq.headers", arguments={"x-match": "none"})
    text = 'Invalid x-match field value <<"none">>; expected all, any, all-with-x, or any-with-x'
    stranger.expect_close(406, f"PRECONDITION_FAILED - {text}", "queue.bind")


def test_text_that_is_not_utf8_is_quoted_as_it_came(channel: Channel) -> None:
    channel.send("queue.declare", exclusive=True, arguments={"x-queue-mode": b"\xff"})
    close = channel.expect("channel.close", reply_code=406)
    assert "unsupported queue mode '\udcff'" in close.reply_text


# Limits and expiry


def test_requeued_messages_meet_the_limit_of_their_queue_before_its_consumers(channel: Channel) -> None:
    queue = own_queue(channel, x_max_length=1)
    channel.consume(queue, "c")
    for body in (b"a", b"b"):
        channel.publish("", queue, body)
    assert [delivery.body for delivery in channel.deliveries(2)] == [b"a", b"b"]
    channel.call("basic.recover", requeue=True)
    assert channel.bodies(1) == [b"b"]
    channel.expect_silence(queue)


def test_a_message_given_back_by_a_lost_channel_meets_the_limit_first(connection: Connection, channel: Channel) -> None:
    queue = own_queue(channel, x_max_length=0)
    leaver = connection.channel()
    leaver.consume(queue)
    channel.publish("", queue, b"gone")
    assert leaver.bodies(1) == [b"gone"]
    channel.consume(queue)
    leaver.close()
    channel.await_counts(queue, 0, 1)
    channel.expect_silence(queue)


def test_a_get_does_not_count_an_expired_message_behind_the_one_it_takes(channel: Channel) -> None:
    queue = own_queue(channel)
    channel.publish("", queue, b"stays")
    channel.publish("", queue, b"expired", {"expiration": "0"})
    got = channel.get(queue)
    assert got is not None
    assert (got.body, got.message_count) == (b"stays", 0)


def test_a_death_does_not_count_as_the_first_when_the_publisher_sent_an_x_death(channel: Channel) -> None:
    grave = own_queue(channel)
    queue = own_queue(channel, x_dead_letter_exchange="", x_dead_letter_routing_key=grave)
    channel.publish("", queue, b"a", {"headers": {"x-death": 5}})
    got = channel.get(queue, no_ack=False)
    assert got is not None
    channel.send("basic.reject", delivery_tag=got.delivery_tag, requeue=False)
    channel.await_counts(grave, 1)
    dead = channel.get(grave)
    assert dead is not None
    assert list(dead.headers) == ["x-death"]


# Consumers


def test_consumers_of_a_deleted_queue_are_cancelled_in_the_order_of_their_tags(channel: Channel) -> None:
    queue = own_queue(channel)
    for tag, priority in (("c", 5), ("a", 0), ("b", 9)):
        channel.consume(queue, tag, arguments={"x-priority": priority})
    channel.call("queue.delete", queue=queue)
    assert [channel.expect("basic.cancel").consumer_tag for _ in range(3)] == ["a", "b", "c"]


def test_a_reply_consumer_must_not_acknowledge_even_when_there_is_one_already(channel: Channel) -> None:
    channel.consume(REPLY_TO, "r", no_ack=True)
    channel.send("basic.consume", queue=REPLY_TO, consumer_tag="s")
    channel.expect_close(406, "PRECONDITION_FAILED - reply consumer cannot acknowledge", "basic.consume")


def test_the_limit_of_a_channel_holds_back_its_no_ack_consumers_too(connection: Connection, channel: Channel) -> None:
    acked, unacked, publisher = own_queue(channel), own_queue(channel), connection.channel()
    channel.call("basic.qos", prefetch_count=1, **{"global": True})
    channel.consume(acked)
    channel.consume(unacked, no_ack=True)
    publisher.publish("", acked, b"to be acked")
    delivery = channel.deliveries(1)[0]
    publisher.publish("", unacked, b"held back")
    publisher.await_counts(unacked, 1, 1)
    channel.ack(delivery.delivery_tag)
    assert channel.bodies(1) == [b"held back"]


def test_messages_got_do_not_count_towards_the_limit_of_a_channel(channel: Channel) -> None:
    queue = own_queue(channel)
    for body in (b"got", b"delivered"):
        channel.publish("", queue, body)
    channel.call("basic.qos", prefetch_count=1, **{"global": True})
    assert channel.get(queue, no_ack=False) is not None
    channel.consume(queue)
    assert channel.bodies(1) == [b"delivered"]
