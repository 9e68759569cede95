"""Methods in the wrong state or with the wrong words: reply code, reply text, class and method of each."""

import pytest

from tests.support.amqp_client import Channel, Connection
from tests.wire.conftest import Connect, Unique
from tests.wire.faults import Fault, expect_fault, locked, provoke, say

NO_QUEUE = "NOT_FOUND - no queue 'nothing' in vhost '/'"
NO_EXCHANGE = "NOT_FOUND - no exchange 'nothing' in vhost '/'"
NONE_DECLARED = "NOT_FOUND - no previously declared queue"
DEFAULT_EXCHANGE = "ACCESS_REFUSED - operation not permitted on the default exchange"
RESERVED = "ACCESS_REFUSED - {} name 'amq.own' contains reserved prefix 'amq.*'"
SYSTEM = "ACCESS_REFUSED - deletion of system exchange '{}' in vhost '/' not allowed"
UNKNOWN_TAG = "PRECONDITION_FAILED - unknown delivery tag {}"
UNIMPLEMENTED = "COMMAND_INVALID - unimplemented method"
OWN = say("queue.declare", exclusive=True)

MISSING = (
    Fault("passive queue declare", 404, NO_QUEUE, say("queue.declare", queue="nothing", passive=True)),
    Fault(
        "passive queue declare of nameless",
        404,
        "NOT_FOUND - no queue '' in vhost '/'",
        say("queue.declare", passive=True),
    ),
    Fault("passive exchange declare", 404, NO_EXCHANGE, say("exchange.declare", exchange="nothing", passive=True)),
    Fault("bind of queue", 404, NO_QUEUE, say("queue.bind", queue="nothing", exchange="amq.direct")),
    Fault("bind to exchange", 404, NO_EXCHANGE, say("queue.bind", exchange="nothing"), (OWN,)),
    Fault("bind with both missing", 404, NO_EXCHANGE, say("queue.bind", queue="nothing", exchange="nothing")),
    Fault("bind before any declare", 404, NONE_DECLARED, say("queue.bind", exchange="amq.direct")),
    Fault("purge", 404, NO_QUEUE, say("queue.purge", queue="nothing")),
    Fault("purge before any declare", 404, NONE_DECLARED, say("queue.purge")),
    Fault("delete before any declare", 404, NONE_DECLARED, say("queue.delete")),
    Fault("exchange bind source", 404, NO_EXCHANGE, say("exchange.bind", source="nothing", destination="amq.fanout")),
    Fault(
        "exchange bind destination", 404, NO_EXCHANGE, say("exchange.bind", source="amq.direct", destination="nothing")
    ),
    Fault(
        "exchange bind names the source first",
        404,
        NO_EXCHANGE,
        say("exchange.bind", source="nothing", destination="nothing-either"),
    ),
    Fault("publish", 404, NO_EXCHANGE, say("basic.publish", exchange="nothing", routing_key="k")),
    Fault("consume", 404, NO_QUEUE, say("basic.consume", queue="nothing")),
    Fault("consume before any declare", 404, NONE_DECLARED, say("basic.consume")),
    Fault("get", 404, NO_QUEUE, say("basic.get", queue="nothing")),
    Fault("get before any declare", 404, NONE_DECLARED, say("basic.get")),
)

REFUSED = (
    Fault("bind to default exchange", 403, DEFAULT_EXCHANGE, say("queue.bind"), (OWN,)),
    Fault("unbind from default exchange", 403, DEFAULT_EXCHANGE, say("queue.unbind"), (OWN,)),
    Fault("delete default exchange", 403, DEFAULT_EXCHANGE, say("exchange.delete")),
    Fault("declare default exchange", 403, DEFAULT_EXCHANGE, say("exchange.declare", type="direct")),
    Fault("passive declare of default exchange", 403, DEFAULT_EXCHANGE, say("exchange.declare", passive=True)),
    Fault("bind default exchange as source", 403, DEFAULT_EXCHANGE, say("exchange.bind", destination="amq.fanout")),
    Fault("bind default exchange as destination", 403, DEFAULT_EXCHANGE, say("exchange.bind", source="amq.fanout")),
    Fault("unbind default exchange", 403, DEFAULT_EXCHANGE, say("exchange.unbind", source="amq.fanout")),
    Fault(
        "declare amq exchange",
        403,
        RESERVED.format("exchange"),
        say("exchange.declare", exchange="amq.own", type="topic"),
    ),
    Fault("declare amq queue", 403, RESERVED.format("queue"), say("queue.declare", queue="amq.own")),
    Fault("delete amq.direct", 403, SYSTEM.format("amq.direct"), say("exchange.delete", exchange="amq.direct")),
    Fault("delete missing amq exchange", 403, SYSTEM.format("amq.none"), say("exchange.delete", exchange="amq.none")),
    Fault(
        "publish to internal exchange",
        403,
        "ACCESS_REFUSED - cannot publish to internal exchange 'amq.rabbitmq.trace' in vhost '/'",
        say("basic.publish", exchange="amq.rabbitmq.trace", routing_key="k"),
    ),
)

