"""The files of a load, and their ranges for tasks.

    orders.csv  orders.csv.gz                       one range: a line may end within quotes
    orders.parquet                                  a range has some of its row groups
    orders.xlsx  .xlsm  .xlsb  .xls  .ods           one range
    orders.jsonl  orders.ndjson  orders.jsonl.gz    by bytes, but one range if compressed

A folder means the files of these kinds in it and below. Ranges depend on the file alone and not on where Spark runs, so
they are always the same.

Not here: the contents of ranges (`load.records`).
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from warren.pipeline.errors import PipelineError

KINDS: Final = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".jsonl.gz": "jsonl",
    ".ndjson.gz": "jsonl",
    ".xlsx": "sheet",
    ".xlsm": "sheet",
    ".xlsb": "sheet",
    ".xls": "sheet",
    ".ods": "sheet",
}
RANGE_BYTES: Final = 64_000_000
"""The size of a range, if a file can be split."""


@dataclass(frozen=True)
class SourceFile:
    """A file as it was found; `changed` is its modification time in nanoseconds."""

    uri: str
    kind: str
    size: int
    changed: int


@dataclass(frozen=True)
class FileRange:
    """A part of a file: bytes of JSON lines, row groups of Parquet, all of the others."""

    uri: str
    kind: str
    start: int
    end: int


def find_files(paths: Sequence[str]) -> list[SourceFile]:
    """All files, in order; a `PipelineError` if one is missing or of an unknown kind."""
    found = [file for path in paths for file in _found(path)]
    by_uri = {file.uri: file for file in found}
    return [by_uri[uri] for uri in sorted(by_uri)]


def open_file(uri: str) -> Any:
    """The file for random access, not decompressed."""
    files, path = file_system(uri)
    return files.open_input_file(path)


def open_stream(uri: str) -> Any:
    """The file from its beginning, decompressed if its name says so."""
    files, path = file_system(uri)
    return files.open_input_stream(path)


def file_system(uri: str) -> tuple[Any, str]:
    if "://" not in uri:
        return fs.LocalFileSystem(), uri
    try:
        files, path = fs.FileSystem.from_uri(uri.replace("s3a://", "s3://", 1))
    except (pa.ArrowException, OSError) as error:
        raise PipelineError(f"{uri} cannot be read: {str(error).splitlines()[0]}") from None
    return files, path


def tasks_of(files: Sequence[SourceFile]) -> list[list[FileRange]]:
    """All ranges; small files are grouped, so that a task reads about `RANGE_BYTES`."""
    tasks: list[list[FileRange]] = []
    room = 0
    for file in files:
        ranges = _ranges(file)
        for each in ranges:
            size = file.size // len(ranges)
            if not tasks or size > room:
                tasks.append([])
                room = RANGE_BYTES
            tasks[-1].append(each)
            room -= size
    return tasks


def _found(path: str) -> Iterator[SourceFile]:
    if "://" not in path:
        path = os.path.abspath(path)
    files, place = file_system(path)
    prefix = path[: len(path) - len(place)] if path.endswith(place) else ""
    try:
        there = files.get_file_info(place)
        if there.type == fs.FileType.Directory:
            inside = files.get_file_info(fs.FileSelector(place, recursive=True))
            chosen = [each for each in inside if each.type == fs.FileType.File and _is_data(each.path, place)]
        else:
            chosen = [there]
    except OSError as error:
        raise PipelineError(f"{path} cannot be read: {error}") from None
    if there.type == fs.FileType.NotFound:
        raise PipelineError(f"there is no file {path}")
    if not chosen:
        raise PipelineError(f"{path} has no files that can be loaded ({', '.join(KINDS)})")
    for each in chosen:
        kind = _kind(each.path)
        if kind is None:
            raise PipelineError(f"{path} is of no kind that can be loaded ({', '.join(KINDS)})")
        yield SourceFile(prefix + each.path, kind, each.size, each.mtime_ns or 0)


def _is_data(path: str, top: str) -> bool:
    """Names that begin with a dot or an underscore are not data."""
    below = path.removeprefix(top).strip("/").split("/")
    return _kind(path) is not None and not any(name.startswith((".", "_")) for name in below)


def _kind(path: str) -> str | None:
    name = path.lower()
    return next((kind for suffix, kind in KINDS.items() if name.endswith(suffix)), None)


def _ranges(file: SourceFile) -> list[FileRange]:
    if file.kind == "parquet":
        return _row_groups(file)
    if file.kind == "jsonl" and not file.uri.lower().endswith(".gz"):
        return [
            FileRange(file.uri, file.kind, start, min(start + RANGE_BYTES, file.size))
            for start in range(0, max(file.size, 1), RANGE_BYTES)
        ]
    return [FileRange(file.uri, file.kind, 0, file.size)]


def _row_groups(file: SourceFile) -> list[FileRange]:
    try:
        with open_file(file.uri) as source:
            described = pq.ParquetFile(source).metadata
    except (pa.ArrowException, OSError) as error:
        raise PipelineError(f"{file.uri} is not Parquet: {str(error).splitlines()[0]}") from None
    ranges: list[FileRange] = []
    begun, size = 0, 0
    for group in range(described.num_row_groups):
        size += described.row_group(group).total_byte_size
        if size >= RANGE_BYTES:
            ranges.append(FileRange(file.uri, file.kind, begun, group + 1))
            begun, size = group + 1, 0
    if begun < described.num_row_groups or not ranges:
        ranges.append(FileRange(file.uri, file.kind, begun, described.num_row_groups))
    return ranges
