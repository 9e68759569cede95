"""The archive files of streams: the thread that writes them, and the files found at a start.

::

    streams/ID/NNNNNNNNNNNN.chunks    a segment of the stream that was created by revision ID

Each piece is flushed before it is reported. This is not the journal's thread, because nothing waits for a chunk: its
messages stay in the journal until it is reported. So a lack of space is no emergency: the piece is tried again every
second. Deletions do not wait for that, because they free space. Every other error is reported, and ends the node.

Not here: what is written, and when (`broker.streams.stream`), the bytes (`broker.streams.archive_index`), reading
(`node.disk.readers`).
"""

import contextlib
import os
import queue
import re
import shutil
import threading
from collections import deque
from collections.abc import Callable

from warren.broker.model.archive import ArchiveFiles
from warren.broker.model.effects import DropArchive, Effect, WriteArchive
from warren.broker.model.events import ArchiveWritten, Event
from warren.node.disk.file_io import (
    DIRECTORY_MODE,
    FILE_MODE,
    DescriptorReserve,
    flush_file,
    lacks_descriptors,
    lacks_space,
    sync_directory,
    write_all,
)

_SEGMENT = re.compile(r"(\d{12})\.chunks")
_STREAM = re.compile(r"\d{1,20}")


def stream_path(streams: str, stream_id: int) -> str:
    return os.path.join(streams, str(stream_id))


def segment_path(streams: str, stream_id: int, segment: int) -> str:
    return os.path.join(stream_path(streams, stream_id), f"{segment:012}.chunks")


class FoundArchives(ArchiveFiles):
    """The files behind the port that recovery reads."""

    def __init__(self, streams: str) -> None:
        self._streams = streams

    def streams(self) -> list[int]:
        if not os.path.isdir(self._streams):
            return []
        # as `secure` does for the files in them
        sync_directory(self._streams)
        sync_directory(os.path.dirname(self._streams))
        return sorted(int(name) for name in os.listdir(self._streams) if _STREAM.fullmatch(name))

    def segments(self, stream_id: int) -> list[int]:
        path = stream_path(self._streams, stream_id)
        names = os.listdir(path) if os.path.isdir(path) else []
        return sorted(int(found[1]) for found in map(_SEGMENT.fullmatch, names) if found)

    def size(self, stream_id: int, segment: int) -> int:
        return os.path.getsize(segment_path(self._streams, stream_id, segment))

    def read(self, stream_id: int, segment: int, at: int, length: int) -> bytes:
        with open(segment_path(self._streams, stream_id, segment), "rb") as file:
            return os.pread(file.fileno(), length, at)

    def secure(self, stream_id: int, segment: int) -> None:
        path = segment_path(self._streams, stream_id, segment)
        with open(path, "rb") as file:
            flush_file(file.fileno(), path, os.fdatasync)
        sync_directory(os.path.dirname(path))


RETRY_EVERY_S = 1.0


class ArchiveWriterThread:
    """Carries out `WriteArchive` and `DropArchive`."""

    __slots__ = ("_closing", "_failed", "_forget", "_later", "_orders", "_report", "_reserve", "_streams", "thread")

    def __init__(
        self,
        streams: str,
        report: Callable[[Event], None],
        failed: Callable[[Exception], None],
        forget: Callable[[str], None],
        reserve: DescriptorReserve,
    ) -> None:
        self._streams = streams
        self._report = report
        self._failed = failed
        self._forget = forget
        self._reserve = reserve
        self._closing = threading.Event()
        self._orders: queue.SimpleQueue[Effect | None] = queue.SimpleQueue()
        # orders that came while there was no space
        self._later: deque[Effect | None] = deque()
        self.thread = threading.Thread(target=self._run, name="archive-writer", daemon=True)
        self.thread.start()

    def order(self, effect: Effect) -> None:
        self._orders.put(effect)

    def close(self, patience_s: float) -> None:
        """Carry out all orders, unless there is no space for them."""
        self._closing.set()
        self._orders.put(None)
        self.thread.join(patience_s)

    def _run(self) -> None:
        try:
            while (order := self._next()) is not None:
                if isinstance(order, WriteArchive):
                    self._write(order)
                elif isinstance(order, DropArchive):
                    self._drop(order)
        except Exception as error:
            self._failed(error)

    def _next(self) -> Effect | None:
        return self._later.popleft() if self._later else self._orders.get()

    def _write(self, order: WriteArchive) -> None:
        while True:
            try:
                self._put(order)
            except OSError as error:
                if lacks_descriptors(error):
                    self._reserve.give_one()
                    continue
                if not lacks_space(error):
                    raise
                if self._is_deleted_meanwhile(order) or self._closing.wait(RETRY_EVERY_S):
                    return
                continue
            self._report(ArchiveWritten(order.ticket))
            return

    def _is_deleted_meanwhile(self, waiting: WriteArchive) -> bool:
        """Carry out the deletions that have come; whether the stream that waits for space was deleted."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._later.append(self._orders.get_nowait())
        before: list[Effect | None] = [waiting]
        for order in self._later:
            if isinstance(order, DropArchive) and not order.segments:
                self._drop(order)
                # earlier writes to a deleted stream are skipped
                before = [one for one in before if not _is_of(one, order.stream_id)]
            elif isinstance(order, DropArchive) and not any(
                _is_of(one, order.stream_id, order.segments) for one in before
            ):
                self._drop(order)
            else:
                before.append(order)
        waits = bool(before) and before[0] is waiting
        self._later = deque(before[1:] if waits else before)
        return not waits

    def _put(self, order: WriteArchive) -> None:
        path = segment_path(self._streams, order.stream_id, order.segment)
        if order.offset == 0:
            self._make_directory(order.stream_id)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            # the bytes behind it were being written when the node ended
            if os.fstat(descriptor).st_size > order.offset:
                os.ftruncate(descriptor, order.offset)
            write_all(descriptor, order.data, order.offset)
            flush_file(descriptor, path, os.fdatasync)
        finally:
            os.close(descriptor)
        if order.offset == 0:
            sync_directory(stream_path(self._streams, order.stream_id))

    def _make_directory(self, stream_id: int) -> None:
        for path in (self._streams, stream_path(self._streams, stream_id)):
            if not os.path.isdir(path):
                os.mkdir(path, DIRECTORY_MODE)
                sync_directory(os.path.dirname(path))

    def _drop(self, order: DropArchive) -> None:
        for segment in order.segments:
            path = segment_path(self._streams, order.stream_id, segment)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
                # the oldest must be gone first: a gap between the remaining files would count as damage
                sync_directory(os.path.dirname(path))
            self._forget(path)
        if not order.segments:
            shutil.rmtree(stream_path(self._streams, order.stream_id), ignore_errors=True)
            self._forget(stream_path(self._streams, order.stream_id))


def _is_of(order: Effect | None, stream_id: int, segments: list[int] | None = None) -> bool:
    """Whether the order writes to this stream, to one of these segments if any are named."""
    if not isinstance(order, WriteArchive) or order.stream_id != stream_id:
        return False
    return segments is None or order.segment in segments
