"""Trace files: names, writing with rotation, listing and reading.

The file of the trace NAME is `NAME.log`. A full piece is renamed once, to `NAME.log.1` and so on upwards, and keeps
that name, so a reader of finished pieces never sees one piece under two names or two pieces under one. The last number
is stored in `.NAME.log.last`, because old pieces are deleted. Special characters of a trace's name are escaped as in a
URL: `a/b` becomes `a%2Fb.log`.

Invariants:

- Two traces never have the same file name, and no name leads out of the directory.
- A record is whole within one piece. A record larger than a piece has a piece of its own.
- At most `pieces_max` finished pieces are kept, the newest ones. So a trace uses a bounded amount of disk.
- A piece has one format. A trace appends to the file of an earlier trace of the same format; a line that a crash cut
  off is ended first.
- A file that is deleted while it is written is created again.
- The number of a finished piece is never reused.

Only regular files with the name of a trace file are listed, and links are not followed. A file is read up to its length
at opening, in pieces, so a response of any length takes the same memory, and a file that is rotated or deleted
meanwhile is read to its end.

All functions block, except streaming: they run in a thread.

Not here: record formats (`tracing.formats`), the HTTP paths (`resources.traces`).
"""

import asyncio
import errno
import io
import os
import re
import stat
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

SUFFIX = ".log"
NAME_OCTETS_MAX = 240
"""The limit for a file name, with room for the number."""

_UNSAFE = re.compile(r"^\.|[%/\\\x00-\x1f\x7f]")
_TRACE_FILE = re.compile(r"(?!\.)[^/\x00]+\.log(?:\.[1-9]\d{0,17})?")


def file_name(trace: str) -> str:
    """The file of a trace; `ValueError` if the name is empty or too long."""
    if not trace:
        raise ValueError("a trace must have a name")
    name = _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", trace) + SUFFIX
    octets = len(name.encode())
    if octets > NAME_OCTETS_MAX:
        raise ValueError(f"the name of a trace's file has {octets} bytes, of {NAME_OCTETS_MAX} that are possible")
    return name


def is_trace_file(name: str) -> bool:
    return _TRACE_FILE.fullmatch(name) is not None


def piece_name(name: str, number: int) -> str:
    return f"{name}.{number}"


def number_name(name: str) -> str:
    """The file that stores the number of the last finished piece."""
    return f".{name}.last"


def piece_number(name: str, candidate: str) -> int | None:
    """The number of a finished piece of the file `name`; None if the candidate is none."""
    number = candidate.removeprefix(f"{name}.")
    if number == candidate or not is_trace_file(candidate) or not number.isdecimal():
        return None
    return int(number)


NUMBER_BYTES_MAX = 32
FILE_MODE = 0o600
DIRECTORY_MODE = 0o700


@dataclass(frozen=True)
class TraceRotation:
    """The size of a piece, and how many finished pieces are kept."""

    piece_bytes: int = 64 * 1024 * 1024
    pieces_max: int = 5


class TraceFile:
    """A file open for appending. Any method may raise `OSError`."""

    def __init__(self, directory: str, name: str, opening: bytes, rotation: TraceRotation) -> None:
        """`opening` is the byte that every record of the format begins with."""
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
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        self._descriptor = os.open(self._path, flags, FILE_MODE)
        facts = os.fstat(self._descriptor)
        if not stat.S_ISREG(facts.st_mode):
            self.close()
            raise OSError(errno.EINVAL, "it is not a file", self._path)
        self._size_bytes = facts.st_size

    def _continue(self, opening: bytes) -> None:
        """Append to the file of an earlier trace."""
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
        # after the rename: until then the file counts as the next piece
        self._keep_number(number)
        self.close()
        self._open()
        for old in [*numbers, number][: -self._rotation.pieces_max]:
            os.unlink(os.path.join(self._directory, piece_name(self._name, old)))

    def _last_number(self) -> int:
        try:
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            with open(os.open(os.path.join(self._directory, number_name(self._name)), flags), "rb") as file:
                return int(file.read(NUMBER_BYTES_MAX))
        except (FileNotFoundError, ValueError):
            return 0

    def _keep_number(self, number: int) -> None:
        path = os.path.join(self._directory, number_name(self._name))
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
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


CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True)
class TraceFileFacts:
    name: str
    size_bytes: int


class OpenTraceFile:
    """An open file, with the range to read."""

    def __init__(self, file: io.FileIO, start: int, end: int) -> None:
        self._file = file
        self._start = start
        self._end = end

    @property
    def size_bytes(self) -> int:
        return self._end - self._start

    async def chunks(self) -> AsyncIterator[bytes]:
        at = self._start
        with self._file as file:
            while at < self._end:
                size = min(CHUNK_BYTES, self._end - at)
                chunk = await asyncio.to_thread(os.pread, file.fileno(), size, at)
                if not chunk:
                    return
                at += len(chunk)
                yield chunk


class TraceDirectory:
    """All trace files of a node."""

    def __init__(self, path: str) -> None:
        self.path = path

    def listed(self) -> list[TraceFileFacts]:
        """All files by name; none without a directory."""
        try:
            entries = list(os.scandir(self.path))
        except FileNotFoundError:
            return []
        found: list[TraceFileFacts] = []
        for entry in entries:
            if is_trace_file(entry.name) and entry.is_file(follow_symlinks=False):
                try:
                    found.append(TraceFileFacts(entry.name, entry.stat(follow_symlinks=False).st_size))
                except FileNotFoundError:
                    continue
        return sorted(found, key=lambda facts: facts.name)

    def opened(self, name: str, tail_bytes: int | None) -> OpenTraceFile | None:
        """The file, or the whole lines among its last bytes; None if there is no such file."""
        if not is_trace_file(name):
            return None
        try:
            descriptor = os.open(self._path(name), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            os.close(descriptor)
            return None
        file = io.FileIO(descriptor)
        start = 0
        if tail_bytes is not None and tail_bytes < facts.st_size:
            start = _line_start(descriptor, facts.st_size - tail_bytes, facts.st_size)
        return OpenTraceFile(file, start, facts.st_size)

    def delete(self, name: str) -> bool:
        """Delete a file; False if there is none."""
        try:
            is_there = is_trace_file(name) and stat.S_ISREG(os.lstat(self._path(name)).st_mode)
        except OSError:
            return False
        if is_there:
            os.unlink(self._path(name))
        return is_there

    def _path(self, name: str) -> str:
        return os.path.join(self.path, name)


def _line_start(descriptor: int, at: int, end: int) -> int:
    """The start of the first line after `at`, if it is near."""
    found = os.pread(descriptor, min(CHUNK_BYTES, end - at), at).find(b"\n")
    return at if found < 0 else at + found + 1
