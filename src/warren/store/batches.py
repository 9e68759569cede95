"""Stepping through a segment from batch to batch, and judging the place where it stops making sense.

A batch counts as a whole. Where something is no batch, the question is whether a batch was flushed there once:

- Every batch says how far the journal was known to be on disk when it was written, so any such word from behind the
  place answers it; so does a checkpoint that knows where the segment ends.
- A segment gets its name when its first batch is on disk. So if that one is damaged, and another stands behind it, it
  is damage, too.
- Nothing says so: a *torn tail*, which was never confirmed.

Of the batches that were flushed last, with nothing written behind them, nobody can tell.

Not here: what the records mean (`store.recovery`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.store.records import (
    HEADER_BYTES,
    LAST_KIND,
    SEGMENT_HEADER_BYTES,
    SYNCED,
    Scanner,
    next_opening,
    synced_after,
)

WHOLE: Final = "whole"
TORN: Final = "torn"
DAMAGED: Final = "damaged"


@final
class Batches:
    """Steps from batch to batch; after `next()` answered False, `ending` tells why, and `bad` where."""

    def __init__(self, data: bytes, number: i64, known_end: i64 = 0) -> None:
        """`known_end`: where the segment's last batch ends, if that is known; what follows is not looked at."""
        self.data: bytes = data
        self.number: i64 = number
        # the batch, and the first of its records but for its opening
        self.start: i64 = SEGMENT_HEADER_BYTES
        self.records: i64 = SEGMENT_HEADER_BYTES
        self.end: i64 = SEGMENT_HEADER_BYTES
        # records of it whose payload is not what was written
        self.bad_payloads: list[int] = []
        # up to here, this segment says, it was known to be flushed
        self.synced: i64 = 0
        self.ending: str = ""
        self.bad: i64 = 0
        self._known_end: i64 = known_end
        self._limit: i64 = known_end if known_end > 0 else len(data)

    def next(self) -> bool:
        data, number = self.data, self.number
        start = self.end
        self.start = start
        self.bad_payloads = []
        if start >= self._limit:
            self.bad = start
            self.ending = WHOLE
            return False
        opening = Scanner(data, number, start)
        if not opening.next() or opening.kind != SYNCED or opening.count != 2 or opening.a(1) < opening.end - start:
            return self._end_at(start)
        if opening.a(0) == number:
            self.synced = max(self.synced, opening.b(0))
        end: i64 = start + opening.a(1)
        scanner = Scanner(data, number, opening.end)
        while scanner.end < end and scanner.next():
            if not scanner.intact():
                self.bad_payloads.append(int(scanner.at))
        if scanner.end != end or scanner.short:
            return self._end_at(scanner.at)
        if self.bad_payloads and not self._was_flushed(self.bad_payloads[0]):
            return self._end_at(self.bad_payloads[0])
        self.records = opening.end
        self.end = end
        return True

    def step_over(self) -> None:
        """Go on with the next batch behind the damage, if there is one."""
        resume = next_opening(self.data, self.number, self.bad + 1)
        self.end = self._limit if resume < 0 else min(resume, self._limit)

    def _end_at(self, bad: i64) -> bool:
        self.bad = bad
        if self._was_flushed(bad):
            self.ending = DAMAGED
        else:
            self.ending = TORN if anything_from(self.data, self.start) else WHOLE
        return False

    def _was_flushed(self, bad: i64) -> bool:
        """Whether the batch at `start`, which is not whole, was on disk once."""
        start = self.start
        if self._known_end > 0:
            return True
        if start == SEGMENT_HEADER_BYTES and next_opening(self.data, self.number, start + 1) >= 0:
            return True
        return max(self.synced, synced_after(self.data, self.number, bad)) > start


def anything_from(data: bytes, at: i64) -> bool:
    """Whether there is anything but zeros."""
    return len(data[at:].lstrip(b"\0")) > 0


def next_record(data: bytes, number: i64, at: i64, end: i64) -> Scanner | None:
    """The first whole record that begins at `at` or behind it, wherever that is; None if there is none before `end`."""
    while at + HEADER_BYTES <= end:
        # most bytes cannot begin a record: its length has few digits, and it is of a known kind
        if data[at + 4] == 0 and 0 < data[at + 16] <= LAST_KIND:
            scanner = Scanner(data, number, at)
            if scanner.next() and scanner.end <= end:
                return scanner
        at += 1
    return None
