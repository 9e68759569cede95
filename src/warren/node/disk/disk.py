"""A node's disk: the locked directory, the metadata, and the threads of the journal and of streams.

::

    Disk(path, name) ── opens and locks ── found() ── for the broker's recovery ── start() ── threads ── close()

The threads report to the loop, one call for each event. A fatal error is reported once; the node stops.

Closing carries out all orders first. If that takes too long (a full disk), the rest is given up, and metadata and lock
are left to the end of the process, because the writer may still use them.

**Inline flush.** The loop itself flushes a small batch when it has nothing else to do:

::

    order ──► small and waited for? ──yes──► written ──► the loop goes round once ──► still alone? ──yes──► flushed here
                     │ no                                                                 │ no
                     └──────────────────────────► the writer's thread ◄───────────────────┘

Waking a thread, and being woken by it, takes about as long as the flush. A publisher that waits for each confirm before
its next message pays for all three. But then the loop is idle, and may as well wait for the disk itself.

- The loop goes round once before it waits. By then the turn's output is sent and arrived input is read. If that makes
  another turn due, the thread flushes, and the loop works meanwhile.
- The batch is written before that, and the disk is told to begin, so half of the flush is done by the time it is asked
  for.
- The thread must be idle, or the batch would overtake others. Metadata, new segments and preallocation are the thread's
  alone: here only bytes are written for which the file has space.
- The disk must be fast (`FlushLatency`): a loop that waits for a slow disk serves no client. On a slow disk only the
  thread flushes, and notices when it is fast again.

Invariant: orders reach the disk in the order they were given. At most one is held here, and it goes before any other.

Not here: writing and its failures (`node.disk.journal_writer`), the sequence of a start (`node.node`).
"""

import asyncio
import os
import secrets
import shutil
from collections.abc import Callable
from typing import Protocol

from warren.admin.ports import IoStats
from warren.broker.journal.recovery import StartupState
from warren.broker.metadata.store import Snapshot
from warren.broker.model.effects import (
    AppendRecords,
    DropArchive,
    DropSegments,
    Effect,
    ReadArchive,
    ReadIndex,
    ReadJournal,
    SealSegment,
    WriteArchive,
    WriteCheckpoint,
)
from warren.broker.model.events import Event, FlushCompleted
from warren.errors import StoreError
from warren.node.disk.archives import ArchiveWriterThread, FoundArchives
from warren.node.disk.directory import DataDirectory, FoundJournalFiles
from warren.node.disk.file_io import DescriptorReserve, os_error_text, replace_file, sync_directory
from warren.node.disk.file_names import IDENTITY
from warren.node.disk.journal_writer import CLOSE_PATIENCE_S, JournalWriterThread
from warren.node.disk.readers import ArchiveReaderThread, JournalReaderThread
from warren.node.disk.sqlite_store import SqliteStore
from warren.node.parameter_cipher import ParameterCipher

INLINE_FLUSH_BYTES_MAX = 16 * 1024


class TurnLoopPort(Protocol):
    """The part of the turn loop that the disk uses."""

    loop: asyncio.AbstractEventLoop

    def add(self, event: Event) -> None: ...

    def add_now(self, event: Event) -> None: ...

    def due(self) -> bool: ...


class InlineFlush:
    """Stands before the writer. `order` is called on the loop; `close` on any thread, after the last order."""

    __slots__ = ("_held", "_turns", "_writer")

    def __init__(self, writer: JournalWriterThread, turns: TurnLoopPort) -> None:
        self._writer = writer
        self._turns = turns
        # one at most; a list, because when the node stops two threads may pop it, and only one gets it
        self._held: list[AppendRecords] = []

    def order(self, effect: Effect) -> None:
        self._pass_on()
        if type(effect) is AppendRecords and _is_small(effect) and self._may_be_waited_for():
            self._writer.begin_now(effect)
            self._held.append(effect)
            self._turns.loop.call_soon(self._went_round)
        else:
            self._writer.order(effect)

    def close(self) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        store = self._take_held()
        if store is not None:
            self._writer.order(store)

    def _take_held(self) -> AppendRecords | None:
        try:
            return self._held.pop()
        except IndexError:
            return None

    def _may_be_waited_for(self) -> bool:
        return self._writer.at_rest() and self._writer.pace.quick()

    def _went_round(self) -> None:
        store = self._take_held()
        if store is None:
            return
        if not self._turns.due() and self._writer.carry_out_now(store):
            self._turns.add_now(FlushCompleted(store.batch_no, store.batch_no))
        else:
            self._writer.order(store)


def _is_small(store: AppendRecords) -> bool:
    return store.flush and not store.changes and len(store.data) <= INLINE_FLUSH_BYTES_MAX


READER_PATIENCE_S = 1.0
WRITES: tuple[type[Effect], ...] = (AppendRecords, SealSegment, WriteCheckpoint, DropSegments)
READS: tuple[type[Effect], ...] = (ReadIndex, ReadJournal)
ARCHIVES: tuple[type[Effect], ...] = (WriteArchive, DropArchive)
IDENTITY_BITS = 62


