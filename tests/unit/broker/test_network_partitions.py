"""Partition handling with every pattern of links among two to five nodes, disc or RAM."""

from collections.abc import Iterator
from itertools import combinations, product

import pytest

from warren.broker.network_partitions import (
    AUTOHEAL,
    CONTINUE,
    IGNORE,
    PAUSE,
    PAUSE_IF_ALL_DOWN,
    PAUSE_MINORITY,
    RESTART,
    RESUME,
    PartitionHandling,
    PartitionView,
    PartitionWatch,
    has_majority,
    should_pause,
)

NAMES = "abcde"


class SmallWorld:
    """Some nodes, which of them are disc nodes, and which pairs are linked."""

    def __init__(self, kinds: tuple[str, ...], links: tuple[bool, ...]) -> None:
        self.names = list(NAMES[: len(kinds)])
        self.disc = [name for name, kind in zip(self.names, kinds, strict=True) if kind == "disc"]
        self.ranked = self.disc + [name for name in self.names if name not in self.disc]
        pairs = list(combinations(self.names, 2))
        self.linked = {pair for pair, there in zip(pairs, links, strict=True) if there}

    def reaches(self, one: str, other: str) -> bool:
        return one == other or (min(one, other), max(one, other)) in self.linked

    def view(self, own: str, alive: list[str]) -> PartitionView:
        reachable = [name for name in self.names if self.reaches(own, name)]
        partitioned = [name for name in alive if name not in reachable]
        return PartitionView(own, self.ranked, self.disc, reachable, partitioned, True, False)

    def running(self, handling: PartitionHandling) -> list[str]:
        """The nodes that serve clients after all have looked, paused ones gave up their lease, and all looked again.

        No lease expires in between: a node that is cut off is alive until it pauses.
        """
        at_first = [name for name in self.names if not should_pause(handling, self.view(name, []))]
        return [name for name in at_first if not should_pause(handling, self.view(name, at_first))]


