"""Declarations that are refused: arguments of the wrong type or range, and redeclarations that differ."""

from typing import Any

import pytest

from tests.support.amqp_client import Channel, describe
from tests.support.amqp_values import Typed
from tests.wire.conftest import Unique
from tests.wire.faults import expect_fault, locked

INTEGERS = ("x-expires", "x-message-ttl", "x-max-length", "x-max-length-bytes", "x-max-priority", "x-queue-version")
INTEGER_TYPES = ("b", "B", "s", "u", "I", "i", "l", "L")
NOT_INTEGERS: tuple[tuple[Any, str], ...] = (
    ("5", "longstr"),
    (True, "bool"),
    (1.5, "double"),
    (Typed("f", 1.5), "float"),
    (["a"], "array"),
    (None, "void"),
    ({"a": 1}, "table"),
    (Typed("T", 5), "timestamp"),
    (Typed("x", b"5"), "binary"),
    (Typed("D", (0, 5)), "decimal"),
)
TYPE_NAMES: tuple[tuple[Any, str], ...] = (
    (Typed("b", 5), "byte"),
    (Typed("B", 5), "unsignedbyte"),
    (Typed("s", 5), "short"),
    (Typed("u", 5), "unsignedshort"),
    (5, "signedint"),
    (Typed("i", 5), "unsignedint"),
    (Typed("l", 5), "long"),
    *NOT_INTEGERS[1:],
)
WIDER = {
    "byte": "signedint",
    "unsignedbyte": "signedint",
    "short": "signedint",
    "unsignedshort": "signedint",
    "unsignedint": "signedint",
    "long": "signedint",
    "float": "double",
}
OUT_OF_RANGE: tuple[tuple[str, Any, str], ...] = (
    *((name, -1, "{value_negative,-1}") for name in INTEGERS),
    ("x-expires", 0, "{value_zero,0}"),
    ("x-expires", 2**40, f"{{value_too_large,{2**40}}}"),
    ("x-message-ttl", 2**40, f"{{value_too_large,{2**40}}}"),
    ("x-max-priority", 256, "{max_value_exceeded,256}"),
    ("x-queue-version", 3, "\"unsupported queue version '3'\""),
    ("x-overflow", "spill", "invalid_overflow"),
    ("x-queue-mode", "idle", "\"unsupported queue mode 'idle'\""),
    ("x-queue-type", "other", "\"unsupported queue type 'other'\""),
    ("x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"),
)
ACCEPTED: tuple[dict[str, Any], ...] = (
    *({name: Typed(letter, 5)} for name in INTEGERS[:5] for letter in INTEGER_TYPES),
    {"x-message-ttl": 0},
    {"x-max-length": 0},
    {"x-max-length-bytes": 0},
    {"x-max-priority": 0},
    {"x-max-priority": 255},
    {"x-expires": 2**32},
    {"x-message-ttl": 2**32},
    {"x-max-length": 2**62},
    {"x-queue-version": 1},
    {"x-queue-version": 2},
    {"x-queue-mode": "lazy"},
    {"x-queue-mode": "default"},
    {"x-queue-type": "classic"},
    {"x-queue-master-locator": "client-local"},
    {"x-dead-letter-exchange": ""},
    {"x-dead-letter-exchange": "not-declared", "x-dead-letter-routing-key": "k"},
    {"x-overflow": "drop-head"},
    {"x-overflow": "reject-publish"},
    {"x-overflow": "reject-publish-dlx"},
    {"x-single-active-consumer": False},
    {"x-anything-else": "ignored"},
)
DIFFERENT: tuple[tuple[str, Any, Any, str], ...] = (
    ("x-expires", 60000, 70000, "signedint"),
    ("x-message-ttl", 1000, 2000, "signedint"),
    ("x-max-length", 1, 2, "signedint"),
    ("x-max-length-bytes", 1, 2, "signedint"),
    ("x-max-priority", 1, 2, "signedint"),
    ("x-queue-version", 1, 2, "signedint"),
    ("x-dead-letter-exchange", "a", "b", "longstr"),
    ("x-overflow", "drop-head", "reject-publish", "longstr"),
    ("x-queue-mode", "lazy", "default", "longstr"),
    ("x-queue-master-locator", "client-local", "min-masters", "longstr"),
    ("x-single-active-consumer", True, False, "bool"),
)


