"""Bytes of many messages side by side: a part is the same for all of them, or a column of Arrow.

Arrow joins columns of bytes row by row without an object for each row, so that a message's frames are put together for
thousands of rows at once. What is the same in all rows stays a plain `bytes` or `int`, and costs nothing.

Invariant: columns have no nulls and are of type `binary` or `int64`; both kinds of part mean the same.

Not here: what the parts are (`spark.sinking.encoding`).
"""

import sys
from array import array
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

Part = bytes | Any
"""`bytes`, or a column of them."""

Number = int | Any
"""An `int`, or a column of them."""

BINARY: Final = pa.binary()
EMPTY: Final = pa.scalar(b"", BINARY)
_INTEGERS: Final = {1: (pa.uint8(), "B"), 2: (pa.uint16(), "H"), 4: (pa.uint32(), "I"), 8: (pa.int64(), "q")}
"""By octets: how Arrow and how an array names such a number."""


def joined(*parts: Part) -> Part:
    """The parts one after another, row by row."""
    merged: list[Part] = []
    for part in parts:
        if isinstance(part, bytes) and merged and isinstance(merged[-1], bytes):
            merged[-1] += part
        elif not isinstance(part, bytes) or part:
            merged.append(part)
    if len(merged) == 1:
        return merged[0]
    if not merged:
        return b""
    return pc.binary_join_element_wise(*(_argument(part) for part in merged), EMPTY)


def length(part: Part) -> Number:
    return len(part) if isinstance(part, bytes) else pc.cast(pc.binary_length(part), pa.int64())


def added(*numbers: Number) -> Number:
    total: Number = 0
    for number in numbers:
        if isinstance(number, int) and isinstance(total, int):
            total += number
        else:
            total = pc.add(total, number)
    return total


def integer(number: Number, size: int) -> Part:
    """A number as so many octets, the highest first."""
    if isinstance(number, int):
        return number.to_bytes(size, "big")
    kind, code = _INTEGERS[size]
    column = pc.cast(number, kind)
    values = array(code, b"")
    values.frombytes(memoryview(column.buffers()[1])[column.offset * size : (column.offset + len(column)) * size])
    if sys.byteorder == "little":
        values.byteswap()
    data = pa.py_buffer(values.tobytes())
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(size), len(column), [None, data]).cast(BINARY)


def short_text(text: Part) -> Part:
    """A string with its length in an octet before it; whoever made it has seen to it that it fits."""
    return joined(integer(length(text), 1), text)


def either(condition: Any, yes: Part, no: Part) -> Part:
    return pc.if_else(condition, _argument(yes), _argument(no))


def all_bytes(column: Any) -> bytes:
    """What a column holds, all rows in one piece."""
    offsets = array("i", b"")
    first = column.offset * 4
    offsets.frombytes(memoryview(column.buffers()[1])[first : first + 4 * (len(column) + 1)])
    values = column.buffers()[2]
    return b"" if values is None else bytes(memoryview(values)[offsets[0] : offsets[-1]])


def _argument(part: Part) -> Any:
    return pa.scalar(part, BINARY) if isinstance(part, bytes) else part
