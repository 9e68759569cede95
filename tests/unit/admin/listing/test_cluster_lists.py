"""Lists that cover several nodes: the queries to each node, and the result.

All nodes are in one process and answer with the real code.
"""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from starlette.requests import Request

from warren.admin.context import AdminContext
from warren.admin.http.request import ApiRequest
from warren.admin.listing.columns import ColumnSelection
from warren.admin.listing.lists import GatheredObjects, ObjectList, Row, RowBuilder, SharedObjects, full_rows
from warren.admin.listing.responses import list_response
from warren.admin.peers import PeerQuery, PeerReply, RowKey


@dataclass(frozen=True)
class Thing:
    name: str
    home: str
    size: int


@dataclass
class World:
    """Objects that all nodes know, and each node's counters for them."""

    things: list[Thing]
    counts: dict[tuple[str, str], int] = field(default_factory=dict)

    def shared(self, own: str) -> ObjectList[Thing]:
        def build(thing: Thing) -> Row:
            return {"name": thing.name, "home": thing.home, "size": thing.size, **self._counted(own, thing)}

        def share(wanted: ColumnSelection) -> RowBuilder[Thing]:
            return lambda thing: self._counted(own, thing)

        def agreed_row(thing: Thing) -> Row:
            return {"name": thing.name, "home": thing.home, "state": "down"}

        by_name = {(thing.name,): thing for thing in self.things}
        spread = SharedObjects(_key, by_name.get, _home, share, agreed_row, frozenset({"name", "home"}))
        return ObjectList(self.things, full_rows(build), _name, spread=spread)

    def gathered(self, own: str) -> ObjectList[Thing]:
        def build(thing: Thing) -> Row:
            return {"name": thing.name, "size": thing.size}

        return ObjectList(
            [one for one in self.things if one.home == own], full_rows(build), _name, spread=GatheredObjects(_key)
        )

    def _counted(self, own: str, thing: Thing) -> Row:
        count = self.counts.get((own, thing.name), 0)
        return {"stats": {"count": count}} if count else {}


def _name(thing: Thing) -> str:
    return thing.name


def _key(thing: Thing) -> RowKey:
    return (thing.name,)


def _home(thing: Thing) -> str:
    return thing.home


class Around:
    """The other nodes; deaf ones do not respond."""

    own = "a"

    def __init__(self, listed: dict[str, ObjectList[Thing]], deaf: tuple[str, ...]) -> None:
        self._listed = listed
        self._deaf = deaf
        self.asked: list[tuple[str, PeerQuery]] = []

    def clustered(self) -> bool:
        return True

    def others(self) -> list[str]:
        return [node for node in self._listed if node != self.own]

    async def ask(self, node: str, peer_query: PeerQuery) -> PeerReply | None:
        self.asked.append((node, peer_query))
        if node in self._deaf:
            return None
        call = call_of(peer_query.query.decode(), cast(Any, Around(self._listed, ())))
        call.context.peers.own = node
        call.part = peer_query.part
        answer = await list_response(call, self._listed[node])
        return PeerReply(answer.status, answer.body)

    async def ask_all(self, peer_query: PeerQuery) -> dict[str, PeerReply]:
        told = {node: await self.ask(node, peer_query) for node in self.others()}
        return {node: answer for node, answer in told.items() if answer is not None}


@dataclass
class OneStation:
    peers: Any


def call_of(query: str, peers: Any) -> ApiRequest:
    scope = {"type": "http", "method": "GET", "raw_path": b"/", "query_string": query.encode(), "headers": []}
    return ApiRequest(Request(scope), {}, cast(AdminContext, OneStation(peers)), 0)


def listing(world: World, kind: str, query: str, deaf: tuple[str, ...] = ()) -> tuple[Any, Around]:
    """The response of node `a`."""
    listed = {node: getattr(world, kind)(node) for node in "abc"}
    around = Around(listed, deaf)

    async def told() -> bytes:
        return await (await list_response(call_of(query, around), listed["a"])).whole()

    return json.loads(asyncio.run(told())), around


@pytest.fixture
def world() -> World:
    return World([Thing(f"t{number:04d}", "abc"[number % 3], -number) for number in range(3000)])


def keys_asked(around: Around) -> int:
    return sum(len(peer_query.part.keys) for _, peer_query in around.asked)


def test_a_page_by_name_requests_its_own_rows_only(world: World) -> None:
    page, around = listing(world, "shared", "page=2&page_size=100&sort=name&sort_reverse=true&columns=name,size")
    assert [row["name"] for row in page["items"]] == [f"t{number:04d}" for number in range(2899, 2799, -1)]
    assert all(row["size"] == -int(row["name"][1:]) for row in page["items"])
    assert [(node, peer_query.part.kind) for node, peer_query in around.asked] == [("b", "rows"), ("c", "rows")]
    assert keys_asked(around) == 200


@pytest.mark.parametrize("kind", ["shared", "gathered"])
def test_a_page_by_a_number_requests_its_column_first(kind: str, world: World) -> None:
    page, around = listing(world, kind, "page=1&page_size=10&sort=size&name=t00")
    assert (page["total_count"], page["filtered_count"]) == (3000, 100)
    assert [row["size"] for row in page["items"]] == list(range(-99, -89))
    assert [peer_query.part.kind for _, peer_query in around.asked] == ["index", "index", "rows", "rows"]
    assert keys_asked(around) <= 20


@pytest.mark.parametrize("kind", ["shared", "gathered"])
def test_a_whole_list_comes_in_pieces_that_are_bounded(kind: str, world: World) -> None:
    rows, around = listing(world, kind, "")
    assert len(rows) == 3000
    assert max(len(peer_query.part.keys) for _, peer_query in around.asked) == 500


def test_counts_of_nodes_are_added_in_rows_and_in_the_order() -> None:
    things = [Thing("one", "a", 0), Thing("two", "b", 0), Thing("three", "c", 0)]
    counts = {("a", "one"): 4, ("a", "two"): 1, ("b", "two"): 2, ("c", "two"): 3, ("b", "three"): 5, ("b", "one"): 3}
    rows, _ = listing(World(things, counts), "shared", "sort=stats.count&columns=name,stats.count")
    assert rows == [
        {"name": "three", "stats": {"count": 5}},
        {"name": "two", "stats": {"count": 6}},
        {"name": "one", "stats": {"count": 7}},
    ]


def test_objects_of_a_silent_node_are_shown_with_their_agreed_fields(world: World) -> None:
    page, _ = listing(world, "shared", "page=1&page_size=3", deaf=("b",))
    assert page["items"] == [
        {"name": "t0000", "home": "a", "size": 0},
        {"name": "t0001", "home": "b", "state": "down"},
        {"name": "t0002", "home": "c", "size": -2},
    ]
    assert page["total_count"] == 3000


def test_gathered_rows_of_a_silent_node_are_missing(world: World) -> None:
    rows, _ = listing(world, "gathered", "columns=name&sort=name", deaf=("b",))
    assert len(rows) == 2000
    assert [row["name"] for row in rows[:3]] == ["t0000", "t0002", "t0003"]
