"""The members of a cluster, and which of them are alive."""

from warren.broker.membership import ClusterMembers
from warren.broker.metadata.cluster_definitions import NodeDefinition


def member(name: str, kind: str = "disc") -> NodeDefinition:
    return NodeDefinition(name, kind, f"{name}:25672", "", "", "")


def cluster(**kinds: str) -> ClusterMembers:
    members = ClusterMembers()
    for name, kind in kinds.items():
        members.put(member(name, kind))
    return members


def test_members_are_listed_by_name_and_by_rank() -> None:
    members = cluster(c="disc", a="ram", b="disc")
    assert members.names() == ["a", "b", "c"]
    assert members.disc_names() == ["b", "c"]
    assert members.names_by_rank() == ["b", "c", "a"]


def test_only_members_count_as_alive() -> None:
    members = cluster(a="disc")
    members.came_alive("stranger", 3)
    members.came_alive("a", 7)
    assert members.alive_names() == ["a"]
    assert members.incarnation("a") == 7


def test_a_members_definition_can_change() -> None:
    members = cluster(a="disc")
    members.put(member("a", "ram"))
    assert members.disc_names() == []
    known = members.get("a")
    assert known is not None
    assert known.kind == "ram"


def test_a_removed_member_is_no_member_and_a_dead_one_is() -> None:
    members = cluster(a="disc", b="disc")
    members.came_alive("a", 1)
    members.died("a")
    members.forget("b")
    assert members.names() == ["a"]
    assert members.incarnation("a") is None
    assert members.get("b") is None


def test_the_version_moves_with_every_change_and_only_then() -> None:
    members = cluster(a="disc")
    seen = [members.version]
    members.came_alive("a", 1)
    seen.append(members.version)
    members.came_alive("a", 2)
    seen.append(members.version)
    members.died("a")
    seen.append(members.version)
    members.forget("a")
    seen.append(members.version)
    assert seen == sorted(set(seen))
    members.forget("a")
    members.died("a")
    assert members.version == seen[-1]