WRONG_STATE = (
    Fault("ack of unknown tag", 406, UNKNOWN_TAG.format(5), say("basic.ack", delivery_tag=5)),
    Fault("ack up to unknown tag", 406, UNKNOWN_TAG.format(5), say("basic.ack", delivery_tag=5, multiple=True)),
    Fault("single ack of zero", 406, UNKNOWN_TAG.format(0), say("basic.ack")),
    Fault("nack of unknown tag", 406, UNKNOWN_TAG.format(5), say("basic.nack", delivery_tag=5)),
    Fault("nack up to unknown tag", 406, UNKNOWN_TAG.format(5), say("basic.nack", delivery_tag=5, multiple=True)),
    Fault("reject of unknown tag", 406, UNKNOWN_TAG.format(5), say("basic.reject", delivery_tag=5)),
    Fault("commit outside tx", 406, "PRECONDITION_FAILED - channel is not transactional", say("tx.commit")),
    Fault("rollback outside tx", 406, "PRECONDITION_FAILED - channel is not transactional", say("tx.rollback")),
    Fault(
        "tx on confirm channel",
        406,
        "PRECONDITION_FAILED - cannot switch from confirm to tx mode",
        say("tx.select"),
        (say("confirm.select"),),
    ),
    Fault(
        "confirm on tx channel",
        406,
        "PRECONDITION_FAILED - cannot switch from tx to confirm mode",
        say("confirm.select"),
        (say("tx.select"),),
    ),
    Fault("second channel open", 504, "CHANNEL_ERROR - second 'channel.open' seen", say("channel.open")),
    Fault(
        "consumer tag reuse",
        530,
        "NOT_ALLOWED - attempt to reuse consumer tag 'mine'",
        say("basic.consume", consumer_tag="mine"),
        (OWN, say("basic.consume", consumer_tag="mine")),
    ),
    Fault("unsolicited declare-ok", 503, UNIMPLEMENTED, say("queue.declare-ok", queue="q")),
    Fault("unsolicited channel open-ok", 503, UNIMPLEMENTED, say("channel.open-ok")),
    Fault("unsolicited channel close-ok", 503, UNIMPLEMENTED, say("channel.close-ok")),
    Fault("unsolicited flow-ok", 503, UNIMPLEMENTED, say("channel.flow-ok", active=True)),
    Fault("unsolicited cancel-ok", 503, UNIMPLEMENTED, say("basic.cancel-ok", consumer_tag="c")),
    Fault("unsolicited qos-ok", 503, UNIMPLEMENTED, say("basic.qos-ok")),
    Fault("connection close on a channel", 503, UNIMPLEMENTED, say("connection.close", reply_code=200)),
    Fault("connection open on a channel", 503, UNIMPLEMENTED, say("connection.open", virtual_host="/")),
)

NOT_IMPLEMENTED = (
    Fault(
        "immediate",
        540,
        "NOT_IMPLEMENTED - immediate=true",
        say("basic.publish", exchange="", routing_key="k", immediate=True),
    ),
    Fault("prefetch size", 540, "NOT_IMPLEMENTED - prefetch_size!=0 (7)", say("basic.qos", prefetch_size=7)),
    Fault("recover without requeue", 540, "NOT_IMPLEMENTED - requeue=false", say("basic.recover")),
    Fault("async recover without requeue", 540, "NOT_IMPLEMENTED - requeue=false", say("basic.recover-async")),
    Fault("flow off", 540, "NOT_IMPLEMENTED - active=false", say("channel.flow")),
)


@pytest.mark.parametrize("fault", MISSING, ids=str)
def test_a_method_on_something_missing_closes_the_channel(connect: Connect, fault: Fault) -> None:
    provoke(connect, fault)


@pytest.mark.parametrize("fault", REFUSED, ids=str)
def test_a_method_on_something_reserved_closes_the_channel(connect: Connect, fault: Fault) -> None:
    provoke(connect, fault)


@pytest.mark.parametrize("fault", WRONG_STATE, ids=str)
def test_a_method_in_the_wrong_state_is_answered_with_its_code(connect: Connect, fault: Fault) -> None:
    provoke(connect, fault)


