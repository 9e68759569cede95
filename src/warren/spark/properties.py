"""Properties as the wire has them, as the columns `message_id`, `properties` and `headers`.

Messages of one publisher often have the very same headers, so each distinct table is decoded once and rows refer to it.

Invariant: a table that no broker would have let in is decoded to null, and never fails a read.

Not here: the types of the columns (`spark.schema`), finding a property among others (`spark.property_fields`).
"""

import base64
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from warren.client import Timestamp
from warren.errors import ConnectionFault
from warren.spark.arrow_types import HEADERS_TYPE
from warren.spark.property_fields import PropertyFields
from warren.wire.values import Table, decode_table


def property_columns(tails: Any) -> tuple[Any, Any, Any]:
    """Message ids, properties and headers of a column of content headers from their flags on."""
    fields = PropertyFields(tails)
    return fields.text("message_id"), fields.struct(), header_column(fields.tables())


def header_column(tables: Any) -> Any:
    """Headers as text, of a column of tables as the wire has them."""
    if tables.null_count == len(tables):
        return pa.nulls(len(tables), HEADERS_TYPE)
    distinct = pc.dictionary_encode(tables)
    decoded = [_headers(_decoded(table)) for table in distinct.dictionary.to_pylist()]
    return pa.array(decoded, HEADERS_TYPE).take(distinct.indices)


def _decoded(table: bytes) -> Table:
    try:
        return decode_table(table, 0, len(table))
    except ConnectionFault:
        return {}


def _headers(table: Table) -> list[tuple[str, str | None]] | None:
    if not table:
        return None
    return [(_clean(name), header_text(value)) for name, value in table.items()]


def header_text(value: object) -> str | None:
    """A header's value as text."""
    if value is None or isinstance(value, str):
        return value if value is None else _clean(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal):
        return str(value)
    if isinstance(value, Timestamp):
        return str(value.seconds)
    if isinstance(value, bytes):
        return _octets(value)
    return json.dumps(value, default=header_text, ensure_ascii=False, sort_keys=True)


def _octets(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()


def _clean(text: str) -> str:
    """Text that is UTF-8; what came as other bytes is shown as replaced."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
