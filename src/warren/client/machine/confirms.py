"""What became of the publishes of one channel.

Publishes are numbered from 1. A number is *decided* once the broker acked or nacked it, by itself or by a `multiple`
that reaches it.

Invariants: every number up to `low` is decided, and `_apart` has those above it that are. A number is decided once:
what the broker says of it again is not heard. So each number is in exactly one range that `take` hands out.

Not here: returns, which come before the ack of their message (`machine.returns`).
"""

from typing import final

from mypy_extensions import i64

from warren.errors import UNEXPECTED_FRAME, ConnectionFault, InvariantBroken


@final
class ConfirmRange:
    """Publishes with numbers from `first` to `last` that were all acked, or all nacked."""

    def __init__(self, first: int, last: int, acked: bool) -> None:
        self.first: int = first
        self.last: int = last
        self.acked: bool = acked

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfirmRange) and (self.first, self.last, self.acked) == (
            other.first,
            other.last,
            other.acked,
        )

    def __hash__(self) -> int:
        return hash((self.first, self.last, self.acked))

    def __repr__(self) -> str:
        return f"ConfirmRange({self.first}, {self.last}, {'acked' if self.acked else 'nacked'})"


@final
class ConfirmLedger:
    """Numbers publishes, and hears their fate."""

    def __init__(self) -> None:
        self.last_no: i64 = 0
        self.low: i64 = 0
        self._apart: set[int] = set()
        self._ranges: list[ConfirmRange] = []

    def unconfirmed(self) -> i64:
        return self.last_no - self.low - len(self._apart)

    def decide(self, number: i64, multiple: bool, acked: bool) -> None:
        """The broker's ack or nack; with `multiple`, 0 means all."""
        if multiple and number == 0:
            number = self.last_no
        if number > self.last_no or number < 0 or (number == 0 and not multiple):
            raise ConnectionFault(UNEXPECTED_FRAME, f"publish {number} was confirmed and never sent")
        if number <= self.low:
            return
        if multiple:
            self._decide_up_to(number, acked)
        elif number == self.low + 1:
            self._add(number, number, acked)
            self.low = number
        elif int(number) not in self._apart:
            self._add(number, number, acked)
            self._apart.add(int(number))
        self._close_up()

    def take(self) -> list[ConfirmRange]:
        """What was decided since it was asked last."""
        ranges = self._ranges
        self._ranges = []
        return ranges

    def check(self) -> None:
        if not 0 <= self.low <= self.last_no:
            raise InvariantBroken(f"{self.low} of {self.last_no} publishes are decided")
        if self._apart and not (self.low + 1 < min(self._apart) and max(self._apart) <= self.last_no):
            raise InvariantBroken("a publish is decided apart that is decided anyway, or was never sent")

    def _decide_up_to(self, number: i64, acked: bool) -> None:
        first: i64 = self.low + 1
        if self._apart:
            at: i64 = first
            while at <= number:
                if int(at) in self._apart:
                    self._apart.remove(int(at))
                    self._add(first, at - 1, acked)
                    first = at + 1
                at += 1
        self._add(first, number, acked)
        self.low = number

    def _add(self, first: i64, last: i64, acked: bool) -> None:
        if first > last:
            return
        if self._ranges:
            latest = self._ranges[-1]
            if latest.acked == acked and latest.last + 1 == first:
                latest.last = int(last)
                return
        self._ranges.append(ConfirmRange(int(first), int(last), acked))

    def _close_up(self) -> None:
        while self._apart and int(self.low + 1) in self._apart:
            self.low += 1
            self._apart.remove(int(self.low))
