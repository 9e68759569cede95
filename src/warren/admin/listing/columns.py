"""Column selection (`columns=name,message_stats.publish_details.rate`) and the order of values.

A path goes through objects. In a list it goes through every member; at a plain value before its end it stops and
selects the value. A row without any selected field is an empty list, as in RabbitMQ. Row builders ask a
`ColumnSelection` which parts they can skip.

Values of mixed types sort in Erlang's order of terms, as in RabbitMQ: numbers, then null, false and true, then objects
and lists, then texts.

Not here: rows (`admin.resources`).
"""

from heapq import nsmallest
from typing import Any

_Tree = dict[str, "_Tree"]


class ColumnSelection:
    """Some fields of a row, or all."""

    def __init__(self, paths: list[str] | None) -> None:
        """No paths select everything."""
        self._tree: _Tree | None = None if paths is None else _tree(paths)

    def __contains__(self, name: object) -> bool:
        """Whether this field, or a part of it, is selected."""
        return self._tree is None or name in self._tree

    def any_of(self, *names: str) -> bool:
        return self._tree is None or any(name in self._tree for name in names)

    def cut(self, row: dict[str, Any]) -> Any:
        """The selected part of a row."""
        if self._tree is None:
            return row
        return _cut(row, self._tree) if self._tree else []


ALL_COLUMNS = ColumnSelection(None)


def selected_columns(query: dict[str, str]) -> ColumnSelection:
    """The columns that a request selects."""
    columns = query.get("columns")
    return ALL_COLUMNS if columns is None else ColumnSelection([path for path in columns.split(",") if path])


def value_at(row: Any, names: list[str]) -> Any:
    """The value at a path in a row; 0 if there is none. The path is split before, once for all rows."""
    for name in names:
        if not isinstance(row, dict) or name not in row:
            return 0
        row = row[name]
    return row


def _tree(paths: list[str]) -> _Tree:
    """The paths as a tree. A short path selects the whole field, so short paths go first."""
    tree: _Tree = {}
    for names in sorted((path.split(".") for path in paths), key=len):
        branch, is_new = tree, False
        for name in names:
            if not branch and branch is not tree and not is_new:
                # a shorter path selects all of this
                break
            is_new = name not in branch
            branch = branch.setdefault(name, {})
    return tree


def _cut(value: Any, tree: _Tree) -> Any:
    if not tree:
        return value
    if isinstance(value, dict):
        # a request may name many more columns than a row has
        names = tree if len(tree) <= len(value) else value
        return {name: _cut(value[name], tree[name]) for name in names if name in tree and name in value} or []
    if isinstance(value, list):
        return [_cut(item, tree) for item in value]
    return value


SortKey = tuple[int, Any]


SORTED_MEMBERS_MAX = 10
SORTED_NESTED_MAX = 3


def sort_key(value: Any, nested_max: int = SORTED_NESTED_MAX) -> SortKey:
    """A key that makes values of any types comparable. Of objects and lists, which clients can make large, the first
    members count."""
    if isinstance(value, bool):
        return (1, "true" if value else "false")
    if isinstance(value, int | float):
        return (0, value)
    if value is None:
        return (1, "null")
    if isinstance(value, str):
        return (3, value)
    if not nested_max:
        return (2, [])
    if isinstance(value, dict):
        first = nsmallest(SORTED_MEMBERS_MAX, value)
        return (2, [(3, [(3, name), sort_key(value[name], nested_max - 1)]) for name in first])
    return (2, [sort_key(item, nested_max - 1) for item in value[:SORTED_MEMBERS_MAX]])
