"""A list of objects as rows: filtered, ordered, cut to a page, and only then built.

A row costs some dozen microseconds, and there may be many thousands of objects. So of those that are not shown
nothing is built but the column they are ordered by, and a long list is built in slices, between which the node goes
on with its turns. An object that goes meanwhile is shown as it was.

The objects come in their natural order (virtual host, then name). A sort keeps that order among equals, and
`sort_reverse` turns the whole list round, as RabbitMQ does.

Not here: what a row is (`admin.views`), which objects a visitor may see (the resources).
"""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from warren.admin.http.answers import JSON, Answer, json_answer, to_json
from warren.admin.http.call import Call
from warren.admin.listing.columns import Wanted, value_at, wanted_of
from warren.admin.listing.ordering import place
from warren.admin.listing.pagination import Page, page_of
from warren.admin.pace import Pace

_CHUNK = 64

T = TypeVar("T")
Row = dict[str, Any]
Build = Callable[[T], Row]


@dataclass(frozen=True)
class Listed(Generic[T]):
    """Objects in their natural order, and how they become rows.

    `plan` is asked once how to build the wanted part of any row. `name_of` is what a filter looks at. `columns` has
    short ways to values that are often sorted by.
    """

    objects: list[T]
    plan: Callable[[Wanted], Build[T]]
    name_of: Callable[[T], str]
    columns: Mapping[str, Callable[[T], Any]] = field(default_factory=dict)


async def answer_list(call: Call, listed: Listed[T], paginated: bool = True) -> Answer:
    """The list, or the page of it, that a request asks for."""
    query = call.query
    wanted = wanted_of(query)
    page = page_of(query) if paginated else None
    if page is None:
        objects = await _ordered(listed.objects, listed, query)
        return Answer(200, await _dumped(objects, listed, wanted), JSON)
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


def whole(build: Build[T]) -> Callable[[Wanted], Build[T]]:
    """A plan that always builds the whole row."""
    return lambda wanted: build


def _as_it_is(row: Row) -> Row:
    return row


def _row_name(row: Row) -> str:
    return str(row.get("name", ""))


async def _filtered(listed: Listed[T], page: Page) -> list[T]:
    passes, name_of = page.passes, listed.name_of
    if passes is None:
        return listed.objects
    passing: list[T] = []
    async for chunk in _chunks(listed.objects):
        passing += [item for item in chunk if passes(name_of(item))]
    return passing


async def _ordered(objects: list[T], listed: Listed[T], query: dict[str, str]) -> list[T]:
    path = query.get("sort")
    if path:
        objects = await _sorted_by(objects, listed, path)
    return objects[::-1] if query.get("sort_reverse") == "true" else objects


async def _sorted_by(objects: list[T], listed: Listed[T], path: str) -> list[T]:
    value_of = listed.columns.get(path) or _column(listed, path)
    values: list[Any] = []
    async for chunk in _chunks(objects):
        values += [value_of(item) for item in chunk]
    if not all(type(value) is int or type(value) is float for value in values):
        values = [place(value) for value in values]
    # a stable sort keeps the natural order among equals
    return [objects[at] for at in sorted(range(len(values)), key=values.__getitem__)]


def _column(listed: Listed[T], path: str) -> Callable[[T], Any]:
    build = listed.plan(Wanted([path]))
    return lambda item: value_at(build(item), path)


async def _dumped(objects: list[T], listed: Listed[T], wanted: Wanted) -> bytes:
    build = listed.plan(wanted)
    parts = [to_json([wanted.cut(build(item)) for item in chunk])[1:-1] async for chunk in _chunks(objects)]
    return b"[" + b",".join(parts) + b"]"


async def _chunks(objects: list[T]) -> AsyncIterator[list[T]]:
    """A long list piece by piece; the node goes on when a piece of work has held it up long enough."""
    pace = Pace()
    for start in range(0, len(objects), _CHUNK):
        await pace.rest()
        yield objects[start : start + _CHUNK]
