"""The thread that writes the journal: orders in, in order; one report of what is safe for all that were waiting.

::

    orders ──► take all that wait ──► metadata, one transaction ──► each batch at its offset ──► one flush ──► Stored

Group commit: while a flush runs, orders pile up, and the next flush serves them all. Nobody sleeps to gather more. The
one deadline is for batches that ask for no flush: they get one after `FLUSH_WITHIN_S`, if no other came first.

While the thread has nothing to do, a batch may be carried out by the one who would order it (`carry_out_now`), or only
begun, to be ordered or carried out a moment later (`begin_now`): then the disk is at work meanwhile. Both take the lock
under which the thread works, and stay away from everything that may have to be tried again.

Invariants:

- Metadata is durable before the data of the batches it came with is written; a deletion only after all data before it
  is flushed, because what left the deleted thing may be in there.
- A segment has its name once its first batch is on disk: a file with a segment's name has that segment's header.
- A checkpoint, or the loss of a segment, comes after everything ordered before it is flushed.
- After a failure nothing is written any more. A failed flush is a failure, and so is every error but a lack of room.

Lack of room: the step that met it is tried again every second, and nothing behind it goes ahead. The spare segment is
given up first. Lack of descriptors: one of those kept aside is given up, and the step is taken again.

A segment nobody needs any more may stay as the spare and become the next one: its blocks are there already. Its old
records do not pass for new ones, because a record's checksum starts with its segment's number.

Not here: what is written (`store.journal`), reading it back (`node.disk.reader`).
"""

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from warren.admin.node_facts import IoFigures
from warren.errors import StoreError
from warren.model.effects import DropSegments, Effect, KeepCheckpoint, Seal, Store
from warren.model.events import DiskFull, Event, Stored
from warren.node.disk import names
from warren.node.disk.durable import Flush, lacks_space, reason_of, replace_file, sync_directory
from warren.node.disk.pace import DiskPace
from warren.node.disk.reserve import Reserve, lacks_descriptors
from warren.node.disk.segment_file import SMALL_BATCH_BYTES, SegmentFile
from warren.store.metadata import MetadataStore

FLUSH_WITHIN_S = 0.2
RETRY_EVERY_S = 1.0
CLOSE_PATIENCE_S = 10.0
SPARE_BYTES_MAX = 128 * 1024 * 1024
# a report is not kept waiting for more than this much data
GROUP_BYTES_MAX = 8 * 1024 * 1024


