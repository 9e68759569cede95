"""Validation of queue arguments; the texts were recorded from RabbitMQ 3.10.8."""

from decimal import Decimal

import pytest

from warren.broker.queues.arguments import (
    CHECKS,
    CLASSIC_ARGUMENTS,
    QUORUM_ARGUMENTS,
    STREAM_ARGUMENTS,
    validate_arguments,
    validate_declaration,
)
from warren.broker.queues.settings import DEFAULT_SETTINGS, queue_settings
from warren.errors import PRECONDITION_FAILED, ChannelFault
from warren.wire.field_tables import Table, Timestamp

NOT_INTEGERS = [
    ("1", "longstr"),
    (True, "bool"),
    (1.5, "double"),
    (Decimal("1.5"), "decimal"),
    (None, "void"),
    (Timestamp(5), "timestamp"),
    ({}, "table"),
    ([], "array"),
    (b"ab", "binary"),
]

COUNTS = ["x-message-ttl", "x-max-length", "x-max-length-bytes", "x-max-priority", "x-expires", "x-delivery-limit"]

TEXTS = ["x-overflow", "x-queue-mode", "x-queue-type", "x-dead-letter-routing-key", "x-queue-master-locator"]


def refusal(arguments: Table) -> str:
    with pytest.raises(ChannelFault) as fault:
        validate_arguments("q", "/", arguments)
    assert fault.value.code == PRECONDITION_FAILED
    return fault.value.text


def invalid(name: str, reason: str) -> str:
    return f"invalid arg '{name}' for queue 'q' in vhost '/': {reason}"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"x-expires": 1},
        {"x-expires": 315_360_000_000},
        {"x-message-ttl": 0},
        {"x-message-ttl": 315_360_000_000},
        {"x-max-length": 0},
        {"x-max-length": 2**62},
        {"x-max-length-bytes": 2**62},
        {"x-max-priority": 0},
        {"x-max-priority": 255},
        {"x-delivery-limit": 0},
        {"x-dead-letter-exchange": ""},
        {"x-dead-letter-exchange": "e", "x-dead-letter-routing-key": "k"},
        {"x-overflow": "drop-head"},
        {"x-overflow": "reject-publish"},
        {"x-overflow": "reject-publish-dlx"},
        {"x-queue-mode": "lazy"},
        {"x-queue-mode": "default"},
        {"x-queue-version": 1},
        {"x-queue-version": 2},
        {"x-queue-master-locator": "min-masters"},
        {"x-ha-mode": "all"},
        {"x-ha-mode": "exactly", "x-ha-params": 2},
        {"x-ha-mode": "nodes", "x-ha-params": ["warren@a", "warren@b"]},
        {"x-single-active-consumer": False},
        {"x-queue-type": "classic"},
        {"x-queue-type": "quorum", "x-delivery-limit": 3, "x-max-in-memory-length": 1},
        {"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once", "x-queue-leader-locator": "balanced"},
        {"x-unknown": None, "x-cancel-on-ha-failover": True, "alternate-exchange": 1},
    ],
)
def test_arguments_that_rabbitmq_accepts_are_accepted(arguments: Table) -> None:
    validate_arguments("q", "/", arguments)


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize(("value", "kind"), NOT_INTEGERS)
def test_a_count_must_be_an_integer(name: str, value: object, kind: str) -> None:
    assert refusal({name: value}) == invalid(name, f'"expected integer, got {kind}"')


@pytest.mark.parametrize("name", COUNTS)
def test_a_count_must_not_be_negative(name: str) -> None:
    assert refusal({name: -5}) == invalid(name, "{value_negative,-5}")


@pytest.mark.parametrize("name", ["x-message-ttl", "x-expires"])
def test_a_time_must_not_exceed_ten_years(name: str) -> None:
    assert refusal({name: 315_360_000_001}) == invalid(name, "{value_too_large,315360000001}")


def test_a_queue_cannot_expire_at_once() -> None:
    assert refusal({"x-expires": 0}) == invalid("x-expires", "{value_zero,0}")


