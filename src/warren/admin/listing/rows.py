"""A list of objects as rows: filtered, ordered, cut to a page, and only then built.

A row costs some dozen microseconds, and there may be many thousands of objects. So of those that are not shown
nothing is built but the column they are ordered by, and a long list is built in slices, between which the node goes
on with its turns. An object that goes meanwhile is shown as it was.

The objects come in their natural order (virtual host, then name). A sort keeps that order among equals, and
`sort_reverse` turns the whole list round, as RabbitMQ does.

Not here: what a row is (`admin.views`), which objects a visitor may see (the resources).
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from warren.admin.http.answers import JSON, Answer, json_answer, to_json
from warren.admin.http.call import Call
from warren.admin.listing.columns import EVERYTHING, Wanted, value_at, wanted_of
from warren.admin.listing.ordering import place
from warren.admin.listing.pagination import Page, page_of

SLICE_S = 0.005
"""How long the node may be held up at a time."""

_LOOK_EVERY = 64

T = TypeVar("T")
Row = dict[str, Any]
Build = Callable[[T, Wanted], Row]


@dataclass(frozen=True)
class Listed(Generic[T]):
    """Objects in their natural order, and how each becomes a row. `name_of` is what a filter looks at."""

    objects: list[T]
    build: Build[T]
    name_of: Callable[[T], str]


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
    rows = [wanted.cut(listed.build(item, wanted)) for item in objects]
    return json_answer(page.envelope(len(listed.objects), len(passing), rows))


def answer_object(call: Call, row: Row, status: int = 200) -> Answer:
    """One row, and the columns of it that a request asks for."""
    return json_answer(wanted_of(call.query).cut(row), status)


async def answer_rows(call: Call, rows: list[Row], order: tuple[str, ...] = (), paginated: bool = False) -> Answer:
    """A short list of rows that are there already, naturally ordered by these fields."""
    rows = sorted(rows, key=lambda row: [place(row[field]) for field in order])
    return await answer_list(call, Listed(rows, _as_it_is, _row_name), paginated)


def _as_it_is(row: Row, wanted: Wanted) -> Row:
    return row


def _row_name(row: Row) -> str:
    return str(row.get("name", ""))


async def _filtered(listed: Listed[T], page: Page) -> list[T]:
    passes = page.passes
    if passes is None:
        return listed.objects
    passing: list[T] = []
    breath = Breath()
    for item in listed.objects:
        if passes(listed.name_of(item)):
            passing.append(item)
        await breath.take()
    return passing


async def _ordered(objects: list[T], listed: Listed[T], query: dict[str, str]) -> list[T]:
    path = query.get("sort")
    if path:
        objects = await _sorted_by(objects, listed, path)
    return objects[::-1] if query.get("sort_reverse") == "true" else objects


async def _sorted_by(objects: list[T], listed: Listed[T], path: str) -> list[T]:
    wanted = Wanted([path])
    build = listed.build
    places = []
    breath = Breath()
    for at, item in enumerate(objects):
        # the number keeps the order among equals, and objects from being compared
        places.append((place(value_at(build(item, wanted), path)), at))
        await breath.take()
    places.sort()
    return [objects[at] for _, at in places]


async def _dumped(objects: list[T], listed: Listed[T], wanted: Wanted) -> bytes:
    parts: list[bytes] = []
    rows: list[Any] = []
    breath = Breath()
    for item in objects:
        row = listed.build(item, wanted)
        rows.append(row if wanted is EVERYTHING else wanted.cut(row))
        if len(rows) == _LOOK_EVERY:
            parts.append(to_json(rows)[1:-1])
            rows = []
        await breath.take()
    if rows:
        parts.append(to_json(rows)[1:-1])
    return b"[" + b",".join(parts) + b"]"


class Breath:
    """Lets the node go on when a piece of work has held it up long enough."""

    def __init__(self) -> None:
        self._count = 0
        self._until = time.monotonic() + SLICE_S

    async def take(self) -> None:
        self._count += 1
        if self._count % _LOOK_EVERY == 0 and time.monotonic() > self._until:
            await asyncio.sleep(0)
            self._until = time.monotonic() + SLICE_S
