"""Redeclaring a queue; the texts were recorded from RabbitMQ 3.10.8."""

import pytest

from tests.unit.broker.queues.world import RecordingOwner
from warren.broker.model.turn import Turn
from warren.broker.queues.arguments import check_equivalent
from warren.broker.queues.queue import Queue
from warren.broker.queues.settings import queue_settings
from warren.errors import PRECONDITION_FAILED, RESOURCE_LOCKED, ChannelFault
from warren.wire.field_tables import Table, Timestamp

DLX: Table = {"x-dead-letter-exchange": "e"}


def queue_of(arguments: Table, durable: bool = False, exclusive: bool = False, auto_delete: bool = False) -> Queue:
    settings = queue_settings(arguments)
    return Queue("/", "q", durable, exclusive, auto_delete, arguments, 0, settings, Turn(), RecordingOwner())


def refusal(current: Table, received: Table) -> str:
    with pytest.raises(ChannelFault) as fault:
        check_equivalent(queue_of(current), False, False, False, received)
    assert fault.value.code == PRECONDITION_FAILED
    return fault.value.text.removeprefix("inequivalent arg ")


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"x-message-ttl": 5000, "x-expires": 100},
        {"x-dead-letter-exchange": "e", "x-dead-letter-routing-key": "k"},
        {"x-single-active-consumer": True, "x-max-priority": 3},
    ],
)
def test_the_same_declaration_is_equivalent(arguments: Table) -> None:
    check_equivalent(queue_of(arguments), False, False, False, dict(arguments))


@pytest.mark.parametrize(
    ("name", "value", "described"),
    [
        ("x-expires", 100000, "the value '100000' of type 'signedint'"),
        ("x-message-ttl", 2**33, f"the value '{2**33}' of type 'long'"),
        ("x-dead-letter-exchange", "e", "the value 'e' of type 'longstr'"),
        ("x-max-length", 5, "the value '5' of type 'signedint'"),
        ("x-max-length-bytes", 5, "the value '5' of type 'signedint'"),
        ("x-max-priority", 3, "the value '3' of type 'signedint'"),
        ("x-overflow", "drop-head", "the value 'drop-head' of type 'longstr'"),
        ("x-queue-mode", "lazy", "the value 'lazy' of type 'longstr'"),
        ("x-single-active-consumer", False, "the value 'false' of type 'bool'"),
        ("x-queue-master-locator", "random", "the value 'random' of type 'longstr'"),
        ("x-queue-version", 2, "the value '2' of type 'signedint'"),
        ("x-delivery-limit", 2, "the value '2' of type 'signedint'"),
    ],
)
def test_an_argument_on_one_side_only_is_described_with_its_type(name: str, value: object, described: str) -> None:
    where = f"'{name}' for queue 'q' in vhost '/'"
    assert refusal({name: value}, {}) == f"{where}: received none but current is {described}"
    assert refusal({}, {name: value}) == f"{where}: received {described} but current is none"


def test_a_dead_letter_routing_key_is_compared() -> None:
    assert refusal({**DLX, "x-dead-letter-routing-key": "k"}, DLX) == (
        "'x-dead-letter-routing-key' for queue 'q' in vhost '/': "
        "received none but current is the value 'k' of type 'longstr'"
    )


@pytest.mark.parametrize(
    ("current", "received", "described"),
    [
        (5000, 6000, "received '6000' but current is '5000'"),
        (5000, "5000", "received '5000' but current is '5000'"),
        (5000, 5.5, "received '5.5' but current is '5000'"),
        (1, True, "received 'true' but current is '1'"),
        (5000, {"a": 1}, "received '[{<<\"a\">>,signedint,1}]' but current is '5000'"),
        (5000, [1, "b"], "received '[{signedint,1},{longstr,<<\"b\">>}]' but current is '5000'"),
        (5000, None, "received none but current is '5000'"),
        (5000, b"ab", "received 'ab' but current is '5000'"),
    ],
)
def test_an_argument_on_both_sides_is_described_by_its_value(current: object, received: object, described: str) -> None:
    assert refusal({"x-message-ttl": current}, {"x-message-ttl": received}) == (
        f"'x-message-ttl' for queue 'q' in vhost '/': {described}"
    )


def test_values_are_compared_and_not_their_types_on_the_wire() -> None:
    check_equivalent(queue_of({"x-message-ttl": 5000}), False, False, False, {"x-message-ttl": Timestamp(5000)})
    check_equivalent(queue_of(DLX), False, False, False, {"x-dead-letter-exchange": b"e"})


def test_unknown_arguments_are_not_compared() -> None:
    check_equivalent(queue_of({"x-unknown": 1}), False, False, False, {})
    check_equivalent(queue_of({}), False, False, False, {"x-cancel-on-ha-failover": True, "x-max-in-memory-length": 2})


def test_a_redeclaration_is_not_validated() -> None:
    assert refusal({}, {"x-expires": 0}).endswith("received the value '0' of type 'signedint' but current is none")


def test_no_type_is_the_classic_type() -> None:
    check_equivalent(queue_of({"x-queue-type": "classic"}), False, False, False, {})
    check_equivalent(queue_of({}), False, False, False, {"x-queue-type": "classic"})


@pytest.mark.parametrize(
    ("current", "received", "described"),
    [
        ({"x-queue-type": "classic"}, {"x-queue-type": "quorum"}, "received 'quorum' but current is 'classic'"),
        ({}, {"x-queue-type": "quorum"}, "received the value 'quorum' of type 'longstr' but current is none"),
        ({"x-queue-type": "quorum"}, {}, "received none but current is the value 'quorum' of type 'longstr'"),
        ({"x-queue-type": "classic"}, {"x-queue-type": 5}, "received '5' but current is 'classic'"),
    ],
)
def test_another_type_is_not_equivalent(current: Table, received: Table, described: str) -> None:
    assert refusal(current, received) == f"'x-queue-type' for queue 'q' in vhost '/': {described}"


def test_arguments_only_quorum_queues_know_are_compared_there() -> None:
    quorum: Table = {"x-queue-type": "quorum"}
    assert refusal({**quorum, "x-quorum-initial-group-size": 1}, quorum) == (
        "'x-quorum-initial-group-size' for queue 'q' in vhost '/': "
        "received none but current is the value '1' of type 'signedint'"
    )


@pytest.mark.parametrize(("name", "value"), [("durable", True), ("durable", False), ("auto_delete", True)])
def test_properties_are_compared(name: str, value: bool) -> None:
    queue = queue_of({}, durable=name == "durable" and not value, auto_delete=name == "auto_delete" and not value)
    durable, auto_delete = name == "durable" and value, name == "auto_delete" and value
    with pytest.raises(ChannelFault) as fault:
        check_equivalent(queue, durable, False, auto_delete, {"x-expires": 1})
    assert fault.value.text == (
        f"inequivalent arg '{name}' for queue 'q' in vhost '/': "
        f"received '{str(value).lower()}' but current is '{str(not value).lower()}'"
    )


@pytest.mark.parametrize("exclusive", [True, False])
def test_exclusivity_is_compared_before_all_else(exclusive: bool) -> None:
    with pytest.raises(ChannelFault) as fault:
        check_equivalent(queue_of({}, exclusive=not exclusive), True, exclusive, True, {"x-expires": 1})
    assert (fault.value.code, fault.value.text) == (
        RESOURCE_LOCKED,
        "cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally declared on another "
        "connection or the exclusive property value does not match that of the original declaration.",
    )
