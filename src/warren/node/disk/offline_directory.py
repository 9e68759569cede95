"""Inspection and salvage of a data directory that no node uses.

Inspection changes no byte: the metadata is read from a copy, because SQLite writes to what it opens. A shared lock
keeps nodes away meanwhile, an exclusive one during salvage.

Salvage runs the recovery of a start, leniently, and carries out its orders with a node's writer. Segments are not
written to. Replaced and dropped files are first kept in a directory beside the journal, with a copy of every segment
from which something is left out: a segment that stays may be overwritten once the node needs nothing in it.

A member of a cluster has its definitions in the cluster's store, which cannot be asked here. A queue unknown to its own
metadata may exist, so a salvage that would leave it out is refused. And a salvaged journal is a different one: its
identity is deleted first, so that no mirrored queue relies on messages that may be missing.

Not here: what is lost (`broker.journal.recovery`), the output (`cli.journal`).
"""

import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress

from warren.broker.journal.checkpoint import decode_checkpoint
from warren.broker.journal.journal import Journal
from warren.broker.journal.recovery import JournalFiles, Recovery
from warren.broker.journal.segment_report import SegmentReport, record_lines
from warren.broker.metadata.definition_kinds import decode_definition
from warren.broker.metadata.store import MetadataChangeLog, Snapshot
from warren.broker.metadata.topology_definitions import ExchangeDefinition, QueueDefinition
from warren.broker.model.effects import DropSegments, SealSegment, WriteCheckpoint
from warren.broker.model.settings import BrokerSettings
from warren.broker.model.turn import Turn
from warren.broker.queues.arguments import STREAM, type_of
from warren.broker.queues.settings import queue_settings
from warren.errors import ConfigError, StoreError
from warren.node.disk import file_names
from warren.node.disk.directory import FORMAT, FoundJournalFiles, refuse_special_files
from warren.node.disk.file_io import DIRECTORY_MODE, DescriptorReserve, os_error_text, sync_directory
from warren.node.disk.journal_writer import JournalWriterThread
from warren.node.disk.sqlite_store import SqliteStore

DELAYING = "x-delayed-message"
_MARK = re.compile(r"warren (\d{1,9})\nname=(\S+)\n")
_WAL_SUFFIX = "-wal"
_UNKNOWN_HERE = (
    "{path} is the directory of a member of a cluster, and its journal has queues that {metadata} does not know "
    "({count} of them), because the cluster's store has their definitions; salvage would drop them, and nothing was "
    "changed: move {journal} elsewhere and start the node; it gets mirrored queues from the other nodes, and what it "
    "alone had is in what you moved"
)

ReportProgress = Callable[[str], None]


class _ReportedJournalFiles(JournalFiles):
    """The journal's files; reports which segment is being read."""

    def __init__(self, files: FoundJournalFiles, report: ReportProgress) -> None:
        self._files = files
        self._report = report

    def checkpoint(self) -> bytes | None:
        return self._files.checkpoint()

    def segments(self) -> list[int]:
        return self._files.segments()

    def segment(self, number: int) -> bytes:
        numbers = self._files.segments()
        self._report(f"reading segment {number} ({numbers.index(number) + 1} of {len(numbers)})")
        return self._files.segment(number)

    def index(self, number: int) -> bytes | None:
        return self._files.index(number)

    def has_index(self, number: int) -> bool:
        return self._files.has_index(number)


class OfflineRecovery:
    """The result of a recovery: the state that a start would find, or that salvage would leave."""

    def __init__(self, recovery: Recovery, journal: Journal, turn: Turn) -> None:
        self.recovery = recovery
        self.journal = journal
        self.orders = turn.effects


