"""What was published to one queue of another node and is not settled there yet.

Publishes are counted from 1 in the order they are sent. Who waits for them is a row of runs, oldest first: publishes
that follow one another and have the same waiter. Those that nobody waits for stand in no run.

Not here: the bytes on their way, and who is held for them (`broker.links.link`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.ports import PublishWaiter
from warren.errors import PeerFault

SPENT_MAX: Final[i64] = 256
"""So many runs that are settled may be kept, and as many as are not."""


@final
class AwaitedRange:
    """Publishes `first` to `last`, none of them settled, and who waits for them; to the waiter, `shift` higher."""

    def __init__(self, number: i64, waiter: PublishWaiter, place: i64) -> None:
        self.first: i64 = number
        self.last: i64 = number
        self.waiter: PublishWaiter = waiter
        self.shift: i64 = place - number


@final
class UnconfirmedPublishes:
    """Those of one queue, over one run of the link."""

    def __init__(self) -> None:
        self._sent: i64 = 0
        self._sent_bytes: i64 = 0
        self._settled: i64 = 0
        self._settled_bytes: i64 = 0
        self._runs: list[AwaitedRange] = []
        # the first of them that is not settled
        self._at: i64 = 0
        self._growing: AwaitedRange | None = None

    def sent(self, size_bytes: i64) -> None:
        self._sent += 1
        self._sent_bytes += size_bytes

    def await_last(self, waiter: PublishWaiter, place: i64) -> None:
        number: i64 = self._sent
        run = self._growing
        if run is not None and run.waiter is waiter and run.last == number - 1 and run.shift == place - number:
            run.last = number
            return
        run = AwaitedRange(number, waiter, place)
        self._growing = run
        self._runs.append(run)

    def settled_to(self, number: i64, size_bytes: i64) -> i64:
        """All up to this one are decided; how many bytes are on their way no more."""
        if number > self._sent or number < self._settled or size_bytes > self._sent_bytes:
            raise PeerFault(f"publish {number} of {self._sent} was settled")
        self._settled = number
        arrived: i64 = size_bytes - self._settled_bytes
        self._settled_bytes = size_bytes
        runs = self._runs
        while self._at < len(runs) and runs[self._at].first <= number:
            run = runs[self._at]
            count: i64 = min(run.last, number) - run.first + 1
            if run.last > number:
                run.first = number + 1
                run.waiter.settled(count)
                break
            self._at += 1
            run.waiter.settled(count)
        self._sweep()
        return arrived

    def refused(self, number: i64, doubted: bool = False) -> None:
        if number > self._sent or number <= self._settled:
            raise PeerFault(f"publish {number} of {self._sent} was refused")
        low: i64 = self._at
        high: i64 = len(self._runs)
        while low < high:
            middle: i64 = (low + high) // 2
            if self._runs[middle].last < number:
                low = middle + 1
            else:
                high = middle
        if low < len(self._runs) and self._runs[low].first <= number:
            run = self._runs[low]
            if doubted:
                run.waiter.doubted(number + run.shift)
            else:
                run.waiter.refused(number + run.shift)

    def lost(self, reason: str) -> None:
        """Nothing will be known of those that are not settled."""
        runs = self._runs[self._at :]
        self._runs = []
        self._at = 0
        self._growing = None
        for run in runs:
            run.waiter.lost(reason)

    def unsettled_bytes(self) -> i64:
        return self._sent_bytes - self._settled_bytes

    def all_settled(self) -> bool:
        return self._settled == self._sent

    def _sweep(self) -> None:
        """Forget what is settled, at once if that is all, else when it is the most."""
        if self._at == len(self._runs):
            self._growing = None
            self._runs = []
            self._at = 0
        elif self._at > SPENT_MAX and self._at * 2 > len(self._runs):
            del self._runs[: self._at]
            self._at = 0