def test_there_are_256_priorities() -> None:
    assert refusal({"x-max-priority": 256}) == invalid("x-max-priority", "{max_value_exceeded,256}")


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(("value", "kind"), [(5, "signedint"), (2**40, "long"), (True, "bool"), (b"ab", "binary")])
def test_a_word_must_be_a_string(name: str, value: object, kind: str) -> None:
    assert refusal({name: value}) == invalid(name, f"{{unacceptable_type,{kind}}}")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("x-overflow", "invalid_overflow"),
        ("x-queue-mode", "\"unsupported queue mode 'abc'\""),
        ("x-queue-type", "\"unsupported queue type 'abc'\""),
        ("x-dead-letter-routing-key", "routing_key_but_no_dlx_defined"),
        ("x-queue-version", '"expected integer, got longstr"'),
        ("x-single-active-consumer", "{unacceptable_type,longstr}"),
        ("x-queue-master-locator", "\"unsupported queue master locator 'abc'\""),
    ],
)
def test_an_unknown_word_is_refused(name: str, reason: str) -> None:
    assert refusal({name: "abc"}) == invalid(name, reason)


def test_a_queue_version_is_one_or_two() -> None:
    assert refusal({"x-queue-version": 3}) == invalid("x-queue-version", "\"unsupported queue version '3'\"")


@pytest.mark.parametrize(
    ("arguments", "name", "reason"),
    [
        ({"x-ha-mode": "some"}, "x-ha-mode", '"some is not a valid ha-mode value"'),
        ({"x-ha-mode": 1}, "x-ha-mode", "{unacceptable_type,signedint}"),
        ({"x-ha-mode": "exactly"}, "x-ha-mode", '"ha-mode exactly takes an integer, none given"'),
        ({"x-ha-mode": "nodes"}, "x-ha-mode", '"ha-mode nodes takes a list, none given"'),
        ({"x-ha-params": 1}, "x-ha-params", '"ha-mode must be specified to specify ha-params"'),
        ({"x-ha-mode": "all", "x-ha-params": 1}, "x-ha-params", '"ha-mode all does not take parameters"'),
        ({"x-ha-mode": "exactly", "x-ha-params": 0}, "x-ha-params", "{value_zero,0}"),
        ({"x-ha-mode": "exactly", "x-ha-params": -2}, "x-ha-params", "{value_negative,-2}"),
        ({"x-ha-mode": "exactly", "x-ha-params": "2"}, "x-ha-params", '"expected integer, got longstr"'),
        ({"x-ha-mode": "nodes", "x-ha-params": "a"}, "x-ha-params", '"expected list, got longstr"'),
        ({"x-ha-mode": "nodes", "x-ha-params": []}, "x-ha-params", '"ha-mode nodes list must be non-empty"'),
        (
            {"x-ha-mode": "nodes", "x-ha-params": ["a", 5]},
            "x-ha-params",
            '"ha-mode nodes takes a list of strings, got signedint"',
        ),
    ],
)
def test_mirroring_arguments_are_checked_like_policy_keys(arguments: Table, name: str, reason: str) -> None:
    assert refusal(arguments) == invalid(name, reason)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("1h", ""),
        ("12M", ""),
        ("", "invalid_max_age"),
        ("h", "invalid_max_age"),
        ("5", "invalid_max_age"),
        ("0s", "invalid_max_age"),
        ("-1h", "invalid_max_age"),
        ("1h30m", "invalid_max_age"),
        ("\u0661h", "invalid_max_age"),
        ("1000000000s", "invalid_max_age"),
        (5, "{unacceptable_type,signedint}"),
        (None, "{unacceptable_type,void}"),
    ],
)
def test_the_age_of_a_streams_messages(value: object, reason: str) -> None:
    arguments: Table = {"x-queue-type": "stream", "x-max-age": value}
    if reason:
        assert refusal(arguments) == invalid("x-max-age", reason)
    else:
        validate_arguments("q", "/", arguments)


@pytest.mark.parametrize("name", STREAM_ARGUMENTS[2:6])
def test_other_queue_types_refuse_stream_arguments(name: str) -> None:
    text = f"invalid arg '{name}' for queue 'q' in vhost '/' of queue type rabbit_classic_queue"
    assert refusal({name: 1}) == text


@pytest.mark.parametrize(
    "name", sorted({*CLASSIC_ARGUMENTS, *QUORUM_ARGUMENTS}.difference(STREAM_ARGUMENTS, ["x-dead-letter-exchange"]))
)
def test_streams_refuse_arguments_of_other_queue_types(name: str) -> None:
    text = f"invalid arg '{name}' for queue 'q' in vhost '/' of queue type rabbit_stream_queue"
    assert refusal({"x-queue-type": "stream", name: 1}) == text


def test_an_unknown_queue_type_is_refused() -> None:
    assert refusal({"x-queue-type": "log"}) == invalid("x-queue-type", "\"unsupported queue type 'log'\"")


