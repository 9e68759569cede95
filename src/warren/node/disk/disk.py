"""All a node keeps on disk, opened: the locked directory, the metadata, and the threads of the journal and of streams.

::

    Disk(path, name) ── opens and locks ── found() ── for the core's recovery ── start() ── threads ── close()

The threads report to the loop, one call for each event. An error they cannot get past is told once; the node stops.

Closing: everything ordered is carried out first. If that takes too long (a disk that stays full), what is left is given
up, and metadata and lock are left to the end of the process, because the writer may still hold them.

Not here: who decides what is written (`store`), the sequence of a start (`node.node`).

The short way to the disk: a small batch is flushed by the loop itself, when the loop has nothing else to do.

::

    order ──► small and waited for? ──yes──► written ──► the loop goes round once ──► still alone? ──yes──► flushed here
                     │ no                                                                 │ no
                     └──────────────────────────► the writer's thread ◄───────────────────┘

To wake a thread, and to be woken by it, takes about as long as the flush. Who waits for the confirm of one message
before sending the next pays for all three. But then the loop is idle, and may as well wait for the disk itself.

- The loop goes round once before it waits. What the turn had to send is sent by then, and what had arrived is read: if
  that makes another turn due, there is work to be done while the disk works, and the thread is the right one.
- The batch is written before that, and the disk told to begin: half of a flush is done by the time it is asked for.
- The thread must be at rest, or the batch would overtake others. Metadata, new segments and room ahead are the thread's
  alone: here only bytes are written for which the file has room, so there is no lack of room to wait for either.
- The disk must be quick (`node.disk.journal_writer`): a loop that waits for a slow disk serves nobody. On a slow one
only the
  thread flushes, and notices when it is quick again.

Invariant: orders reach the disk in the order they were given. At most one is held here, and it goes before any other.

Not here: how it is written, and what becomes of a failure (`node.disk.journal_writer`).
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

INLINE_FLUSH_BYTES_MAX = 16 * 1024


class TurnLoopPort(Protocol):
    """What the disk wants of the node's turns."""

    loop: asyncio.AbstractEventLoop

    def add(self, event: Event) -> None: ...

    def add_now(self, event: Event) -> None: ...

    def due(self) -> bool: ...


class InlineFlush:
    """Stands before the writer. `order` is called on the loop; `close` anywhere, when there are no more orders."""

    __slots__ = ("_held", "_turns", "_writer")

    def __init__(self, writer: JournalWriterThread, turns: TurnLoopPort) -> None:
        self._writer = writer
        self._turns = turns
        # one at most; a list, because when the node stops two threads may reach for it, and only one gets it
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

    def __init__(self, path: str, node_name: str) -> None:
        self._directory = DataDirectory(path, node_name)
        self.path = self._directory.path
        # what its threads did
        self.io = IoStats()
        # files in the journal's directory that are none of the journal's
        self.strangers: list[str] = []
        self._reader: JournalReaderThread | None = None
        self._writer: JournalWriterThread | None = None
        self._shortcut: InlineFlush | None = None
        self._archives: ArchiveWriterThread | None = None
        self._archive_reader: ArchiveReaderThread | None = None
        self._reserve: DescriptorReserve | None = None
        try:
            self._metadata = SqliteStore(self._directory.metadata_path)
            self._open = True
        except BaseException:
            self._directory.close()
            raise

    def begin_incarnation(self) -> int:
        """This run is counted from here on; its number."""
        try:
            return self._metadata.begin_incarnation()
        except OSError as error:
            raise StoreError(f"the node cannot begin to write: {os_error_text(error)}") from error

    def raise_incarnation(self, to: int) -> None:
        """This run has that number instead."""
        try:
            self._metadata.raise_incarnation(to)
        except OSError as error:
            raise StoreError(f"the node cannot begin to write: {os_error_text(error)}") from error

    def asked_run(self) -> int:
        """The last run that the cluster was asked to count."""
        return self._metadata.asked_run()

    def keep_asked_run(self, run: int) -> None:
        """The cluster is asked to count this one."""
        try:
            self._metadata.keep_asked_run(run)
        except OSError as error:
            raise StoreError(f"the node cannot begin to write: {os_error_text(error)}") from error

    def identity(self) -> int:
        """What tells this journal from any other that a node of its name may have had."""
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
        """What an earlier run left."""
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
        """Delete the journal of a node that has no queues, and its streams. Before anything of it is read."""
        for name in os.listdir(self._directory.journal_path):
            os.unlink(os.path.join(self._directory.journal_path, name))
        sync_directory(self._directory.journal_path)
        shutil.rmtree(self._directory.streams_path, ignore_errors=True)

    def start(self, turns: TurnLoopPort, failed: Callable[[Exception], None]) -> None:
        def report(event: Event) -> None:
            turns.loop.call_soon_threadsafe(turns.add, event)

        def tell_failure(error: Exception) -> None:
            turns.loop.call_soon_threadsafe(failed, error)

        journal = self._directory.journal_path
        reserve = self._reserve = DescriptorReserve()
        reader = JournalReaderThread(journal, report, tell_failure, reserve, self.io)
        self._reader = reader
        writer = JournalWriterThread(journal, self._metadata, report, tell_failure, reader.forget, reserve, io=self.io)
        self._writer = writer
        self._shortcut = InlineFlush(writer, turns)
        streams = self._directory.streams_path
        archive_reader = ArchiveReaderThread(streams, report, tell_failure, reserve, self.io)
        self._archive_reader = archive_reader
        self._archives = ArchiveWriterThread(streams, report, tell_failure, archive_reader.forget, reserve)

    def orders(self) -> dict[type[Effect], Callable[[Effect], None]]:
        """Who carries out which effect, once started."""
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
        """Let go of everything, once; the number of orders that were given up."""
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