def small_worlds(*kinds_there: str) -> Iterator[SmallWorld]:
    for size in (2, 3, 4, 5):
        for kinds in product(kinds_there, repeat=size):
            if "disc" in kinds:
                for links in product((True, False), repeat=size * (size - 1) // 2):
                    yield SmallWorld(kinds, links)


def sides(world: SmallWorld) -> list[list[str]]:
    """The groups of nodes that are connected, directly or over others."""
    found: list[list[str]] = []
    for name in world.names:
        if not any(name in side for side in found):
            side = [name]
            for each in side:
                side += [other for other in world.names if other not in side and world.reaches(each, other)]
            found.append(sorted(side))
    return found


def is_whole(world: SmallWorld, side: list[str]) -> bool:
    return all(world.reaches(one, other) for one, other in combinations(side, 2))


def test_pause_minority_in_every_small_world() -> None:
    handling = PartitionHandling(PAUSE_MINORITY)
    seen = 0
    for world in small_worlds("disc", "ram"):
        running = world.running(handling)
        seeing = [name for name in world.ranked if has_majority(world.view(name, []))]
        # no node without a majority serves, and no two nodes serve that do not reach each other
        assert set(running) <= set(seeing)
        assert all(world.reaches(one, other) for one, other in combinations(running, 2))
        # but a node serves if any node has a majority
        assert bool(running) == bool(seeing)
        assert not seeing or seeing[0] in running
        # without partial partitions, all nodes of the majority side serve
        if all(is_whole(world, side) for side in sides(world)):
            larger = [side for side in sides(world) if len(set(side) & set(world.disc)) * 2 > len(world.disc)]
            assert sorted(running) == (larger[0] if larger else [])
        seen += 1
    assert seen == 2 * 3 + 8 * 7 + 64 * 15 + 1024 * 31


def test_exactly_half_is_not_enough() -> None:
    two = SmallWorld(("disc", "disc"), (False,))
    assert two.running(PartitionHandling(PAUSE_MINORITY)) == []
    four = SmallWorld(("disc",) * 4, (True, False, False, False, False, True))
    assert four.running(PartitionHandling(PAUSE_MINORITY)) == []


def test_a_node_alone_in_its_cluster_never_pauses() -> None:
    alone = PartitionView("a", ["a"], ["a"], ["a"], [], True, False)
    for mode in (IGNORE, PAUSE_MINORITY, PAUSE_IF_ALL_DOWN, AUTOHEAL):
        assert not should_pause(PartitionHandling(mode, ["a"]), alone)


def test_of_two_nodes_that_the_third_reaches_the_later_one_pauses() -> None:
    world = SmallWorld(("disc",) * 3, (False, True, True))
    assert world.running(PartitionHandling(PAUSE_MINORITY)) == ["a", "c"]


def test_a_ram_node_pauses_for_a_disc_node_with_a_later_name() -> None:
    world = SmallWorld(("ram", "disc", "disc", "disc"), (False, True, True, True, True, True))
    assert world.running(PartitionHandling(PAUSE_MINORITY)) == ["b", "c", "d"]


@pytest.mark.parametrize("mode", [IGNORE, AUTOHEAL])
def test_no_node_pauses_with_ignore_or_autoheal(mode: str) -> None:
    for world in small_worlds("disc"):
        assert world.running(PartitionHandling(mode)) == world.names


def test_pause_if_all_down_in_every_small_world() -> None:
    for world in small_worlds("disc"):
        for listed in (["a"], ["b", "a"], ["stranger"], ["stranger", "b"]):
            preferred = [name for name in listed if name in world.names]
            wanted = [
                name for name in world.names if not preferred or any(world.reaches(name, other) for other in preferred)
            ]
            assert world.running(PartitionHandling(PAUSE_IF_ALL_DOWN, listed)) == wanted


def view_of(
    reachable: str, lease_lost: bool = False, store_reached: bool = True, partitioned: str = ""
) -> PartitionView:
    """The view of node a of three disc nodes."""
    return PartitionView(
        "a", ["a", "b", "c"], ["a", "b", "c"], list(reachable), list(partitioned), store_reached, lease_lost
    )


def test_a_node_pauses_once_and_resumes_by_itself() -> None:
    watch = PartitionWatch(PartitionHandling(PAUSE_MINORITY))
    seen = [watch.look(view_of(reachable)) for reachable in ("abc", "ab", "a", "a", "ac", "ac")]
    assert seen == [CONTINUE, CONTINUE, PAUSE, CONTINUE, RESUME, CONTINUE]


def test_a_node_that_has_not_been_among_others_yet_is_only_starting() -> None:
    watch = PartitionWatch(PartitionHandling(PAUSE_MINORITY))
    seen = [watch.look(view_of(reachable)) for reachable in ("a", "a", "ab", "a")]
    assert seen == [CONTINUE, CONTINUE, CONTINUE, PAUSE]


def test_a_node_that_paused_for_another_resumes_when_it_reaches_every_living_node() -> None:
    watch = PartitionWatch(PartitionHandling(PAUSE_MINORITY))
    later = ["b", "c", "a"]
    views = [
        PartitionView("a", later, later, list("abc"[:2]), list(partitioned), True, False)
        for partitioned in ("", "c", "c", "")
    ]
    assert [watch.look(view) for view in views] == [CONTINUE, PAUSE, CONTINUE, RESUME]


@pytest.mark.parametrize(
    "handling", [PartitionHandling(AUTOHEAL), PartitionHandling(PAUSE_IF_ALL_DOWN, ["a"], recovery=AUTOHEAL)]
)
def test_a_node_that_lost_its_lease_restarts_when_it_is_in_the_majority_again(handling: PartitionHandling) -> None:
    watch = PartitionWatch(handling)
    assert watch.look(view_of("abc")) == CONTINUE
    assert watch.look(view_of("a", lease_lost=False, store_reached=False)) == CONTINUE
    assert watch.look(view_of("a", lease_lost=True)) == CONTINUE
    assert watch.look(view_of("ab", lease_lost=True, store_reached=False)) == CONTINUE
    assert watch.look(view_of("ab", lease_lost=True)) == RESTART


@pytest.mark.parametrize(
    "handling",
    [PartitionHandling(IGNORE), PartitionHandling(PAUSE_MINORITY), PartitionHandling(PAUSE_IF_ALL_DOWN, ["a"])],
)
def test_no_node_restarts_without_autoheal(handling: PartitionHandling) -> None:
    watch = PartitionWatch(handling)
    assert [watch.look(view_of("abc", lease_lost=True)) for _ in range(3)] == [CONTINUE] * 3


def test_a_node_that_is_no_member_does_not_pause() -> None:
    stranger = PartitionView("x", ["a", "b", "c"], ["a", "b", "c"], ["x"], ["a"], True, False)
    assert not should_pause(PartitionHandling(PAUSE_MINORITY), stranger)
