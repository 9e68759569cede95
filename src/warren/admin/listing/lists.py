"""What there is to list: objects in their natural order, how they become rows, and how the list reaches over nodes.

A row costs some dozen microseconds, and there may be many thousands of objects. So of those that are not shown
nothing is built but the column they are ordered by, and a long list is built in slices, between which the node goes
on with its turns. An object that goes meanwhile is shown as it was.

Not here: what a row is (`admin.views`), which objects a visitor may see (the resources), the answer (`listing.rows`).

A list of the whole cluster, put together by the node that is asked.

Theory. A page of a hundred must not cost what ten thousand rows cost. So a list is put together in two steps: what is
on the page, which takes a name and the value it is sorted by; then the rows of those, from whoever knows them.

- Things that every node knows (`SharedObjects`: queues, exchanges, virtual hosts) are filtered and cut here. By what is
agreed
  about them they are sorted here, too; by a figure, each node sends its values. A row is the home's, and what
  others have counted of it is added; without the home's, it is what everybody knows.
- Things that a node alone knows (`GatheredObjects`: connections, channels, consumers) are asked for by name first,
together
  with the value. What is gone until its row is asked for is not shown.

Nodes are asked at the same time, each for a bounded number of rows at once.

Not here: a node's part of it (`listing.parts`), who is asked (`cluster.peers`).

A node's part of a list, for the node that puts the list together: what lives here, and what was counted here.

An index has a pair for each thing, its key and a value; what there is nothing to say of is left out. Rows are pairs of
a key and a row.

Not here: putting it together (`listing.spread`).
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import JSON, ApiResponse, to_json
from warren.admin.listing.columns import ColumnSelection, sort_key, value_at
from warren.admin.message_stats import added
from warren.admin.peers import INDEX, ROWS, PeerReply, QueryPart, RowKey
from warren.admin.time_slices import TimeSlicer

_CHUNK = 64

T = TypeVar("T")
Row = dict[str, Any]
RowBuilder = Callable[[T], Row]
RowPlan = Callable[[ColumnSelection], RowBuilder[T]]


@dataclass(frozen=True)
class SharedObjects(Generic[T]):
    """Every node knows all of them; some facts only one knows, its home, and some each counts for itself.

    `home_of` is a node's name, or empty where every node knows all there is to know but its own figures. `share` is how
    to build what this node has counted of something that lives elsewhere; an empty row for nothing. `stand_in` is what
    everybody knows of it: all fields of `known`, by which it can be sorted without asking anybody.
    """

    key_of: Callable[[T], RowKey]
    find: Callable[[RowKey], T | None]
    home_of: Callable[[T], str]
    share: RowPlan[T]
    stand_in: RowBuilder[T]
    known: frozenset[str]


@dataclass(frozen=True)
class GatheredObjects(Generic[T]):
    """Each node knows its own alone."""

    key_of: Callable[[T], RowKey]


@dataclass(frozen=True)
class ObjectList(Generic[T]):
    """Objects in their natural order, and how they become rows.

    `plan` is asked once how to build the wanted part of any row. `name_of` is what a filter looks at. `columns` has
    short ways to values that are often sorted by; those to what everybody knows go for things that live elsewhere, too.
    `spread` says what other nodes have to do with it; nothing, if None.
    """

    objects: list[T]
    plan: RowPlan[T]
    name_of: Callable[[T], str]
    columns: Mapping[str, Callable[[T], Any]] = field(default_factory=dict)
    spread: SharedObjects[T] | GatheredObjects[T] | None = None


def full_rows(build: RowBuilder[T]) -> RowPlan[T]:
    """A plan that always builds the whole row."""
    return lambda wanted: build


def column_reader(listed: ObjectList[T], path: str) -> Callable[[T], Any]:
    """How to get at a value to sort by."""
    return listed.columns.get(path) or planned_column_reader(listed.plan, path)


def planned_column_reader(plan: RowPlan[T], path: str) -> Callable[[T], Any]:
    build = plan(ColumnSelection([path]))
    return lambda item: value_at(build(item), path)


def sorted_by(objects: list[T], values: list[Any]) -> list[T]:
    """The objects by their values; a stable sort keeps the natural order among equals."""
    if not all(type(value) is int or type(value) is float for value in values):
        values = [sort_key(value) for value in values]
    return [objects[at] for at in sorted(range(len(values)), key=values.__getitem__)]


async def chunks(objects: list[T]) -> AsyncIterator[list[T]]:
    """A long list piece by piece; the node goes on when a piece of work has held it up long enough."""
    pace = TimeSlicer()
    for start in range(0, len(objects), _CHUNK):
        await pace.rest()
        yield objects[start : start + _CHUNK]


ROWS_AT_ONCE = 500

Item = TypeVar("Item")


class ClusterList(ABC, Generic[Item]):
    """What `listing.rows` needs to filter, sort and cut."""

    def __init__(self, call: ApiRequest) -> None:
        self._call = call
        self._peers = call.context.peers

    @abstractmethod
    async def items(self, path: str) -> list[Item]:
        """Everything there is, in its natural order, to be sorted by this column, if by any."""

    @abstractmethod
    def name_of(self, item: Item) -> str:
        """What a filter looks at."""

    @abstractmethod
    async def values(self, items: list[Item], path: str) -> list[Any]:
        """Of each the value of the column."""

    @abstractmethod
    async def rows(self, items: list[Item], wanted: ColumnSelection) -> list[Any]:
        """The wanted part of each; without those that are no more."""

    async def _index(self, path: str) -> dict[str, dict[RowKey, Any]]:
        """By node, what each says of the column."""
        told = await self._peers.ask_all(self._call.question(QueryPart(INDEX, path)))
        return {node: _pairs(answer) for node, answer in told.items()}

    async def _ask_rows(self, keys: dict[str, list[RowKey]]) -> dict[str, dict[RowKey, Any]]:
        """By node, what each says of the things of these keys."""
        told = await asyncio.gather(*(self._rows_of(node, wanted) for node, wanted in keys.items()))
        return dict(zip(keys, told, strict=True))

    async def _rows_of(self, node: str, keys: list[RowKey]) -> dict[RowKey, Any]:
        rows: dict[RowKey, Any] = {}
        for start in range(0, len(keys), ROWS_AT_ONCE):
            part = QueryPart(ROWS, keys=tuple(keys[start : start + ROWS_AT_ONCE]))
            told = await self._peers.ask(node, self._call.question(part))
            if told is None:
                break
            rows |= _pairs(told)
        return rows


def cluster_list(call: ApiRequest, listed: ObjectList[T]) -> ClusterList[Any]:
    if isinstance(listed.spread, GatheredObjects):
        return GatheredList(call, listed, listed.spread)
    assert listed.spread is not None
    return SharedList(call, listed, listed.spread)


class SharedList(ClusterList[T]):
    """Things that every node knows."""

    def __init__(self, call: ApiRequest, listed: ObjectList[T], spread: SharedObjects[T]) -> None:
        super().__init__(call)
        self._listed = listed
        self._spread = spread

    async def items(self, path: str) -> list[T]:
        return self._listed.objects

    def name_of(self, item: T) -> str:
        return self._listed.name_of(item)

    async def values(self, items: list[T], path: str) -> list[Any]:
        if path.partition(".")[0] in self._spread.known:
            value_of = self._known_value(path)
        else:
            value_of = self._told_value(path, await self._index(path))
        return [value_of(item) async for chunk in chunks(items) for item in chunk]

    def _known_value(self, path: str) -> Callable[[T], Any]:
        """Of what is agreed upon, so that everybody knows it."""
        short = self._listed.columns.get(path)
        if short is not None:
            return short
        here = column_reader(self._listed, path)
        return lambda item: here(item) if self._is_here(item) else value_at(self._spread.stand_in(item), path)

    def _told_value(self, path: str, index: dict[str, dict[RowKey, Any]]) -> Callable[[T], Any]:
        """What the home says, and what everybody else has counted besides."""
        spread = self._spread
        here, shared = column_reader(self._listed, path), planned_column_reader(spread.share, path)

        def value_of(item: T) -> Any:
            home, key = spread.home_of(item), spread.key_of(item)
            if self._is_here(item):
                value = here(item)
            else:
                value = index.get(home, {}).get(key)
                value = added(value_at(spread.stand_in(item), path) if value is None else value, shared(item))
            for node, told in index.items():
                if node != home and key in told:
                    value = added(value, told[key])
            return value

        return value_of

    async def rows(self, items: list[T], wanted: ColumnSelection) -> list[Any]:
        spread = self._spread
        keys = [spread.key_of(item) for item in items]
        told = await self._ask_rows(dict.fromkeys(self._peers.others(), keys))
        build, share = self._listed.plan(wanted), spread.share(wanted)
        rows: list[Any] = []
        async for chunk in chunks(items):
            for item in chunk:
                home, key = spread.home_of(item), spread.key_of(item)
                if self._is_here(item):
                    row = wanted.cut(build(item))
                else:
                    row = told.get(home, {}).get(key)
                    row = added(wanted.cut(spread.stand_in(item)) if row is None else row, wanted.cut(share(item)))
                for node, of_node in told.items():
                    if node != home and key in of_node:
                        row = added(row, of_node[key])
                rows.append(row)
        return rows

    def _is_here(self, item: T) -> bool:
        return self._spread.home_of(item) in (self._peers.own, "")


@dataclass(frozen=True)
class NodeItem:
    """One of something that a node alone knows: which node's, and, if it is this one's, the thing itself."""

    node: str
    key: RowKey
    value: Any
    thing: Any = None


class GatheredList(ClusterList[NodeItem]):
    """Things of which each node knows its own."""

    def __init__(self, call: ApiRequest, listed: ObjectList[T], spread: GatheredObjects[T]) -> None:
        super().__init__(call)
        self._listed: ObjectList[Any] = listed
        self._spread: GatheredObjects[Any] = spread

    async def items(self, path: str) -> list[NodeItem]:
        """By node, so that it is the same list wherever it is asked for."""
        index = await self._index(path)
        items: list[NodeItem] = []
        for node in sorted([*index, self._peers.own]):
            if node != self._peers.own:
                items += [NodeItem(node, key, value) for key, value in index[node].items()]
                continue
            value_of = column_reader(self._listed, path) if path else _empty_row
            async for chunk in chunks(self._listed.objects):
                items += [NodeItem(node, self._spread.key_of(one), value_of(one), one) for one in chunk]
        return items

    def name_of(self, item: NodeItem) -> str:
        return item.key[0]

    async def values(self, items: list[NodeItem], path: str) -> list[Any]:
        return [item.value for item in items]

    async def rows(self, items: list[NodeItem], wanted: ColumnSelection) -> list[Any]:
        keys: dict[str, list[RowKey]] = {}
        for item in items:
            if item.node != self._peers.own:
                keys.setdefault(item.node, []).append(item.key)
        told = await self._ask_rows(keys)
        build = self._listed.plan(wanted)
        rows: list[Any] = []
        async for chunk in chunks(items):
            for item in chunk:
                if item.node == self._peers.own:
                    rows.append(wanted.cut(build(item.thing)))
                elif item.key in told[item.node]:
                    rows.append(told[item.node][item.key])
        return rows


def _empty_row(item: object) -> int:
    return 0


def _pairs(told: PeerReply) -> dict[RowKey, Any]:
    """What a node said; nothing if it refused."""
    return {} if told.status != 200 else {tuple(key): value for key, value in told.document}


async def part_response(part: QueryPart, wanted: ColumnSelection, listed: ObjectList[T], own: str) -> ApiResponse:
    assert listed.spread is not None
    if part.kind == INDEX:
        pairs = await _index(part.column, listed, own)
    else:
        pairs = await _rows(part, wanted, listed, own)
    return ApiResponse(200, to_json(pairs), JSON)


async def _index(path: str, listed: ObjectList[T], own: str) -> list[tuple[object, Any]]:
    spread = listed.spread
    value_of: Callable[[T], Any] = column_reader(listed, path) if path else _no_objects
    if isinstance(spread, GatheredObjects):
        return [(spread.key_of(item), value_of(item)) async for chunk in chunks(listed.objects) for item in chunk]
    assert isinstance(spread, SharedObjects)
    share_of = planned_column_reader(spread.share, path)
    pairs: list[tuple[object, Any]] = []
    async for chunk in chunks(listed.objects):
        for item in chunk:
            if spread.home_of(item) == own:
                pairs.append((spread.key_of(item), value_of(item)))
            elif value := share_of(item):
                pairs.append((spread.key_of(item), value))
    return pairs


def _no_objects(item: object) -> int:
    return 0


async def _rows(part: QueryPart, wanted: ColumnSelection, listed: ObjectList[T], own: str) -> list[tuple[object, Row]]:
    spread = listed.spread
    build = listed.plan(wanted)
    keys = list(part.keys)
    if isinstance(spread, GatheredObjects):
        there = {spread.key_of(item): item for item in listed.objects}
        return [(key, wanted.cut(build(there[key]))) async for some in chunks(keys) for key in some if key in there]
    assert isinstance(spread, SharedObjects)
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
