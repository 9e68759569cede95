"""Output that may not leave before the disk has what it speaks of.

A gate is shut in one turn and opens when that turn's batch is on disk. What is written in that turn and in later ones
waits behind it, so that the order of the output stands. Gates open in the order they were shut: what was written
between two of them leaves with the first.

Invariants: what is kept is whole frames, oldest first, each piece with the number of the last gate before it; its bytes
count as held by the node.

Not here: which answers wait (`session.declaring`, `session.transaction`).
"""

from typing import final

from mypy_extensions import i64

from warren.model.turn import Turn


@final
class Gate:
    """What one connection's client must not read yet."""

    def __init__(self, turn: Turn) -> None:
        self.closed: bool = False
        self.kept_bytes: i64 = 0
        self._turn: Turn = turn
        self._shut_no: i64 = 0
        self._opened_no: i64 = 0
        self._pieces: list[bytes] = []
        self._behind: list[int] = []

    def shut(self) -> None:
        self._shut_no += 1
        self.closed = True

    def open_oldest(self) -> None:
        self._opened_no += 1
        self.closed = self._opened_no < self._shut_no

    def passed(self, data: bytes) -> bytes:
        """What may leave at the end of a turn in which `data` was written."""
        if not self._pieces and not self.closed:
            return data
        if data:
            self._pieces.append(data)
            self._behind.append(int(self._shut_no))
            self._count(len(data))
        free = 0
        while free < len(self._behind) and self._behind[free] <= self._opened_no:
            free += 1
        leaving = b"".join(self._pieces[:free])
        self._count(-len(leaving))
        del self._pieces[:free]
        del self._behind[:free]
        return leaving

    def drop(self) -> None:
        """There is nobody left to read it."""
        self._count(-self.kept_bytes)
        self._pieces = []
        self._behind = []

    def _count(self, size: i64) -> None:
        self.kept_bytes += size
        self._turn.held_bytes += size
