"""Members and their liveness as keys and values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.wire_strategies import surrogate_text
from warren.broker.metadata.cluster_definitions import LivenessDefinition, NodeDefinition, liveness_key, node_key
from warren.broker.metadata.definition_kinds import (
    DEFINITION_READERS,
    KINDS_IN_ORDER,
    decode_definition,
    definition_rank,
)
from warren.broker.metadata.store import encode_fields
from warren.errors import StoreError

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
def test_the_incarnation_of_a_living_node_comes_back(name: str, incarnation: int) -> None:
    alive = LivenessDefinition(name, incarnation)
    read = decode_definition(alive.key(), alive.value())
    assert isinstance(read, LivenessDefinition)
    assert (read.name, read.incarnation) == (name, incarnation)


def test_the_keys_are_readable() -> None:
    assert node_key("warren@one") == "nodes/warren%40one"
    assert liveness_key("warren@one") == "alive/warren%40one"


def test_a_member_outlives_every_node_and_its_being_alive_none() -> None:
    assert NodeDefinition("a", "disc", "a:1").kept()
    assert not LivenessDefinition("a", 1).kept()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("nodes/a", encode_fields({"kind": "tape", "peer": "", "http": "", "amqp": "", "store": ""})),
        ("nodes/a", encode_fields({"kind": "disc"})),
        ("nodes/a/b", NodeDefinition("a", "disc", "").value()),
        ("alive/a", encode_fields({"incarnation": "one"})),
        ("alive/a/b", LivenessDefinition("a", 1).value()),
    ],
)
def test_malformed_definitions_are_refused(key: str, value: bytes) -> None:
    with pytest.raises(StoreError):
        decode_definition(key, value)


def test_every_kind_has_its_place_in_the_order() -> None:
    assert sorted(KINDS_IN_ORDER) == sorted(DEFINITION_READERS)


def test_an_unknown_kind_has_no_place() -> None:
    with pytest.raises(StoreError, match="knows nothing of that kind"):
        definition_rank("rings/a")
