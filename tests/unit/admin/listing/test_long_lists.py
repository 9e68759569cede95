"""A long list is built as it is read."""

import asyncio
import json
import time
from typing import Any

import pytest

from tests.support.deadlines import in_event_loop
from tests.unit.admin.listing.test_cluster_lists import Around, Thing, World, call_of
from warren.admin.http.responses import ApiResponse
from warren.admin.listing.lists import ObjectList, Row, full_rows
from warren.admin.listing.responses import LONG_ROWS, list_response
from warren.admin.time_slices import SLICE_S


class Counting:
    """Counts the rows that are built."""

    def __init__(self, count: int) -> None:
        self.built = 0
        self.listed = ObjectList(list(range(count)), full_rows(self._build), str)

    def _build(self, number: int) -> Row:
        self.built += 1
        return {"name": str(number)}


async def first_of(answer: ApiResponse, pieces: int) -> bytes:
    assert answer.chunks is not None
    return b"".join([await anext(answer.chunks) for _ in range(pieces)])


@in_event_loop
async def test_an_unread_list_is_built_only_a_little_ahead() -> None:
    rows = Counting(10_000)
    answer = await list_response(call_of("", None), rows.listed)
    assert answer.body == b""
    await first_of(answer, 2)
    assert 0 < rows.built <= 200
    assert json.loads(await whole_of(Counting(10_000), "sort=name")) == named(sorted(map(str, range(10_000))))


@in_event_loop
async def test_a_short_list_comes_in_one_piece() -> None:
    for count in (0, 1, LONG_ROWS):
        answer = await list_response(call_of("", None), Counting(count).listed)
        assert answer.chunks is None
        assert json.loads(answer.body) == named([str(number) for number in range(count)])


@in_event_loop
async def test_of_a_cluster_s_long_list_other_nodes_are_asked_as_it_is_read() -> None:
    world = World([Thing(f"t{number:04d}", "ab"[number % 2], number) for number in range(3000)])
    listed = {node: world.shared(node) for node in "ab"}
    around = Around(listed, ())
    answer = await list_response(call_of("columns=name", around), listed["a"])
    assert len(around.asked) == 1
    begun = await first_of(answer, 2)
    assert len(around.asked) == 1
    rest = await answer.whole()
    assert len(around.asked) == 6
    assert json.loads(begun + rest) == named([thing.name for thing in world.things])


def test_deleted_rows_leave_no_gap() -> None:
    world = World([Thing(f"t{number:04d}", "b", number) for number in range(3000)])
    listed = {node: world.gathered(node) for node in "ab"}
    around = Around(listed, ())

    async def look() -> list[Any]:
        answer = await list_response(call_of("columns=name", around), listed["a"])
        # deletes the second piece and more, and the last one
        del listed["b"].objects[500:1100], listed["b"].objects[1900:]
        return list(json.loads(await answer.whole()))

    left = asyncio.run(look())
    assert left == named([f"t{number:04d}" for number in [*range(500), *range(1100, 2500)]])


def test_a_list_of_which_nothing_is_left_is_empty() -> None:
    world = World([Thing(f"t{number:04d}", "b", number) for number in range(1000)])
    listed = {node: world.gathered(node) for node in "ab"}

    class Vanishing(Around):
        async def ask(self, node: str, peer_query: Any) -> Any:
            told = await super().ask(node, peer_query)
            listed["b"].objects.clear()
            return told

    async def look() -> bytes:
        return await (await list_response(call_of("", Vanishing(listed, ())), listed["a"])).whole()

    assert asyncio.run(look()) == b"[]"


@pytest.mark.parametrize("query", ["", "page=1", "sort=size", "page=1&columns=name"])
@in_event_loop
async def test_large_rows_leave_the_loop_to_others_after_each(query: str) -> None:
    def build(number: int) -> Row:
        until = time.monotonic() + SLICE_S
        while time.monotonic() < until:
            pass
        return {"name": str(number), "size": number}

    answer = asyncio.ensure_future(
        list_response(call_of(query, None), ObjectList(list(range(20)), full_rows(build), str))
    )
    steps = 0
    while not answer.done():
        await asyncio.sleep(0)
        steps += 1
    assert steps >= 20


async def whole_of(rows: Counting, query: str) -> bytes:
    return await (await list_response(call_of(query, None), rows.listed)).whole()


def named(names: list[str]) -> list[dict[str, str]]:
    return [{"name": name} for name in names]
