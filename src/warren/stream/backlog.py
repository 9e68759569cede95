"""What of a stream is in the journal when its node starts: read once, into the tail, before anybody sees anything.

What arrives meanwhile stands behind it. What is in the files, too, is forgotten in the journal. Files and journal
together must have every offset up to the end: what is missing was there once, so that is damage.

Not here: the files (`stream.recovery`), what comes later (`stream.stream`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.model.journal import Run
from warren.model.message import Entry
from warren.model.ports import PagedIn, QueueLog
from warren.model.turn import Turn
from warren.stream.catalog import Catalog
from warren.stream.offsets import offset_of
from warren.stream.tail import Tail

FETCHED_MAX: Final[i64] = 4096


@final
class Backlog:
    """One stream's."""

    def __init__(self, tail: Tail, catalog: Catalog, turn: Turn) -> None:
        self._tail: Tail = tail
        self._catalog: Catalog = catalog
        self._turn: Turn = turn
        self._unread: list[Run] = []
        self._later: list[Entry] = []
        self._reading: bool = False
        # where what was there ended
        self._end: i64 = 0

    def unread(self) -> bool:
        """Whether the tail is not all there yet."""
        return len(self._unread) > 0

    def begin(self, runs: list[Run], end: i64, log: QueueLog) -> str:
        """The journal has this, and the stream ended there; why that cannot be, if it cannot."""
        self._end = end
        for run in runs:
            if offset_of(run.last) < self._catalog.end():
                log.forget_run(run)
            else:
                self._unread.append(run)
        return "" if self._unread else self._lack(end)

    def add(self, entry: Entry) -> None:
        """An entry has come in."""
        if self._unread:
            self._later.append(entry)
        else:
            self._tail.add(entry)

    def read_on(self, log: QueueLog, asker: PagedIn) -> None:
        """Ask for more, one piece at a time."""
        if not self._reading:
            self._reading = True
            log.fetch(self._unread[0], asker, FETCHED_MAX)

    def take(self, entries: list[Entry], log: QueueLog) -> str:
        """What was asked for; what is missing, if something is."""
        self._reading = False
        if not self._unread:
            return ""
        archived = self._catalog.end()
        for entry in entries:
            offset = offset_of(entry.position)
            if offset < archived:
                log.forget(entry)
                continue
            lack = self._lack(offset)
            if lack:
                return lack
            self._turn.held_bytes += len(entry.message.content)
            self._tail.add(entry)
        run = self._unread[0]
        run.first = entries[-1].position + 1
        run.count -= len(entries)
        # it may end with positions that nobody has any more
        if run.count == 0:
            self._unread.pop(0)
        return "" if self._unread else self._all_read(log)

    def _all_read(self, log: QueueLog) -> str:
        log.all_is_read()
        lack = self._lack(self._end)
        for entry in self._later:
            self._tail.add(entry)
        self._later = []
        return lack

    def _lack(self, offset: i64) -> str:
        """What is missing before an offset, in words; empty if nothing is."""
        end = self._tail.end()
        return "" if end >= offset else self._catalog.lack(end)
