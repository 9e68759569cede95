"""Publishes of one channel that other nodes decide about.

A run waits for one queue, and grows while that queue's publishes follow one another; the queue settles them in order.
Or it is a single publish that several queues have, and then it is settled when the last of them says so. A refusal is
told at once, and what is told is kept out of what is settled later.

A run that something is known of is *stirred*: it puts itself on its channel's list, once, and is looked at when that
tells. So what it costs to tell does not depend on how many wait.

Not here: telling (`session.confirms`), the queue's side (`remote.publishes`).
"""

from abc import abstractmethod
from typing import final

from mypy_extensions import i64, trait

from warren.model.distant import SettlementWaiter
from warren.model.ports import QueuePort
from warren.session.tallies import PublishTally


class NumberRun:
    """Publishes that follow one another and share their fate."""

    def __init__(self, first: i64, last: i64, batch_no: i64) -> None:
        self.first: i64 = first
        self.last: i64 = last
        # the batch it waits for; 0 for none
        self.batch_no: i64 = batch_no
        # all of it is decided
        self.over: bool = False


@trait
class ConfirmTeller:
    """Whoever tells the publisher."""

    @abstractmethod
    def confirms_decided(self) -> None:
        """There may be something to tell when this turn ends."""


@final
class DistantRun(NumberRun, SettlementWaiter):
    """Publishes that wait for queues of other nodes."""

    def __init__(
        self,
        number: i64,
        batch_no: i64,
        queue: QueuePort,
        queues: i64,
        teller: ConfirmTeller,
        tally: PublishTally,
        stirred: list["DistantRun"],
    ) -> None:
        super().__init__(number, number, batch_no)
        self.queue: QueuePort = queue
        # where they are counted
        self.tally: PublishTally = tally
        # how many queues have yet to settle each of them; more than one if it is a single publish
        self._queues: i64 = queues
        # of the first ones, how many are settled
        self._done: i64 = 0
        # numbers that were refused, in order, and those of them that were not told
        self._refused: list[int] = []
        self._untold: list[int] = []
        self._lost: bool = False
        self._teller: ConfirmTeller = teller
        self._list: list[DistantRun] = stirred
        self._stirred: bool = False

    def stir(self) -> None:
        """Have it looked at, unless it is over: of several queues one may be lost, and others answer later."""
        if not self._stirred and not self.over:
            self._stirred = True
            self._list.append(self)

    def settled(self, count: i64) -> None:
        if self._queues > 1:
            self._queues -= 1
            return
        self._done += count
        self._tell()

    def refused(self, place: i64) -> None:
        # one queue refuses in order; of several that refuse a single publish, the first one counts
        if not self._refused or self._refused[-1] < place:
            self._refused.append(int(place))
            self._untold.append(int(place))
            self._tell()

    def lost(self, reason: str) -> None:
        self._lost = True
        self._tell()

    def decide(self, flushed_no: i64, settled: list[NumberRun], rejected: list[int]) -> None:
        """Take out what is decided; it is over if that is all."""
        self._stirred = False
        rejected.extend(self._untold)
        self.tally.refused += len(self._untold)
        self._untold = []
        if self.batch_no > flushed_no and not self._lost:
            return
        decided: i64 = min(self.first + self._done - 1, self.last)
        first: i64 = self.first
        passed = 0
        for number in self._refused:
            if number > decided:
                break
            passed += 1
            if first < number:
                settled.append(NumberRun(first, i64(number) - 1, 0))
            first = i64(number) + 1
        if first <= decided:
            settled.append(NumberRun(first, decided, 0))
        if passed:
            del self._refused[:passed]
        self.first = decided + 1
        self._done = 0
        if self._lost:
            self._reject_rest(rejected)
        self.over = self.first > self.last

    def _reject_rest(self, rejected: list[int]) -> None:
        refused = set(self._refused)
        while self.first <= self.last:
            if int(self.first) not in refused:
                rejected.append(int(self.first))
                self.tally.refused += 1
            self.first += 1

    def _tell(self) -> None:
        self.stir()
        self._teller.confirms_decided()