def refuse(channel: Channel, queue: str, arguments: dict[str, Any], text: str, type_name: str = "") -> None:
    """`{type}` in the text stands for the type's name, or for the common name of all numbers of its kind."""
    channel.send("queue.declare", queue=queue, exclusive=True, arguments=arguments)
    accepted = [text.replace("{type}", name) for name in (type_name, WIDER.get(type_name, type_name))]
    close = channel.expect("channel.close")
    assert describe(close) in [(406, f"PRECONDITION_FAILED - {words}", 50, 10) for words in accepted]
    channel.send("channel.close-ok")
    channel.connection.channel(channel.number).call("basic.qos")


def shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize(("value", "type_name"), NOT_INTEGERS)
@pytest.mark.parametrize("argument", INTEGERS)
def test_an_argument_that_counts_must_be_an_integer(
    channel: Channel, unique: Unique, argument: str, value: Any, type_name: str
) -> None:
    queue = unique("typed")
    complaint = f"invalid arg '{argument}' for queue '{queue}' in vhost '/': \"expected integer, got {{type}}\""
    refuse(channel, queue, {argument: value}, complaint, type_name)


@pytest.mark.parametrize(("value", "type_name"), TYPE_NAMES)
@pytest.mark.parametrize("argument", ["x-dead-letter-routing-key", "x-overflow", "x-queue-mode", "x-queue-type"])
def test_an_argument_that_names_something_must_be_a_string(
    channel: Channel, unique: Unique, argument: str, value: Any, type_name: str
) -> None:
    queue = unique("typed")
    complaint = f"invalid arg '{argument}' for queue '{queue}' in vhost '/': {{unacceptable_type,{{type}}}}"
    refuse(channel, queue, {argument: value}, complaint, type_name)


@pytest.mark.parametrize(("value", "type_name"), TYPE_NAMES)
def test_a_dead_letter_exchange_of_the_wrong_type_is_refused_in_words_of_its_own(
    channel: Channel, unique: Unique, value: Any, type_name: str
) -> None:
    queue = unique("typed")
    complaint = f"invalid type '{{type}}' for arg 'x-dead-letter-exchange' in queue '{queue}' in vhost '/'"
    refuse(channel, queue, {"x-dead-letter-exchange": value}, complaint, type_name)


@pytest.mark.parametrize(("value", "type_name"), [("true", "longstr"), (1, "signedint"), (None, "void")])
def test_single_active_consumer_must_be_a_boolean(channel: Channel, unique: Unique, value: Any, type_name: str) -> None:
    queue = unique("typed")
    complaint = (
        f"invalid arg 'x-single-active-consumer' for queue '{queue}' in vhost '/': {{unacceptable_type,{type_name}}}"
    )
    refuse(channel, queue, {"x-single-active-consumer": value}, complaint)


@pytest.mark.parametrize(("argument", "value", "complaint"), OUT_OF_RANGE)
def test_an_argument_out_of_range_is_refused(
    channel: Channel, unique: Unique, argument: str, value: Any, complaint: str
) -> None:
    queue = unique("range")
    refuse(channel, queue, {argument: value}, f"invalid arg '{argument}' for queue '{queue}' in vhost '/': {complaint}")


@pytest.mark.parametrize("argument", ["x-max-age", "x-max-in-memory-length", "x-quorum-initial-group-size"])
def test_an_argument_of_another_queue_type_is_refused(channel: Channel, unique: Unique, argument: str) -> None:
    queue = unique("foreign")
    complaint = f"invalid arg '{argument}' for queue '{queue}' in vhost '/' of queue type rabbit_classic_queue"
    refuse(channel, queue, {argument: 1}, complaint)


@pytest.mark.parametrize("arguments", ACCEPTED, ids=str)
def test_a_good_argument_is_accepted_and_equal_to_itself(
    channel: Channel, unique: Unique, arguments: dict[str, Any]
) -> None:
    queue = unique("good")
    for _ in range(2):
        assert channel.call("queue.declare", queue=queue, exclusive=True, arguments=arguments).queue == queue


