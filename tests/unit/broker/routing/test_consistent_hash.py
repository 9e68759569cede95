"""The consistent-hash exchange: one destination for each key, in proportion to weights, and few moves."""

from collections import Counter
from collections.abc import Callable

import pytest

from tests.unit.broker.routing.factories import a_message, an_exchange, queues_in, reached, unbind
from warren.broker.model.message import Message
from warren.broker.routing.exchange_types import mix_hash
from warren.broker.routing.exchanges import Exchange
from warren.broker.routing.topology import Topology
from warren.errors import PRECONDITION_FAILED, ChannelFault

KEYS = [f"key-{number}" for number in range(4000)]


def hashing(weights: dict[str, str], **arguments: object) -> tuple[Topology, Exchange]:
    topology = Topology()
    exchange = an_exchange(topology, "hash", "x-consistent-hash", **arguments)
    for queue in queues_in(topology, *weights):
        topology.bind(exchange, queue, weights[queue.name], {})
    return topology, exchange


def placed(topology: Topology, exchange: Exchange) -> dict[str, str]:
    """The queue of each key, exactly one."""
    placements = {}
    for key in KEYS:
        (placements[key],) = reached(topology, exchange, key)
    return placements


def test_keys_spread_in_proportion_to_the_weights() -> None:
    counts = Counter(placed(*hashing({"one": "1", "two": "2", "five": "5"})).values())
    shares = {name: count / len(KEYS) for name, count in counts.items()}
    assert shares == pytest.approx({"one": 1 / 8, "two": 2 / 8, "five": 5 / 8}, abs=0.03)


def test_an_added_binding_takes_only_its_own_keys_and_a_removed_one_returns_them() -> None:
    topology, exchange = hashing({"one": "10", "two": "10", "three": "10"})
    before = placed(topology, exchange)
    (fourth,) = queues_in(topology, "four")
    topology.bind(exchange, fourth, "10", {})
    after = placed(topology, exchange)
    moved = [key for key in KEYS if before[key] != after[key]]
    assert {after[key] for key in moved} == {"four"}
    assert len(moved) / len(KEYS) == pytest.approx(1 / 4, abs=0.03)
    unbind(topology, exchange, fourth, "10", {})
    assert placed(topology, exchange) == before


def test_placement_does_not_depend_on_the_order_of_binding_or_the_process() -> None:
    forth = placed(*hashing({"one": "1", "two": "2", "three": "3"}))
    back = placed(*hashing({"three": "3", "two": "2", "one": "1"}))
    assert forth == back
    assert [forth[key] for key in KEYS[:8]] == ["three", "one", "three", "three", "one", "two", "three", "two"]


def test_the_mixer_gives_every_process_the_same_numbers() -> None:
    assert [mix_hash(value) for value in (0, 1, 0xFFFFFFFF)] == [0, 774041739, 3246642785]


def test_an_exchange_without_bindings_matches_nothing() -> None:
    topology, exchange = hashing({})
    assert reached(topology, exchange, "key") == []


@pytest.mark.parametrize(
    ("arguments", "message_of"),
    [
        ({"hash_header": "who"}, lambda key: a_message({"who": key})),
        ({"hash_header": "who"}, lambda key: a_message({"who": int(key[4:])})),
        ({"hash_property": "message_id"}, lambda key: a_message(message_id=key)),
        ({"hash_property": "correlation_id"}, lambda key: a_message(correlation_id=key)),
        ({"hash_property": "timestamp"}, lambda key: a_message(timestamp=int(key[4:]))),
    ],
)
def test_a_header_or_property_is_hashed_in_place_of_the_routing_key(
    arguments: dict[str, object], message_of: Callable[[str], Message]
) -> None:
    topology, exchange = hashing({"one": "1", "two": "1"}, **arguments)
    by_value = [reached(topology, exchange, "same", message_of(key)) for key in KEYS[:64]]
    by_value_again = [reached(topology, exchange, key, message_of(key)) for key in KEYS[:64]]
    by_key = {tuple(reached(topology, exchange, key, a_message())) for key in KEYS[:64]}
    assert by_value == by_value_again
    assert {tuple(names) for names in by_value} == {("one",), ("two",)}
    assert len(by_key) == 1
    assert not topology.route(exchange, "key", None).cacheable


def test_a_route_by_the_routing_key_is_cacheable() -> None:
    topology, exchange = hashing({"one": "1"})
    assert topology.route(exchange, "key", None).cacheable


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"hash_property": "app_id"}, "Unsupported property: app_id"),
        (
            {"hash_property": "message_id", "hash_header": "who"},
            "hash-header and hash-property are mutually exclusive",
        ),
        ({"hash_header": 5}, "hash-header must be a string"),
    ],
)
def test_invalid_hash_arguments_are_refused(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(ChannelFault) as refused:
        hashing({}, **arguments)
    assert (refused.value.code, refused.value.text) == (PRECONDITION_FAILED, text)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("", "The binding key must be an integer: <<>>"),
        ("many", 'The binding key must be an integer: <<"many">>'),
        (" 5", 'The binding key must be an integer: <<" 5">>'),
        ("1_0", 'The binding key must be an integer: <<"1_0">>'),
        ("-", 'The binding key must be an integer: <<"-">>'),
        ("0", "The binding key must be greater than 0"),
        ("-3", "The binding key must be greater than 0"),
    ],
)
def test_a_weight_must_be_an_integer_above_zero(key: str, text: str) -> None:
    topology, exchange = hashing({})
    (queue,) = queues_in(topology, "queue")
    with pytest.raises(ChannelFault) as refused:
        topology.bind(exchange, queue, key, {})
    assert (refused.value.code, refused.value.text) == (PRECONDITION_FAILED, text)


@pytest.mark.parametrize("key", ["1", "+7", "007", "9" * 255])
def test_any_integer_above_zero_is_a_weight(key: str) -> None:
    topology, exchange = hashing({"queue": key})
    assert reached(topology, exchange, "key") == ["queue"]
