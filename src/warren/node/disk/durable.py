"""Writing so that it survives: whole writes, flushes that never fail quietly, files that appear complete or not at all.

A flush that fails is final. The kernel may have dropped the pages it could not write, so a second flush that succeeds
proves nothing; `StoreError` says so, and the node stops. A write that finds no room is another matter: it is an
`OSError` as it came, and may be tried again.

Not here: who tries again (`node.disk.writer`).
"""

import errno
import os
from collections.abc import Callable

from warren.errors import StoreError
from warren.node.disk.names import UNFINISHED_SUFFIX

Flush = Callable[[int], None]

FILE_MODE = 0o640
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


def lacks_space(error: OSError) -> bool:
    """Whether this is only a lack of room, which an operator or a consumer can end."""
    return error.errno in _NO_ROOM


def reason_of(error: Exception) -> str:
    """The error in words, without its number, with its file if it names one."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def write_all(descriptor: int, data: bytes, offset: int) -> None:
    """Write all of it: the kernel may take less at a time."""
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
    """The names in this directory are as they are now, also after a loss of power."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flush_file(descriptor, path, os.fsync)
    finally:
        os.close(descriptor)


def replace_file(path: str, data: bytes, flush: Flush = os.fdatasync) -> None:
    """The file has this content, or the one it had, whatever happens meanwhile."""
    unfinished = path + UNFINISHED_SUFFIX
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        write_all(descriptor, data, 0)
        flush_file(descriptor, unfinished, flush)
    finally:
        os.close(descriptor)
    os.replace(unfinished, path)
    sync_directory(os.path.dirname(path))
