"""Lists of objects: how objects become rows, and how a list covers all nodes of a cluster.

A row takes tens of microseconds and there may be many thousands of objects. So of objects that are not shown only the
sort column is built, and lists are built row by row, in slices between which the node continues with its turns. An
object that is deleted meanwhile is shown as it was.

Theory. A page of a hundred rows must not cost as much as ten thousand. So the node that was asked builds a list in two
steps: first the objects on the page, which takes their names and sort values; then the rows of these objects.

- Objects known to every node (`SharedObjects`: queues, exchanges, virtual hosts) are filtered and paged here. By agreed
  fields they are sorted here too; to sort by a statistic, each node sends its values. A row comes from the object's
  home node, and other nodes' counters are added. Without the home node, the row has the agreed fields only.
- Objects known to one node (`GatheredObjects`: connections, channels, consumers): nodes first send keys and sort
  values. An object that is gone when its row is requested is left out.

Nodes are asked in parallel, each for a bounded number of rows at a time. A node's part of a list is an index (pairs of
key and value; objects without a value are left out) or rows (pairs of key and row).

Not here: rows (`admin.resources`), responses (`listing.responses`), sending questions (`admin.peers`).
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import JSON, ApiResponse, to_json
from warren.admin.listing.columns import ColumnSelection, sort_key, value_at
from warren.admin.message_stats import added
from warren.admin.peers import INDEX, ROWS, PeerReply, QueryPart, RowKey
from warren.admin.time_slices import TimeSlicer

_PIECE_ROWS = 64
_PIECE_BYTES = 64 * 1024

T = TypeVar("T")
Row = dict[str, Any]
RowBuilder = Callable[[T], Row]
RowPlan = Callable[[ColumnSelection], RowBuilder[T]]


@dataclass(frozen=True)
class SharedObjects(Generic[T]):
    """Objects that every node knows. Some fields only the home node knows, and each node has its own counters.

    `home_of` is the name of the home node, or empty if there is none. `share` builds this node's counters for an object
    that lives elsewhere; an empty row means none. `agreed_row` builds the fields in `known`, which every node has and
    can sort by.
    """

    key_of: Callable[[T], RowKey]
    find: Callable[[RowKey], T | None]
    home_of: Callable[[T], str]
    share: RowPlan[T]
    agreed_row: RowBuilder[T]
    known: frozenset[str]


@dataclass(frozen=True)
class GatheredObjects(Generic[T]):
    """Objects that only their own node knows."""

    key_of: Callable[[T], RowKey]


@dataclass(frozen=True)
class ObjectList(Generic[T]):
    """Objects in natural order, and how they become rows.

    `plan` is called once and returns the builder for the selected columns. `name_of` gives the name that filters see.
    `columns` has fast readers for common sort columns. `spread` says how the list covers other nodes; None: not at all.
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
    """How to read the sort column."""
    return listed.columns.get(path) or planned_column_reader(listed.plan, path)


def planned_column_reader(plan: RowPlan[T], path: str) -> Callable[[T], Any]:
    build, names = plan(ColumnSelection([path])), path.split(".")
    return lambda item: value_at(build(item), names)


async def sorted_by(objects: list[T], values: list[Any]) -> list[T]:
    """The objects sorted by their values; the sort is stable."""
    if not all(type(value) is int or type(value) is float for value in values):
        values = [sort_key(value) async for value in in_slices(values)]
    return [objects[at] for at in sorted(range(len(values)), key=values.__getitem__)]


async def in_slices(objects: Iterable[T]) -> AsyncIterator[T]:
    """Each object; between them the node continues with its turns. One row may be large, and a thousand are many."""
    pace = TimeSlicer()
    for item in objects:
        await pace.rest()
        yield item


