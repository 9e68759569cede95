"""The records of one range of a file, and their merging into messages.

| kind       | a record                                               | its place            |
|------------|--------------------------------------------------------|----------------------|
| CSV        | a line, which may continue in quotes; first the names  | number of the record |
| Parquet    | a row                                                  | number of the row    |
| a sheet    | a row below the first, which has the names             | number of the row    |
| JSON lines | a line: an object, copied as written                   | its byte             |

In a CSV, nothing between two commas is null, and `""` is an empty text. A spreadsheet has one kind of number; one
without a fraction becomes an integer, and an empty cell is null.

A fault of one record is a `BadRecord` beside the others. A fault of the file (a missing column, a quote that never
ends) is a `PipelineError`: nothing of it can be trusted.

A message has records of one routing key and one range. Its id is a digest of the file, the place of its first record,
its key and its body: the same whenever the range is read, and different for the same records elsewhere. No body is
longer than `max_bytes`; every added record is in exactly one message, or was refused.

Not here: the form of a batch (`client.batches`), the parts in which messages are published (`load.source`).
"""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv
from python_calamine import CalamineError, CalamineWorkbook, PasswordError, WorksheetNotFound

from warren.client.batches import BRACKETS_BYTES, BatchBody, json_text
from warren.pipeline.errors import PipelineError
from warren.pipeline.load.files import FileRange, open_file, open_stream
from warren.pipeline.load.settings import Shape, column_types, key_text, typed, values_of

BUFFERED_BYTES_MAX: Final = 64_000_000
"""The limit of buffered records over all keys."""

ID_CHARACTERS: Final = 32
KEY_BYTES_MAX: Final = 255


class Record(NamedTuple):
    """A record as JSON text, with its place in the file, and its routing key if records have their own."""

    place: int
    text: bytes
    key: str | None = None


class BadRecord(NamedTuple):
    """The text of a record that cannot be loaded, and the reason."""

    place: int
    text: bytes
    reason: str


class LoadMessage(NamedTuple):
    """Merged records."""

    id: str
    first: int
    records: int
    key: str | None
    body: bytes


@dataclass
class _Buffer:
    first: int
    body: BatchBody


class RecordPacker:
    """Merges the records of one range."""

    def __init__(self, file: str, max_bytes: int) -> None:
        self._file = file
        self._max_bytes = max_bytes
        self._buffers: dict[str | None, _Buffer] = {}
        self._buffered = 0

    def add(self, record: Record) -> Iterator[LoadMessage | BadRecord]:
        """The messages that this record completes, or why it is refused."""
        buffer = self._buffers.get(record.key)
        body = BatchBody(self._max_bytes) if buffer is None else buffer.body
        reason = body.refusal(record.text) or _key_refusal(record.key)
        if reason:
            yield BadRecord(record.place, record.text, reason)
            return
        if not body.takes(record.text):
            yield self._complete(record.key)
            body = BatchBody(self._max_bytes)
        if not body.records:
            self._buffers[record.key] = _Buffer(record.place, body)
        self._buffered += body.add(record.text)
        if self._buffered > BUFFERED_BYTES_MAX:
            yield self._complete(max(self._buffers, key=lambda key: self._buffers[key].body.size))

    def finish(self) -> Iterator[LoadMessage]:
        """The remaining messages."""
        for key in list(self._buffers):
            yield self._complete(key)

    def _complete(self, key: str | None) -> LoadMessage:
        buffer = self._buffers.pop(key)
        self._buffered -= buffer.body.size - BRACKETS_BYTES
        body = buffer.body.text()
        origin = f"{self._file}\0{buffer.first}\0{'' if key is None else key}\0".encode()
        digest = sha256(origin + body).hexdigest()[:ID_CHARACTERS]
        return LoadMessage(digest, buffer.first, buffer.body.records, key, body)


def _key_refusal(key: str | None) -> str:
    too_long = key is not None and len(key.encode()) > KEY_BYTES_MAX
    return f"its routing key has more than {KEY_BYTES_MAX} bytes" if too_long else ""


EXACT_MAX: Final = 2.0**53


def sheet_rows(uri: str, source: Any, sheet: str) -> Iterator[list[Any]]:
    """The rows of a sheet, by default the first, that are not empty; all have the same width."""
    try:
        book = CalamineWorkbook.from_filelike(source)
        found = book.get_sheet_by_name(sheet) if sheet else book.get_sheet_by_index(0)
        rows = found.to_python()
    except WorksheetNotFound:
        raise PipelineError(f"{uri} has no sheet {sheet!r}: {', '.join(book.sheet_names)} are there") from None
    except PasswordError:
        raise PipelineError(f"{uri} is protected by a password") from None
    except CalamineError as error:
        raise PipelineError(f"{uri} is no spreadsheet: {str(error).splitlines()[0]}") from None
    values = ([_cell_value(cell) for cell in row] for row in rows)
    return (row for row in values if any(value is not None for value in row))


def _cell_value(cell: Any) -> Any:
    if cell == "":
        return None
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < EXACT_MAX:
        return int(cell)
    return cell


CSV_BLOCK_BYTES: Final = 16_000_000
"""The size limit of a CSV record."""

ROWS_AT_ONCE: Final = 8192

RecordOrBad = Record | BadRecord


def records(part: FileRange, shape: Shape) -> Iterator[RecordOrBad]:
    """All records of a range, in order; few of them are in memory at a time."""
    try:
        yield from READERS[part.kind](part, shape)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"{part.uri} cannot be read: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    said = str(error).splitlines()[0]
    if "straddl" in said:
        return f"a record has more than {CSV_BLOCK_BYTES} bytes, or a quote in it does not end"
    return said


