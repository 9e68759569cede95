"""The headers of rows as octets of a field table.

Entries of all maps are encoded together, as columns, and then gathered row by row. A header that the sink sets itself,
or that says where a message was read, is left out: what was read with it can be written as it is.

Invariant: a name or a row that does not fit is a `ValueError`.

Not here: the table round them (`spark.sinking.encoding`).
"""

import struct
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from warren.spark.sinking.parts import BINARY, Part, either, integer, joined, length, short_text

RESERVED: Final = (
    "x-warren-publisher",
    "x-warren-publishing-id",
    "x-warren-position",
    "x-stream-offset",
    "x-stream-partition",
)


def header_fields(maps: Any) -> Part:
    """For each row its entries, as they stand in a table behind its length."""
    if maps is None or len(maps) == 0 or maps.null_count == len(maps):
        return b""
    present = maps.is_valid()
    # rows that are null may have entries in the buffers, and a slice has those of its neighbours
    dense = pc.take(maps, pa.array(range(len(maps)), pa.int32()))
    keys, values = dense.keys, dense.items
    entries = _entries(keys, values)
    offsets = dense.offsets
    rows = pa.ListArray.from_arrays(offsets, entries.slice(0, len(entries)))
    return pc.if_else(present, pc.binary_join(rows, pa.scalar(b"", BINARY)), pa.scalar(b"", BINARY))


def _entries(keys: Any, values: Any) -> Any:
    names = keys.cast(BINARY)
    if len(names) == 0:
        return pa.array([], BINARY)
    if pc.max(pc.binary_length(names)).as_py() > 128:
        raise ValueError("the name of a header has more than 128 bytes")
    entries = joined(short_text(names), _values(values))
    if values.null_count:
        entries = either(values.is_valid(), entries, b"")
    return either(pc.is_in(keys, pa.array(RESERVED, keys.type)), b"", entries)


def _values(values: Any) -> Part:
    """Kind and value; what is null is left out by the caller."""
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = values.fill_null("").cast(BINARY)
        return joined(b"S", integer(length(text), 4), text)
    if pa.types.is_boolean(kind):
        return joined(b"t", integer(values.fill_null(False), 1))
    if pa.types.is_integer(kind):
        return joined(b"l", integer(values.fill_null(0).cast(pa.int64()), 8))
    if pa.types.is_floating(kind):
        numbers = values.fill_null(0.0).cast(pa.float64()).to_pylist()
        return joined(b"d", pa.array([struct.pack(">d", number) for number in numbers], BINARY))
    octets = values.fill_null(b"").cast(BINARY)
    return joined(b"x", integer(length(octets), 4), octets)
