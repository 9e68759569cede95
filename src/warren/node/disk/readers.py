"""The threads that read the journal's segments and the files of streams.

A piece is read whole or not at all. The bytes are handed on as they are: checksums are checked by the core.

Invariants: files are touched by the reading thread alone, and the writer's report that a file is gone is one more order
in the thread's queue. Each thread has at most `OPEN_FILES_MAX` files open, the ones used last.

Not here: what rows and records mean (`broker.journal.segment_index`, `broker.journal.records`), the bytes of a stream
(`broker.streams.chunk`), writing (`node.disk.journal_writer`, `node.disk.archives`).
"""

import os
import queue
import threading
import time
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable

from warren.admin.ports import IoStats
from warren.broker.journal.segment_index import INDEX_HEADER_BYTES, directory_bytes, find_rows
from warren.broker.model.effects import Effect, ReadArchive, ReadIndex, ReadJournal
from warren.broker.model.events import ArchiveRead, Event, IndexRead, JournalRead
from warren.errors import StoreError
from warren.node.disk import file_names
from warren.node.disk.archives import segment_path
from warren.node.disk.file_io import DescriptorReserve, lacks_descriptors

OPEN_FILES_MAX = 16


class OpenFiles:
    """The files of one reading thread."""

    __slots__ = ("_descriptors", "_io", "_reserve")

    def __init__(self, reserve: DescriptorReserve, io: IoStats) -> None:
        self._reserve = reserve
        self._io = io
        # by path; the one used last is last
        self._descriptors: OrderedDict[str, int] = OrderedDict()

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Read a piece of a file; raises `OSError` or `StoreError` if it cannot be read completely."""
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
        """A file was deleted, or a directory with all its files."""
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


def read_error_text(error: OSError | StoreError) -> str:
    """Why a piece cannot be read."""
    return (error.strerror if isinstance(error, OSError) else "") or str(error)


class ReaderThread:
    """Reads one piece after another, and reports each.

    A piece that cannot be read is reported with the reason: the core waits for the ticket.
    """

    __slots__ = ("_failed", "_files", "_orders", "_report", "thread")

    def __init__(
        self,
        name: str,
        report: Callable[[Event], None],
        failed: Callable[[Exception], None],
        reserve: DescriptorReserve,
        io: IoStats,
    ) -> None:
        self._report = report
        self._failed = failed
        self._orders: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._files = OpenFiles(reserve, io)
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def order(self, effect: Effect) -> None:
        self._orders.put(lambda: self._report(self._read(effect)))

    def close(self, patience_s: float) -> None:
        self._orders.put(None)
        self.thread.join(patience_s)

    @abstractmethod
    def _read(self, effect: Effect) -> Event: ...

    def _run(self) -> None:
        try:
            while (order := self._orders.get()) is not None:
                order()
        except Exception as error:
            self._failed(error)
        finally:
            self._files.close()


DIRECTORIES_MAX = 16
GAP_BYTES_MAX = 4096
STRETCH_BYTES_MAX = 1024 * 1024


class JournalReaderThread(ReaderThread):
    """Carries out `ReadIndex` and `ReadJournal`: rows of an index, pieces of a segment.

    Pieces that lie close together are read at one go and cut apart. The directories of the indexes used last stay in
    memory.
    """

    __slots__ = ("_directories", "_journal")

    def __init__(
        self,
        journal: str,
        report: Callable[[Event], None],
        failed: Callable[[Exception], None],
        reserve: DescriptorReserve,
        io: IoStats | None = None,
    ) -> None:
        self._journal = journal
        # the head of an index by segment; the one used last is last
        self._directories: OrderedDict[int, bytes] = OrderedDict()
        super().__init__("journal-reader", report, failed, reserve, io or IoStats())

    def forget(self, segment: int) -> None:
        """The segment's files are gone; callable from any thread."""
        self._orders.put(lambda: self._forget(segment))

    def _read(self, effect: Effect) -> Event:
        if isinstance(effect, ReadJournal):
            return self._read_journal(effect)
        assert isinstance(effect, ReadIndex), effect
        return self._read_index(effect)

    def _read_index(self, order: ReadIndex) -> IndexRead:
        name = file_names.index_name(order.segment)
        try:
            head = self._index_head(order.segment)
            offset, length = find_rows(head, order.queue_id)
            return IndexRead(order.ticket, self._read_file(name, offset, length))
        except (OSError, StoreError) as error:
            return IndexRead(order.ticket, b"", _index_error_text(name, error))

    def _read_journal(self, order: ReadJournal) -> JournalRead:
        name = file_names.segment_name(order.segment)
        try:
            return JournalRead(order.ticket, self._pieces(name, order.extents))
        except (OSError, StoreError) as error:
            return JournalRead(order.ticket, [], _index_error_text(name, error))

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
            stretch = self._read_file(name, start, end - start)
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
            name = file_names.index_name(segment)
            header = self._read_file(name, 0, INDEX_HEADER_BYTES)
            head = header + self._read_file(name, INDEX_HEADER_BYTES, directory_bytes(header))
            self._directories[segment] = head
            if len(self._directories) > DIRECTORIES_MAX:
                self._directories.popitem(last=False)
        else:
            self._directories.move_to_end(segment)
        return head

    def _read_file(self, name: str, offset: int, length: int) -> bytes:
        return self._files.read(os.path.join(self._journal, name), offset, length)

    def _forget(self, segment: int) -> None:
        self._directories.pop(segment, None)
        for name in (file_names.segment_name(segment), file_names.index_name(segment)):
            self._files.forget(os.path.join(self._journal, name))


def _index_error_text(name: str, error: OSError | StoreError) -> str:
    return f"{name}: {read_error_text(error)}"


class ArchiveReaderThread(ReaderThread):
    """Carries out `ReadArchive`.

    It is not the journal's thread: a reader that starts at the beginning of a stream asks for megabytes at a time, and
    must not hold up consumers that wait for one message.
    """

    __slots__ = ("_streams",)

    def __init__(
        self,
        streams: str,
        report: Callable[[Event], None],
        failed: Callable[[Exception], None],
        reserve: DescriptorReserve,
        io: IoStats,
    ) -> None:
        self._streams = streams
        super().__init__("archive-reader", report, failed, reserve, io)

    def forget(self, path: str) -> None:
        """A file is gone, or a stream's whole directory; callable from any thread."""
        self._orders.put(lambda: self._files.forget(path))

    def _read(self, effect: Effect) -> Event:
        assert isinstance(effect, ReadArchive), effect
        path = segment_path(self._streams, effect.stream_id, effect.segment)
        try:
            return ArchiveRead(effect.ticket, self._files.read(path, effect.offset, effect.length))
        except (OSError, StoreError) as error:
            return ArchiveRead(effect.ticket, b"", f"segment {effect.segment} of the stream: {read_error_text(error)}")
