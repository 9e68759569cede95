"""One segment file that is being written, with room made ahead of its end.

A flush of bytes that make the file longer also has to write the file's new length; a flush of bytes that overwrite
others does not, and takes about half as long. So while batches are small, where the flush is most of their latency,
zeros are written ahead of the tail. While they are large the zeros would be a second copy of everything, and there are
none. A recycled file is as long as it was, and needs none either. A segment that is complete, or that a node which was
killed left behind, gives back what is left of either, so that no file stays as long as its longest life made it.

Invariant: what lies behind the last batch is zeros or the leavings of another segment; nobody takes it for records.

Not here: which batch goes where (`store.journal`), when to flush (`node.disk.writer`).
"""

import os

from warren.node.disk.durable import FILE_MODE, Flush, flush_file, lacks_space, write_all

ZEROS_AHEAD_BYTES = 1024 * 1024
SMALL_BATCH_BYTES = 64 * 1024
PAGE_BYTES = 4096
_ZEROS = bytes(ZEROS_AHEAD_BYTES)


class SegmentFile:
    """An open descriptor, and how far the file is filled."""

    __slots__ = ("_descriptor", "_filled_to", "path")

    def __init__(self, path: str, create: bool) -> None:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        self.path = path
        self._descriptor = os.open(path, flags, FILE_MODE)
        self._filled_to = os.fstat(self._descriptor).st_size

    def has_room(self, end: int) -> bool:
        """Whether the file reaches so far already."""
        return end <= self._filled_to

    def write(self, data: bytes, offset: int) -> int:
        """How many bytes were written, those ahead of the batch included."""
        write_all(self._descriptor, data, offset)
        end = offset + len(data)
        if end <= self._filled_to:
            return len(data)
        self._filled_to = end
        if len(data) < SMALL_BATCH_BYTES:
            self._fill_ahead()
        return self._filled_to - offset

    def start_flush(self, offset: int, size_bytes: int) -> None:
        """Let the disk begin with what was written there, and wait for nothing: a flush will find less to do."""
        if size_bytes < PAGE_BYTES:
            # what the advice is for, to forget whole pages, does not come about: there is none in so few bytes
            os.posix_fadvise(self._descriptor, offset, size_bytes, os.POSIX_FADV_DONTNEED)

    def flush(self, flush: Flush) -> None:
        flush_file(self._descriptor, self.path, flush)

    def trim(self, size_bytes: int) -> None:
        """End the file where its last batch does, if it has any."""
        if 0 < size_bytes < self._filled_to:
            os.ftruncate(self._descriptor, size_bytes)
            self._filled_to = size_bytes

    def rename(self, path: str) -> None:
        os.rename(self.path, path)
        self.path = path

    def close(self) -> None:
        os.close(self._descriptor)

    def _fill_ahead(self) -> None:
        try:
            self._filled_to += os.pwrite(self._descriptor, _ZEROS, self._filled_to)
        except OSError as error:
            # the batch itself found room; the next one is told if it does not
            if not lacks_space(error):
                raise
