"""The thread that reads the journal back: rows of an index, pieces of a segment.

What cannot be read is answered with the reason, never with silence: whoever asked waits for the ticket. Pieces that lie
close together are read at one go and cut apart. Checksums are the asker's: a piece is handed on as it is.

A few indexes' directories stay in memory, the ones used last.

Invariant: files and directories are touched by the thread alone; the writer's word that a segment is gone is one more
order in the queue.

Not here: which files stay open (`node.disk.open_files`), what rows and records mean (`store.index`, `store.records`).
"""

import os
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from warren.admin.node_facts import IoFigures
from warren.errors import StoreError
from warren.model.effects import Effect, ReadIndex, ReadJournal
from warren.model.events import Event, IndexRead, JournalRead
from warren.node.disk import names
from warren.node.disk.open_files import OpenFiles, reason_of_reading
from warren.node.disk.reserve import Reserve
from warren.store.index import INDEX_HEADER_BYTES, directory_bytes, find_rows

DIRECTORIES_MAX = 16
GAP_BYTES_MAX = 4096
STRETCH_BYTES_MAX = 1024 * 1024


class _Gone(NamedTuple):
    """The writer dropped this segment."""

    segment: int


class JournalReader:
    """Carries out `ReadIndex` and `ReadJournal`."""

    __slots__ = ("_directories", "_failed", "_files", "_journal", "_orders", "_report", "thread")

    def __init__(
        self,
        journal: str,
        report: Callable[[Event], None],
        failed: Callable[[Exception], None],
        reserve: Reserve,
        io: IoFigures | None = None,
    ) -> None:
        self._journal = journal
        self._report = report
        self._failed = failed
        self._orders: queue.SimpleQueue[Effect | _Gone | None] = queue.SimpleQueue()
        self._files = OpenFiles(reserve, io or IoFigures())
        # the head of an index by segment; the one used last is last
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
                    self._forget(order.segment)
        except Exception as error:
            self._failed(error)
        finally:
            self._files.close()

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
        return self._files.read(os.path.join(self._journal, name), offset, length)

    def _forget(self, segment: int) -> None:
        self._directories.pop(segment, None)
        for name in (names.segment_name(segment), names.index_name(segment)):
            self._files.forget(os.path.join(self._journal, name))


def _reason(name: str, error: OSError | StoreError) -> str:
    return f"{name}: {reason_of_reading(error)}"
