"""Which fields of a row are wanted: `columns=name,message_stats.publish_details.rate`, and the fields sorted by.

A path leads through objects; where it meets a list it goes through every member, and where it meets a plain value
before its end, the value is what it leads to. A row of which nothing is wanted is an empty list, as RabbitMQ has it.

`Wanted` also tells whoever builds rows what need not be built.

Not here: the rows (`admin.views`).

The order of rows: by a column, then by what they are ordered by anyway, in the order of Erlang's terms.

Numbers come before null, false and true, those before objects and lists, and texts last; that is the order in which
RabbitMQ lists columns of mixed kinds.

Not here: getting at the column (`listing.columns`).
"""

from typing import Any

_Tree = dict[str, "_Tree"]


class ColumnSelection:
    """Some fields of a row, or all of them."""

    def __init__(self, paths: list[str] | None) -> None:
        """Without paths everything is wanted."""
        self._tree: _Tree | None = None if paths is None else _tree(paths)

    def __contains__(self, name: object) -> bool:
        """Whether a field of this name, or something in it, is wanted."""
        return self._tree is None or name in self._tree

    def any_of(self, *names: str) -> bool:
        return self._tree is None or any(name in self._tree for name in names)

    def cut(self, row: dict[str, Any]) -> Any:
        """The wanted part of a row."""
        if self._tree is None:
            return row
        return _cut(row, self._tree) if self._tree else []


ALL_COLUMNS = ColumnSelection(None)


def selected_columns(query: dict[str, str]) -> ColumnSelection:
    """What a request asks for."""
    columns = query.get("columns")
    return ALL_COLUMNS if columns is None else ColumnSelection([path for path in columns.split(",") if path])


def value_at(row: Any, path: str) -> Any:
    """What a path leads to in a row; 0 if it leads nowhere, for nothing is less than anything."""
    for name in path.split("."):
        if not isinstance(row, dict) or name not in row:
            return 0
        row = row[name]
    return row


def _tree(paths: list[str]) -> _Tree:
    """Branches by name. One without twigs is wanted whole, whatever else is asked of it: short paths go first."""
    tree: _Tree = {}
    for names in sorted((path.split(".") for path in paths), key=len):
        if not any(_is_whole(tree, names[:length]) for length in range(1, len(names))):
            branch = tree
            for name in names:
                branch = branch.setdefault(name, {})
    return tree


def _is_whole(tree: _Tree, names: list[str]) -> bool:
    for name in names:
        if name not in tree:
            return False
        tree = tree[name]
    return not tree


def _cut(value: Any, tree: _Tree) -> Any:
    if not tree:
        return value
    if isinstance(value, dict):
        return {name: _cut(value[name], twigs) for name, twigs in tree.items() if name in value} or []
    if isinstance(value, list):
        return [_cut(item, tree) for item in value]
    return value


SortKey = tuple[int, Any]


def sort_key(value: Any) -> SortKey:
    """Where a value stands: comparable with the place of any other."""
    if isinstance(value, bool):
        return (1, "true" if value else "false")
    if isinstance(value, int | float):
        return (0, value)
    if value is None:
        return (1, "null")
    if isinstance(value, str):
        return (3, value)
    if isinstance(value, dict):
        return (2, [(3, [(3, name), sort_key(item)]) for name, item in sorted(value.items())])
    return (2, [sort_key(item) for item in value])
