"""The columns of a message, as Arrow names their types.

Invariant: they agree field by field with `spark.schema`, which Spark checks of a reader's first batch only.

Not here: what the columns mean (`spark.schema`).
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from warren.spark.schema import COLUMNS, PROPERTIES

_SCALARS: Final[dict[str, pa.DataType]] = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "binary": pa.binary(),
}

PROPERTIES_TYPE: Final = pa.struct([pa.field(name, _SCALARS[kind]) for name, kind in PROPERTIES.items()])
HEADERS_TYPE: Final = pa.map_(pa.string(), pa.string())


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """The same schema as batches have it."""
    return pa.schema([pa.field(name, arrow_type(name)) for name in columns])


def arrow_type(column: str) -> pa.DataType:
    if column == "properties":
        return PROPERTIES_TYPE
    if column == "headers":
        return HEADERS_TYPE
    return _SCALARS[COLUMNS[column]]
