"""Columns of text that become typed, and values that become routing keys.

A schema is what Spark calls DDL, of simple types: `id bigint, amount decimal(12, 2), day date`. What is text in a file
(all of a CSV, cells of a spreadsheet) becomes what the schema says; a value that does not is found by its row.

Not here: files (`load.records`), rows as JSON (`client.batches`).
"""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from warren.client.batches import plain_text
from warren.pipeline.errors import PipelineError

SIMPLE: Final[Mapping[str, Any]] = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
DECIMAL: Final = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
COLUMN: Final = re.compile(r"\s*(?:`([^`]+)`|(\w+))\s*:?\s+([a-z]+(?:\([\d\s,]*\))?)\s*", re.IGNORECASE)
DECIMAL_DIGITS_MAX: Final = 38


def column_types(schema: str) -> dict[str, Any]:
    """The types of Arrow by the names of columns; a `PipelineError` if that is no schema."""
    types: dict[str, Any] = {}
    for part in re.split(r",(?![^(]*\))", schema) if schema.strip() else []:
        found = COLUMN.fullmatch(part)
        if found is None:
            raise PipelineError(f"the schema is NAME TYPE, NAME TYPE …, not {part.strip()!r}")
        name = found[1] or found[2]
        if name in types:
            raise PipelineError(f"the schema names column {name} twice")
        types[name] = _type(found[3].lower())
    return types


def _type(name: str) -> Any:
    if name in SIMPLE:
        return SIMPLE[name]
    found = DECIMAL.fullmatch(name)
    if found is not None and 0 < int(found[1]) <= DECIMAL_DIGITS_MAX and int(found[2]) <= int(found[1]):
        return pa.decimal128(int(found[1]), int(found[2]))
    raise PipelineError(f"the schema has no type {name!r}: {', '.join(SIMPLE)} and decimal(P, S) are there")


def typed(texts: Sequence[str | None], kind: Any) -> tuple[list[Any], dict[int, str]]:
    """Text as values, and why not, by row, where it is none."""
    try:
        return _cast(texts, kind), {}
    except pa.ArrowException:
        values: list[Any] = []
        bad: dict[int, str] = {}
        for row, text in enumerate(texts):
            try:
                values += _cast([text], kind)
            except pa.ArrowException:
                values.append(None)
                bad[row] = f"{text!r} is no {_spoken(kind)}"
        return values, bad


def _cast(texts: Sequence[str | None], kind: Any) -> list[Any]:
    array = pa.array(texts, pa.string())
    values: list[Any]
    if pa.types.is_timestamp(kind):
        try:
            values = pc.cast(array, kind).to_pylist()
        except pa.ArrowException:
            # a time without a zone stays one
            values = pc.cast(array, pa.timestamp("us")).to_pylist()
    else:
        values = pc.cast(array, kind).to_pylist()
    return values


def _spoken(kind: Any) -> str:
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    return next(name for name, each in SIMPLE.items() if each == kind)


def values_of(column: Any) -> list[Any]:
    """A column of Arrow as Python has it; what Python has no type for, as text."""
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        zone = "Z" if kind.tz is not None else ""
        utc = column if kind.tz is None else column.cast(pa.timestamp("ns", tz="UTC"))
        values: list[Any] = pc.strftime(utc, format=f"%Y-%m-%dT%H:%M:%S{zone}").to_pylist()
    else:
        values = column.to_pylist(maps_as_pydicts="strict")
    return values


def key_text(value: Any) -> str:
    """A value as a routing key."""
    if isinstance(value, bool):
        return "true" if value else "false"
    plain = plain_text(value) if isinstance(value, Decimal | bytes | timedelta) else value
    return plain.isoformat() if hasattr(plain, "isoformat") else str(plain)
