"""Members and who of them is alive, as keys and values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.wire_strategies import surrogate_text
from warren.errors import StoreError
from warren.store.cluster_definitions import AliveDefinition, NodeDefinition, alive_key, node_key
from warren.store.definition_kinds import KINDS, decode_definition
from warren.store.definition_order import KINDS_IN_ORDER, rank
from warren.store.metadata import encode_fields

names = surrogate_text(40)


@given(names, st.sampled_from(["disc", "ram"]), names, names, names, names, st.booleans())
def test_a_member_comes_back_as_it_joined(
    name: str, kind: str, peer: str, http: str, amqp: str, store: str, witness: bool
) -> None:
    joined = NodeDefinition(name, kind, peer, http, amqp, store, witness)
    read = decode_definition(joined.key(), joined.value())
    assert isinstance(read, NodeDefinition)
    assert (read.name, read.kind, read.peer, read.http, read.amqp, read.store) == (name, kind, peer, http, amqp, store)
    assert read.witness == witness


@given(names, st.integers(1, 2**62))
def test_the_run_of_a_living_node_comes_back(name: str, incarnation: int) -> None:
    alive = AliveDefinition(name, incarnation)
    read = decode_definition(alive.key(), alive.value())
    assert isinstance(read, AliveDefinition)
    assert (read.name, read.incarnation) == (name, incarnation)


def test_the_keys_are_readable() -> None:
    assert node_key("warren@one") == "nodes/warren%40one"
    assert alive_key("warren@one") == "alive/warren%40one"


def test_a_member_outlives_every_node_and_its_being_alive_none() -> None:
    assert NodeDefinition("a", "disc", "a:1").kept()
    assert not AliveDefinition("a", 1).kept()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("nodes/a", encode_fields({"kind": "tape", "peer": "", "http": "", "amqp": "", "store": ""})),
        ("nodes/a", encode_fields({"kind": "disc"})),
        ("nodes/a/b", NodeDefinition("a", "disc", "").value()),
        ("alive/a", encode_fields({"incarnation": "one"})),
        ("alive/a/b", AliveDefinition("a", 1).value()),
    ],
)
def test_what_no_node_wrote_is_refused(key: str, value: bytes) -> None:
    with pytest.raises(StoreError):
        decode_definition(key, value)


def test_every_kind_has_its_place_in_the_order() -> None:
    assert sorted(KINDS_IN_ORDER) == sorted(KINDS)


def test_a_kind_nobody_knows_has_no_place() -> None:
    with pytest.raises(StoreError, match="knows nothing of that kind"):
        rank("rings/a")
