"""Reads that are under way: who asked, and of which segment.

Invariant: a segment that is being read is not dropped.

Not here: what is read and why (`broker.journal.entry_fetch`, `broker.journal.compaction`).
"""

from abc import abstractmethod
from typing import final

from mypy_extensions import trait

from warren.broker.model.journal import Segment


@trait
class ReadWaiter:
    """Whoever asked for something to be read."""

    @abstractmethod
    def index_read(self, rows: bytes, error: str) -> None: ...

    @abstractmethod
    def journal_read(self, blocks: list[bytes], error: str) -> None: ...


@trait
class WriteWaiter:
    """Whoever wants to read what is not written yet."""

    @abstractmethod
    def retry(self) -> None:
        """More of the journal was written."""


@final
class PendingRead:
    """One read; without a holder, nobody waits for it any more."""

    def __init__(self, holder: ReadWaiter, segment: Segment) -> None:
        self.holder: ReadWaiter | None = holder
        self.segment: Segment = segment


@final
class PendingReads:
    """All reads under way, by number."""

    def __init__(self) -> None:
        self._last_no: int = 0
        self._open: dict[int, PendingRead] = {}

    def take(self, holder: ReadWaiter, segment: Segment) -> int:
        self._last_no += 1
        self._open[self._last_no] = PendingRead(holder, segment)
        return self._last_no

    def give_back(self, number: int) -> ReadWaiter | None:
        """The read is done: who waits for it."""
        ticket = self._open.pop(number, None)
        return None if ticket is None else ticket.holder

    def withdraw(self, holder: ReadWaiter) -> None:
        """The holder wants no answer any more; the reads themselves go on."""
        for ticket in self._open.values():
            if ticket.holder is holder:
                ticket.holder = None

    def reading(self, segment: Segment) -> bool:
        return any(ticket.segment is segment for ticket in self._open.values())
