"""Metadata as keys and values: definitions come back, and damaged values are refused."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.wire_strategies import surrogate_text, tables
from warren.broker.metadata.definition_kinds import decode_definition
from warren.broker.metadata.store import MetadataChangeLog
from warren.broker.metadata.topology_definitions import BindingDefinition, ExchangeDefinition, QueueDefinition
from warren.broker.model.equivalence import compare_argument
from warren.broker.model.journal import MetadataChange
from warren.broker.routing.comparison import identical
from warren.errors import StoreError
from warren.wire.field_tables import Table, Timestamp, encode_table
from warren.wire.field_types import DEPTH_MAX

names = surrogate_text(60)
EVERY_TYPE: Table = {
    "bool": True,
    "int": 5,
    "long": 2**40,
    "float": 1.5,
    "decimal": Decimal("3.140"),
    "text": "grün",
    "octets": b"\x00\xff",
    "odd text": b"\xff\xfe".decode("utf-8", "surrogateescape"),
    "time": Timestamp(2**64 - 1),
    "none": None,
    "list": [1, "a", [None], {"b": False}],
    "table": {"c": {"d": Decimal(0)}},
}


def submit(kept: Table, declared: Table) -> None:
    """Compares arguments as a repeated declare does."""
    assert list(kept) == list(declared)
    for name in declared:
        compare_argument(name, declared, kept, "here")
    assert identical(kept, declared)


@given(names, names, st.tuples(st.booleans(), st.booleans(), st.booleans()), tables())
def test_a_queue_comes_back_as_it_was_declared(
    vhost: str, name: str, flags: tuple[bool, bool, bool], arguments: Table
) -> None:
    read = read_queue(QueueDefinition(vhost, name, *flags, arguments))
    assert (read.vhost, read.name, (read.durable, read.exclusive, read.auto_delete)) == (vhost, name, flags)
    assert read.kept() is read.durable
    submit(read.arguments, arguments)


@given(names, st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_where_a_queue_lives_comes_back(node: str, owner: int, incarnation: int) -> None:
    read = read_queue(QueueDefinition("/", "q", False, True, False, {}, node, owner, incarnation))
    assert (read.node, read.owner, read.incarnation) == (node, owner, incarnation)


def test_usual_values_are_left_out() -> None:
    queue = QueueDefinition("/", "q", True, False, False, {})
    exchange = ExchangeDefinition("/", "e", "fanout", True, False, False, {})
    binding = BindingDefinition("/", "e", "q", True, "", {}, True)
    none = encode_table({})
    assert queue.value() == encode_table({"v": 1, "auto_delete": False, "arguments": none})
    assert exchange.value() == encode_table(
        {"v": 1, "type": "fanout", "auto_delete": False, "internal": False, "arguments": none}
    )
    assert binding.value() == encode_table({"v": 1, "arguments": none})


@given(names, names, st.tuples(st.booleans(), st.booleans(), st.booleans()), tables())
def test_an_exchange_comes_back_as_it_was_declared(
    vhost: str, name: str, flags: tuple[bool, bool, bool], arguments: Table
) -> None:
    stored = ExchangeDefinition(vhost, name, "topic", *flags, arguments)
    read = decode_definition(stored.key(), stored.value())
    assert isinstance(read, ExchangeDefinition)
    assert (read.vhost, read.name, read.type) == (vhost, name, "topic")
    assert (read.durable, read.auto_delete, read.internal) == flags
    assert read.kept() is read.durable
    submit(read.arguments, arguments)


@given(names, names, names, st.booleans(), names, tables(), st.booleans())
def test_a_binding_comes_back_under_the_key_it_had(
    vhost: str, source: str, destination: str, to_queue: bool, routing_key: str, arguments: Table, durable: bool
) -> None:
    stored = BindingDefinition(vhost, source, destination, to_queue, routing_key, arguments, durable)
    read = decode_definition(stored.key(), stored.value())
    assert isinstance(read, BindingDefinition)
    assert (read.vhost, read.source, read.destination) == (vhost, source, destination)
    assert (read.destination_is_queue, read.routing_key, read.durable) == (to_queue, routing_key, durable)
    assert read.kept() is durable
    submit(read.arguments, arguments)
    assert read.key() == stored.key()


def test_arguments_of_every_type_come_back_equivalent() -> None:
    stored = QueueDefinition("/", "q", True, False, False, EVERY_TYPE)
    submit(read_queue(stored).arguments, EVERY_TYPE)


def test_arguments_as_deep_as_a_client_may_send_them_can_be_kept() -> None:
    deepest: Table = {}
    for _ in range(int(DEPTH_MAX) - 1):
        deepest = {"in": deepest}
    encode_table(deepest)
    stored = QueueDefinition("/", "q", True, False, False, deepest)
    assert read_queue(stored).arguments == deepest


def read_queue(stored: QueueDefinition) -> QueueDefinition:
    read = decode_definition(stored.key(), stored.value())
    assert isinstance(read, QueueDefinition)
    return read


def test_keys_are_readable_paths() -> None:
    queue = QueueDefinition("/", "orders", True, False, False, {})
    exchange = ExchangeDefinition("/", "a b/ü", "fanout", True, False, False, {})
    binding = BindingDefinition("/", "amq.topic", "orders", True, "sport.#", {}, True)
    assert [queue.key(), exchange.key(), binding.key()] == [
        "queues/%2F/orders",
        "exchanges/%2F/a%20b%2F%C3%BC",
        "bindings/%2F/amq.topic/q/orders/sport.%23/-",
    ]


@given(st.tuples(names, names, st.booleans(), names), st.tuples(names, names, st.booleans(), names))
def test_two_bindings_share_a_key_only_if_they_are_one(
    one: tuple[str, str, bool, str], other: tuple[str, str, bool, str]
) -> None:
    keys = [BindingDefinition("/", *ends, {}, True).key() for ends in (one, other)]
    assert (keys[0] == keys[1]) is (one == other)


@given(tables(), tables())
def test_the_arguments_of_a_binding_identify_it_in_any_order(one: Table, other: Table) -> None:
    keys = [binding_with(arguments).key() for arguments in (one, other)]
    assert (keys[0] == keys[1]) is (encode_sorted(one) == encode_sorted(other))
    assert binding_with({name: one[name] for name in reversed(list(one))}).key() == keys[0]


def binding_with(arguments: Table) -> BindingDefinition:
    return BindingDefinition("/", "e", "q", True, "k", arguments, True)


def encode_sorted(table: Table) -> bytes:
    return encode_table({name: table[name] for name in sorted(table)})


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("queues/%2F/q", encode_table({"v": 2}), "the metadata holds 'queues/%2F/q' in version 2, this version"),
        ("queues/%2F/q", encode_table({}), "the metadata holds 'queues/%2F/q' in version None"),
        ("queues/%2F/q", encode_table({"v": 1}), "the metadata's value of 'queues/%2F/q' is damaged"),
        ("queues/%2F/q", b"", "the metadata's value of 'queues/%2F/q' is damaged"),
        ("queues/%2F/q", encode_table({"v": 1})[:-1], "the metadata's value of 'queues/%2F/q' is damaged"),
        ("queues/%2F/q", b"\0\0\0\3\1v!", "the metadata's value of 'queues/%2F/q' is damaged"),
        ("queues/%2F", encode_table({"v": 1}), "the metadata holds 'queues/%2F', and this version of Warren knows"),
        ("rings/one", encode_table({"v": 1}), "the metadata holds 'rings/one', and this version of Warren knows"),
        ("queues/%2F/100%", encode_table({"v": 1}), "the metadata's key 'queues/%2F/100%' is damaged"),
        ("queues/%2F/%x1", encode_table({"v": 1}), "the metadata's key 'queues/%2F/%x1' is damaged"),
    ],
)
def test_a_damaged_value_is_reported_with_its_key(key: str, value: bytes, sentence: str) -> None:
    with pytest.raises(StoreError) as refused:
        decode_definition(key, value)
    assert str(refused.value).startswith(sentence)


def test_changes_are_numbered_after_the_stored_revision_and_taken_once() -> None:
    metadata = MetadataChangeLog(7)
    assert (metadata.put("a", b"1"), metadata.delete("a"), metadata.put("a", b"2")) == (8, 9, 10)
    assert metadata.take() == [
        MetadataChange(8, "a", b"1"),
        MetadataChange(9, "a", None),
        MetadataChange(10, "a", b"2"),
    ]
    assert metadata.take() == []
    assert (metadata.revision, metadata.put("b", b"")) == (10, 11)
