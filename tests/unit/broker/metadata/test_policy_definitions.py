"""Policies and parameters as metadata."""

import pytest

from warren.broker.metadata.definition_kinds import decode_definition
from warren.broker.metadata.policy_definitions import GlobalParameterDefinition, ParameterDefinition, PolicyDefinition
from warren.broker.metadata.store import encode_fields
from warren.errors import StoreError

VALUES: list[object] = [None, True, 10**30, -1.5, "é\ud800", [], {"a": [1, {"b": None}]}]


@pytest.mark.parametrize("operator", [False, True])
def test_a_policy_comes_back_as_it_was(operator: bool) -> None:
    stored = PolicyDefinition(operator, "v/%", "né", "^a[", "queues", {"max-length": 10**30, "a": [1, "b"]}, -3)
    kind = "operator_policies" if operator else "policies"
    assert stored.key() == f"{kind}/v%2F%25/n%C3%A9"
    found = decode_definition(stored.key(), stored.value())
    assert isinstance(found, PolicyDefinition)
    assert vars_of(found) == vars_of(stored)


@pytest.mark.parametrize("value", VALUES)
def test_a_parameter_comes_back_as_it_was(value: object) -> None:
    stored = ParameterDefinition("/", "shovel", "a/b", value)
    assert stored.key() == "parameters/%2F/shovel/a%2Fb"
    found = decode_definition(stored.key(), stored.value())
    assert isinstance(found, ParameterDefinition)
    assert (found.vhost, found.component, found.name, found.content) == ("/", "shovel", "a/b", value)


@pytest.mark.parametrize("value", VALUES)
def test_a_global_parameter_comes_back_as_it_was(value: object) -> None:
    stored = GlobalParameterDefinition("cluster_name", value)
    assert stored.key() == "global_parameters/cluster_name"
    found = decode_definition(stored.key(), stored.value())
    assert isinstance(found, GlobalParameterDefinition)
    assert (found.name, found.content) == ("cluster_name", value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("policies/%2F/p", {"pattern": "x", "apply_to": "all", "definition": b"[]", "priority": b"0"}),
        ("policies/%2F/p", {"pattern": "x", "apply_to": "all", "definition": b"{}", "priority": b'"a"'}),
        ("policies/%2F/p", {"pattern": "x", "apply_to": "all", "definition": b"{", "priority": b"0"}),
        ("policies/%2F/p", {"apply_to": "all", "definition": b"{}", "priority": b"0"}),
        ("parameters/%2F/c/n", {"value": b"\xff"}),
        ("global_parameters/n", {"value": 1}),
    ],
)
def test_damage_is_reported_with_the_key(key: str, value: dict[str, object]) -> None:
    with pytest.raises(StoreError, match=f"the metadata's value of '{key}' is damaged"):
        decode_definition(key, encode_fields(value))


@pytest.mark.parametrize("key", ["policies/p", "parameters/%2F/n", "global_parameters/a/b"])
def test_a_key_with_other_parts_is_of_no_kind(key: str) -> None:
    with pytest.raises(StoreError, match="knows nothing of that kind"):
        decode_definition(key, encode_fields({"value": b"1"}))


def vars_of(policy: PolicyDefinition) -> list[object]:
    return [
        policy.operator,
        policy.vhost,
        policy.name,
        policy.pattern,
        policy.apply_to,
        policy.definition,
        policy.priority,
    ]
