"""What of one priority level is on disk only: its runs, in order.

A message that is paged leaves nothing in memory but a longer run, so a backlog of millions costs a few objects for
each segment of the journal. Entries come back as prefixes of the first run.

Invariants: there is at least one run, none of them is empty, and positions grow from run to run. A level without
runs has no backlog. No run reaches from one epoch's positions to another's.

Not here: what is in memory of the level and goes out first (`queue.sequence`), when runs are read (`queue.paging`).
"""

from typing import final

from mypy_extensions import i64

from warren.errors import InvariantBroken
from warren.model.journal import Run, Segment
from warren.model.rings import POSITION_BITS


@final
class Backlog:
    """The runs of one level."""

    def __init__(self) -> None:
        self.runs: list[Run] = []

    def add(self, segment: Segment, level: i64, position: i64, body_bytes: i64, deadline: bool) -> None:
        """A message that was written to this segment, behind all others."""
        run = self.runs[-1] if self.runs else None
        if run is None or run.segment is not segment or (run.first ^ position) >> POSITION_BITS != 0:
            run = Run(segment, level, position)
            self.runs.append(run)
        run.add(position, body_bytes)
        if deadline:
            run.deadlines = True

    def shorten(self, count: i64, body_bytes: i64, last: i64) -> None:
        """The first so many entries of the first run, up to this position, are in memory."""
        run = self.runs[0]
        run.first = last + 1
        run.count -= count
        run.body_bytes -= body_bytes
        if run.count == 0:
            self.runs.pop(0)

    def check(self, above: i64) -> None:
        """Raise `InvariantBroken` unless the runs are in order, all of them above that position."""
        if not self.runs:
            raise InvariantBroken("a level has a backlog without runs")
        for run in self.runs:
            if run.first <= above:
                raise InvariantBroken(f"a run begins with position {run.first} behind position {above}")
            if run.count <= 0 or run.count > run.last - run.first + 1:
                raise InvariantBroken(f"a run counts {run.count} entries from {run.first} to {run.last}")
            above = run.last
