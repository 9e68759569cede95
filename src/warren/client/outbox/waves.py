"""The order of publishing: rows with a key one after the other, each when the one before it is confirmed.

A *wave* has at most one row of each key, and all rows without one. Two of a key are never on their way together: if
the first were refused the second might be taken, and no later sending could put that right. So a key carries as many
rows a second as there are confirms, and many keys go side by side.

Invariants: every row is in one wave at most; rows of a key come in the order in which they were given; behind a row
that was held nothing of its key comes.

Not here: which rows there are (`outbox.shelf`), publishing them (`outbox.publishing`).
"""

from collections import deque
from collections.abc import Sequence

from warren.client.outbox.publishing import PendingRow


class Waves:
    """Rows in the order of their ids, dealt out in waves."""

    def __init__(self, rows: Sequence[PendingRow]) -> None:
        self._loose = [row for row in rows if not row.ordering_key]
        self._lines: dict[str, deque[PendingRow]] = {}
        for row in rows:
            if row.ordering_key:
                self._lines.setdefault(row.ordering_key, deque()).append(row)

    def next(self) -> list[PendingRow]:
        """The next wave; empty when all are dealt out or held."""
        wave = self._loose + [line.popleft() for line in self._lines.values()]
        self._loose = []
        self._lines = {key: line for key, line in self._lines.items() if line}
        return wave

    def hold(self, key: str) -> None:
        """Deal out no more rows of this key."""
        self._lines.pop(key, None)
