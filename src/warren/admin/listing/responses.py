"""Responses with rows: filter, sort, cut to a page, then build.

The natural order is virtual host, then name. Sorting keeps it among equal values, and `sort_reverse` reverses the whole
list, as in RabbitMQ. A long list without pages is sent while it is built, no faster than the client reads.

Not here: lists of objects and of several nodes (`listing.lists`).
"""

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import JSON, ApiResponse, json_response, to_json
from warren.admin.listing.columns import ColumnSelection, SortKey, selected_columns, sort_key
from warren.admin.listing.lists import (
    ROWS_AT_ONCE,
    ClusterList,
    ObjectList,
    Row,
    T,
    cluster_list,
    column_reader,
    full_rows,
    in_slices,
    json_pieces,
    part_response,
    sorted_by,
)
from warren.admin.listing.pagination import PageQuery, page_query
from warren.admin.peers import HERE
from warren.admin.time_slices import TimeSlicer

LONG_ROWS = 500


async def list_response(call: ApiRequest, listed: ObjectList[T], paginated: bool = True) -> ApiResponse:
    """The list, or the requested page of it."""
    if listed.spread is not None:
        if call.part is not None and call.part.kind != HERE:
            return await part_response(call.part, selected_columns(call.query), listed, call.context.peers.own)
        if call.part is None and call.context.peers.clustered():
            return await _cluster_response(call, listed, paginated)
    query = call.query
    wanted = selected_columns(query)
    page = page_query(query) if paginated else None
    if page is None:
        objects = await _ordered(listed.objects, listed, query)
        return await _whole_response(len(objects), _pieces(objects, listed, wanted))
    passing = await _filtered(listed.objects, listed.name_of, page)
    objects = page.cut(await _ordered(passing, listed, query))
    facts = page.facts(len(listed.objects), len(passing), len(objects))
    return await _page_response(facts, _pieces(objects, listed, wanted))


def object_response(call: ApiRequest, row: Row, status: int = 200) -> ApiResponse:
    """The requested columns of one row."""
    return json_response(selected_columns(call.query).cut(row), status)


async def rows_response(
    call: ApiRequest, rows: Iterable[Row], order: tuple[str, ...] = (), paginated: bool = False
) -> ApiResponse:
    """Rows that are all built, sorted by these fields. An iterator of many rows builds them in slices."""
    built: list[Row] = []
    keys: list[list[SortKey]] = []
    pace = TimeSlicer()
    for row in rows:
        built.append(row)
        keys.append([sort_key(row[field]) for field in order])
        await pace.rest()
    ordered = [built[at] for at in sorted(range(len(built)), key=keys.__getitem__)]
    return await list_response(call, ObjectList(ordered, full_rows(_as_it_is), _row_name), paginated)


def _as_it_is(row: Row) -> Row:
    return row


def _row_name(row: Row) -> str:
    return str(row.get("name", ""))


async def _cluster_response(call: ApiRequest, listed: ObjectList[T], paginated: bool) -> ApiResponse:
    """The same for a list that covers several nodes."""
    query = call.query
    wanted = selected_columns(query)
    page = page_query(query) if paginated else None
    path = query.get("sort") or ""
    spread = cluster_list(call, listed)
    items = await spread.items(path)
    passing = items if page is None else await _filtered(items, spread.name_of, page)
    ordered = await sorted_by(passing, await spread.values(passing, path)) if path else passing
    if query.get("sort_reverse") == "true":
        ordered = ordered[::-1]
    if page is not None:
        rows = await spread.rows(page.cut(ordered), wanted)
        facts = page.facts(len(items), len(passing), len(rows))
        return await _page_response(facts, json_pieces(in_slices(rows)))
    return await _whole_response(len(ordered), _cluster_pieces(ordered, spread, wanted))


async def _filtered(objects: list[T], name_of: Callable[[T], str], page: PageQuery) -> list[T]:
    """The objects whose names pass the filter. An expression may take a millisecond for a name."""
    passes = page.passes
    if passes is None:
        return objects
    pace = TimeSlicer()
    passing: list[T] = []
    for item in objects:
        await pace.rest()
        if passes(name_of(item)):
            passing.append(item)
    return passing


async def _ordered(objects: list[T], listed: ObjectList[T], query: dict[str, str]) -> list[T]:
    path = query.get("sort")
    if path:
        value_of = column_reader(listed, path)
        values = [value_of(item) async for item in in_slices(objects)]
        objects = await sorted_by(objects, values)
    return objects[::-1] if query.get("sort_reverse") == "true" else objects


# -- whole lists

Pieces = AsyncIterator[bytes]
"""Rows as JSON in pieces, without the enclosing brackets."""


def _pieces(objects: list[T], listed: ObjectList[T], wanted: ColumnSelection) -> Pieces:
    build = listed.plan(wanted)
    return json_pieces(wanted.cut(build(item)) async for item in in_slices(objects))


async def _cluster_pieces(items: list[Any], spread: ClusterList[Any], wanted: ColumnSelection) -> Pieces:
    for first in range(0, len(items), ROWS_AT_ONCE):
        rows = await spread.rows(items[first : first + ROWS_AT_ONCE], wanted)
        async for piece in json_pieces(in_slices(rows)):
            yield piece


async def _page_response(facts: dict[str, int], pieces: Pieces) -> ApiResponse:
    items = b",".join([piece async for piece in pieces])
    return ApiResponse(200, to_json(facts)[:-1] + b',"items":[' + items + b"]}", JSON)


async def _whole_response(count: int, pieces: Pieces) -> ApiResponse:
    """A short list in one piece. A long one starts once its first rows are built, when its headers are known."""
    first = await anext(pieces, b"")
    array = _array(first, pieces)
    if count > LONG_ROWS:
        return ApiResponse(200, content_type=JSON, chunks=array)
    return ApiResponse(200, b"".join([part async for part in array]), JSON)


async def _array(first: bytes, rest: Pieces) -> AsyncIterator[bytes]:
    yield b"[" + first
    # a piece is empty if all of its objects are gone
    begun = bool(first)
    async for piece in rest:
        if piece:
            yield b"," + piece if begun else piece
            begun = True
    yield b"]"
