"""From groups of families to the text of a scrape, piece by piece.

All samples of a family stand together, but values are read an object at a time. So of each group the values of all
objects are read first, as columns; then the columns are written one after the other. What is held is a number for
each sample of the largest group and a label for each object, not the text: 10,000 queues take 3 MB, and their text,
which is many times that, leaves in pieces.

The loop is not held for longer than a slice (`admin.pace`), however much there is to read or to write.

Not here: what there is to show (`metrics.groups`), HTTP (`metrics.resource`).
"""

from collections.abc import AsyncIterator

from warren.admin.metrics.groups import Group
from warren.admin.metrics.scene import Scene
from warren.admin.metrics.text import Value, number
from warren.admin.pace import Pace

STEP_ROWS = 50
PIECE_SAMPLES = 1000


async def scrape(groups: list[Group], scene: Scene) -> AsyncIterator[str]:
    """The document, in pieces."""
    pace = Pace()
    small: list[str] = []
    for group in groups:
        names, columns = await _read(group, scene, pace)
        for family, column in zip(group.families, columns, strict=True):
            small.append(family.head(group.prefix))
            for first in range(0, len(names), PIECE_SAMPLES):
                after = first + PIECE_SAMPLES
                small.append(_samples(group.prefix + family.name, names[first:after], column[first:after]))
                if len(names) >= PIECE_SAMPLES:
                    yield "".join(small)
                    small.clear()
                await pace.rest()
    yield "".join(small)


async def _read(group: Group, scene: Scene, pace: Pace) -> tuple[list[str], list[list[Value]]]:
    names: list[str] = []
    rows: list[list[Value]] = [[] for _ in group.families]
    appends = [column.append for column in rows]
    for at, (name, values) in enumerate(group.rows(scene)):
        names.append(name)
        for append, value in zip(appends, values, strict=True):
            append(value)
        if at % STEP_ROWS == STEP_ROWS - 1:
            await pace.rest()
    return names, rows


def _samples(name: str, names: list[str], column: list[Value]) -> str:
    return "".join([f"{name}{label} {number(value)}\n" for label, value in zip(names, column, strict=True)])