class OfflineDirectory:
    """A data directory, locked until `close`."""

    def __init__(self, path: str, report: ReportProgress, shared: bool) -> None:
        self.path = os.path.abspath(path)
        if os.path.isdir(self.path):
            refuse_special_files(self.path)
        self.journal_path = os.path.join(self.path, file_names.JOURNAL)
        self.format, self.node_name = _mark_of(self.path, path)
        self._lock = _locked(self.path, path, shared)
        self._metadata_path = os.path.join(self.path, file_names.METADATA)
        try:
            if not os.path.isdir(self.journal_path):
                raise ConfigError(f"{path} holds no journal")
            self.files = _ReportedJournalFiles(FoundJournalFiles(self.journal_path, tidy=False), report)
            self.revision, self.values, self.incarnation = _read_metadata(self._metadata_path)
            self.owners = owners_of(self.values)
            self.is_member = os.path.exists(os.path.join(self.path, file_names.CLUSTER))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    # -- inspection

    def recover(self, lenient: bool) -> OfflineRecovery:
        """The result of recovery; nothing of it is carried out."""
        turn = Turn()
        journal = Journal(turn, MetadataChangeLog(self.revision), BrokerSettings().segment_bytes, self.incarnation + 1)
        for queue_id, owner in self.owners.items():
            journal.open(queue_id, True, owner.max_priority)
        # a member's own metadata does not tell which queues were deleted
        known_to = 0 if lenient and self.is_member else self.revision
        recovery = Recovery(journal, self.files, known_to, lenient)
        recovery.run()
        return OfflineRecovery(recovery, journal, turn)

    def surveys(self) -> list[SegmentReport]:
        ends, numbers = self._ends(), self.files.segments()
        return [
            SegmentReport(self.files.segment(number), number, ends.get(number, 0), number == numbers[-1])
            for number in numbers
        ]

    def record_lines(self, number: int) -> list[str]:
        if number not in self.files.segments():
            raise ConfigError(f"the journal has no segment {number}")
        return record_lines(self.files.segment(number), number, self._ends().get(number, 0))

    def _ends(self) -> dict[int, int]:
        """Where the last batch of each sealed segment ends, if the checkpoint can be read."""
        data = self.files.checkpoint()
        try:
            state = decode_checkpoint(data) if data is not None else None
        except StoreError:
            state = None
        return {} if state is None else {int(one.number): int(one.size_bytes) for one in state.segments}

    # -- salvage

    def refuse_unknown(self, count: int) -> None:
        """Raises `StoreError` if queues that only the cluster knows would be dropped."""
        if self.is_member and count:
            raise StoreError(
                _UNKNOWN_HERE.format(
                    path=self.path,
                    count=count,
                    metadata=file_names.METADATA,
                    journal=os.path.join(self.path, file_names.JOURNAL),
                )
            )

    def salvage(self, recovered: OfflineRecovery) -> str:
        """Carry out a lenient recovery; returns where the replaced files are."""
        self.refuse_unknown(len(recovered.recovery.unknown))
        try:
            kept = self._keep_files(recovered)
            self._lose_identity()
            metadata = SqliteStore(self._metadata_path)
            try:
                metadata.begin_incarnation()
                unknown = recovered.recovery.unknown
                if unknown:
                    # a later queue must not get the number of an earlier one
                    metadata.raise_revision(max(self.revision, *unknown))
                self._write(recovered, metadata)
            finally:
                metadata.close()
        except OSError as error:
            raise StoreError(f"the journal cannot be salvaged: {os_error_text(error)}") from error
        return kept

    def _keep_files(self, recovered: OfflineRecovery) -> str:
        kept = os.path.join(self.path, f"salvage-{time.strftime('%Y%m%dT%H%M%S')}")
        os.mkdir(kept, DIRECTORY_MODE)
        for name in (file_names.METADATA, file_names.METADATA + _WAL_SUFFIX):
            if os.path.exists(os.path.join(self.path, name)):
                shutil.copy2(os.path.join(self.path, name), kept)
        replaced = [
            file_names.index_name(order.segment) for order in recovered.orders if isinstance(order, SealSegment)
        ]
        replaced += [file_names.CHECKPOINT for order in recovered.orders if isinstance(order, WriteCheckpoint)]
        for name in replaced:
            if os.path.exists(os.path.join(self.journal_path, name)):
                shutil.copy2(os.path.join(self.journal_path, name), kept)
        recovery = recovered.recovery
        for number in sorted({number for number, _from, _to in recovery.left_out} | set(recovery.unknown_in)):
            shutil.copy2(file_names.segment_path(self.journal_path, number), kept)
        sync_directory(kept)
        sync_directory(self.path)
        return kept

    def _lose_identity(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self.journal_path, file_names.IDENTITY))
        sync_directory(self.journal_path)

    def _write(self, recovered: OfflineRecovery, metadata: SqliteStore) -> None:
        failures: list[Exception] = []
        reserve = DescriptorReserve()
        writer = JournalWriterThread(
            self.journal_path, metadata, lambda _event: None, failures.append, lambda _number: None, reserve
        )
        for order in recovered.orders:
            # the node drops unused segments when it starts; segments are left as they were found
            if isinstance(order, SealSegment):
                writer.order(SealSegment(order.segment, order.index, 0))
            elif not isinstance(order, DropSegments):
                writer.order(order)
        writer.close()
        if failures:
            raise StoreError(f"the journal cannot be salvaged: {os_error_text(failures[0])}")


