"""Tables of a page: cells as text, numbers to the right, and an end.

A page that lists everything is read by nobody and opened by few browsers, so a table shows the first rows and says how
many there are beyond them: no difference is left out without being counted.

Not here: which rows come first (whoever makes the table sorts).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from warren.pipeline.html.quantities import shown

ROW_LIMIT: Final = 100


@dataclass(frozen=True)
class Table:
    """Rows as they are shown; the first cell of each is its heading. `more` rows are not shown."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    to_the_right: tuple[bool, ...]
    more: int = 0
    nothing: str = "None."
    kind: str = "table"


def table(
    caption: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    total: int | None = None,
    limit: int = ROW_LIMIT,
    nothing: str = "None.",
    right: Sequence[str] = (),
) -> Table:
    """The first `limit` rows; `total` is how many there are in all, if not all of them are given.

    Columns of numbers stand to the right, and those named in `right`.
    """
    given = [tuple(row) for row in rows]
    kept = given[:limit]
    beyond = max(total or 0, len(given)) - len(kept)
    numbers = tuple(
        name in right or (any(row[at] is not None for row in kept) and all(_is_number(row[at]) for row in kept))
        for at, name in enumerate(columns)
    )
    cells = tuple(tuple(shown(value) for value in row) for row in kept)
    return Table(caption, tuple(columns), cells, numbers, beyond, nothing)


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float | Decimal) and not isinstance(value, bool))
