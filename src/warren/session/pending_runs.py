"""The runs of a channel's publishes that are not decided, lowest numbers first.

They come in order, and any of them may be over first. One that is over stays in its place until it is the first; so
neither adding one, nor ending one, nor asking for the first costs more the more there are.

Invariant: unless it is empty, the run at `_first` is not over.

Not here: what runs wait for (`session.confirms`, `session.distant_run`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.session.distant_run import NumberRun

SPENT_MAX: Final[i64] = 256
"""So many places in front may stand empty, and as many as are taken."""


@final
class PendingRuns:
    """A row of them."""

    def __init__(self) -> None:
        # how many are not over
        self.count: i64 = 0
        self._runs: list[NumberRun] = []
        self._first: i64 = 0

    def add(self, run: NumberRun) -> None:
        self._runs.append(run)
        self.count += 1

    def end(self, run: NumberRun) -> None:
        """It is over; told once."""
        run.over = True
        self.count -= 1
        runs = self._runs
        while self._first < len(runs) and runs[self._first].over:
            self._first += 1
        if self._first > SPENT_MAX and self._first * 2 > len(runs):
            del runs[: self._first]
            self._first = 0

    def first_no(self) -> i64:
        """The lowest number that is not decided; there is one."""
        return self._runs[self._first].first
