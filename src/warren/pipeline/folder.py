"""A folder on any file system that Spark and Arrow both support, and atomic small files in it.

    lake    /data/lake    file:///data/lake    hdfs://host/lake    s3a://bucket/lake

`put_json` and `put_text` write whole or not at all, and durably: on a disk to a temporary file, flushed and renamed; on
object stores in one write, which is all that they offer.

`alone` excludes other jobs while a job works. The lock belongs to the process and ends with it. It works on a disk
only; elsewhere the operator runs one job at a time.

Invariant: `uri` names the same folder for Spark. It is not escaped, as Spark's paths are not.

Not here: tables (`pipeline.tables`).
"""

import fcntl
import json
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, final

import pyarrow as pa
from pyarrow import fs, parquet

from warren.pipeline.errors import PipelineError

OBJECT_STORES: Final = frozenset({"s3", "gcs", "abfs"})
GLOB: Final = frozenset("*?[]{}\\")


@final
class Folder:
    """It need not exist; writing into it creates it."""

    def __init__(self, uri: str) -> None:
        if GLOB & set(uri):
            raise PipelineError(
                f"{uri!r} cannot be used as a folder: Spark would take {min(GLOB & set(uri))!r} for a pattern"
            )
        scheme, separator, rest = uri.partition("://")
        if not separator or scheme == "file":
            path = os.path.abspath(rest if separator else uri)
            self._files, self._path = fs.LocalFileSystem(), path
            self.uri = f"file://{path}"
        else:
            self._files, self._path = _file_system(uri)
            self.uri = uri.rstrip("/")

    def __str__(self) -> str:
        return self.uri.removeprefix("file://")

    def child(self, name: str) -> "Folder":
        return Folder(f"{self.uri}/{name}")

    def exists(self, name: str = "") -> bool:
        """Whether there is a file or a folder of this name; without a name, this folder."""
        found = self._files.get_file_info(self._place(name))
        return bool(found.type != fs.FileType.NotFound)

    def children(self) -> list[str]:
        """The names in it, in order; none if it does not exist."""
        selector = fs.FileSelector(self._path, allow_not_found=True)
        return sorted(found.base_name for found in self._files.get_file_info(selector))

    def read_text(self, name: str) -> str | None:
        """None if there is no such file."""
        try:
            with self._files.open_input_stream(self._place(name)) as stream:
                return bytes(stream.read()).decode()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise PipelineError(f"{self}/{name} cannot be read: {_reason(error)}") from None

    def read_json(self, name: str) -> Any:
        """None if there is no such file."""
        text = self.read_text(name)
        if text is None:
            return None
        try:
            return json.loads(text)
        except ValueError:
            raise PipelineError(f"{self}/{name} is not JSON") from None

    def put_json(self, name: str, value: Any) -> None:
        self.put_text(name, as_text(value))

    def put_text(self, name: str, text: str) -> None:
        """Write whole or not at all, and durably."""
        try:
            if isinstance(self._files, fs.LocalFileSystem):
                _put_on_disk(Path(self._path), name, text.encode())
            elif self._files.type_name in OBJECT_STORES:
                self._write(name, text.encode())
            else:
                self._files.create_dir(self._path)
                beside = f".{name}.{uuid.uuid4().hex}"
                self._write(beside, text.encode())
                self._files.move(self._place(beside), self._place(name))
        except (OSError, pa.ArrowException) as error:
            raise PipelineError(f"{self}/{name} cannot be written: {_reason(error)}") from None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the folder; a `PipelineError` if another job has it."""
        if not isinstance(self._files, fs.LocalFileSystem):
            yield
            return
        path = Path(self._path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise PipelineError(f"{self} cannot be used as a folder: {_reason(error)}") from None
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise PipelineError(f"another job is at work in {self}: wait until it has ended") from None
            yield
        finally:
            # a failed job leaves no empty folder
            with suppress(OSError):
                path.rmdir()
            os.close(handle)

    def delete(self, name: str = "") -> None:
        """Delete a file or a folder with its contents, if it exists; without a name, this folder."""
        place = self._place(name)
        found = self._files.get_file_info(place)
        if found.type == fs.FileType.Directory:
            self._files.delete_dir(place)
        elif found.type != fs.FileType.NotFound:
            self._files.delete_file(place)

    def parquet_rows(self) -> list[int]:
        """The number of rows of each Parquet file in it."""
        names = [name for name in self.children() if name.endswith(".parquet")]
        return [parquet.read_metadata(self._place(name), filesystem=self._files).num_rows for name in names]

    def write_parquet(self, name: str, schema: Any, pieces: Iterable[Any]) -> int:
        """Write Arrow tables into one file; returns the number of rows."""
        self._files.create_dir(self._path, recursive=True)
        rows = 0
        with parquet.ParquetWriter(self._place(name), schema, filesystem=self._files) as writer:
            for piece in pieces:
                writer.write_table(piece)
                rows += piece.num_rows
        return rows

    def flush(self) -> None:
        """Make its contents durable, also those that other processes wrote; object stores and HDFS do it themselves."""
        if isinstance(self._files, fs.LocalFileSystem):
            for name in self.children():
                _flush(Path(self._place(name)))
            _flush(Path(self._path))

    def _place(self, name: str) -> str:
        return f"{self._path}/{name}" if name else self._path

    def _write(self, name: str, data: bytes) -> None:
        with self._files.open_output_stream(self._place(name)) as stream:
            stream.write(data)


def as_text(value: Any) -> str:
    """The JSON text of a value."""
    return json.dumps(value, indent=2, sort_keys=True) + "\n"


def _put_on_disk(folder: Path, name: str, data: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f".{name}.{uuid.uuid4().hex}"
    with beside.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    beside.replace(folder / name)
    _flush(folder)


def _flush(place: Path) -> None:
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _file_system(uri: str) -> tuple[Any, str]:
    try:
        # Spark calls it s3a, Arrow s3
        files, path = fs.FileSystem.from_uri(uri.replace("s3a://", "s3://", 1))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise PipelineError(f"{uri} cannot be used as a folder: {_reason(error)}") from None
    return files, path.rstrip("/")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error).splitlines()[0]
