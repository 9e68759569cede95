"""The rules for the node of a new queue."""

import pytest

from warren.broker.cluster.placement import (
    CLIENT_LOCAL,
    MASTER_LOCATORS,
    MIN_MASTERS,
    RANDOM,
    NodeLoad,
    choose_node,
    locator_of,
)
from warren.broker.policies.keys import MASTER_LOCATORS as LOCATORS_IN_POLICIES
from warren.broker.queues.arguments import MASTER_LOCATORS as LOCATORS_IN_ARGUMENTS


def nodes(**queues: int) -> list[NodeLoad]:
    return [NodeLoad(name, count) for name, count in queues.items()]


@pytest.mark.parametrize(
    ("argument", "policy", "setting", "counts"),
    [
        ("random", "min-masters", "client-local", "random"),
        (None, "min-masters", "random", "min-masters"),
        (None, None, "random", "random"),
        (None, None, "nonsense", "client-local"),
        (5, "nonsense", "min-masters", "min-masters"),
    ],
)
def test_the_argument_counts_before_the_policy_and_that_before_the_setting(
    argument: object, policy: object, setting: str, counts: str
) -> None:
    assert locator_of(argument, policy, setting) == counts


def test_all_modules_have_the_same_locators() -> None:
    assert sorted(LOCATORS_IN_ARGUMENTS) == sorted(LOCATORS_IN_POLICIES) == sorted(MASTER_LOCATORS)


@pytest.mark.parametrize(
    ("wanted", "chosen"), [([], "b"), (["a", "b"], "b"), (["gone", "c", "a"], "c"), (["gone"], "b")]
)
def test_client_local_is_the_clients_node_unless_others_are_listed(wanted: list[str], chosen: str) -> None:
    assert choose_node(CLIENT_LOCAL, "b", nodes(a=0, b=9, c=3), wanted, 0) == chosen


@pytest.mark.parametrize("locator", [CLIENT_LOCAL, MIN_MASTERS])
@pytest.mark.parametrize("wanted", [[], ["witness"], ["witness", "c"]])
def test_the_node_with_the_fewest_queues_takes_the_place_of_a_witness(locator: str, wanted: list[str]) -> None:
    assert choose_node(locator, "witness", nodes(a=3, c=1), wanted, 0) == "c"


@pytest.mark.parametrize("locator", MASTER_LOCATORS)
def test_without_a_node_for_queues_there_is_no_place(locator: str) -> None:
    assert choose_node(locator, "witness", [], [], 0) == ""


@pytest.mark.parametrize(
    ("candidates", "wanted", "chosen"),
    [
        (nodes(a=3, b=2, c=1), [], "c"),
        (nodes(a=1, b=1, c=1), [], "b"),
        (nodes(c=1, a=1, b=2), [], "a"),
        (nodes(a=3, b=2, c=1), ["a", "b"], "b"),
        (nodes(a=3, b=2, c=1), ["gone"], "b"),
    ],
)
def test_min_masters_is_the_node_with_the_fewest_queues(
    candidates: list[NodeLoad], wanted: list[str], chosen: str
) -> None:
    assert choose_node(MIN_MASTERS, "b", candidates, wanted, 7) == chosen


def test_random_is_any_node_and_depends_on_the_draw_alone() -> None:
    candidates = nodes(c=0, a=5, b=9)
    assert [choose_node(RANDOM, "b", candidates, [], draw) for draw in range(6)] == ["a", "b", "c"] * 2
    assert [choose_node(RANDOM, "b", list(reversed(candidates)), ["c", "a"], draw) for draw in (2**63, 5)] == ["a", "c"]