def test_a_dead_letter_exchange_must_be_a_string() -> None:
    assert refusal({"x-dead-letter-exchange": 5, "x-expires": 0}) == (
        "invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'q' in vhost '/'"
    )


@pytest.mark.parametrize(
    "name",
    [
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-dead-letter-strategy",
        "x-quorum-initial-group-size",
        "x-max-age",
        "x-stream-max-segment-size-bytes",
        "x-initial-cluster-size",
        "x-queue-leader-locator",
    ],
)
def test_a_classic_queue_refuses_arguments_of_other_types(name: str) -> None:
    assert (
        refusal({name: "abc"}) == f"invalid arg '{name}' for queue 'q' in vhost '/' of queue type rabbit_classic_queue"
    )


@pytest.mark.parametrize("name", ["x-max-priority", "x-queue-mode", "x-queue-version", "x-queue-master-locator"])
def test_a_quorum_queue_refuses_arguments_of_other_types(name: str) -> None:
    assert refusal({"x-queue-type": "quorum", name: -1}) == (
        f"invalid arg '{name}' for queue 'q' in vhost '/' of queue type rabbit_quorum_queue"
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [("x-dead-letter-strategy", "invalid_dlx_strategy"), ("x-queue-leader-locator", "invalid_queue_locator_arg")],
)
def test_a_quorum_queue_accepts_its_own_arguments(name: str, reason: str) -> None:
    assert refusal({"x-queue-type": "quorum", name: "abc"}) == invalid(name, reason)


def test_the_first_bad_argument_in_the_order_of_checks_is_named() -> None:
    assert refusal({"x-message-ttl": -1, "x-expires": 0}) == invalid("x-expires", "{value_zero,0}")
    assert refusal({"x-delivery-limit": -1, "x-overflow": "z"}) == invalid("x-overflow", "invalid_overflow")


@pytest.mark.parametrize(
    ("durable", "exclusive", "auto_delete", "property_name"),
    [
        (False, False, False, "non-durable"),
        (False, True, False, "exclusive-owner"),
        (True, True, False, "exclusive-owner"),
        (False, False, True, "auto-delete"),
        (True, True, True, "auto-delete"),
    ],
)
def test_a_quorum_queue_must_be_durable_not_exclusive_and_not_auto_delete(
    durable: bool, exclusive: bool, auto_delete: bool, property_name: str
) -> None:
    with pytest.raises(ChannelFault) as fault:
        validate_declaration("q", "/", durable, exclusive, auto_delete, {"x-queue-type": "quorum"})
    assert fault.value.code == PRECONDITION_FAILED
    assert fault.value.text == f"invalid property '{property_name}' for queue 'q' in vhost '/'"


def test_other_queues_may_have_any_properties() -> None:
    validate_declaration("q", "/", False, True, True, {"x-queue-type": "classic"})
    validate_declaration("q", "/", True, False, False, {"x-queue-type": "quorum"})


def test_every_argument_a_type_knows_is_checked() -> None:
    checked = {name for name, _ in CHECKS} | {"x-queue-type"}
    assert set(CLASSIC_ARGUMENTS) | set(QUORUM_ARGUMENTS) <= checked


def test_settings_have_the_values_of_the_arguments() -> None:
    settings = queue_settings(
        {
            "x-message-ttl": 1,
            "x-expires": 2,
            "x-max-length": 3,
            "x-max-length-bytes": 4,
            "x-overflow": "reject-publish",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "k",
            "x-max-priority": 5,
            "x-single-active-consumer": True,
            "x-delivery-limit": 6,
        }
    )
    assert (settings.message_ttl_ms, settings.expires_ms) == (1, 2)
    assert (settings.max_length, settings.max_length_bytes, settings.overflow) == (3, 4, "reject-publish")
    assert (settings.dead_letter_exchange, settings.dead_letter_routing_key) == ("", "k")
    assert (settings.max_priority, settings.single_active_consumer, settings.delivery_limit) == (5, True, 6)


def test_queues_without_arguments_share_their_settings() -> None:
    assert queue_settings({}) is DEFAULT_SETTINGS
    assert (
        DEFAULT_SETTINGS.message_ttl_ms,
        DEFAULT_SETTINGS.max_length,
        DEFAULT_SETTINGS.overflow,
        DEFAULT_SETTINGS.dead_letter_exchange,
    ) == (
        -1,
        -1,
        "drop-head",
        None,
    )
