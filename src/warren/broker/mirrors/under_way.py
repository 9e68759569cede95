"""The steps of a master that are not settled, and what waits for them.

Not here: making them, and what becomes of what waited (`broker.mirrors.mastery`).
"""

from typing import final

from mypy_extensions import i64

from warren.broker.mirrors.mirrored_log import Gone
from warren.model.message import Entry
from warren.model.turn import FlushWaiter


@final
class Awaited:
    """What waits for one step, or for several: entries to come in, positions to leave, whoever is to be told."""

    def __init__(self, number: i64, entries: list[Entry], gone: list[Gone], waiters: list[FlushWaiter]) -> None:
        self.number: i64 = number
        self.entries: list[Entry] = entries
        self.gone: list[Gone] = gone
        self.waiters: list[FlushWaiter] = waiters


@final
class UnderWay:
    """One queue's, in order."""

    def __init__(self) -> None:
        self._row: list[Awaited] = []

    def any(self) -> bool:
        return len(self._row) > 0

    def add(self, number: i64, entries: list[Entry], gone: list[Gone], waiters: list[FlushWaiter]) -> None:
        self._row.append(Awaited(number, entries, gone, waiters))

    def await_last(self, waiters: list[FlushWaiter]) -> None:
        """These wait for the last step, of which nothing else is to be said."""
        self._row[-1].waiters += waiters

    def settle(self, number: i64) -> Awaited | None:
        """All that waited for the steps up to this one; they are under way no more."""
        row = self._row
        if not row or row[0].number > number:
            return None
        settled = row[0]
        count = 1
        while count < len(row) and row[count].number <= number:
            settled.entries += row[count].entries
            settled.gone += row[count].gone
            settled.waiters += row[count].waiters
            count += 1
        del row[:count]
        return settled
