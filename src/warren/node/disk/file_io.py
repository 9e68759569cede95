"""Durable writes: complete writes, flushes that never fail silently, atomic replacement; and reserved descriptors.

A failed flush is final. The kernel may have dropped the pages it could not write, so a later successful flush proves
nothing; `StoreError` says so, and the node stops. A write without space is an `OSError` and may be tried again.

Clients may use up all descriptors, and the disk must still be served. So a few are held open. A thread that cannot open
a file closes one of them and tries again; when none is left it waits for one to become free. They are reopened when
there are enough.

Not here: retries (`node.disk.journal_writer`), the number of descriptors (`node.process`).
"""

import contextlib
import errno
import os
import threading
import time
from collections.abc import Callable

from warren.errors import StoreError
from warren.node.disk.file_names import UNFINISHED_SUFFIX

Flush = Callable[[int], None]

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


def lacks_space(error: OSError) -> bool:
    """Whether this is only a lack of space, which an operator or a consumer can end."""
    return error.errno in _NO_ROOM


def os_error_text(error: Exception) -> str:
    """The error in words, without its number, with its file if it names one."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def write_all(descriptor: int, data: bytes, offset: int) -> None:
    """Write all bytes: the kernel may take fewer at a time."""
    written = os.pwrite(descriptor, data, offset)
    if written < len(data):
        rest = memoryview(data)
        while written < len(data):
            written += os.pwrite(descriptor, rest[written:], offset + written)


def flush_file(descriptor: int, path: str, flush: Flush) -> None:
    try:
        flush(descriptor)
    except OSError as error:
        raise StoreError(f"{path} cannot be flushed: {error.strerror}") from error


def sync_directory(path: str) -> None:
    """Make the names in this directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flush_file(descriptor, path, os.fsync)
    finally:
        os.close(descriptor)


def replace_file(path: str, data: bytes, flush: Flush = os.fdatasync) -> None:
    """Replace the content of a file: after a crash it has this content or its old one."""
    unfinished = path + UNFINISHED_SUFFIX
    # a link of this name would lead the writing to another file, and a pipe would wait for a reader
    with contextlib.suppress(FileNotFoundError):
        os.unlink(unfinished)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        write_all(descriptor, data, 0)
        flush_file(descriptor, unfinished, flush)
    finally:
        os.close(descriptor)
    os.replace(unfinished, path)
    sync_directory(os.path.dirname(path))


RESERVED_DESCRIPTORS_MAX = 8
DESCRIPTOR_RETRY_S = 0.05


class DescriptorReserve:
    """Used by both threads of the journal."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: list[int] = []
        self.refill()

    def refill(self) -> None:
        """Reopen descriptors that were given up, as far as possible."""
        with self._lock:
            try:
                while len(self._kept) < RESERVED_DESCRIPTORS_MAX:
                    self._kept.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            except OSError as error:
                if not lacks_descriptors(error):
                    raise

    def give_one(self) -> None:
        """Free one descriptor, or wait a moment for one."""
        with self._lock:
            if self._kept:
                os.close(self._kept.pop())
                return
        time.sleep(DESCRIPTOR_RETRY_S)

    def close(self) -> None:
        with self._lock:
            for descriptor in self._kept:
                os.close(descriptor)
            self._kept.clear()


def lacks_descriptors(error: OSError) -> bool:
    return error.errno in (errno.EMFILE, errno.ENFILE)
