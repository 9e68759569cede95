"""The thread that writes the journal: orders in, in order; one report of what is durable for all that waited.

::

    orders ──► take all that wait ──► metadata, one transaction ──► each batch at its offset ──► one flush ──► report

Group commit: while a flush runs, orders collect, and the next flush serves them all. Nothing sleeps to collect more.
The one deadline is for batches that ask for no flush: they get one within `FLUSH_WITHIN_S`.

While the thread is idle, the loop may carry out a batch itself (`carry_out_now`), or only begin it, to order or carry
it out a moment later (`begin_now`): then the disk works meanwhile. Both take the lock under which the thread works, and
avoid everything that may have to be tried again.

Invariants:

- Metadata is durable before the data of its batches is written. A deletion is written only after all data before it is
  flushed, because messages that left the deleted object may be in there.
- A segment gets its name once its first batch is on disk: a file with a segment's name has that segment's header.
- A checkpoint, or the deletion of a segment, comes after everything ordered before it is flushed.
- After a failure nothing is written. A failed flush is a failure, and so is every error but a lack of space.

Lack of space: the failed step is tried again every second, and nothing overtakes it. The spare segment is given up
first. Lack of descriptors: a reserved one is given up, and the step is tried again.

An unused segment may stay as the spare and become the next one, because its blocks are allocated. Its old records do
not pass for new ones, because a record's checksum starts with its segment's number.

**Preallocation.** A flush that makes the file longer also writes the new length; a flush of overwritten bytes does not,
and takes about half as long. So while batches are small and the flush is most of their latency, zeros are written ahead
of the tail. With large batches the zeros would double the writing, so there are none. A recycled file needs none
either. A sealed segment, and one left by a killed node, is truncated to its last batch. Invariant: the bytes behind the
last batch are zeros or the remains of another segment, and are never taken for records.

Not here: what is written (`broker.journal.journal`), reading (`node.disk.readers`), the inline flush
(`node.disk.disk`).
"""

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from warren.admin.ports import IoStats
from warren.broker.metadata.store import MetadataStore
from warren.broker.model.effects import AppendRecords, DropSegments, Effect, SealSegment, WriteCheckpoint
from warren.broker.model.events import DiskFull, Event, FlushCompleted
from warren.errors import StoreError
from warren.node.disk import file_names
from warren.node.disk.file_io import (
    FILE_MODE,
    DescriptorReserve,
    Flush,
    flush_file,
    lacks_descriptors,
    lacks_space,
    os_error_text,
    replace_file,
    sync_directory,
    write_all,
)

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
        """Whether the file already reaches that far."""
        return end <= self._filled_to

    def write(self, data: bytes, offset: int) -> int:
        """Returns how many bytes were written, preallocation included."""
        write_all(self._descriptor, data, offset)
        end = offset + len(data)
        if end <= self._filled_to:
            return len(data)
        self._filled_to = end
        if len(data) < SMALL_BATCH_BYTES:
            self._fill_ahead()
        return self._filled_to - offset

    def start_flush(self, offset: int, size_bytes: int) -> None:
        """Let the disk begin to write these bytes, without waiting: the flush will have less to do."""
        if size_bytes < PAGE_BYTES:
            # the advice itself, to drop whole pages, has no effect: there is no whole page in so few bytes
            os.posix_fadvise(self._descriptor, offset, size_bytes, os.POSIX_FADV_DONTNEED)

    def flush(self, flush: Flush) -> None:
        flush_file(self._descriptor, self.path, flush)

    def trim(self, size_bytes: int) -> None:
        """Truncate the file to its last batch, if it has any."""
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
            # the batch itself had space; the next one fails if it has none
            if not lacks_space(error):
                raise


QUICK_FLUSH_S = 0.0005
LATENCY_WEIGHT = 1 / 16