class MessageOwner:
    """A queue, a stream or an exchange that messages belong to."""

    def __init__(self, kind: str, vhost: str, name: str, max_priority: int) -> None:
        self.kind = kind
        self.vhost = vhost
        self.name = name
        self.max_priority = max_priority


def owners_of(values: Snapshot) -> dict[int, MessageOwner]:
    """By number, the owners of messages in the journal."""
    owners: dict[int, MessageOwner] = {}
    for key, (created, value) in sorted(values.items()):
        definition = decode_definition(key, value)
        if isinstance(definition, QueueDefinition):
            top = int(queue_settings(definition.arguments).max_priority)
            kind = "stream" if type_of(definition.arguments) == STREAM else "queue"
            owners[created] = MessageOwner(kind, definition.vhost, definition.name, top)
        elif isinstance(definition, ExchangeDefinition) and definition.type == DELAYING:
            owners[created] = MessageOwner("exchange", definition.vhost, definition.name, 0)
    return owners


def _mark_of(path: str, shown: str) -> tuple[int, str]:
    """The format of a data directory, and the name of its node."""
    mark_path = os.path.join(path, file_names.NODE)
    try:
        with open(mark_path, "rb") as file:
            text = file.read(4096).decode()
    except FileNotFoundError as error:
        raise ConfigError(f"{shown} is not a data directory of Warren: it has no file {file_names.NODE}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{mark_path} cannot be read: {os_error_text(error)}") from error
    mark = _MARK.fullmatch(text)
    if mark is None:
        raise ConfigError(f"the file {mark_path} is damaged; it should read 'warren {FORMAT}' and 'name=NAME@HOST'")
    if int(mark[1]) > FORMAT:
        raise ConfigError(
            f"{shown} was written by a newer version (format {int(mark[1])}); this one reads format {FORMAT}"
        )
    return int(mark[1]), mark[2]


def _locked(path: str, shown: str, shared: bool) -> int:
    """The lock of the directory, which a node must not hold."""
    lock_path = os.path.join(path, file_names.LOCK)
    try:
        descriptor = os.open(lock_path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        # never used, or a copy
        return -1
    except OSError as error:
        raise ConfigError(f"{lock_path} cannot be opened: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise StoreError(f"{shown} is in use by a running node (pid {holder}); stop it first") from error
    return descriptor


def _read_metadata(path: str) -> tuple[int, Snapshot, int]:
    """Revision, values and incarnation, read from a copy."""
    if not os.path.exists(path):
        raise StoreError(f"{path} is missing: without it the queues of the messages are unknown")
    with tempfile.TemporaryDirectory(prefix="warren-") as directory:
        copy = os.path.join(directory, file_names.METADATA)
        for suffix in ("", _WAL_SUFFIX):
            if os.path.exists(path + suffix):
                shutil.copyfile(path + suffix, copy + suffix)
        store = SqliteStore(copy)
        try:
            revision, values = store.snapshot()
            return revision, values, store.incarnation()
        finally:
            store.close()
