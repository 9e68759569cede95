"""The settings of a load, checked before anything is read, and the conversion of text columns.

A schema is Spark's DDL with simple types: `id bigint, amount decimal(12, 2), day date`. Text of a file (all of a CSV,
cells of a spreadsheet) is converted to these types; an invalid value is reported by its row.

Not here: files (`load.files`), rows as JSON (`client.batches`).
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from warren.client.batches import BATCH_BYTES_MAX, plain_text
from warren.client.errors import UriError
from warren.client.uri import parse_uri
from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import GLOB, Folder

SIMPLE_TYPES: Final[Mapping[str, Any]] = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
DECIMAL_TYPE: Final = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
COLUMN_DEFINITION: Final = re.compile(r"\s*(?:`([^`]+)`|(\w+))\s*:?\s+([a-z]+(?:\([\d\s,]*\))?)\s*", re.IGNORECASE)
DECIMAL_DIGITS_MAX: Final = 38


def column_types(schema: str) -> dict[str, Any]:
    """Arrow types by column name; a `PipelineError` if the schema is invalid."""
    types: dict[str, Any] = {}
    for part in re.split(r",(?![^(]*\))", schema) if schema.strip() else []:
        found = COLUMN_DEFINITION.fullmatch(part)
        if found is None:
            raise PipelineError(f"the schema is NAME TYPE, NAME TYPE …, not {part.strip()!r}")
        name = found[1] or found[2]
        if name in types:
            raise PipelineError(f"the schema names column {name} twice")
        types[name] = _type(found[3].lower())
    return types


def _type(name: str) -> Any:
    if name in SIMPLE_TYPES:
        return SIMPLE_TYPES[name]
    found = DECIMAL_TYPE.fullmatch(name)
    if found is not None and 0 < int(found[1]) <= DECIMAL_DIGITS_MAX and int(found[2]) <= int(found[1]):
        return pa.decimal128(int(found[1]), int(found[2]))
    raise PipelineError(f"the schema has no type {name!r}: {', '.join(SIMPLE_TYPES)} and decimal(P, S) are there")


def typed(texts: Sequence[str | None], kind: Any) -> tuple[list[Any], dict[int, str]]:
    """The converted values, and by row the reasons for those that cannot be converted."""
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
                bad[row] = f"{text!r} is no {_type_name(kind)}"
        return values, bad


def _cast(texts: Sequence[str | None], kind: Any) -> list[Any]:
    array = pa.array(texts, pa.string())
    values: list[Any]
    if pa.types.is_timestamp(kind):
        try:
            values = pc.cast(array, kind).to_pylist()
        except pa.ArrowException:
            # a time without a zone stays without one
            values = pc.cast(array, pa.timestamp("us")).to_pylist()
    else:
        values = pc.cast(array, kind).to_pylist()
    return values


def _type_name(kind: Any) -> str:
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    return next(name for name, each in SIMPLE_TYPES.items() if each == kind)


def values_of(column: Any) -> list[Any]:
    """An Arrow column as Python values; text where Python has no type."""
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


MESSAGE_BYTES_MIN: Final = 100
NAME_BYTES_MAX: Final = 255
TIMEOUT_S: Final = 60.0


@dataclass(frozen=True)
class Shape:
    """The settings that decide how records become messages: the same shape makes the same messages of a file."""

    exchange: str = ""
    routing_key: str | None = None
    key_column: str | None = None
    max_bytes: int = BATCH_BYTES_MAX
    schema: str = ""
    delimiter: str = ","
    sheet: str = ""

    def described(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class LoadSettings:
    """One load: its files, its state folder, and its destination."""

    files: tuple[str, ...]
    state: Folder
    url: str = field(repr=False)
    shape: Shape = Shape()
    quarantine: bool = False
    timeout_s: float = TIMEOUT_S

    def __post_init__(self) -> None:
        if not self.files:
            raise PipelineError("a load needs files")
        for path in self.files:
            # the staged messages would be loaded as input
            if not GLOB & set(path) and f"{self.state.uri}/".startswith(f"{Folder(path).uri}/"):
                raise PipelineError(f"the state {self.state} is in {path}, which is loaded; keep it elsewhere")
        try:
            parse_uri(self.url)
        except UriError as error:
            raise PipelineError(f"the URL of the broker: {error}") from None
        if not 0 < self.timeout_s <= 86_400:
            raise PipelineError(f"the timeout is a number of seconds up to 86400, not {self.timeout_s}")
        _check(self.shape)


def _check(shape: Shape) -> None:
    if shape.routing_key is not None and shape.key_column is not None:
        raise PipelineError("a routing key and a key column exclude each other: the column is the routing key")
    if not shape.exchange and not shape.routing_key and not shape.key_column:
        raise PipelineError("nothing says where messages go: give an exchange, a routing key or a key column")
    for what, text in (("exchange", shape.exchange), ("routing key", shape.routing_key or "")):
        if len(text.encode()) > NAME_BYTES_MAX:
            raise PipelineError(f"the {what} has more than {NAME_BYTES_MAX} bytes")
    if not MESSAGE_BYTES_MIN <= shape.max_bytes <= BATCH_BYTES_MAX:
        raise PipelineError(
            f"a message has at most {MESSAGE_BYTES_MIN} to {BATCH_BYTES_MAX} bytes, not {shape.max_bytes}"
        )
    if len(shape.delimiter) != 1 or not shape.delimiter.isascii() or shape.delimiter in '"\r\n':
        raise PipelineError(f"the delimiter is one character, not {shape.delimiter!r}")
    column_types(shape.schema)