@pytest.mark.parametrize("fault", NOT_IMPLEMENTED, ids=str)
def test_an_unimplemented_part_of_the_protocol_closes_the_connection(connect: Connect, fault: Fault) -> None:
    provoke(connect, fault)


@pytest.mark.parametrize(
    ("method", "fields", "reply"),
    [
        ("queue.delete", {"queue": "nothing"}, {"message_count": 0}),
        ("queue.delete", {"queue": "nothing", "if_unused": True, "if_empty": True}, {"message_count": 0}),
        ("queue.delete", {"queue": "amq.nothing"}, {"message_count": 0}),
        ("exchange.delete", {"exchange": "nothing"}, {}),
        ("queue.unbind", {"queue": "nothing", "exchange": "amq.direct"}, {}),
        ("queue.unbind", {"queue": "nothing", "exchange": "nothing"}, {}),
        ("exchange.unbind", {"source": "nothing", "destination": "amq.fanout"}, {}),
        ("exchange.unbind", {"source": "amq.direct", "destination": "nothing"}, {}),
        ("exchange.unbind", {"source": "amq.direct", "destination": "amq.fanout"}, {}),
        ("basic.cancel", {"consumer_tag": "nothing"}, {"consumer_tag": "nothing"}),
        ("basic.recover", {"requeue": True}, {}),
        ("channel.flow", {"active": True}, {"active": True}),
        ("access.request", {"realm": "/data"}, {"ticket": 1}),
    ],
)
def test_undoing_what_was_never_done_succeeds(
    channel: Channel, method: str, fields: dict[str, object], reply: dict[str, object]
) -> None:
    assert channel.call(method, **fields).fields == reply


def test_an_ack_of_everything_outstanding_may_find_nothing(channel: Channel) -> None:
    channel.ack(0, multiple=True)
    channel.send("basic.nack", delivery_tag=0, multiple=True)
    channel.call("basic.qos")


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("queue.declare", {"exclusive": True}),
        ("queue.declare", {}),
        ("queue.declare", {"passive": True}),
        ("queue.bind", {"exchange": "amq.direct"}),
        ("queue.purge", {}),
        ("queue.delete", {}),
        ("basic.consume", {}),
        ("basic.get", {}),
    ],
)
def test_an_exclusive_queue_is_locked_for_other_connections(
    connect: Connect, channel: Channel, unique: Unique, method: str, fields: dict[str, object]
) -> None:
    queue = unique("locked")
    channel.call("queue.declare", queue=queue, exclusive=True)
    stranger = connect().channel()
    stranger.send(method, queue=queue, **fields)
    expect_fault(stranger, 405, locked(queue), method)


def test_anyone_may_publish_to_an_exclusive_queue(connect: Connect, channel: Channel, unique: Unique) -> None:
    queue = unique("locked")
    channel.call("queue.declare", queue=queue, exclusive=True)
    stranger = connect().channel()
    stranger.confirm()
    stranger.publish("", queue, b"letter", mandatory=True)
    stranger.confirms([1])
    letter = channel.get(queue)
    assert letter is not None
    assert letter.body == b"letter"


@pytest.mark.parametrize(("first", "second"), [(False, True), (True, False)])
def test_an_exclusive_consumer_stays_alone(channel: Channel, first: bool, second: bool) -> None:
    queue = channel.call("queue.declare", exclusive=True).queue
    channel.consume(queue, "first", exclusive=first)
    channel.send("basic.consume", queue=queue, consumer_tag="second", exclusive=second)
    expect_fault(channel, 403, f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use", "basic.consume")


def test_a_single_active_consumer_queue_refuses_exclusive_consumers(channel: Channel) -> None:
    queue = channel.call("queue.declare", exclusive=True, arguments={"x-single-active-consumer": True}).queue
    channel.send("basic.consume", queue=queue, exclusive=True)
    expect_fault(channel, 403, f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use", "basic.consume")


def test_a_double_ack_closes_the_channel_and_requeues_the_rest(connection: Connection, channel: Channel) -> None:
    queue = channel.call("queue.declare", exclusive=True).queue
    for body in (b"one", b"two"):
        channel.publish("", queue, body)
    channel.consume(queue)
    first, _ = channel.deliveries(2)
    channel.ack(first.delivery_tag)
    channel.ack(first.delivery_tag)
    expect_fault(channel, 406, UNKNOWN_TAG.format(first.delivery_tag), "basic.ack")
    left = connection.channel().get(queue)
    assert left is not None
    assert (left.body, left.redelivered, left.message_count) == (b"two", True, 0)