@pytest.mark.parametrize(("argument", "value", "other", "type_name"), DIFFERENT)
@pytest.mark.parametrize("case", ["absent then given", "given then absent", "other value"])
def test_a_redeclaration_with_another_argument_is_refused(
    channel: Channel, unique: Unique, argument: str, value: Any, other: Any, type_name: str, case: str
) -> None:
    queue = unique("redeclared")
    given = f"the value '{shown(value)}' of type '{type_name}'"
    first: dict[str, Any] = {} if case == "absent then given" else {argument: value}
    second: dict[str, Any] = {
        "absent then given": {argument: value},
        "given then absent": {},
        "other value": {argument: other},
    }[case]
    complaint = {
        "absent then given": f"received {given} but current is none",
        "given then absent": f"received none but current is {given}",
        "other value": f"received '{shown(other)}' but current is '{shown(value)}'",
    }[case]
    channel.call("queue.declare", queue=queue, exclusive=True, arguments=first)
    refuse(channel, queue, second, f"inequivalent arg '{argument}' for queue '{queue}' in vhost '/': {complaint}")


@pytest.mark.parametrize("attribute", ["durable", "auto_delete"])
@pytest.mark.parametrize("second", [True, False])
def test_a_redeclaration_with_another_attribute_is_refused(
    channel: Channel, unique: Unique, attribute: str, second: bool
) -> None:
    queue = unique("redeclared")
    channel.call("queue.declare", queue=queue, **{attribute: not second})
    channel.send("queue.declare", queue=queue, **{attribute: second})
    complaint = f"received '{shown(second)}' but current is '{shown(not second)}'"
    text = f"PRECONDITION_FAILED - inequivalent arg '{attribute}' for queue '{queue}' in vhost '/': {complaint}"
    expect_fault(channel, 406, text, "queue.declare")


@pytest.mark.parametrize("second", [True, False])
def test_a_redeclaration_with_other_exclusivity_finds_the_queue_locked(
    channel: Channel, unique: Unique, second: bool
) -> None:
    queue = unique("redeclared")
    channel.call("queue.declare", queue=queue, exclusive=not second)
    channel.send("queue.declare", queue=queue, exclusive=second)
    expect_fault(channel, 405, locked(queue), "queue.declare")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"exclusive": True, "durable": True}, {"exclusive": True}),
        ({"exclusive": True}, {"exclusive": True, "durable": True}),
        ({"arguments": {"x-message-ttl": 1000}}, {"arguments": {"x-message-ttl": Typed("l", 1000)}}),
        ({"arguments": {"x-message-ttl": 1000}}, {"arguments": {"x-message-ttl": Typed("s", 1000)}}),
        ({}, {"arguments": {"x-queue-type": "classic"}}),
        ({"arguments": {"x-queue-type": "classic"}}, {}),
        ({}, {"arguments": {"x-anything-else": 1}}),
        ({"arguments": {"x-anything-else": 1}}, {"arguments": {"x-anything-else": 2}}),
        ({"durable": True, "arguments": {"x-max-length": 1}}, {"passive": True}),
    ],
)
def test_a_redeclaration_that_means_the_same_is_equivalent(
    channel: Channel, unique: Unique, first: dict[str, Any], second: dict[str, Any]
) -> None:
    queue = unique("same")
    channel.call("queue.declare", queue=queue, **first)
    assert channel.call("queue.declare", queue=queue, **second).queue == queue


@pytest.mark.parametrize(
    ("first", "second", "complaint"),
    [
        ({"durable": True, "auto_delete": True}, {}, "'durable'{}received 'false' but current is 'true'"),
        ({"auto_delete": True}, {"durable": True}, "'durable'{}received 'true' but current is 'false'"),
        (
            {"arguments": {"x-max-length": 5, "x-message-ttl": 1000}},
            {"arguments": {"x-max-length": 6, "x-message-ttl": 2000}},
            "'x-message-ttl'{}received '2000' but current is '1000'",
        ),
        (
            {"durable": True, "arguments": {"x-max-length": 5}},
            {"arguments": {"x-max-length": 6}},
            "'durable'{}received 'false' but current is 'true'",
        ),
        (
            {"arguments": {"x-message-ttl": 1000}},
            {"arguments": {"x-message-ttl": "bad"}},
            "'x-message-ttl'{}received 'bad' but current is '1000'",
        ),
    ],
)
def test_of_several_differences_the_first_in_a_fixed_order_is_named(
    channel: Channel, unique: Unique, first: dict[str, Any], second: dict[str, Any], complaint: str
) -> None:
    queue = unique("several")
    channel.call("queue.declare", queue=queue, **first)
    channel.send("queue.declare", queue=queue, **second)
    where = f" for queue '{queue}' in vhost '/': "
    expect_fault(channel, 406, f"PRECONDITION_FAILED - inequivalent arg {complaint.format(where)}", "queue.declare")
