"""A journal writer on real files, with everything it reported.

Not here: any expectation; each is a test's.
"""

import os
import queue
from collections.abc import Callable
from pathlib import Path

from warren.admin.ports import IoStats
from warren.broker.model.effects import AppendRecords, Effect
from warren.broker.model.events import DiskFull, Event, FlushCompleted
from warren.broker.model.journal import MetadataChange
from warren.node.disk.file_io import DescriptorReserve
from warren.node.disk.journal_writer import JournalWriterThread
from warren.node.disk.sqlite_store import SqliteStore

DEADLINE_S = 30.0


class WriterRig:
    """Orders go in, reports come out, files are there to be looked at."""

    def __init__(self, directory: Path, flush: Callable[[int], None] = os.fdatasync) -> None:
        self.journal = directory / "journal"
        self.journal.mkdir(parents=True, exist_ok=True)
        self.metadata = SqliteStore(str(directory / "metadata.db"))
        self.reports: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.failures: queue.SimpleQueue[Exception] = queue.SimpleQueue()
        self.forgotten: list[int] = []
        self.reserve = DescriptorReserve()
        self.io = IoStats()
        self.writer = JournalWriterThread(
            str(self.journal),
            self.metadata,
            self.reports.put,
            self.failures.put,
            self.forgotten.append,
            self.reserve,
            flush,
            self.io,
        )

    def order(self, *effects: Effect) -> None:
        for effect in effects:
            self.writer.order(effect)

    def stored(self, batch_no: int) -> list[Event]:
        """Wait until this batch is flushed; the reports until then."""
        reports: list[Event] = []
        while True:
            reports.append(self.reports.get(timeout=DEADLINE_S))
            last = reports[-1]
            if isinstance(last, FlushCompleted) and last.flushed_no >= batch_no:
                return reports

    def until_full(self) -> DiskFull:
        while True:
            report = self.reports.get(timeout=DEADLINE_S)
            if isinstance(report, DiskFull):
                return report

    def content(self, name: str) -> bytes:
        return (self.journal / name).read_bytes()

    def names(self) -> list[str]:
        return sorted(path.name for path in self.journal.iterdir())

    def close(self) -> int:
        given_up = self.writer.close()
        self.metadata.close()
        self.reserve.close()
        return given_up


def store(
    batch_no: int,
    data: bytes,
    offset: int,
    segment: int = 1,
    flush: bool = True,
    changes: list[MetadataChange] | None = None,
) -> AppendRecords:
    return AppendRecords(batch_no, changes or [], segment, offset, data, flush)