async def json_pieces(rows: AsyncIterable[Any]) -> AsyncIterator[bytes]:
    """Rows as JSON, without the enclosing brackets. Each row is encoded for itself."""
    piece: list[bytes] = []
    size_bytes = 0
    async for row in rows:
        piece.append(to_json(row))
        size_bytes += len(piece[-1])
        if len(piece) == _PIECE_ROWS or size_bytes >= _PIECE_BYTES:
            yield b",".join(piece)
            piece, size_bytes = [], 0
    if piece:
        yield b",".join(piece)


ROWS_AT_ONCE = 500

Item = TypeVar("Item")


class ClusterList(ABC, Generic[Item]):
    """What `listing.responses` needs to filter, sort and page."""

    def __init__(self, call: ApiRequest) -> None:
        self._call = call
        self._peers = call.context.peers

    @abstractmethod
    async def items(self, path: str) -> list[Item]:
        """All objects in natural order; `path` is the sort column, if any."""

    @abstractmethod
    def name_of(self, item: Item) -> str:
        """The name that filters see."""

    @abstractmethod
    async def values(self, items: list[Item], path: str) -> list[Any]:
        """The values of the sort column."""

    @abstractmethod
    async def rows(self, items: list[Item], wanted: ColumnSelection) -> list[Any]:
        """The selected columns of each object; objects that are gone are left out."""

    async def _index(self, path: str) -> dict[str, dict[RowKey, Any]]:
        """Each node's index of the column."""
        replies = await self._peers.ask_all(self._call.peer_query(QueryPart(INDEX, path)))
        return {node: _pairs(answer) for node, answer in replies.items()}

    async def _ask_rows(self, keys: dict[str, list[RowKey]]) -> dict[str, dict[RowKey, Any]]:
        """Each node's rows for these keys."""
        replies = await asyncio.gather(*(self._rows_of(node, wanted) for node, wanted in keys.items()))
        return dict(zip(keys, replies, strict=True))

    async def _rows_of(self, node: str, keys: list[RowKey]) -> dict[RowKey, Any]:
        rows: dict[RowKey, Any] = {}
        for start in range(0, len(keys), ROWS_AT_ONCE):
            part = QueryPart(ROWS, keys=tuple(keys[start : start + ROWS_AT_ONCE]))
            reply = await self._peers.ask(node, self._call.peer_query(part))
            if reply is None:
                break
            rows |= _pairs(reply)
        return rows


def cluster_list(call: ApiRequest, listed: ObjectList[T]) -> ClusterList[Any]:
    if isinstance(listed.spread, GatheredObjects):
        return GatheredList(call, listed, listed.spread)
    assert listed.spread is not None
    return SharedList(call, listed, listed.spread)


class SharedList(ClusterList[T]):
    """Objects that every node knows."""

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
            value_of = self._agreed_value(path)
        else:
            value_of = self._gathered_value(path, await self._index(path))
        return [value_of(item) async for item in in_slices(items)]

    def _agreed_value(self, path: str) -> Callable[[T], Any]:
        """How to read an agreed field."""
        short = self._listed.columns.get(path)
        if short is not None:
            return short
        here, names = column_reader(self._listed, path), path.split(".")
        return lambda item: here(item) if self._is_here(item) else value_at(self._spread.agreed_row(item), names)

    def _gathered_value(self, path: str, index: dict[str, dict[RowKey, Any]]) -> Callable[[T], Any]:
        """The home node's value plus the other nodes' counters."""
        spread = self._spread
        here, shared = column_reader(self._listed, path), planned_column_reader(spread.share, path)
        names = path.split(".")

        def value_of(item: T) -> Any:
            home, key = spread.home_of(item), spread.key_of(item)
            if self._is_here(item):
                value = here(item)
            else:
                value = index.get(home, {}).get(key)
                value = added(value_at(spread.agreed_row(item), names) if value is None else value, shared(item))
            for node, replies in index.items():
                if node != home and key in replies:
                    value = added(value, replies[key])
            return value

        return value_of

    async def rows(self, items: list[T], wanted: ColumnSelection) -> list[Any]:
        spread = self._spread
        keys = [spread.key_of(item) for item in items]
        replies = await self._ask_rows(dict.fromkeys(self._peers.others(), keys))
        build, share = self._listed.plan(wanted), spread.share(wanted)
        rows: list[Any] = []
        async for item in in_slices(items):
            home, key = spread.home_of(item), spread.key_of(item)
            if self._is_here(item):
                row = wanted.cut(build(item))
            else:
                row = replies.get(home, {}).get(key)
                row = added(wanted.cut(spread.agreed_row(item)) if row is None else row, wanted.cut(share(item)))
            for node, of_node in replies.items():
                if node != home and key in of_node:
                    row = added(row, of_node[key])
            rows.append(row)
        return rows

    def _is_here(self, item: T) -> bool:
        return self._spread.home_of(item) in (self._peers.own, "")


