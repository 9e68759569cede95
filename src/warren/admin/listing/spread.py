"""A list of the whole cluster, put together by the node that is asked.

Theory. A page of a hundred must not cost what ten thousand rows cost. So a list is put together in two steps: what is
on the page, which takes a name and the value it is sorted by; then the rows of those, from whoever knows them.

- Things that every node knows (`Shared`: queues, exchanges, virtual hosts) are filtered and cut here. By what is agreed
  about them they are sorted here, too; by a figure, each node sends its values. A row is the home's, and what
  others have counted of it is added; without the home's, it is what everybody knows.
- Things that a node alone knows (`Gathered`: connections, channels, consumers) are asked for by name first, together
  with the value. What is gone until its row is asked for is not shown.

Nodes are asked at the same time, each for a bounded number of rows at once.

Not here: a node's part of it (`listing.parts`), who is asked (`cluster.peers`).
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from warren.admin.cluster.question import INDEX, ROWS, Key, Part, Told
from warren.admin.cluster.sums import added
from warren.admin.http.call import Call
from warren.admin.listing.columns import Wanted, value_at
from warren.admin.listing.listed import Gathered, Listed, Shared, T, chunks, column, planned_column

ROWS_AT_ONCE = 500

Item = TypeVar("Item")


class SpreadList(ABC, Generic[Item]):
    """What `listing.rows` needs to filter, sort and cut."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._peers = call.station.peers

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
    async def rows(self, items: list[Item], wanted: Wanted) -> list[Any]:
        """The wanted part of each; without those that are no more."""

    async def _index(self, path: str) -> dict[str, dict[Key, Any]]:
        """By node, what each says of the column."""
        told = await self._peers.ask_all(self._call.question(Part(INDEX, path)))
        return {node: _pairs(answer) for node, answer in told.items()}

    async def _ask_rows(self, keys: dict[str, list[Key]]) -> dict[str, dict[Key, Any]]:
        """By node, what each says of the things of these keys."""
        told = await asyncio.gather(*(self._rows_of(node, wanted) for node, wanted in keys.items()))
        return dict(zip(keys, told, strict=True))

    async def _rows_of(self, node: str, keys: list[Key]) -> dict[Key, Any]:
        rows: dict[Key, Any] = {}
        for start in range(0, len(keys), ROWS_AT_ONCE):
            part = Part(ROWS, keys=tuple(keys[start : start + ROWS_AT_ONCE]))
            told = await self._peers.ask(node, self._call.question(part))
            if told is None:
                break
            rows |= _pairs(told)
        return rows


def spread_list(call: Call, listed: Listed[T]) -> SpreadList[Any]:
    if isinstance(listed.spread, Gathered):
        return GatheredList(call, listed, listed.spread)
    assert listed.spread is not None
    return SharedList(call, listed, listed.spread)


class SharedList(SpreadList[T]):
    """Things that every node knows."""

    def __init__(self, call: Call, listed: Listed[T], spread: Shared[T]) -> None:
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
        here = column(self._listed, path)
        return lambda item: here(item) if self._is_here(item) else value_at(self._spread.stand_in(item), path)

    def _told_value(self, path: str, index: dict[str, dict[Key, Any]]) -> Callable[[T], Any]:
        """What the home says, and what everybody else has counted besides."""
        spread = self._spread
        here, shared = column(self._listed, path), planned_column(spread.share, path)

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

    async def rows(self, items: list[T], wanted: Wanted) -> list[Any]:
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
class Placed:
    """One of something that a node alone knows: which node's, and, if it is this one's, the thing itself."""

    node: str
    key: Key
    value: Any
    thing: Any = None


class GatheredList(SpreadList[Placed]):
    """Things of which each node knows its own."""

    def __init__(self, call: Call, listed: Listed[T], spread: Gathered[T]) -> None:
        super().__init__(call)
        self._listed: Listed[Any] = listed
        self._spread: Gathered[Any] = spread

    async def items(self, path: str) -> list[Placed]:
        """By node, so that it is the same list wherever it is asked for."""
        index = await self._index(path)
        items: list[Placed] = []
        for node in sorted([*index, self._peers.own]):
            if node != self._peers.own:
                items += [Placed(node, key, value) for key, value in index[node].items()]
                continue
            value_of = column(self._listed, path) if path else _nothing
            async for chunk in chunks(self._listed.objects):
                items += [Placed(node, self._spread.key_of(one), value_of(one), one) for one in chunk]
        return items

    def name_of(self, item: Placed) -> str:
        return item.key[0]

    async def values(self, items: list[Placed], path: str) -> list[Any]:
        return [item.value for item in items]

    async def rows(self, items: list[Placed], wanted: Wanted) -> list[Any]:
        keys: dict[str, list[Key]] = {}
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


def _nothing(item: object) -> int:
    return 0


def _pairs(told: Told) -> dict[Key, Any]:
    """What a node said; nothing if it refused."""
    return {} if told.status != 200 else {tuple(key): value for key, value in told.document}
