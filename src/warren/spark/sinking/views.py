"""The values of a column of bytes one by one: without a copy of each, or, where they are short, with one.

Not here: columns as whole parts of messages (`spark.sinking.parts`).
"""

from array import array
from itertools import pairwise
from typing import Any


def views(column: Any) -> list[memoryview]:
    """Each value of a column of type `binary` that has no nulls."""
    values = column.buffers()[2]
    whole = memoryview(b"" if values is None else values)
    return [whole[start:end] for start, end in pairwise(_ends(column))]


def copies(column: Any) -> list[bytes]:
    """The same as bytes of their own, with which C does more quickly whatever is done."""
    ends = _ends(column)
    values = column.buffers()[2]
    if values is None or not ends:
        return [b""] * len(column)
    first = ends[0]
    whole = bytes(memoryview(values)[first : ends[-1]])
    return [whole[start - first : end - first] for start, end in pairwise(ends)]


def _ends(column: Any) -> "array[int]":
    """Where each begins, and the last one ends."""
    ends = array("i", b"")
    if len(column):
        first = column.offset * 4
        ends.frombytes(memoryview(column.buffers()[1])[first : first + 4 * (len(column) + 1)])
    return ends