class JournalWriter:
    """Carries out `Store`, `Seal`, `KeepCheckpoint` and `DropSegments`."""

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
        "_reserve",
        "_spare",
        "_told",
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
        reserve: Reserve,
        flush: Flush = os.fdatasync,
        io: IoFigures | None = None,
    ) -> None:
        self._journal = journal
        self._io = io or IoFigures()
        self._metadata = metadata
        self._report = report
        self._failed = failed
        self._forget = forget
        self._reserve = reserve
        self._flush = _counted(flush, self._io)
        self._orders: queue.SimpleQueue[Effect | None] = queue.SimpleQueue()
        # how many there were, and how many of them the thread has done with
        self._ordered = 0
        self._done = 0
        # held by whoever works on the files
        self._lock = threading.Lock()
        # the last batch that was written before it was ordered
        self._begun_no = 0
        # a flush that failed outside of the thread
        self._broken: StoreError | None = None
        self.pace = DiskPace()
        self._files: dict[int, SegmentFile] = {}
        # what is written but not flushed, and when it has to be
        self._dirty: dict[int, SegmentFile] = {}
        self._dirty_bytes = 0
        self._flush_at = 0.0
        self._written_no = 0
        self._flushed_no = 0
        self._told = (0, 0)
        spare = os.path.join(journal, names.SPARE)
        self._spare = spare if os.path.exists(spare) else ""
        self._full = False
        self._abandoned = False
        self._wake = threading.Event()
        self._carry_out: dict[type[Effect], Callable[[Any], None]] = {
            Seal: self._seal,
            KeepCheckpoint: self._keep_checkpoint,
            DropSegments: self._drop_segments,
        }
        self.thread = threading.Thread(target=self._run, name="journal-writer", daemon=True)
        self.thread.start()

    def order(self, effect: Effect) -> None:
        self._ordered += 1
        self._orders.put(effect)

    def at_rest(self) -> bool:
        """Whether everything that was ordered is done."""
        return self._ordered == self._done

    def begin_now(self, order: Store) -> None:
        """Write a batch that is to be ordered or carried out next, if that is a matter of nothing but writing."""
        if not self.at_rest() or not self._lock.acquire(blocking=False):
            return
        # if there is no room, whoever carries it out will meet the same, and knows what to do
        with contextlib.suppress(OSError):
            if self._broken is None and self._may_overwrite(order):
                self._write(order)
                self._files[order.segment].start_flush(order.offset, len(order.data))
                self._begun_no = order.batch_no
        self._lock.release()

    def carry_out_now(self, order: Store) -> bool:
        """Write and flush a batch here and now. False: it takes more than that, and has to be ordered."""
        if not self.at_rest() or not self._lock.acquire(blocking=False):
            return False
        try:
            return self._broken is None and self._may_overwrite(order) and self._overwrite(order)
        except StoreError as error:
            # with its next order the thread finds this, tells of it and ends, as after a failure of its own
            self._broken = error
            return False
        finally:
            self._lock.release()

    def _may_overwrite(self, order: Store) -> bool:
        file = self._files.get(order.segment) if self._dirty_bytes <= SMALL_BATCH_BYTES else None
        return file is not None and file.has_room(order.offset + len(order.data))

    def _overwrite(self, order: Store) -> bool:
        try:
            self._write(order)
        except OSError:
            # the thread will meet the same, and knows what to do
            return False
        self._flush_dirty()
        self._written_no = self._flushed_no = order.batch_no
        self._told = (order.batch_no, order.batch_no)
        return True

    def close(self, patience_s: float = CLOSE_PATIENCE_S) -> int:
        """Carry out what was ordered; the number of orders that were not, for lack of time."""
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
        """Everything that waits, or the first thing to come; and whether there may be more afterwards."""
        orders: list[Effect] = []
        size_bytes = 0
        try:
            order = self._orders.get(timeout=max(0.0, self._flush_at - time.monotonic()) if self._dirty else None)
            while order is not None:
                orders.append(order)
                if type(order) is Store:
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
        changes = [change for order in orders if type(order) is Store for change in order.changes]
        if any(change.value is None for change in changes):
            self._flush_dirty()
        if changes:
            self._insist(self._metadata.apply, changes)
        for order in orders:
            if type(order) is Store:
                self._insist(self._write, order)
                self._written_no = order.batch_no
                flush = flush or order.flush
            else:
                self._insist(self._carry_out[type(order)], order)
        if flush or time.monotonic() >= self._flush_at:
            self._flush_dirty()
        self._tell()

    def _insist(self, step: Callable[[Any], None], order: Any) -> None:
        """Take a step, and again for as long as there is no room for it. Every step may be taken again."""
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
                    self._await_room(reason_of(error))
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

    def _write(self, order: Store) -> None:
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
            file.rename(names.segment_path(self._journal, order.segment))
            sync_directory(self._journal)
            return
        self._dirty_bytes += written_bytes
        if order.segment not in self._dirty:
            if not self._dirty:
                self._flush_at = time.monotonic() + FLUSH_WITHIN_S
            self._dirty[order.segment] = file

    def _open(self, order: Store) -> SegmentFile:
        path = names.segment_path(self._journal, order.segment)
        if order.offset > 0:
            return SegmentFile(path, create=False)
        if self._spare:
            spare, self._spare = self._spare, ""
            return SegmentFile(spare, create=False)
        return SegmentFile(path + names.UNFINISHED_SUFFIX, create=True)

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

    def _tell(self) -> None:
        if not self._dirty:
            self._flushed_no = self._written_no
        told = (self._written_no, self._flushed_no)
        if told != self._told:
            self._told = told
            self._report(Stored(*told))

    def _seal(self, order: Seal) -> None:
        if order.segment not in self._files:
            # of an earlier run: that it could be read does not mean it was flushed
            path = names.segment_path(self._journal, order.segment)
            self._files[order.segment] = self._dirty[order.segment] = SegmentFile(path, create=False)
        self._flush_dirty()
        self._files[order.segment].trim(order.size_bytes)
        replace_file(names.index_path(self._journal, order.segment), order.index, self._flush)
        self._close_file(order.segment)

    def _keep_checkpoint(self, order: KeepCheckpoint) -> None:
        self._flush_dirty()
        replace_file(os.path.join(self._journal, names.CHECKPOINT), order.data, self._flush)
        self._reserve.refill()

    def _drop_segments(self, order: DropSegments) -> None:
        self._flush_dirty()
        for number in order.segments:
            self._close_file(number)
            # gone already, if this step is taken again
            with contextlib.suppress(FileNotFoundError):
                self._drop(names.segment_path(self._journal, number))
            with contextlib.suppress(FileNotFoundError):
                os.unlink(names.index_path(self._journal, number))
        sync_directory(self._journal)
        for number in order.segments:
            self._forget(number)

    def _drop(self, path: str) -> None:
        if self._spare or os.path.getsize(path) > SPARE_BYTES_MAX:
            os.unlink(path)
        else:
            spare = os.path.join(self._journal, names.SPARE)
            os.rename(path, spare)
            self._spare = spare

    def _close_file(self, number: int) -> None:
        file = self._files.pop(number, None)
        if file is not None:
            file.close()


def _counted(flush: Flush, io: IoFigures) -> Flush:
    def counted(descriptor: int) -> None:
        started = time.perf_counter()
        flush(descriptor)
        io.syncs += 1
        io.sync_s += time.perf_counter() - started

    return counted


def _groups(orders: list[Effect]) -> list[list[Effect]]:
    """Orders that may be carried out together: a deletion does not go with data that comes before it."""
    groups: list[list[Effect]] = [[]]
    data = False
    for order in orders:
        if type(order) is Store:
            if data and any(change.value is None for change in order.changes):
                groups.append([])
                data = False
            data = data or bool(order.data)
        groups[-1].append(order)
    return groups
