"""The thread that reads the journal back: rows of an index, pieces of a segment.

What cannot be read is answered with the reason, never with silence: whoever asked waits for the ticket. Pieces that lie
close together are read at one go and cut apart. Checksums are the asker's: a piece is handed on as it is.

A few files stay open, and a few indexes' directories stay in memory, the ones used last.

Invariant: files and directories are touched by the thread alone; the writer's word that a segment is gone is one more
order in the queue.

Not here: what rows and records mean (`store.index`, `store.records`).
"""

import os
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from warren.admin.node_facts import IoFigures
from warren.errors import StoreError
from warren.model.effects import Effect, ReadIndex, ReadJournal
from warren.model.events import Event, IndexRead, JournalRead
from warren.node.disk import names
from warren.node.disk.reserve import Reserve, lacks_descriptors
from warren.store.index import INDEX_HEADER_BYTES, directory_bytes, find_rows

OPEN_FILES_MAX = 16
DIRECTORIES_MAX = 16
GAP_BYTES_MAX = 4096
STRETCH_BYTES_MAX = 1024 * 1024


class _Gone(NamedTuple):
    """The writer dropped this segment."""

    segment: int


class JournalReader:
    """Carries out `ReadIndex` and `ReadJournal`."""

    __slots__ = ("_directories", "_failed", "_files", "_io", "_journal", "_orders", "_report", "_reserve", "thread")

    def __init__(
        self,
        journal: str,
        report: Callable[[Event], None],
        failed: Callable[[Exception], None],
        reserve: Reserve,
        io: IoFigures | None = None,
    ) -> None:
        self._journal = journal
        self._io = io or IoFigures()
        self._reserve = reserve
        self._report = report
        self._failed = failed
        self._orders: queue.SimpleQueue[Effect | _Gone | None] = queue.SimpleQueue()
        # open descriptors by file name, and the head of an index by segment; the one used last is last
        self._files: OrderedDict[str, int] = OrderedDict()
        self._directories: OrderedDict[int, bytes] = OrderedDict()
        self.thread = threading.Thread(target=self._run, name="journal-reader", daemon=True)
        self.thread.start()

    def order(self, effect: Effect) -> None:
        self._orders.put(effect)

    def forget(self, segment: int) -> None:
        """The segment's files are gone; callable from any thread."""
        self._orders.put(_Gone(segment))

    def close(self, patience_s: float) -> None:
        self._orders.put(None)
        self.thread.join(patience_s)

    def _run(self) -> None:
        try:
            while (order := self._orders.get()) is not None:
                if isinstance(order, ReadJournal):
                    self._report(self._read_journal(order))
                elif isinstance(order, ReadIndex):
                    self._report(self._read_index(order))
                elif isinstance(order, _Gone):
                    self._close_segment(order.segment)
        except Exception as error:
            self._failed(error)
        finally:
            for descriptor in self._files.values():
                os.close(descriptor)

    def _read_index(self, order: ReadIndex) -> IndexRead:
        name = names.index_name(order.segment)
        try:
            head = self._index_head(order.segment)
            offset, length = find_rows(head, order.queue_id)
            return IndexRead(order.ticket, self._read(name, offset, length))
        except (OSError, StoreError) as error:
            return IndexRead(order.ticket, b"", _reason(name, error))

    def _read_journal(self, order: ReadJournal) -> JournalRead:
        name = names.segment_name(order.segment)
        try:
            return JournalRead(order.ticket, self._pieces(name, order.extents))
        except (OSError, StoreError) as error:
            return JournalRead(order.ticket, [], _reason(name, error))

    def _pieces(self, name: str, extents: list[tuple[int, int]]) -> list[bytes]:
        pieces: list[bytes] = []
        first = 0
        while first < len(extents):
            start, length = extents[first]
            end = start + length
            after = first + 1
            while after < len(extents):
                offset, length = extents[after]
                if not end <= offset <= end + GAP_BYTES_MAX or offset + length - start > STRETCH_BYTES_MAX:
                    break
                end = offset + length
                after += 1
            stretch = self._read(name, start, end - start)
            if after == first + 1:
                pieces.append(stretch)
            else:
                pieces += [stretch[at - start : at - start + size] for at, size in extents[first:after]]
            first = after
        return pieces

    def _index_head(self, segment: int) -> bytes:
        """The header and the directory of a segment's index."""
        head = self._directories.get(segment)
        if head is None:
            name = names.index_name(segment)
            header = self._read(name, 0, INDEX_HEADER_BYTES)
            head = header + self._read(name, INDEX_HEADER_BYTES, directory_bytes(header))
            self._directories[segment] = head
            if len(self._directories) > DIRECTORIES_MAX:
                self._directories.popitem(last=False)
        else:
            self._directories.move_to_end(segment)
        return head

    def _read(self, name: str, offset: int, length: int) -> bytes:
        started = time.perf_counter()
        descriptor = self._file(name)
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

    def _file(self, name: str) -> int:
        descriptor = self._files.get(name)
        if descriptor is None:
            descriptor = self._open(os.path.join(self._journal, name))
            self._files[name] = descriptor
            if len(self._files) > OPEN_FILES_MAX:
                os.close(self._files.popitem(last=False)[1])
        else:
            self._files.move_to_end(name)
        return descriptor

    def _open(self, path: str) -> int:
        while True:
            try:
                return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                if not lacks_descriptors(error):
                    raise
                self._reserve.give_one()

    def _close_segment(self, segment: int) -> None:
        self._directories.pop(segment, None)
        for name in (names.segment_name(segment), names.index_name(segment)):
            descriptor = self._files.pop(name, None)
            if descriptor is not None:
                os.close(descriptor)


def _reason(name: str, error: Exception) -> str:
    return f"{name}: {(error.strerror if isinstance(error, OSError) else '') or error}"
