"""A list of objects as rows: filtered, ordered, cut to a page, and only then built.

The objects come in their natural order (virtual host, then name). A sort keeps that order among equals, and
`sort_reverse` turns the whole list round, as RabbitMQ does.

A long list that is wanted whole is sent as it is built, no faster than it is read.

A list that reaches over several nodes is put together by the node that is asked (`listing.spread`); another node that
asks for a part of it gets that part (`listing.parts`).

Not here: what there is to list (`listing.listed`).
"""

from collections.abc import AsyncIterator
from typing import Any

from warren.admin.cluster.question import HERE
from warren.admin.http.answers import JSON, Answer, json_answer, to_json
from warren.admin.http.call import Call
from warren.admin.listing.columns import Wanted, wanted_of
from warren.admin.listing.listed import Listed, Row, T, chunks, column, in_order, whole
from warren.admin.listing.ordering import place
from warren.admin.listing.pagination import Page, page_of
from warren.admin.listing.parts import answer_part
from warren.admin.listing.spread import ROWS_AT_ONCE, SpreadList, spread_list

LONG_ROWS = 500


async def answer_list(call: Call, listed: Listed[T], paginated: bool = True) -> Answer:
    """The list, or the page of it, that a request asks for."""
    if listed.spread is not None:
        if call.part is not None and call.part.kind != HERE:
            return await answer_part(call.part, wanted_of(call.query), listed, call.station.peers.own)
        if call.part is None and call.station.peers.clustered():
            return await _answer_spread(call, listed, paginated)
    query = call.query
    wanted = wanted_of(query)
    page = page_of(query) if paginated else None
    if page is None:
        objects = await _ordered(listed.objects, listed, query)
        return await _answer_whole(len(objects), _pieces(objects, listed, wanted))
    passing = await _filtered(listed, page)
    objects = page.cut(await _ordered(passing, listed, query))
    build = listed.plan(wanted)
    rows = [wanted.cut(build(item)) for item in objects]
    return json_answer(page.envelope(len(listed.objects), len(passing), rows))


def answer_object(call: Call, row: Row, status: int = 200) -> Answer:
    """One row, and the columns of it that a request asks for."""
    return json_answer(wanted_of(call.query).cut(row), status)


async def answer_rows(call: Call, rows: list[Row], order: tuple[str, ...] = (), paginated: bool = False) -> Answer:
    """A short list of rows that are there already, naturally ordered by these fields."""
    rows = sorted(rows, key=lambda row: [place(row[field]) for field in order])
    return await answer_list(call, Listed(rows, whole(_as_it_is), _row_name), paginated)


def _as_it_is(row: Row) -> Row:
    return row


def _row_name(row: Row) -> str:
    return str(row.get("name", ""))


async def _answer_spread(call: Call, listed: Listed[T], paginated: bool) -> Answer:
    """The same for a list of the whole cluster; what is shown of other nodes' things comes from them."""
    query = call.query
    wanted = wanted_of(query)
    page = page_of(query) if paginated else None
    path = query.get("sort") or ""
    spread = spread_list(call, listed)
    items = await spread.items(path)
    passing = items
    if page is not None and page.passes is not None:
        passing = [item for item in items if page.passes(spread.name_of(item))]
    ordered = in_order(passing, await spread.values(passing, path)) if path else passing
    if query.get("sort_reverse") == "true":
        ordered = ordered[::-1]
    if page is not None:
        rows = await spread.rows(page.cut(ordered), wanted)
        return json_answer(page.envelope(len(items), len(passing), rows))
    return await _answer_whole(len(ordered), _spread_pieces(ordered, spread, wanted))


async def _filtered(listed: Listed[T], page: Page) -> list[T]:
    passes, name_of = page.passes, listed.name_of
    if passes is None:
        return listed.objects
    passing: list[T] = []
    async for chunk in chunks(listed.objects):
        passing += [item for item in chunk if passes(name_of(item))]
    return passing


async def _ordered(objects: list[T], listed: Listed[T], query: dict[str, str]) -> list[T]:
    path = query.get("sort")
    if path:
        value_of = column(listed, path)
        values = [value_of(item) async for chunk in chunks(objects) for item in chunk]
        objects = in_order(objects, values)
    return objects[::-1] if query.get("sort_reverse") == "true" else objects


# -- whole lists

Pieces = AsyncIterator[bytes]
"""Rows as JSON, some at a time, each time without the brackets around them."""


async def _pieces(objects: list[T], listed: Listed[T], wanted: Wanted) -> Pieces:
    build = listed.plan(wanted)
    async for chunk in chunks(objects):
        yield to_json([wanted.cut(build(item)) for item in chunk])[1:-1]


async def _spread_pieces(items: list[Any], spread: SpreadList[Any], wanted: Wanted) -> Pieces:
    for first in range(0, len(items), ROWS_AT_ONCE):
        rows = await spread.rows(items[first : first + ROWS_AT_ONCE], wanted)
        async for chunk in chunks(rows):
            yield to_json(chunk)[1:-1]


async def _answer_whole(count: int, pieces: Pieces) -> Answer:
    """In one piece if it is short. The first rows are there before the answer begins, and with them whatever is to be
    said in its head."""
    first = await anext(pieces, b"")
    array = _array(first, pieces)
    if count > LONG_ROWS:
        return Answer(200, content_type=JSON, chunks=array)
    return Answer(200, b"".join([part async for part in array]), JSON)


async def _array(first: bytes, rest: Pieces) -> AsyncIterator[bytes]:
    yield b"[" + first
    # what has gone meanwhile may leave nothing of a piece
    begun = bool(first)
    async for piece in rest:
        if piece:
            yield b"," + piece if begun else piece
            begun = True
    yield b"]"
