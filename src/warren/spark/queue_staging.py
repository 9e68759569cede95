"""The folder of staged messages of a queue, until Spark has committed them.

::

    DIR/queue                                   the queue of these messages, as JSON
    DIR/committed                               how many messages Spark has committed
    DIR/FIRST-END.arrow                         messages FIRST to END - 1, as an Arrow file

A file is written under another name, flushed and renamed, so it exists whole or not at all. One process has the folder
at a time, by a lock that ends with the process.

Invariant: files follow each other without a gap. Files that end at or before `committed` are kept only for their
identities, until their messages are acked.

Not here: the contents of a message (`spark.queue_source`).
"""

import fcntl
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

SUFFIX: Final = ".arrow"
IDENTITY: Final = "identity"
LOCK_DELAY_S: Final = 0.1


class StagingError(RuntimeError):
    """The folder cannot be used, in one sentence."""


@dataclass(frozen=True)
class StagedFile:
    """Messages `first` to `end` - 1."""

    first: int
    end: int
    path: str


class StagingFolder:
    """A folder that this process has locked."""

    def __init__(self, folder: Path, queue: str, timeout_s: float) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = (folder / "lock").open("a")
        except OSError as error:
            raise StagingError(f"option stagingDir: cannot use {folder}: {error.strerror}") from None
        try:
            self._take_lock(timeout_s)
            self._claim(queue)
        except StagingError:
            self._lock.close()
            raise
        for left_over in folder.glob("*.part"):
            left_over.unlink()
        self.committed = int(_text(folder / "committed") or 0)
        self.files = staged_files(folder)
        self.end = max(self.committed, self.files[-1].end if self.files else 0)

    def close(self) -> None:
        self._lock.close()

    def stage(self, rows: pa.RecordBatch) -> StagedFile:
        """Write messages after all others; they are on disk when it returns."""
        file = StagedFile(self.end, self.end + rows.num_rows, str(self._path(self.end, self.end + rows.num_rows)))
        part = Path(file.path).with_suffix(".part")
        with part.open("wb") as out:
            with pa.ipc.new_file(out, rows.schema) as writer:
                writer.write_batch(rows)
            out.flush()
            os.fsync(out.fileno())
        part.rename(file.path)
        self._flush_folder()
        self.files.append(file)
        self.end = file.end
        return file

    def skip_to(self, offset: int) -> None:
        """Continue counting from here: Spark has read beyond this folder, which replaces another one."""
        self.end = max(self.end, offset)

    def commit(self, end: int) -> None:
        """Spark has committed everything before `end`."""
        if end > self.committed:
            part = self._folder / "committed.part"
            with part.open("w") as out:
                out.write(str(end))
                out.flush()
                os.fsync(out.fileno())
            part.rename(self._folder / "committed")
            self._flush_folder()
            self.committed = end

    def drop(self, file: StagedFile) -> None:
        """Delete a file."""
        self.files.remove(file)
        Path(file.path).unlink(missing_ok=True)

    def _take_lock(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise StagingError(f"option stagingDir: another query uses {self._folder}") from None
                time.sleep(LOCK_DELAY_S)

    def _claim(self, queue: str) -> None:
        place = self._folder / "queue"
        owner = _text(place)
        if owner is None:
            part = place.with_suffix(".part")
            with part.open("w") as file:
                json.dump({"queue": queue}, file)
                file.flush()
                os.fsync(file.fileno())
            part.rename(place)
            self._flush_folder()
        elif json.loads(owner)["queue"] != queue:
            raise StagingError(f"option stagingDir: {self._folder} has messages of another queue; each needs its own")

    def _path(self, first: int, end: int) -> Path:
        return self._folder / f"{first:018d}-{end:018d}{SUFFIX}"

    def _flush_folder(self) -> None:
        handle = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def staged_files(folder: Path) -> list[StagedFile]:
    """All files, in order."""
    found = []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        first, _, end = path.stem.partition("-")
        found.append(StagedFile(int(first), int(end), str(path)))
    return found


def files_between(folder: Path, start: int, end: int) -> list[StagedFile]:
    """The files with exactly these messages."""
    found = [file for file in staged_files(folder) if start <= file.first and file.end <= end]
    if [start, *(file.end for file in found)] != [*(file.first for file in found), end]:
        raise StagingError(f"staged messages {start} to {end - 1} are not in {folder}, where they were put")
    return found


def read_file(path: str) -> list[Any]:
    """The rows of a file, as batches."""
    try:
        with pa.memory_map(path) as source:
            reader = pa.ipc.open_file(source)
            return [reader.get_batch(index) for index in range(reader.num_record_batches)]
    except (OSError, pa.ArrowInvalid) as error:
        raise StagingError(f"staged messages cannot be read from {path}: {error}") from None


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None
