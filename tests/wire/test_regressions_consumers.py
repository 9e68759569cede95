"""Consumers of a queue, where brokers were found to differ: the next consumer, and the order of refusals."""

from tests.support.amqp_client import Channel


def test_a_new_consumer_joins_the_end_of_the_round(channel: Channel) -> None:
    queue = channel.call("queue.declare", exclusive=True).queue
    for tag in ("a", "b"):
        channel.consume(queue, tag)
    served = []
    for body in (b"1", b"2"):
        channel.publish("", queue, body)
        served.append(channel.deliveries(1)[0].consumer_tag)
    channel.consume(queue, "c")
    for body in (b"3", b"4", b"5"):
        channel.publish("", queue, body)
        served.append(channel.deliveries(1)[0].consumer_tag)
    assert served == ["a", "b", "a", "b", "c"]


def test_a_queue_that_was_never_named_is_missed_before_a_tag_is_found_in_use(channel: Channel) -> None:
    channel.consume("amq.rabbitmq.reply-to", "c", no_ack=True)
    channel.send("basic.consume", queue="", consumer_tag="c")
    channel.expect_close(404, "NOT_FOUND - no previously declared queue", "basic.consume")
