"""The values of a column of bytes, without a copy of each.

Not here: columns as whole parts of messages (`spark.sinking.parts`).
"""

from array import array
from itertools import pairwise
from typing import Any


def views(column: Any) -> list[memoryview]:
    """Each value of a column of type `binary` that has no nulls."""
    if len(column) == 0:
        return []
    first = column.offset * 4
    ends = array("i", b"")
    ends.frombytes(memoryview(column.buffers()[1])[first : first + 4 * (len(column) + 1)])
    values = column.buffers()[2]
    whole = memoryview(b"" if values is None else values)
    return [whole[start:end] for start, end in pairwise(ends)]
