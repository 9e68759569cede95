"""The refusals of a redeclare, in RabbitMQ's words."""

from decimal import Decimal

import pytest

from warren.broker.model.equivalence import compare_argument, compare_flag
from warren.broker.model.erlang_terms import type_name
from warren.errors import PRECONDITION_FAILED, ChannelFault
from warren.wire.field_tables import Table, Timestamp


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "void"),
        (True, "bool"),
        (0, "signedint"),
        (2**31 - 1, "signedint"),
        (2**31, "long"),
        (-(2**31), "signedint"),
        (-(2**31) - 1, "long"),
        (0.5, "double"),
        ("text", "longstr"),
        (b"octets", "binary"),
        ([1], "array"),
        ({"a": 1}, "table"),
        (Timestamp(1), "timestamp"),
        (Decimal("1.5"), "decimal"),
    ],
)
def test_every_type_of_field_value_has_rabbitmqs_name(value: object, name: str) -> None:
    assert type_name(value) == name


@pytest.mark.parametrize(
    ("received", "current"),
    [
        ({}, {}),
        ({"a": 1}, {"a": 1}),
        ({"a": "x"}, {"a": "x"}),
        ({"a": None}, {"a": None}),
        ({"a": Timestamp(5)}, {"a": 5}),
        ({"a": b"x"}, {"a": "x"}),
        ({"b": 2}, {"b": 1}),
    ],
)
def test_the_same_argument_or_another_one_passes(received: Table, current: Table) -> None:
    compare_argument("a", received, current, "queue 'q'")


@pytest.mark.parametrize(
    ("received", "current", "difference"),
    [
        ({"a": 2}, {"a": 1}, "received '2' but current is '1'"),
        ({"a": True}, {"a": 1}, "received 'true' but current is '1'"),
        ({"a": "1"}, {"a": 1}, "received '1' but current is '1'"),
        ({"a": 1.0}, {"a": 1}, "received '1.0' but current is '1'"),
        ({"a": None}, {"a": 1}, "received none but current is '1'"),
        ({}, {"a": 1}, "received none but current is the value '1' of type 'signedint'"),
        ({"a": "x"}, {}, "received the value 'x' of type 'longstr' but current is none"),
    ],
)
def test_a_different_argument_is_refused_with_both_values(received: Table, current: Table, difference: str) -> None:
    with pytest.raises(ChannelFault) as caught:
        compare_argument("a", received, current, "queue 'q'")
    assert caught.value.code == PRECONDITION_FAILED
    assert caught.value.text == f"inequivalent arg 'a' for queue 'q': {difference}"


def test_flags_must_be_equal() -> None:
    compare_flag("durable", True, True, "queue 'q'")
    with pytest.raises(ChannelFault, match="received 'false' but current is 'true'"):
        compare_flag("durable", False, True, "queue 'q'")
