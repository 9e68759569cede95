"""Who can be reached, who cannot, and from whom a node is parted."""

import pytest

from warren.cluster.members import Member, Members
from warren.cluster.suspicion import PARTED_AFTER_MS, Suspicion


@pytest.fixture
def members() -> Members:
    members = Members()
    for name in ("a", "b", "c"):
        members.put(Member(name, "disc", "", "", "", ""))
        members.came_alive(name, 1)
    return members


def test_a_node_reaches_itself_and_whom_it_is_connected_to(members: Members) -> None:
    suspicion = Suspicion("a")
    suspicion.connected("b", 1)
    suspicion.connected("stranger", 1)
    assert suspicion.reachable(members) == ["a", "b"]
    assert suspicion.suspected(members) == ["c"]
    suspicion.lost("b")
    assert suspicion.reachable(members) == ["a"]
    assert suspicion.suspected(members) == ["b", "c"]


def test_who_is_dead_is_not_suspected(members: Members) -> None:
    suspicion = Suspicion("a")
    members.died("b")
    assert suspicion.suspected(members) == ["c"]


def test_who_lives_out_of_reach_for_long_is_parted_from_us(members: Members) -> None:
    suspicion = Suspicion("a")
    suspicion.connected("b", 1)
    assert suspicion.parted(members, 1_000) == []
    assert suspicion.parted(members, 1_000 + PARTED_AFTER_MS - 1) == []
    assert suspicion.parted(members, 1_000 + PARTED_AFTER_MS) == ["c"]


def test_who_came_within_reach_or_died_meanwhile_starts_anew(members: Members) -> None:
    suspicion = Suspicion("a")
    suspicion.parted(members, 0)
    suspicion.connected("b", 1)
    members.died("c")
    suspicion.parted(members, PARTED_AFTER_MS - 1)
    suspicion.lost("b")
    members.came_alive("c", 2)
    assert suspicion.parted(members, PARTED_AFTER_MS) == []
    assert suspicion.parted(members, PARTED_AFTER_MS * 2) == ["b", "c"]
