"""The directory of trace files, to read: listed, streamed, deleted.

Only plain files with the name of a trace file are there for anybody; no link is followed. A file is read as long as it
was when it was opened, piece by piece, so an answer of any length costs the same memory, and one that is put aside
or deleted meanwhile is read to its end.

Not here: writing (`tracing.trace_file`), the paths (`tracing.resources`).
"""

import asyncio
import io
import os
import stat
from collections.abc import AsyncIterator
from dataclasses import dataclass

from warren.admin.tracing.file_names import is_trace_file

CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True)
class FileFacts:
    name: str
    size_bytes: int


class OpenedFile:
    """One file, from where it is read to where it ended when it was opened."""

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
    """All trace files of a node. Its methods block, but for streaming."""

    def __init__(self, path: str) -> None:
        self.path = path

    def listed(self) -> list[FileFacts]:
        """By name; none if there is no directory."""
        try:
            entries = list(os.scandir(self.path))
        except FileNotFoundError:
            return []
        found: list[FileFacts] = []
        for entry in entries:
            if is_trace_file(entry.name) and entry.is_file(follow_symlinks=False):
                try:
                    found.append(FileFacts(entry.name, entry.stat(follow_symlinks=False).st_size))
                except FileNotFoundError:
                    continue
        return sorted(found, key=lambda facts: facts.name)

    def opened(self, name: str, tail_bytes: int | None) -> OpenedFile | None:
        """A file, or the whole lines among its last octets; None if there is no such file."""
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
        return OpenedFile(file, start, facts.st_size)

    def delete(self, name: str) -> bool:
        """Whether there was such a file."""
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
    """Where the first line after `at` begins, if it is not far."""
    found = os.pread(descriptor, min(CHUNK_BYTES, end - at), at).find(b"\n")
    return at if found < 0 else at + found + 1
