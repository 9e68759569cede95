"""What a node published to a mirrored queue and is not settled: kept, to be sent to the next master if need be.

Everything is numbered, fences too, for as long as the node's process lives: masters know the node by it.

Whoever published something is told when it is settled; or, where a policy says so, when the master alone holds it. Then
it stays here until it is settled, and is sent to the next master like anything else: it is lost only with this node.
Nobody can be told any more if that does not take it.

Invariant: what is kept has the numbers from `first_no` to `last_no`, without a gap.

Not here: sending it (`broker.links.mirrored_queue_proxy`), the waiters (`broker.links.unconfirmed_publishes`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.links.unconfirmed_publishes import UnconfirmedPublishes
from warren.broker.model.message import Message
from warren.broker.model.ports import PublishWaiter
from warren.errors import PeerFault

COMMITTED_MAX: Final[i64] = 256
"""So many places of what is settled may be kept, and as many as there are of what is not."""


@final
class WindowedPublish:
    """A message, or a fence if there is none, as it is to be sent again."""

    def __init__(self, number: i64, message: Message | None, uncounted: bool) -> None:
        self.number: i64 = number
        self.message: Message | None = message
        self.uncounted: bool = uncounted


@final
class NumberRange:
    """Numbers from `first` to `last`."""

    def __init__(self, number: i64) -> None:
        self.first: i64 = number
        self.last: i64 = number


@final
class SentNumbers:
    """Numbers of what a master was sent and has not settled, in order; it settles so many at a time."""

    def __init__(self) -> None:
        self._rows: list[NumberRange] = []

    def add(self, number: i64) -> None:
        rows = self._rows
        if rows and rows[-1].last + 1 == number:
            rows[-1].last = number
        else:
            rows.append(NumberRange(number))

    def take(self, count: i64) -> i64:
        """The last one of so many, which are settled."""
        number: i64 = 0
        while count > 0:
            row = self._rows[0]
            number = min(row.first + count - 1, row.last)
            count -= number - row.first + 1
            row.first = number + 1
            if row.first > row.last:
                self._rows.pop(0)
        return number

    def clear(self) -> None:
        self._rows = []


@final
class PublishWindow:
    """Those of one queue, and who waits for them."""

    def __init__(self) -> None:
        self.first_no: i64 = 1
        self.last_no: i64 = 0
        self.size_bytes: i64 = 0
        # the highest number that any master was sent
        self.ever_sent: i64 = 0
        # up to where whoever published it knows what became of it; what is kept below that is not settled all the same
        self._told_no: i64 = 0
        # by their numbers, from the one at `_at` on; before it there is nothing left
        self._kept: list[Message | None] = []
        self._at: i64 = 0
        # numbers of those that no channel published, and of those that no master has, and none shall
        self._uncounted: set[int] = set()
        self._refused: set[int] = set()
        self._settled_bytes: i64 = 0
        self._publishes: UnconfirmedPublishes = UnconfirmedPublishes()

    def add(self, message: Message | None, uncounted: bool) -> i64:
        """Its number."""
        size_bytes: i64 = 0 if message is None else len(message.content)
        self._publishes.sent(size_bytes)
        self.last_no += 1
        self.size_bytes += size_bytes
        self._kept.append(message)
        if uncounted:
            self._uncounted.add(int(self.last_no))
        return self.last_no

    def await_last(self, waiter: PublishWaiter, place: i64) -> None:
        self._publishes.await_last(waiter, place)

    def to_send(self, mark: i64) -> list[WindowedPublish]:
        """What a master needs that has everything up to the mark."""
        found: list[WindowedPublish] = []
        number: i64 = max(mark + 1, self.first_no)
        while number <= self.last_no:
            if int(number) not in self._refused:
                message = self._kept[self._at + number - self.first_no]
                found.append(WindowedPublish(number, message, int(number) in self._uncounted))
            number += 1
        return found

    def confirm_to(self, number: i64) -> None:
        """Whoever published what has these numbers waits no longer."""
        if number > self.ever_sent:
            raise PeerFault(f"publish {number} of {self.ever_sent} is held")
        if number > self._told_no:
            self._tell_to(number)

    def settle_to(self, number: i64) -> None:
        """Everything up to this one is settled, or was refused."""
        self._drop_to(number)
        if number > self._told_no:
            self._tell_to(number)

    def refuse(self, number: i64) -> bool:
        """Whether whoever published it can be told."""
        self._refused.add(int(number))
        if number <= self._told_no:
            return False
        self._publishes.refused(number)
        return True

    def refuse_doubtful(self) -> None:
        """Nobody knows what became of what was sent: whoever sent it decides whether to send it again.

        Whoever was told that it is held does not: that is sent again, whether it is there or not.
        """
        number: i64 = max(self.first_no, self._told_no + 1)
        while number <= self.ever_sent:
            if int(number) not in self._refused:
                self._refused.add(int(number))
                self._publishes.refused(number, doubted=True)
            number += 1
        if self._told_no < self.ever_sent:
            self._tell_to(self.ever_sent)
        self._drop_refused()

    def give_up(self, reason: str) -> None:
        """Nothing will be known of what nobody was told of so far."""
        self._publishes.lost(reason)
        self._refused.update(range(int(max(self.first_no, self._told_no + 1)), int(self.last_no) + 1))
        if self._told_no < self.last_no:
            self._tell_to(self.last_no)
        self._drop_refused()

    def _tell_to(self, number: i64) -> None:
        self._told_no = number
        self._publishes.settled_to(number, self._settled_bytes)

    def _drop_refused(self) -> None:
        number: i64 = self.first_no
        while int(number) in self._refused:
            number += 1
        self._drop_to(number - 1)

    def _drop_to(self, number: i64) -> None:
        """Those up to this one need not be kept any more."""
        kept = self._kept
        settled_bytes: i64 = 0
        at: i64 = self._at
        while at < len(kept) and self.first_no <= number:
            message = kept[at]
            if message is not None:
                settled_bytes += len(message.content)
                kept[at] = None
            at += 1
            self.first_no += 1
        self._at = at
        self.size_bytes -= settled_bytes
        self._settled_bytes += settled_bytes
        if self._uncounted or self._refused:
            self._uncounted = {one for one in self._uncounted if one >= self.first_no}
            self._refused = {one for one in self._refused if one >= self.first_no}
        self._sweep()

    def _sweep(self) -> None:
        """Forget the places of what is settled, at once if that is all, else when it is the most."""
        if self._at == len(self._kept):
            self._kept = []
            self._at = 0
        elif self._at > COMMITTED_MAX and self._at * 2 > len(self._kept):
            del self._kept[: self._at]
            self._at = 0
