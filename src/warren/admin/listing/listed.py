"""What there is to list: objects in their natural order, how they become rows, and how the list reaches over nodes.

A row costs some dozen microseconds, and there may be many thousands of objects. So of those that are not shown
nothing is built but the column they are ordered by, and a long list is built in slices, between which the node goes
on with its turns. An object that goes meanwhile is shown as it was.

Not here: what a row is (`admin.views`), which objects a visitor may see (the resources), the answer (`listing.rows`).
"""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from warren.admin.cluster.question import Key
from warren.admin.listing.columns import Wanted, value_at
from warren.admin.listing.ordering import place
from warren.admin.pace import Pace

_CHUNK = 64

T = TypeVar("T")
Row = dict[str, Any]
Build = Callable[[T], Row]
Plan = Callable[[Wanted], Build[T]]


@dataclass(frozen=True)
class Shared(Generic[T]):
    """Every node knows all of them; some facts only one knows, its home, and some each counts for itself.

    `home_of` is a node's name, or empty where every node knows all there is to know but its own figures. `share` is how
    to build what this node has counted of something that lives elsewhere; an empty row for nothing. `stand_in` is what
    everybody knows of it: all fields of `known`, by which it can be sorted without asking anybody.
    """

    key_of: Callable[[T], Key]
    find: Callable[[Key], T | None]
    home_of: Callable[[T], str]
    share: Plan[T]
    stand_in: Build[T]
    known: frozenset[str]


@dataclass(frozen=True)
class Gathered(Generic[T]):
    """Each node knows its own alone."""

    key_of: Callable[[T], Key]


@dataclass(frozen=True)
class Listed(Generic[T]):
    """Objects in their natural order, and how they become rows.

    `plan` is asked once how to build the wanted part of any row. `name_of` is what a filter looks at. `columns` has
    short ways to values that are often sorted by; those to what everybody knows go for things that live elsewhere, too.
    `spread` says what other nodes have to do with it; nothing, if None.
    """

    objects: list[T]
    plan: Plan[T]
    name_of: Callable[[T], str]
    columns: Mapping[str, Callable[[T], Any]] = field(default_factory=dict)
    spread: Shared[T] | Gathered[T] | None = None


def whole(build: Build[T]) -> Plan[T]:
    """A plan that always builds the whole row."""
    return lambda wanted: build


def column(listed: Listed[T], path: str) -> Callable[[T], Any]:
    """How to get at a value to sort by."""
    return listed.columns.get(path) or planned_column(listed.plan, path)


def planned_column(plan: Plan[T], path: str) -> Callable[[T], Any]:
    build = plan(Wanted([path]))
    return lambda item: value_at(build(item), path)


def in_order(objects: list[T], values: list[Any]) -> list[T]:
    """The objects by their values; a stable sort keeps the natural order among equals."""
    if not all(type(value) is int or type(value) is float for value in values):
        values = [place(value) for value in values]
    return [objects[at] for at in sorted(range(len(values)), key=values.__getitem__)]


async def chunks(objects: list[T]) -> AsyncIterator[list[T]]:
    """A long list piece by piece; the node goes on when a piece of work has held it up long enough."""
    pace = Pace()
    for start in range(0, len(objects), _CHUNK):
        await pace.rest()
        yield objects[start : start + _CHUNK]
