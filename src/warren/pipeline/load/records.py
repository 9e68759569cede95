"""The records of one range of a file: each as JSON text, or apart if it is none.

| kind       | a record                                               | its place            |
|------------|--------------------------------------------------------|----------------------|
| CSV        | a line, which may go on in quotes; the first has names | number of the record |
| Parquet    | a row                                                  | number of the row    |
| a sheet    | a row below the first, which has the names             | number of the row    |
| JSON lines | a line: an object, taken as it is written              | its byte             |

In a CSV, nothing between two commas is null, and `""` is an empty text.

What is wrong with one record is a `Bad` beside the others. What is wrong with the file (a column that is not there, a
quote that never ends) is a `PipelineError`: nothing of it can be trusted.

Not here: sheets (`load.sheets`), merging (`load.batches`).
"""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from warren.client.batches import json_text
from warren.pipeline.errors import PipelineError
from warren.pipeline.load.batches import Bad, Record
from warren.pipeline.load.columns import column_types, key_text, typed, values_of
from warren.pipeline.load.files import Range, opened, streamed
from warren.pipeline.load.settings import Shape
from warren.pipeline.load.sheets import sheet_rows

CSV_BLOCK_BYTES: Final = 16_000_000
"""A record of a CSV is not longer than that."""

ROWS_AT_ONCE: Final = 8192

Item = Record | Bad


def records(part: Range, shape: Shape) -> Iterator[Item]:
    """All records of a range, in its order; nobody but the caller holds more than a few thousand."""
    try:
        yield from READERS[part.kind](part, shape)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"{part.uri} cannot be read: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    said = str(error).splitlines()[0]
    if "straddl" in said:
        return f"a record has more than {CSV_BLOCK_BYTES} bytes, or a quote in it does not end"
    return said


def _csv(part: Range, shape: Shape) -> Iterator[Item]:
    names = _csv_names(part, shape)
    types = _known_types(part, names, shape)
    skipped: list[Bad] = []

    def skip(row: Any) -> str:
        said = f"has {row.actual_columns} values, and there are {row.expected_columns} columns"
        skipped.append(Bad(row.number or 0, row.text.encode(), said))
        return "skip"

    as_bytes = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.binary()),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
    )
    first = 0
    with streamed(part.uri) as source:
        for batch in csv.open_csv(source, _csv_reading(), _csv_parsing(shape, skip), as_bytes):
            columns: list[list[Any]] = []
            bad: dict[int, str] = {}
            for name, column in zip(names, batch.columns, strict=True):
                values, wrong = _column_of_text(column.to_pylist(), types.get(name))
                columns.append(values)
                bad |= {row: f"{name}: {reason}" for row, reason in wrong.items()}
            yield from _rows(names, columns, first, bad, shape)
            yield from skipped
            skipped.clear()
            first += batch.num_rows
    yield from skipped


def _csv_names(part: Range, shape: Shape) -> list[str]:
    with streamed(part.uri) as source:
        try:
            names = csv.open_csv(source, _csv_reading(), _csv_parsing(shape, lambda _: "skip")).schema.names
        except pa.ArrowInvalid as error:
            if "Empty CSV" in str(error):
                raise PipelineError(f"{part.uri} is empty: its first line names the columns") from None
            raise
    return _checked_names(part, names, shape)


def _csv_reading() -> Any:
    return csv.ReadOptions(block_size=CSV_BLOCK_BYTES, use_threads=False)


def _csv_parsing(shape: Shape, skip: Callable[[Any], str]) -> Any:
    return csv.ParseOptions(delimiter=shape.delimiter, newlines_in_values=True, invalid_row_handler=skip)


def _column_of_text(values: list[bytes | None], kind: Any) -> tuple[list[Any], dict[int, str]]:
    texts: list[str | None] = []
    bad: dict[int, str] = {}
    for row, value in enumerate(values):
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError:
            texts.append(None)
            bad[row] = "is not UTF-8"
    if kind is None:
        return texts, bad
    found, wrong = typed(texts, kind)
    return found, wrong | bad


def _parquet(part: Range, shape: Shape) -> Iterator[Item]:
    with opened(part.uri) as source:
        file = pq.ParquetFile(source)
        names = _checked_names(part, file.schema_arrow.names, shape)
        _without_schema(part, shape)
        first = sum(file.metadata.row_group(group).num_rows for group in range(part.start))
        groups = list(range(part.start, part.end))
        for batch in file.iter_batches(ROWS_AT_ONCE, row_groups=groups, use_threads=False):
            yield from _rows(names, [values_of(column) for column in batch.columns], first, {}, shape)
            first += batch.num_rows


