"""The thread that reads the files of streams: one piece after another.

It is not the journal's thread, because whoever reads a stream from its beginning asks for megabytes at a time, and must
not hold up those who wait for a message. What cannot be read is answered with the reason.

Invariant: files are touched by the thread alone; the writer's word that one is gone is one more order in the queue.

Not here: which files stay open (`node.disk.open_files`), what the bytes mean (`stream.chunk`), writing them
(`node.disk.archive_writer`).
"""

import queue
import threading
from collections.abc import Callable
from typing import NamedTuple

from warren.admin.node_facts import IoFigures
from warren.errors import StoreError
from warren.model.effects import Effect, ReadArchive
from warren.model.events import ArchiveRead, Event
from warren.node.disk.archive_files import segment_path
from warren.node.disk.open_files import OpenFiles, reason_of_reading
from warren.node.disk.reserve import Reserve


class _Gone(NamedTuple):
    """The writer deleted this file, or the directory with this name."""

    path: str


class ArchiveReader:
    """Carries out `ReadArchive`."""

    __slots__ = ("_failed", "_files", "_orders", "_report", "_streams", "thread")

    def __init__(
        self,
        streams: str,
        report: Callable[[Event], None],
        failed: Callable[[Exception], None],
        reserve: Reserve,
        io: IoFigures,
    ) -> None:
        self._streams = streams
        self._report = report
        self._failed = failed
        self._orders: queue.SimpleQueue[Effect | _Gone | None] = queue.SimpleQueue()
        self._files = OpenFiles(reserve, io)
        self.thread = threading.Thread(target=self._run, name="archive-reader", daemon=True)
        self.thread.start()

    def order(self, effect: Effect) -> None:
        self._orders.put(effect)

    def forget(self, path: str) -> None:
        """A file is gone, or a stream's whole directory; callable from any thread."""
        self._orders.put(_Gone(path))

    def close(self, patience_s: float) -> None:
        self._orders.put(None)
        self.thread.join(patience_s)

    def _run(self) -> None:
        try:
            while (order := self._orders.get()) is not None:
                if isinstance(order, ReadArchive):
                    self._report(self._answer(order))
                elif isinstance(order, _Gone):
                    self._files.forget(order.path)
        except Exception as error:
            self._failed(error)
        finally:
            self._files.close()

    def _answer(self, order: ReadArchive) -> ArchiveRead:
        path = segment_path(self._streams, order.stream_id, order.segment)
        try:
            return ArchiveRead(order.ticket, self._files.read(path, order.offset, order.length))
        except (OSError, StoreError) as error:
            return ArchiveRead(order.ticket, b"", f"segment {order.segment} of the stream: {reason_of_reading(error)}")
