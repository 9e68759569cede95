"""The file one trace writes: appended to, and put aside when it is full.

Invariants:

- A record is in one piece of the file, whole; one that is larger than a piece has a piece to itself.
- At most `pieces_max` finished pieces are kept, the youngest ones. So a trace takes a bounded part of the disk.
- A piece holds one format. A trace that goes on where another stopped appends to its file, unless that was of the
  other format; a line that a crash cut off is ended first.
- A file that is deleted while it is written is begun anew.
- Every finished piece has a number that none had before it, whoever has deleted those.

Everything here blocks: it runs in a thread.

Not here: what is written (`tracing.text_format`, `tracing.json_format`), reading (`tracing.directory`).
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass

from warren.admin.tracing.file_names import number_name, piece_name, piece_number

FILE_MODE = 0o640
DIRECTORY_MODE = 0o750


@dataclass(frozen=True)
class Rotation:
    """How large a piece becomes, and how many finished ones are kept."""

    piece_bytes: int = 64 * 1024 * 1024
    pieces_max: int = 5


class TraceFile:
    """Open for appending; `OSError` from any method says that it cannot be written."""

    def __init__(self, directory: str, name: str, opening: bytes, rotation: Rotation) -> None:
        """`opening` is the octet that every record of this format begins with."""
        self._directory = directory
        self._name = name
        self._path = os.path.join(directory, name)
        self._rotation = rotation
        self._descriptor = -1
        self._size_bytes = 0
        os.makedirs(directory, DIRECTORY_MODE, exist_ok=True)
        self._open()
        try:
            self._continue(opening)
        except OSError:
            self.close()
            raise

    def append(self, records: Iterable[bytes]) -> None:
        if os.fstat(self._descriptor).st_nlink == 0:
            self.close()
            self._open()
        waiting: list[bytes] = []
        waiting_bytes = 0
        for record in records:
            begun_bytes = self._size_bytes + waiting_bytes
            if begun_bytes and begun_bytes + len(record) > self._rotation.piece_bytes:
                self._write(b"".join(waiting))
                waiting, waiting_bytes = [], 0
                self._put_aside()
            waiting.append(record)
            waiting_bytes += len(record)
        self._write(b"".join(waiting))

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self._path, flags, FILE_MODE)
        self._size_bytes = os.fstat(self._descriptor).st_size

    def _continue(self, opening: bytes) -> None:
        """Go on after what an earlier trace left."""
        if not self._size_bytes:
            return
        if os.pread(self._descriptor, 1, self._size_bytes - 1) != b"\n":
            self._write(b"\n")
        if os.pread(self._descriptor, 1, 0) != opening:
            self._put_aside()

    def _put_aside(self) -> None:
        found = (piece_number(self._name, name) for name in os.listdir(self._directory))
        numbers = sorted(number for number in found if number is not None)
        number = max([self._last_number(), *numbers]) + 1
        os.rename(self._path, os.path.join(self._directory, piece_name(self._name, number)))
        # behind the renaming: until then the file is the piece that follows the last one
        self._keep_number(number)
        self.close()
        self._open()
        for old in [*numbers, number][: -self._rotation.pieces_max]:
            os.unlink(os.path.join(self._directory, piece_name(self._name, old)))

    def _last_number(self) -> int:
        try:
            with open(os.path.join(self._directory, number_name(self._name)), "rb") as file:
                return int(file.read())
        except (FileNotFoundError, ValueError):
            return 0

    def _keep_number(self, number: int) -> None:
        path = os.path.join(self._directory, number_name(self._name))
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(f"{path}.new", flags, FILE_MODE)
        try:
            os.write(descriptor, b"%d\n" % number)
        finally:
            os.close(descriptor)
        os.replace(f"{path}.new", path)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = os.write(self._descriptor, view)
            self._size_bytes += written
            view = view[written:]