def _sheet(part: Range, shape: Shape) -> Iterator[Item]:
    with opened(part.uri) as source:
        rows = sheet_rows(part.uri, source, shape.sheet)
    names = _checked_names(part, ["" if name is None else str(name) for name in next(rows, [])], shape)
    types = _known_types(part, names, shape)
    first = 0
    while chunk := [row for _, row in zip(range(ROWS_AT_ONCE), rows, strict=False)]:
        columns: list[list[Any]] = []
        bad: dict[int, str] = {}
        for name, values in zip(names, map(list, zip(*chunk, strict=True)), strict=True):
            if name in types:
                texts = [None if value is None else key_text(value) for value in values]
                values, wrong = typed(texts, types[name])
                bad |= {row: f"{name}: {reason}" for row, reason in wrong.items()}
            columns.append(values)
        yield from _rows(names, columns, first, bad, shape)
        first += len(chunk)


def _rows(
    names: Sequence[str], columns: Sequence[Sequence[Any]], first: int, bad: Mapping[int, str], shape: Shape
) -> Iterator[Item]:
    key = shape.key_column
    for number, values in enumerate(zip(*columns, strict=True)):
        row = dict(zip(names, values, strict=True))
        if number in bad:
            yield Bad(first + number, json_text(row), bad[number])
        elif key is None:
            yield Record(first + number, json_text(row))
        elif row[key] is None:
            yield Bad(first + number, json_text(row), f"has no {key}, which is its routing key")
        else:
            yield Record(first + number, json_text(row), key_text(row[key]))


def _json_lines(part: Range, shape: Shape) -> Iterator[Item]:
    _without_schema(part, shape)
    if part.uri.lower().endswith(".gz"):
        with streamed(part.uri) as source:
            yield from _lines(io.BufferedReader(source), 0, None, shape)
        return
    with opened(part.uri) as source:
        # whoever reads the range before has the line that begins there and ends here
        source.seek(max(part.start - 1, 0))
        lines = io.BufferedReader(source)
        place = part.start - 1 + len(lines.readline()) if part.start else 0
        yield from _lines(lines, place, part.end, shape)


def _lines(source: io.BufferedReader, place: int, end: int | None, shape: Shape) -> Iterator[Item]:
    while end is None or place < end:
        line = source.readline()
        if not line:
            return
        text = line.strip()
        if text:
            yield _json_line(place, text, shape.key_column)
        place += len(line)


def _json_line(place: int, text: bytes, key: str | None) -> Item:
    try:
        found = orjson.loads(text)
    except ValueError as error:
        return Bad(place, text, f"is not JSON: {error}")
    if not isinstance(found, dict):
        return Bad(place, text, "is no JSON object")
    if key is None:
        return Record(place, text)
    value = found.get(key)
    if value is None or isinstance(value, dict | list):
        return Bad(place, text, f"has no {key}, which is its routing key")
    return Record(place, text, key_text(value))


def _checked_names(part: Range, names: Sequence[str], shape: Shape) -> list[str]:
    if not names:
        raise PipelineError(f"{part.uri} has no columns: its first line names them")
    for name in names:
        if not name.strip() or names.count(name) > 1:
            raise PipelineError(f"{part.uri} has a column without a name, or two of one name: {name!r}")
    if shape.key_column is not None and shape.key_column not in names:
        raise PipelineError(f"{part.uri} has no column {shape.key_column!r}, which is the routing key")
    return list(names)


def _known_types(part: Range, names: Sequence[str], shape: Shape) -> dict[str, Any]:
    types = column_types(shape.schema)
    missing = [name for name in types if name not in names]
    if missing:
        raise PipelineError(f"{part.uri} has no column {missing[0]!r}, which the schema names")
    return types


def _without_schema(part: Range, shape: Shape) -> None:
    if shape.schema:
        raise PipelineError(f"{part.uri} says itself what types it has: a schema is for CSV and spreadsheets")


READERS: Final[Mapping[str, Callable[[Range, Shape], Iterator[Item]]]] = {
    "csv": _csv,
    "parquet": _parquet,
    "sheet": _sheet,
    "jsonl": _json_lines,
}
