"""Headers bindings: how many headers must match, which are compared, and which values are equal."""

from decimal import Decimal

import pytest

from tests.unit.broker.routing.factories import a_message, queues_in, reached
from warren.broker.routing.topology import Topology
from warren.errors import PRECONDITION_FAILED, ChannelFault
from warren.wire.field_tables import Table, Timestamp


def follows(arguments: Table, headers: Table | None) -> bool:
    topology = Topology()
    (queue,) = queues_in(topology, "queue")
    exchange = topology.exchanges["amq.headers"]
    topology.bind(exchange, queue, "", arguments)
    return reached(topology, exchange, "key", a_message(headers)) == ["queue"]


@pytest.mark.parametrize(
    ("arguments", "headers", "expected"),
    [
        ({}, None, True),
        ({}, {"a": 1}, True),
        ({"x-match": "all"}, None, True),
        ({"x-match": "any"}, {"a": 1}, False),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, False),
        ({"x-match": "any", "a": 1, "b": 2}, {"a": 1, "b": 3}, True),
        ({"x-match": "any", "a": 1, "b": 2}, {"a": 2, "b": 3}, False),
        ({"x-match": "any", "a": 1}, None, False),
        ({"a": None}, {"a": "whatever"}, True),
        ({"a": None}, {"a": None}, True),
        ({"a": None}, {"b": 1}, False),
        ({"x-match": "any", "a": None}, {"a": 1}, True),
    ],
)
def test_all_or_any_of_the_arguments_must_be_there(arguments: Table, headers: Table | None, expected: bool) -> None:
    assert follows(arguments, headers) is expected


@pytest.mark.parametrize(
    ("arguments", "headers", "expected"),
    [
        ({"x-a": 1}, {}, True),
        ({"x-match": "any", "x-a": 1}, {"x-a": 1}, False),
        ({"x-match": "all-with-x", "x-a": 1}, {"x-a": 1}, True),
        ({"x-match": "all-with-x", "x-a": 1}, {"x-a": 2}, False),
        ({"x-match": "all-with-x", "x-a": 1}, {}, False),
        ({"x-match": "any-with-x", "x-a": 1, "b": 1}, {"x-a": 1}, True),
        ({"x-match": "all-with-x"}, {}, True),
        ({"x-match": "any-with-x"}, {"x-match": "any-with-x"}, False),
        ({"x-match": "all-with-x", "x-match2": 1}, {"x-match2": 1}, True),
    ],
)
def test_names_that_begin_with_x_count_only_with_x(arguments: Table, headers: Table, expected: bool) -> None:
    assert follows(arguments, headers) is expected


@pytest.mark.parametrize(
    ("wanted", "present", "expected"),
    [
        (1, 1.0, True),
        (1, True, False),
        (True, 1, False),
        (True, True, True),
        (0, False, False),
        (1, "1", False),
        ("1", b"1", True),
        (b"1", "1", True),
        ("\udcff", b"\xff", True),
        (1, Timestamp(1), True),
        (Timestamp(1), 1.0, True),
        (1, Decimal(1), False),
        (Decimal(1), 1, False),
        (Decimal("1.0"), Decimal(1), False),
        (Decimal("1.0"), Decimal("1.0"), True),
        ([1, 2], [1, 2], True),
        ([1, 2], [2, 1], False),
        ([1, 2], [1], False),
        ([1.0], [1], False),
        ([True], [1], False),
        ({"k": 1, "j": [{"n": "v"}]}, {"k": 1, "j": [{"n": "v"}]}, True),
        ({"k": 1, "j": 2}, {"j": 2, "k": 1}, False),
        ({"k": 1}, {"k": 2}, False),
        ([1], 1, False),
        (1, [1], False),
        ("", None, False),
    ],
)
def test_values_are_equal_when_rabbitmq_finds_them_equal(wanted: object, present: object, expected: bool) -> None:
    assert follows({"a": wanted}, {"a": present}) is expected


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("ALL", 'Invalid x-match field value <<"ALL">>; expected all, any, all-with-x, or any-with-x'),
        ("", "Invalid x-match field value <<>>; expected all, any, all-with-x, or any-with-x"),
        (5, "Invalid x-match field type signedint (value 5); expected longstr"),
        (None, "Invalid x-match field type void (value undefined); expected longstr"),
        (True, "Invalid x-match field type bool (value true); expected longstr"),
        (["a", 1], 'Invalid x-match field type array (value [{longstr,<<"a">>},{signedint,1}]); expected longstr'),
    ],
)
def test_an_invalid_x_match_is_refused_and_binds_nothing(kind: object, text: str) -> None:
    topology = Topology()
    (queue,) = queues_in(topology, "queue")
    exchange = topology.exchanges["amq.match"]
    with pytest.raises(ChannelFault) as refused:
        topology.bind(exchange, queue, "", {"x-match": kind})
    assert (refused.value.code, refused.value.text) == (PRECONDITION_FAILED, text)
    assert topology.bindings_from(exchange) == []


def test_a_route_by_headers_is_not_cacheable() -> None:
    topology = Topology()
    headers = topology.exchanges["amq.headers"]
    topology.bind(topology.exchanges["amq.fanout"], headers, "", {})
    assert not topology.route(headers, "key", a_message()).cacheable
    assert not topology.route(topology.exchanges["amq.fanout"], "key", a_message()).cacheable