class Disk:
    """One node's data directory, from its lock to its release."""

    __slots__ = (
        "_archive_reader",
        "_archives",
        "_directory",
        "_metadata",
        "_open",
        "_reader",
        "_reserve",
        "_shortcut",
        "_writer",
        "io",
        "path",
        "strangers",
    )

    def __init__(self, path: str, node_name: str, read_cookie: Callable[[], bytes] | None = None) -> None:
        """`read_cookie` may create the cookie in the directory."""
        self._directory = DataDirectory(path, node_name)
        self.path = self._directory.path
        # the I/O counters of its threads
        self.io = IoStats()
        # foreign files in the journal's directory
        self.strangers: list[str] = []
        self._reader: JournalReaderThread | None = None
        self._writer: JournalWriterThread | None = None
        self._shortcut: InlineFlush | None = None
        self._archives: ArchiveWriterThread | None = None
        self._archive_reader: ArchiveReaderThread | None = None
        self._reserve: DescriptorReserve | None = None
        try:
            cipher = None if read_cookie is None else ParameterCipher(read_cookie())
            self._metadata = SqliteStore(self._directory.metadata_path, cipher)
            self._open = True
        except BaseException:
            self._directory.close()
            raise

    def begin_incarnation(self) -> int:
        """Record a new run; returns its number."""
        try:
            return self._metadata.begin_incarnation()
        except OSError as error:
            raise StoreError(f"the node cannot begin to write: {os_error_text(error)}") from error

    def raise_incarnation(self, to: int) -> None:
        """Give this run that number instead."""
        try:
            self._metadata.raise_incarnation(to)
        except OSError as error:
            raise StoreError(f"the node cannot begin to write: {os_error_text(error)}") from error

    def requested_incarnation(self) -> int:
        """The last run that the cluster was asked to register."""
        return self._metadata.requested_incarnation()

    def record_requested_incarnation(self, incarnation: int) -> None:
        """Record that the cluster is asked to register this run."""
        try:
            self._metadata.record_requested_incarnation(incarnation)
        except OSError as error:
            raise StoreError(f"the node cannot begin to write: {os_error_text(error)}") from error

    def identity(self) -> int:
        """Identifies this journal among all that a node of its name may have had."""
        path = os.path.join(self._directory.journal_path, IDENTITY)
        try:
            if not os.path.exists(path):
                replace_file(path, b"%d\n" % secrets.randbits(IDENTITY_BITS))
            with open(path, "rb") as file:
                return int(file.read())
        except OSError as error:
            raise StoreError(f"the node cannot begin to write: {os_error_text(error)}") from error
        except ValueError as error:
            raise StoreError(
                f"{path} is damaged: it is not a number; without it the node starts, and mirrored queues count on "
                "nothing that it has"
            ) from error

    def found(self, incarnation: int, now_ms: int) -> StartupState:
        """The state that an earlier run left."""
        revision, values = self._metadata.snapshot()
        files = FoundJournalFiles(self._directory.journal_path)
        self.strangers = files.strangers
        found = StartupState(revision, values, files, incarnation, now_ms)
        found.archives = FoundArchives(self._directory.streams_path)
        return found

    def recorded(self) -> Snapshot:
        """The definitions of a node alone, with the revisions that name them."""
        return self._metadata.snapshot()[1]

    def forget_messages(self) -> None:
        """Delete the journal and the streams of a node without queues. Call it before anything of them is read."""
        for name in os.listdir(self._directory.journal_path):
            os.unlink(os.path.join(self._directory.journal_path, name))
        sync_directory(self._directory.journal_path)
        shutil.rmtree(self._directory.streams_path, ignore_errors=True)

    def start(self, turns: TurnLoopPort, failed: Callable[[Exception], None]) -> None:
        def report(event: Event) -> None:
            turns.loop.call_soon_threadsafe(turns.add, event)

        def report_failure(error: Exception) -> None:
            turns.loop.call_soon_threadsafe(failed, error)

        journal = self._directory.journal_path
        reserve = self._reserve = DescriptorReserve()
        reader = JournalReaderThread(journal, report, report_failure, reserve, self.io)
        self._reader = reader
        writer = JournalWriterThread(
            journal, self._metadata, report, report_failure, reader.forget, reserve, io=self.io
        )
        self._writer = writer
        self._shortcut = InlineFlush(writer, turns)
        streams = self._directory.streams_path
        archive_reader = ArchiveReaderThread(streams, report, report_failure, reserve, self.io)
        self._archive_reader = archive_reader
        self._archives = ArchiveWriterThread(streams, report, report_failure, archive_reader.forget, reserve)

    def orders(self) -> dict[type[Effect], Callable[[Effect], None]]:
        """The handlers of disk effects, once started."""
        assert self._shortcut is not None
        assert self._reader is not None
        assert self._archives is not None
        assert self._archive_reader is not None
        return {
            **dict.fromkeys(WRITES, self._shortcut.order),
            **dict.fromkeys(READS, self._reader.order),
            **dict.fromkeys(ARCHIVES, self._archives.order),
            ReadArchive: self._archive_reader.order,
        }

    def close(self, patience_s: float = CLOSE_PATIENCE_S) -> int:
        """Release everything, once; returns the number of orders that were given up."""
        if not self._open:
            return 0
        self._open = False
        if self._reader is not None:
            self._reader.close(READER_PATIENCE_S)
        if self._archive_reader is not None:
            self._archive_reader.close(READER_PATIENCE_S)
        if self._archives is not None:
            self._archives.close(READER_PATIENCE_S)
        if self._shortcut is not None:
            self._shortcut.close()
        given_up = self._writer.close(patience_s) if self._writer is not None else 0
        if self._reserve is not None:
            self._reserve.close()
        if not given_up:
            self._metadata.close()
            self._directory.close()
        return given_up