def _csv(part: FileRange, shape: Shape) -> Iterator[RecordOrBad]:
    names = _csv_names(part, shape)
    types = _known_types(part, names, shape)
    skipped: list[BadRecord] = []

    def skip(row: Any) -> str:
        said = f"has {row.actual_columns} values, and there are {row.expected_columns} columns"
        skipped.append(BadRecord(row.number or 0, row.text.encode(), said))
        return "skip"

    as_bytes = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.binary()),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
    )
    first = 0
    with open_stream(part.uri) as source:
        for batch in csv.open_csv(source, _csv_read_options(), _csv_parse_options(shape, skip), as_bytes):
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


def _csv_names(part: FileRange, shape: Shape) -> list[str]:
    with open_stream(part.uri) as source:
        try:
            names = csv.open_csv(source, _csv_read_options(), _csv_parse_options(shape, lambda _: "skip")).schema.names
        except pa.ArrowInvalid as error:
            if "Empty CSV" in str(error):
                raise PipelineError(f"{part.uri} is empty: its first line names the columns") from None
            raise
    return _checked_names(part, names, shape)


def _csv_read_options() -> Any:
    return csv.ReadOptions(block_size=CSV_BLOCK_BYTES, use_threads=False)


def _csv_parse_options(shape: Shape, skip: Callable[[Any], str]) -> Any:
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


def _parquet(part: FileRange, shape: Shape) -> Iterator[RecordOrBad]:
    with open_file(part.uri) as source:
        file = pq.ParquetFile(source)
        names = _checked_names(part, file.schema_arrow.names, shape)
        _without_schema(part, shape)
        first = sum(file.metadata.row_group(group).num_rows for group in range(part.start))
        groups = list(range(part.start, part.end))
        for batch in file.iter_batches(ROWS_AT_ONCE, row_groups=groups, use_threads=False):
            yield from _rows(names, [values_of(column) for column in batch.columns], first, {}, shape)
            first += batch.num_rows


def _sheet(part: FileRange, shape: Shape) -> Iterator[RecordOrBad]:
    with open_file(part.uri) as source:
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
) -> Iterator[RecordOrBad]:
    key = shape.key_column
    for number, values in enumerate(zip(*columns, strict=True)):
        row = dict(zip(names, values, strict=True))
        if number in bad:
            yield BadRecord(first + number, json_text(row), bad[number])
        elif key is None:
            yield Record(first + number, json_text(row))
        elif row[key] is None:
            yield BadRecord(first + number, json_text(row), f"has no {key}, which is its routing key")
        else:
            yield Record(first + number, json_text(row), key_text(row[key]))


def _json_lines(part: FileRange, shape: Shape) -> Iterator[RecordOrBad]:
    _without_schema(part, shape)
    if part.uri.lower().endswith(".gz"):
        with open_stream(part.uri) as source:
            yield from _lines(io.BufferedReader(source), 0, None, shape)
        return
    with open_file(part.uri) as source:
        # a line that begins before the range belongs to the range before
        source.seek(max(part.start - 1, 0))
        lines = io.BufferedReader(source)
        place = part.start - 1 + len(lines.readline()) if part.start else 0
        yield from _lines(lines, place, part.end, shape)


def _lines(source: io.BufferedReader, place: int, end: int | None, shape: Shape) -> Iterator[RecordOrBad]:
    while end is None or place < end:
        line = source.readline()
        if not line:
            return
        text = line.strip()
        if text:
            yield _json_line(place, text, shape.key_column)
        place += len(line)


def _json_line(place: int, text: bytes, key: str | None) -> RecordOrBad:
    try:
        found = orjson.loads(text)
    except ValueError as error:
        return BadRecord(place, text, f"is not JSON: {error}")
    if not isinstance(found, dict):
        return BadRecord(place, text, "is no JSON object")
    if key is None:
        return Record(place, text)
    value = found.get(key)
    if value is None or isinstance(value, dict | list):
        return BadRecord(place, text, f"has no {key}, which is its routing key")
    return Record(place, text, key_text(value))


def _checked_names(part: FileRange, names: Sequence[str], shape: Shape) -> list[str]:
    if not names:
        raise PipelineError(f"{part.uri} has no columns: its first line names them")
    for name in names:
        if not name.strip() or names.count(name) > 1:
            raise PipelineError(f"{part.uri} has a column without a name, or two of one name: {name!r}")
    if shape.key_column is not None and shape.key_column not in names:
        raise PipelineError(f"{part.uri} has no column {shape.key_column!r}, which is the routing key")
    return list(names)


def _known_types(part: FileRange, names: Sequence[str], shape: Shape) -> dict[str, Any]:
    types = column_types(shape.schema)
    missing = [name for name in types if name not in names]
    if missing:
        raise PipelineError(f"{part.uri} has no column {missing[0]!r}, which the schema names")
    return types


def _without_schema(part: FileRange, shape: Shape) -> None:
    if shape.schema:
        raise PipelineError(f"{part.uri} says itself what types it has: a schema is for CSV and spreadsheets")


READERS: Final[Mapping[str, Callable[[FileRange, Shape], Iterator[RecordOrBad]]]] = {
    "csv": _csv,
    "parquet": _parquet,
    "sheet": _sheet,
    "jsonl": _json_lines,
}
