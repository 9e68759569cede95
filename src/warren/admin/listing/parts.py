"""A node's part of a list, for the node that puts the list together: what lives here, and what was counted here.

An index has a pair for each thing, its key and a value; what there is nothing to say of is left out. Rows are pairs of
a key and a row.

Not here: putting it together (`listing.spread`).
"""

from collections.abc import Callable
from typing import Any

from warren.admin.cluster.question import INDEX, Part
from warren.admin.http.answers import JSON, Answer, to_json
from warren.admin.listing.columns import Wanted
from warren.admin.listing.listed import Gathered, Listed, Row, Shared, T, chunks, column, planned_column


async def answer_part(part: Part, wanted: Wanted, listed: Listed[T], own: str) -> Answer:
    assert listed.spread is not None
    if part.kind == INDEX:
        pairs = await _index(part.column, listed, own)
    else:
        pairs = await _rows(part, wanted, listed, own)
    return Answer(200, to_json(pairs), JSON)


async def _index(path: str, listed: Listed[T], own: str) -> list[tuple[object, Any]]:
    spread = listed.spread
    value_of: Callable[[T], Any] = column(listed, path) if path else _nothing
    if isinstance(spread, Gathered):
        return [(spread.key_of(item), value_of(item)) async for chunk in chunks(listed.objects) for item in chunk]
    assert isinstance(spread, Shared)
    share_of = planned_column(spread.share, path)
    pairs: list[tuple[object, Any]] = []
    async for chunk in chunks(listed.objects):
        for item in chunk:
            if spread.home_of(item) == own:
                pairs.append((spread.key_of(item), value_of(item)))
            elif value := share_of(item):
                pairs.append((spread.key_of(item), value))
    return pairs


def _nothing(item: object) -> int:
    return 0


async def _rows(part: Part, wanted: Wanted, listed: Listed[T], own: str) -> list[tuple[object, Row]]:
    spread = listed.spread
    build = listed.plan(wanted)
    keys = list(part.keys)
    if isinstance(spread, Gathered):
        there = {spread.key_of(item): item for item in listed.objects}
        return [(key, wanted.cut(build(there[key]))) async for some in chunks(keys) for key in some if key in there]
    assert isinstance(spread, Shared)
    share = spread.share(wanted)
    pairs: list[tuple[object, Row]] = []
    async for some in chunks(keys):
        for key in some:
            item = spread.find(key)
            if item is None:
                continue
            row = build(item) if spread.home_of(item) == own else share(item)
            if row:
                pairs.append((key, wanted.cut(row)))
    return pairs