@dataclass(frozen=True)
class NodeItem:
    """An object of one node; the object itself if the node is this one."""

    node: str
    key: RowKey
    value: Any
    thing: Any = None


class GatheredList(ClusterList[NodeItem]):
    """Objects that only their own node knows."""

    def __init__(self, call: ApiRequest, listed: ObjectList[T], spread: GatheredObjects[T]) -> None:
        super().__init__(call)
        self._listed: ObjectList[Any] = listed
        self._spread: GatheredObjects[Any] = spread

    async def items(self, path: str) -> list[NodeItem]:
        """Sorted by node, so that every node returns the same list."""
        index = await self._index(path)
        items: list[NodeItem] = []
        for node in sorted([*index, self._peers.own]):
            if node != self._peers.own:
                items += [NodeItem(node, key, value) for key, value in index[node].items()]
                continue
            value_of = column_reader(self._listed, path) if path else _empty_row
            async for one in in_slices(self._listed.objects):
                items.append(NodeItem(node, self._spread.key_of(one), value_of(one), one))
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
        replies = await self._ask_rows(keys)
        build = self._listed.plan(wanted)
        rows: list[Any] = []
        async for item in in_slices(items):
            if item.node == self._peers.own:
                rows.append(wanted.cut(build(item.thing)))
            elif item.key in replies[item.node]:
                rows.append(replies[item.node][item.key])
        return rows


def _empty_row(item: object) -> int:
    return 0


def _pairs(reply: PeerReply) -> dict[RowKey, Any]:
    """The pairs that a node sent; none if it refused."""
    return {} if reply.status != 200 else {tuple(key): value for key, value in reply.document}


async def part_response(part: QueryPart, wanted: ColumnSelection, listed: ObjectList[T], own: str) -> ApiResponse:
    assert listed.spread is not None
    if part.kind == INDEX:
        pairs: list[tuple[object, Any]] = await _index(part.column, listed, own)
    else:
        pairs = await _rows(part, wanted, listed, own)
    pieces = [piece async for piece in json_pieces(in_slices(pairs))]
    return ApiResponse(200, b"[" + b",".join(pieces) + b"]", JSON)


async def _index(path: str, listed: ObjectList[T], own: str) -> list[tuple[object, Any]]:
    spread = listed.spread
    value_of: Callable[[T], Any] = column_reader(listed, path) if path else _no_objects
    if isinstance(spread, GatheredObjects):
        return [(spread.key_of(item), value_of(item)) async for item in in_slices(listed.objects)]
    assert isinstance(spread, SharedObjects)
    share_of = planned_column_reader(spread.share, path)
    pairs: list[tuple[object, Any]] = []
    async for item in in_slices(listed.objects):
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
        return [(key, wanted.cut(build(there[key]))) async for key in in_slices(keys) if key in there]
    assert isinstance(spread, SharedObjects)
    share = spread.share(wanted)
    pairs: list[tuple[object, Row]] = []
    async for key in in_slices(keys):
        item = spread.find(key)
        if item is None:
            continue
        row = build(item) if spread.home_of(item) == own else share(item)
        if row:
            pairs.append((key, wanted.cut(row)))
    return pairs
