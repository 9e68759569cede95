"""A journal writer on real files, with everything it reported.

Not here: any expectation; each is a test's.
"""

import os
import queue
from collections.abc import Callable
from pathlib import Path

from warren.admin.node_facts import IoFigures
from warren.model.effects import Effect, Store
from warren.model.events import DiskFull, Event, Stored
from warren.model.journal import Change
from warren.node.disk.reserve import Reserve
from warren.node.disk.writer import JournalWriter
from warren.node.sqlite_store import SqliteStore

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
        self.reserve = Reserve()
        self.io = IoFigures()
        self.writer = JournalWriter(
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
            if isinstance(last, Stored) and last.flushed_no >= batch_no:
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
    changes: list[Change] | None = None,
) -> Store:
    return Store(batch_no, changes or [], segment, offset, data, flush)
