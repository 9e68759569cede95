"""What clients of one stream were told.

Not here: the clients (`sim.streams.clients`).
"""

from collections.abc import Callable


class StreamLedger:
    """One stream's. `dropping`: it keeps only so much."""

    def __init__(self, name: str, dropping: bool, complain: Callable[[str], None]) -> None:
        self.name = name
        self.dropping = dropping
        self.published = 0
        self.confirmed: set[str] = set()
        self.read_count = 0
        self._complain = complain
        self._by_offset: dict[int, str] = {}
        self._by_message: dict[str, int] = {}

    def saw(self, reader: str, offset: int, before: int | None, message: str) -> None:
        """A reader was given this; what it was given before had that offset."""
        self.read_count += 1
        if before is not None and (offset <= before or (offset != before + 1 and not self.dropping)):
            self._complain(f"{reader} was given offset {offset} of {self.name} after {before}")
        known = self._by_offset.setdefault(offset, message)
        if known != message:
            self._complain(f"offset {offset} of {self.name} was {known}, and {reader} was given {message}")
        if self._by_message.setdefault(message, offset) != offset:
            self._complain(f"{message} of {self.name} has offsets {self._by_message[message]} and {offset}")

    def highest(self) -> int:
        return max(self._by_offset, default=-1)

    def check(self, whole: dict[int, str]) -> None:
        """The stream was read from its beginning to its end, and nobody publishes any more."""
        last: dict[str, int] = {}
        for offset in sorted(whole):
            publisher, _, number = whole[offset].partition(" ")
            if int(number) <= last.get(publisher, 0):
                self._complain(f"{whole[offset]} of {self.name} comes after number {last[publisher]}")
            last[publisher] = int(number)
        # what was seen once is there, from the first offset on that there is
        beginning = min(whole, default=0) if self.dropping else 0
        missing = [offset for offset in range(beginning, max(self.highest(), 0)) if offset not in whole]
        if missing:
            self._complain(f"{self.name} has no offset {missing[0]}, and {len(missing) - 1} others")
        lost = self.confirmed.difference(whole.values())
        if lost and not self.dropping:
            self._complain(f"{self.name} lost {min(lost)}, which was confirmed, and {len(lost) - 1} others")
