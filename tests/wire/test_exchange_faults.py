"""Exchange declarations and bindings that are refused, and redeclarations that are not."""

from typing import Any

import pytest

from tests.support.amqp_client import Channel
from tests.wire.conftest import Connect, Unique
from tests.wire.faults import Fault, expect_fault, provoke, say

UNKNOWN_TYPES = (
    Fault(
        "nonsense",
        503,
        "COMMAND_INVALID - unknown exchange type 'nonsense'",
        say("exchange.declare", exchange="typed", type="nonsense"),
    ),
    Fault("empty", 503, "COMMAND_INVALID - invalid exchange type ''", say("exchange.declare", exchange="typed")),
)
DIFFERENT: tuple[tuple[dict[str, Any], dict[str, Any], str, str], ...] = (
    ({}, {"type": "fanout"}, "type", "received 'fanout' but current is 'direct'"),
    ({}, {"durable": True}, "durable", "received 'true' but current is 'false'"),
    ({"durable": True}, {}, "durable", "received 'false' but current is 'true'"),
    ({}, {"auto_delete": True}, "auto_delete", "received 'true' but current is 'false'"),
    ({}, {"internal": True}, "internal", "received 'true' but current is 'false'"),
    ({"durable": True}, {"type": "fanout"}, "type", "received 'fanout' but current is 'direct'"),
    (
        {},
        {"arguments": {"alternate-exchange": "other"}},
        "alternate-exchange",
        "received the value 'other' of type 'longstr' but current is none",
    ),
    (
        {"arguments": {"alternate-exchange": "other"}},
        {},
        "alternate-exchange",
        "received none but current is the value 'other' of type 'longstr'",
    ),
    (
        {"arguments": {"alternate-exchange": "other"}},
        {"arguments": {"alternate-exchange": "third"}},
        "alternate-exchange",
        "received 'third' but current is 'other'",
    ),
)
DIRECT = {"type": "direct"}


@pytest.mark.parametrize("fault", UNKNOWN_TYPES, ids=str)
def test_an_exchange_of_an_unknown_type_costs_the_connection(connect: Connect, fault: Fault) -> None:
    provoke(connect, fault)


@pytest.mark.parametrize(("first", "second", "attribute", "complaint"), DIFFERENT)
def test_a_different_redeclaration_is_refused(
    channel: Channel, unique: Unique, first: dict[str, Any], second: dict[str, Any], attribute: str, complaint: str
) -> None:
    exchange = unique("redeclared")
    channel.call("exchange.declare", exchange=exchange, **DIRECT | first)
    channel.send("exchange.declare", exchange=exchange, **DIRECT | second)
    text = f"PRECONDITION_FAILED - inequivalent arg '{attribute}' for exchange '{exchange}' in vhost '/': {complaint}"
    expect_fault(channel, 406, text, "exchange.declare")


@pytest.mark.parametrize(
    "second",
    [
        DIRECT,
        DIRECT | {"arguments": {"x-anything-else": 1}},
        {"passive": True, "type": "fanout", "durable": True},
        {"passive": True, "type": "nonsense"},
        {"passive": True},
    ],
)
def test_an_equivalent_or_passive_redeclaration_succeeds(
    channel: Channel, unique: Unique, second: dict[str, Any]
) -> None:
    exchange = unique("same")
    channel.call("exchange.declare", exchange=exchange, **DIRECT)
    channel.call("exchange.declare", exchange=exchange, **second)


@pytest.mark.parametrize(
    ("exchange", "kind"),
    [
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.topic", "topic"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
    ],
)
def test_the_standard_exchanges_exist_and_are_durable(channel: Channel, exchange: str, kind: str) -> None:
    channel.call("exchange.declare", exchange=exchange, type=kind, durable=True)


def test_the_trace_exchange_is_internal(channel: Channel) -> None:
    channel.call("exchange.declare", exchange="amq.rabbitmq.trace", type="topic", durable=True, internal=True)


@pytest.mark.parametrize(("value", "type_name"), [(1, "signedint"), (True, "bool"), (["a"], "array"), (None, "void")])
def test_an_alternate_exchange_must_be_a_string(channel: Channel, unique: Unique, value: Any, type_name: str) -> None:
    exchange = unique("typed")
    channel.send("exchange.declare", exchange=exchange, arguments={"alternate-exchange": value}, **DIRECT)
    where = f"for arg 'alternate-exchange' in exchange '{exchange}' in vhost '/'"
    expect_fault(channel, 406, f"PRECONDITION_FAILED - invalid type '{type_name}' {where}", "exchange.declare")


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("some", 'value <<"some">>; expected all, any, all-with-x, or any-with-x'),
        (1, "type signedint (value 1); expected longstr"),
        (None, "type void (value undefined); expected longstr"),
    ],
)
def test_a_binding_to_a_headers_exchange_must_know_how_to_match(channel: Channel, value: Any, complaint: str) -> None:
    queue = channel.call("queue.declare", exclusive=True).queue
    channel.send("queue.bind", queue=queue, exchange="amq.headers", arguments={"x-match": value})
    expect_fault(channel, 406, f"PRECONDITION_FAILED - Invalid x-match field {complaint}", "queue.bind")


def test_an_exchange_in_use_is_not_deleted_when_only_unused_may_be(channel: Channel, unique: Unique) -> None:
    exchange = unique("used")
    channel.call("exchange.declare", exchange=exchange, **DIRECT)
    queue = channel.call("queue.declare", exclusive=True).queue
    channel.call("queue.bind", queue=queue, exchange=exchange, routing_key="k")
    channel.send("exchange.delete", exchange=exchange, if_unused=True)
    text = f"PRECONDITION_FAILED - exchange '{exchange}' in vhost '/' in use"
    expect_fault(channel, 406, text, "exchange.delete")


def test_an_unused_exchange_is_deleted_when_only_unused_may_be(channel: Channel, unique: Unique) -> None:
    exchange = unique("unused")
    channel.call("exchange.declare", exchange=exchange, **DIRECT)
    channel.call("exchange.bind", source="amq.fanout", destination=exchange)
    channel.call("exchange.delete", exchange=exchange, if_unused=True)
    channel.send("exchange.declare", exchange=exchange, passive=True)
    expect_fault(channel, 404, f"NOT_FOUND - no exchange '{exchange}' in vhost '/'", "exchange.declare")