class FlushLatency:
    """A running average of small flushes. Before the first one it is twice what counts as fast.

    A single slow flush changes nothing; several do, until as many fast ones have followed.
    """

    __slots__ = ("_average_s",)

    def __init__(self) -> None:
        self._average_s = 2 * QUICK_FLUSH_S

    def took(self, seconds: float) -> None:
        self._average_s += (seconds - self._average_s) * LATENCY_WEIGHT

    def quick(self) -> bool:
        return self._average_s <= QUICK_FLUSH_S


FLUSH_WITHIN_S = 0.2
RETRY_EVERY_S = 1.0
CLOSE_PATIENCE_S = 10.0
SPARE_BYTES_MAX = 128 * 1024 * 1024
# a report does not wait for more data than this
GROUP_BYTES_MAX = 8 * 1024 * 1024


class JournalWriterThread:
    """Carries out `AppendRecords`, `SealSegment`, `WriteCheckpoint` and `DropSegments`."""

    __slots__ = (
        "_abandoned",
        "_begun_no",
        "_broken",
        "_carry_out",
        "_dirty",
        "_dirty_bytes",
        "_done",
        "_failed",
        "_files",
        "_flush",
        "_flush_at",
        "_flushed_no",
        "_forget",
        "_full",
        "_io",
        "_journal",
        "_lock",
        "_metadata",
        "_ordered",
        "_orders",
        "_report",
        "_reported",
        "_reserve",
        "_spare",
        "_wake",
        "_written_no",
        "pace",
        "thread",
    )

    def __init__(
        self,
        journal: str,
        metadata: MetadataStore,
        report: Callable[[Event], None],
        failed: Callable[[Exception], None],
        forget: Callable[[int], None],
        reserve: DescriptorReserve,
        flush: Flush = os.fdatasync,
        io: IoStats | None = None,
    ) -> None:
        self._journal = journal
        self._io = io or IoStats()
        self._metadata = metadata
        self._report = report
        self._failed = failed
        self._forget = forget
        self._reserve = reserve
        self._flush = _counted(flush, self._io)
        self._orders: queue.SimpleQueue[Effect | None] = queue.SimpleQueue()
        # the number of orders, and how many of them the thread has done
        self._ordered = 0
        self._done = 0
        # held while working on the files
        self._lock = threading.Lock()
        # the last batch that was written before it was ordered
        self._begun_no = 0
        # a flush that failed outside of the thread
        self._broken: StoreError | None = None
        self.pace = FlushLatency()
        self._files: dict[int, SegmentFile] = {}
        # written but not flushed, and when it has to be
        self._dirty: dict[int, SegmentFile] = {}
        self._dirty_bytes = 0
        self._flush_at = 0.0
        self._written_no = 0
        self._flushed_no = 0
        self._reported = (0, 0)
        spare = os.path.join(journal, file_names.SPARE)
        self._spare = spare if os.path.exists(spare) else ""
        self._full = False
        self._abandoned = False
        self._wake = threading.Event()
        self._carry_out: dict[type[Effect], Callable[[Any], None]] = {
            SealSegment: self._seal,
            WriteCheckpoint: self._keep_checkpoint,
            DropSegments: self._drop_segments,
        }
        self.thread = threading.Thread(target=self._run, name="journal-writer", daemon=True)
        self.thread.start()

    def order(self, effect: Effect) -> None:
        self._ordered += 1
        self._orders.put(effect)

    def at_rest(self) -> bool:
        """Whether all orders are done."""
        return self._ordered == self._done

    def begin_now(self, order: AppendRecords) -> None:
        """Write a batch that is ordered or carried out next, if that takes nothing but writing."""
        if not self.at_rest() or not self._lock.acquire(blocking=False):
            return
        # without space, carrying out the batch fails the same way and is handled there
        with contextlib.suppress(OSError):
            if self._broken is None and self._may_overwrite(order):
                self._write(order)
                self._files[order.segment].start_flush(order.offset, len(order.data))
                self._begun_no = order.batch_no
        self._lock.release()

    def carry_out_now(self, order: AppendRecords) -> bool:
        """Write and flush a batch at once. False: it takes more than that, and has to be ordered."""
        if not self.at_rest() or not self._lock.acquire(blocking=False):
            return False
        try:
            return self._broken is None and self._may_overwrite(order) and self._overwrite(order)
        except StoreError as error:
            # with its next order the thread finds this, reports it and ends, as after its own failure
            self._broken = error
            return False
        finally:
            self._lock.release()

    def _may_overwrite(self, order: AppendRecords) -> bool:
        file = self._files.get(order.segment) if self._dirty_bytes <= SMALL_BATCH_BYTES else None
        return file is not None and file.has_room(order.offset + len(order.data))

    def _overwrite(self, order: AppendRecords) -> bool:
        try:
            self._write(order)
        except OSError:
            # the thread fails the same way and handles it
            return False
        self._flush_dirty()
        self._written_no = self._flushed_no = order.batch_no
        self._reported = (order.batch_no, order.batch_no)
        return True

    def close(self, patience_s: float = CLOSE_PATIENCE_S) -> int:
        """Carry out all orders; returns the number of orders left when time was up."""
        self._orders.put(None)
        self._wake.set()
        self.thread.join(patience_s)
        if not self.thread.is_alive():
            return 0
        self._abandoned = True
        self._wake.set()
        return max(1, self._orders.qsize() - 1)

    def _run(self) -> None:
        try:
            more = True
            while more:
                orders, more = self._take()
                with self._lock:
                    for group in _groups(orders):
                        self._carry_out_all(group, flush=not more)
                self._done += len(orders)
        except Exception as error:
            if not self._abandoned:
                self._failed(error)
        finally:
            with self._lock:
                for number in list(self._files):
                    self._close_file(number)

    def _take(self) -> tuple[list[Effect], bool]:
        """Everything that waits, or the first order to come; and whether there may be more afterwards."""
        orders: list[Effect] = []
        size_bytes = 0
        try:
            order = self._orders.get(timeout=max(0.0, self._flush_at - time.monotonic()) if self._dirty else None)
            while order is not None:
                orders.append(order)
                if type(order) is AppendRecords:
                    size_bytes += len(order.data)
                if size_bytes >= GROUP_BYTES_MAX:
                    return orders, True
                order = self._orders.get_nowait()
        except queue.Empty:
            return orders, True
        return orders, False

    def _carry_out_all(self, orders: list[Effect], flush: bool) -> None:
        if self._broken is not None:
            raise self._broken
        changes = [change for order in orders if type(order) is AppendRecords for change in order.changes]
        if any(change.value is None for change in changes):
            self._flush_dirty()
        if changes:
            self._insist(self._metadata.apply, changes)
        for order in orders:
            if type(order) is AppendRecords:
                self._insist(self._write, order)
                self._written_no = order.batch_no
                flush = flush or order.flush
            else:
                self._insist(self._carry_out[type(order)], order)
        if flush or time.monotonic() >= self._flush_at:
            self._flush_dirty()
        self._report_progress()

    def _insist(self, step: Callable[[Any], None], order: Any) -> None:
        """Run a step, and again while there is no space. Every step can be repeated."""
        while True:
            try:
                step(order)
                break
            except OSError as error:
                if lacks_descriptors(error):
                    self._reserve.give_one()
                    continue
                if not lacks_space(error):
                    raise
                if self._spare:
                    os.unlink(self._spare)
                    self._spare = ""
                else:
                    self._await_room(os_error_text(error))
        if self._full:
            self._full = False
            self._report(DiskFull(""))

    def _await_room(self, reason: str) -> None:
        if not self._full:
            self._full = True
            self._report(DiskFull(reason))
        self._wake.wait(RETRY_EVERY_S)
        self._wake.clear()
        if self._abandoned:
            raise StoreError("the node did not wait for room on the disk")

    def _write(self, order: AppendRecords) -> None:
        if not order.data or order.batch_no == self._begun_no:
            return
        file = self._files.get(order.segment)
        if file is None:
            file = self._files[order.segment] = self._open(order)
        started = time.perf_counter()
        written_bytes = file.write(order.data, order.offset)
        self._io.writes += 1
        self._io.write_bytes += written_bytes
        self._io.write_s += time.perf_counter() - started
        if order.offset == 0:
            file.flush(self._flush)
            file.rename(file_names.segment_path(self._journal, order.segment))
            sync_directory(self._journal)
            return
        self._dirty_bytes += written_bytes
        if order.segment not in self._dirty:
            if not self._dirty:
                self._flush_at = time.monotonic() + FLUSH_WITHIN_S
            self._dirty[order.segment] = file

    def _open(self, order: AppendRecords) -> SegmentFile:
        path = file_names.segment_path(self._journal, order.segment)
        if order.offset > 0:
            return SegmentFile(path, create=False)
        if self._spare:
            spare, self._spare = self._spare, ""
            return SegmentFile(spare, create=False)
        return SegmentFile(path + file_names.UNFINISHED_SUFFIX, create=True)

    def _flush_dirty(self) -> None:
        if not self._dirty:
            return
        began_s = time.monotonic()
        for file in self._dirty.values():
            file.flush(self._flush)
        self._dirty.clear()
        if self._dirty_bytes <= SMALL_BATCH_BYTES:
            self.pace.took(time.monotonic() - began_s)
        self._dirty_bytes = 0

    def _report_progress(self) -> None:
        if not self._dirty:
            self._flushed_no = self._written_no
        progress = (self._written_no, self._flushed_no)
        if progress != self._reported:
            self._reported = progress
            self._report(FlushCompleted(*progress))

    def _seal(self, order: SealSegment) -> None:
        if order.segment not in self._files:
            # from an earlier run: readable does not mean flushed
            path = file_names.segment_path(self._journal, order.segment)
            self._files[order.segment] = self._dirty[order.segment] = SegmentFile(path, create=False)
        self._flush_dirty()
        self._files[order.segment].trim(order.size_bytes)
        replace_file(file_names.index_path(self._journal, order.segment), order.index, self._flush)
        self._close_file(order.segment)

    def _keep_checkpoint(self, order: WriteCheckpoint) -> None:
        self._flush_dirty()
        replace_file(os.path.join(self._journal, file_names.CHECKPOINT), order.data, self._flush)
        self._reserve.refill()

    def _drop_segments(self, order: DropSegments) -> None:
        self._flush_dirty()
        for number in order.segments:
            self._close_file(number)
            # gone already, if this step is repeated
            with contextlib.suppress(FileNotFoundError):
                self._drop(file_names.segment_path(self._journal, number))
            with contextlib.suppress(FileNotFoundError):
                os.unlink(file_names.index_path(self._journal, number))
        sync_directory(self._journal)
        for number in order.segments:
            self._forget(number)

    def _drop(self, path: str) -> None:
        if self._spare or os.path.getsize(path) > SPARE_BYTES_MAX:
            os.unlink(path)
        else:
            spare = os.path.join(self._journal, file_names.SPARE)
            os.rename(path, spare)
            self._spare = spare

    def _close_file(self, number: int) -> None:
        file = self._files.pop(number, None)
        if file is not None:
            file.close()


def _counted(flush: Flush, io: IoStats) -> Flush:
    def counted(descriptor: int) -> None:
        started = time.perf_counter()
        flush(descriptor)
        io.syncs += 1
        io.sync_s += time.perf_counter() - started

    return counted


def _groups(orders: list[Effect]) -> list[list[Effect]]:
    """Orders that may be carried out together: a deletion is not grouped with data before it."""
    groups: list[list[Effect]] = [[]]
    data = False
    for order in orders:
        if type(order) is AppendRecords:
            if data and any(change.value is None for change in order.changes):
                groups.append([])
                data = False
            data = data or bool(order.data)
        groups[-1].append(order)
    return groups
