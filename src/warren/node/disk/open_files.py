"""The files that a reading thread has open: a few, the ones used last.

A piece is read whole or not at all. Whoever lacks a descriptor gets one of the reserve.

Invariant: used by one thread alone. At most `OPEN_FILES_MAX` are open.

Not here: who reads what (`node.disk.reader`, `node.disk.archive_reader`).
"""

import os
import time
from collections import OrderedDict

from warren.admin.node_facts import IoFigures
from warren.errors import StoreError
from warren.node.disk.reserve import Reserve, lacks_descriptors

OPEN_FILES_MAX = 16


class OpenFiles:
    """One thread's."""

    __slots__ = ("_descriptors", "_io", "_reserve")

    def __init__(self, reserve: Reserve, io: IoFigures) -> None:
        self._reserve = reserve
        self._io = io
        # by path; the one used last is last
        self._descriptors: OrderedDict[str, int] = OrderedDict()

    def read(self, path: str, offset: int, length: int) -> bytes:
        """A piece of a file; an `OSError` or a `StoreError` if it cannot be had as a whole."""
        started = time.perf_counter()
        descriptor = self._descriptor(path)
        data = os.pread(descriptor, length, offset)
        while len(data) < length:
            more = os.pread(descriptor, length - len(data), offset + len(data))
            if not more:
                raise StoreError(f"it ends at byte {offset + len(data)}, before {offset + length}")
            data += more
        self._io.reads += 1
        self._io.read_bytes += length
        self._io.read_s += time.perf_counter() - started
        return data

    def forget(self, path: str) -> None:
        """A file is gone, or a directory with all that is in it."""
        for gone in [held for held in self._descriptors if held == path or os.path.dirname(held) == path]:
            os.close(self._descriptors.pop(gone))

    def close(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()

    def _descriptor(self, path: str) -> int:
        descriptor = self._descriptors.get(path)
        if descriptor is None:
            descriptor = self._descriptors[path] = self._open(path)
            if len(self._descriptors) > OPEN_FILES_MAX:
                os.close(self._descriptors.popitem(last=False)[1])
        else:
            self._descriptors.move_to_end(path)
        return descriptor

    def _open(self, path: str) -> int:
        while True:
            try:
                return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                if not lacks_descriptors(error):
                    raise
                self._reserve.give_one()


def reason_of_reading(error: OSError | StoreError) -> str:
    """Why a piece cannot be had, in words."""
    return (error.strerror if isinstance(error, OSError) else "") or str(error)
