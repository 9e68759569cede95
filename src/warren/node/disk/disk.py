"""All a node keeps on disk, opened: the locked directory, the metadata, and the threads of the journal and of streams.

::

    Disk(path, name) ── opens and locks ── found() ── for the core's recovery ── start() ── threads ── close()

The threads report to the loop, one call for each event. An error they cannot get past is told once; the node stops.

Closing: everything ordered is carried out first. If that takes too long (a disk that stays full), what is left is given
up, and metadata and lock are left to the end of the process, because the writer may still hold them.

Not here: who decides what is written (`store`), the sequence of a start (`node.node`).
"""

import os
import secrets
import shutil
from collections.abc import Callable

from warren.admin.node_facts import IoFigures
from warren.errors import StoreError
from warren.model.effects import (
    DropArchive,
    DropSegments,
    Effect,
    KeepCheckpoint,
    ReadArchive,
    ReadIndex,
    ReadJournal,
    Seal,
    Store,
    WriteArchive,
)
from warren.model.events import Event
from warren.node.disk.archive_files import FoundArchives
from warren.node.disk.archive_reader import ArchiveReader
from warren.node.disk.archive_writer import ArchiveWriter
from warren.node.disk.directory import DataDirectory
from warren.node.disk.durable import reason_of, replace_file, sync_directory
from warren.node.disk.files import BootFiles
from warren.node.disk.names import IDENTITY
from warren.node.disk.reader import JournalReader
from warren.node.disk.reserve import Reserve
from warren.node.disk.shortcut import Shortcut, TurnsPort
from warren.node.disk.writer import CLOSE_PATIENCE_S, JournalWriter
from warren.node.sqlite_store import SqliteStore
from warren.store.metadata import Snapshot
from warren.store.recovery import Found

READER_PATIENCE_S = 1.0
WRITES: tuple[type[Effect], ...] = (Store, Seal, KeepCheckpoint, DropSegments)
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
        self.io = IoFigures()
        # files in the journal's directory that are none of the journal's
        self.strangers: list[str] = []
        self._reader: JournalReader | None = None
        self._writer: JournalWriter | None = None
        self._shortcut: Shortcut | None = None
        self._archives: ArchiveWriter | None = None
        self._archive_reader: ArchiveReader | None = None
        self._reserve: Reserve | None = None
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
            raise StoreError(f"the node cannot begin to write: {reason_of(error)}") from error

    def raise_incarnation(self, to: int) -> None:
        """This run has that number instead."""
        try:
            self._metadata.raise_incarnation(to)
        except OSError as error:
            raise StoreError(f"the node cannot begin to write: {reason_of(error)}") from error

    def asked_run(self) -> int:
        """The last run that the cluster was asked to count."""
        return self._metadata.asked_run()

    def keep_asked_run(self, run: int) -> None:
        """The cluster is asked to count this one."""
        try:
            self._metadata.keep_asked_run(run)
        except OSError as error:
            raise StoreError(f"the node cannot begin to write: {reason_of(error)}") from error

    def identity(self) -> int:
        """What tells this journal from any other that a node of its name may have had."""
        path = os.path.join(self._directory.journal_path, IDENTITY)
        try:
            if not os.path.exists(path):
                replace_file(path, b"%d\n" % secrets.randbits(IDENTITY_BITS))
            with open(path, "rb") as file:
                return int(file.read())
        except OSError as error:
            raise StoreError(f"the node cannot begin to write: {reason_of(error)}") from error
        except ValueError as error:
            raise StoreError(
                f"{path} is damaged: it is not a number; without it the node starts, and mirrored queues count on "
                "nothing that it has"
            ) from error

    def found(self, incarnation: int, now_ms: int) -> Found:
        """What an earlier run left."""
        revision, values = self._metadata.snapshot()
        files = BootFiles(self._directory.journal_path)
        self.strangers = files.strangers
        found = Found(revision, values, files, incarnation, now_ms)
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

    def start(self, turns: TurnsPort, failed: Callable[[Exception], None]) -> None:
        def report(event: Event) -> None:
            turns.loop.call_soon_threadsafe(turns.add, event)

        def tell_failure(error: Exception) -> None:
            turns.loop.call_soon_threadsafe(failed, error)

        journal = self._directory.journal_path
        reserve = self._reserve = Reserve()
        reader = JournalReader(journal, report, tell_failure, reserve, self.io)
        self._reader = reader
        writer = JournalWriter(journal, self._metadata, report, tell_failure, reader.forget, reserve, io=self.io)
        self._writer = writer
        self._shortcut = Shortcut(writer, turns)
        streams = self._directory.streams_path
        archive_reader = ArchiveReader(streams, report, tell_failure, reserve, self.io)
        self._archive_reader = archive_reader
        self._archives = ArchiveWriter(streams, report, tell_failure, archive_reader.forget, reserve)

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
