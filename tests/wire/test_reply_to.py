"""Direct reply-to: answers without a queue, through `amq.rabbitmq.reply-to`."""

import pytest

from tests.support.amqp_client import Channel, Connection
from tests.wire.conftest import Connect
from tests.wire.faults import Fault, expect_fault, provoke, say

REPLY_TO = "amq.rabbitmq.reply-to"
FORGED = f"{REPLY_TO}.forged"
NO_QUEUE = "NOT_FOUND - no queue '{}' in vhost '/'"
NO_CONSUMER = "PRECONDITION_FAILED - fast reply consumer does not exist"

FAULTS = (
    Fault(
        "reply consumer with acks",
        406,
        "PRECONDITION_FAILED - reply consumer cannot acknowledge",
        say("basic.consume", queue=REPLY_TO),
    ),
    Fault(
        "second reply consumer",
        406,
        "PRECONDITION_FAILED - reply consumer already set",
        say("basic.consume", queue=REPLY_TO, no_ack=True),
        (say("basic.consume", queue=REPLY_TO, no_ack=True),),
    ),
    Fault(
        "reply consumer under a tag in use",
        530,
        "NOT_ALLOWED - attempt to reuse consumer tag 'taken'",
        say("basic.consume", queue=REPLY_TO, no_ack=True, consumer_tag="taken"),
        (say("queue.declare", exclusive=True), say("basic.consume", consumer_tag="taken")),
    ),
    *(
        Fault(f"{method} of the pretended queue", 404, NO_QUEUE.format(REPLY_TO), say(method, **given))
        for method, given in (
            ("basic.get", {"queue": REPLY_TO}),
            ("queue.purge", {"queue": REPLY_TO}),
            ("queue.bind", {"queue": REPLY_TO, "exchange": "amq.direct"}),
        )
    ),
    *(
        Fault(f"{method} of a forged name", 404, NO_QUEUE.format(FORGED), say(method, **given))
        for method, given in (
            ("queue.declare", {"queue": FORGED}),
            ("basic.consume", {"queue": FORGED, "no_ack": True}),
        )
    ),
)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_misuse_is_answered_with_its_code(connect: Connect, fault: Fault) -> None:
    provoke(connect, fault)


def ask(channel: Channel, queue: str) -> str:
    """Send a request; the name its reader may answer to."""
    channel.publish("", queue, b"question", {"reply_to": REPLY_TO, "correlation_id": "7"})
    request = channel.get(queue)
    assert request is not None
    assert request.properties["correlation_id"] == "7"
    name: str = request.properties["reply_to"]
    return name


def asking(connection: Connection) -> tuple[Channel, str, str]:
    """(the asking channel, its consumer, a name to answer to)."""
    channel = connection.channel()
    queue = channel.call("queue.declare", exclusive=True).queue
    tag = channel.consume(REPLY_TO, no_ack=True)
    return channel, tag, ask(channel, queue)


def test_a_reply_reaches_the_channel_that_asked(connect: Connect) -> None:
    channel, tag, name = asking(connect())
    assert name.startswith(f"{REPLY_TO}.")
    server = connect().channel()
    server.confirm()
    server.publish("", name, b"answer", {"correlation_id": "7"})
    server.confirms([1])
    answer = channel.expect("basic.deliver", consumer_tag=tag, exchange="", routing_key=name, redelivered=False)
    assert (answer.body, answer.properties) == (b"answer", {"correlation_id": "7"})


def test_every_request_of_a_channel_carries_the_same_name(connect: Connect) -> None:
    channel, _, name = asking(connect())
    queue = channel.call("queue.declare", exclusive=True).queue
    assert ask(channel, queue) == name


def test_a_mandatory_reply_is_delivered_and_returned_all_the_same(connect: Connect) -> None:
    channel, _, name = asking(connect())
    server = connect().channel()
    server.publish("", name, b"answer", mandatory=True)
    server.expect("basic.return", reply_code=312, reply_text="NO_ROUTE", routing_key=name)
    assert channel.expect("basic.deliver").body == b"answer"


def test_a_server_can_check_whether_the_reply_queue_still_exists(connect: Connect) -> None:
    connection = connect()
    channel, tag, name = asking(connection)
    server = connect().channel()
    for passive in (False, True):
        reply = server.call("queue.declare", queue=name, passive=passive)
        assert (reply.queue, reply.message_count, reply.consumer_count) == (name, 0, 1)
    channel.call("basic.cancel", consumer_tag=tag)
    server.send("queue.declare", queue=name)
    expect_fault(server, 404, f"NOT_FOUND - no queue '{name}' in vhost '/'", "queue.declare")


def test_a_cancelled_reply_consumer_cannot_be_asked_for(connect: Connect) -> None:
    channel, tag, _ = asking(connect())
    channel.call("basic.cancel", consumer_tag=tag)
    channel.publish("", "nobody", b"", {"reply_to": REPLY_TO})
    expect_fault(channel, 406, NO_CONSUMER, "basic.publish")


def test_a_reply_to_someone_gone_is_dropped_and_confirmed(connect: Connect) -> None:
    connection = connect()
    _, _, name = asking(connection)
    connection.close()
    server = connect().channel()
    server.confirm()
    server.publish("", name, b"late")
    server.confirms([1])


def test_the_pretended_queue_can_be_declared_and_deleted(channel: Channel) -> None:
    for passive in (False, True):
        reply = channel.call("queue.declare", queue=REPLY_TO, passive=passive)
        assert (reply.queue, reply.message_count, reply.consumer_count) == (REPLY_TO, 0, 1)
    assert channel.call("queue.delete", queue=REPLY_TO).message_count == 0


def test_a_returned_request_carries_the_real_name(connect: Connect) -> None:
    channel, _, name = asking(connect())
    channel.publish("amq.direct", "nobody", b"", {"reply_to": REPLY_TO}, mandatory=True)
    assert channel.expect("basic.return").properties["reply_to"] == name
