"""What a node published to a mirrored queue and is not settled: kept, to be sent to the next master if need be.

Everything is numbered, fences too, for as long as the node's process lives: masters know the node by it.

Whoever published something is told when it is settled; or, where a policy says so, when the master alone holds it. Then
it stays here until it is settled, and is sent to the next master like anything else: it is lost only with this node.
Nobody can be told any more if that does not take it.

Invariant: what is kept has the numbers from `first_no` to `last_no`, without a gap.

Not here: sending it (`remote.seat`), the waiters (`remote.publishes`).
"""

from collections import deque
from typing import final

from mypy_extensions import i64

from warren.errors import PeerFault
from warren.model.distant import SettlementWaiter
from warren.model.message import Message
from warren.remote.publishes import Publishes


@final
class Kept:
    """A message, or a fence if there is none."""

    def __init__(self, number: i64, message: Message | None, uncounted: bool) -> None:
        self.number: i64 = number
        self.message: Message | None = message
        self.uncounted: bool = uncounted
        # no master has it, and none shall
        self.refused: bool = False


@final
class KeptPublishes:
    """Those of one queue, and who waits for them."""

    def __init__(self) -> None:
        self.first_no: i64 = 1
        self.last_no: i64 = 0
        self.size_bytes: i64 = 0
        # the highest number that any master was sent
        self.ever_sent: i64 = 0
        # up to where whoever published it knows what became of it; what is kept below that is not settled all the same
        self._told_no: i64 = 0
        self._kept: deque[Kept] = deque()
        self._settled_bytes: i64 = 0
        self._publishes: Publishes = Publishes()

    def add(self, message: Message | None, uncounted: bool) -> Kept:
        size_bytes: i64 = 0 if message is None else len(message.content)
        self._publishes.sent(size_bytes)
        self.last_no += 1
        self.size_bytes += size_bytes
        kept = Kept(self.last_no, message, uncounted)
        self._kept.append(kept)
        return kept

    def await_last(self, waiter: SettlementWaiter, place: i64) -> None:
        self._publishes.await_last(waiter, place)

    def to_send(self, mark: i64) -> list[Kept]:
        """What a master needs that has everything up to the mark."""
        return [kept for kept in self._kept if not kept.refused and kept.number > mark]

    def confirm_to(self, number: i64) -> None:
        """Whoever published what has these numbers waits no longer."""
        if number > self.ever_sent:
            raise PeerFault(f"publish {number} of {self.ever_sent} is held")
        if number > self._told_no:
            self._tell_to(number)

    def settle_to(self, number: i64) -> None:
        """Everything up to this one is settled, or was refused."""
        while self._kept and self.first_no <= number:
            self._drop()
        if number > self._told_no:
            self._tell_to(number)

    def refuse(self, number: i64) -> bool:
        """Whether whoever published it can be told."""
        self._kept[int(number - self.first_no)].refused = True
        if number <= self._told_no:
            return False
        self._publishes.refused(number)
        return True

    def refuse_doubtful(self) -> None:
        """Nobody knows what became of what was sent: whoever sent it decides whether to send it again.

        Whoever was told that it is held does not: that is sent again, whether it is there or not.
        """
        for kept in self._kept:
            if kept.number > self.ever_sent:
                break
            if not kept.refused and kept.number > self._told_no:
                kept.refused = True
                self._publishes.refused(kept.number, doubted=True)
        if self._told_no < self.ever_sent:
            self._tell_to(self.ever_sent)
        self._drop_refused()

    def give_up(self, reason: str) -> None:
        """Nothing will be known of what nobody was told of so far."""
        self._publishes.lost(reason)
        for kept in self._kept:
            if kept.number > self._told_no:
                kept.refused = True
        if self._told_no < self.last_no:
            self._tell_to(self.last_no)
        self._drop_refused()

    def _tell_to(self, number: i64) -> None:
        self._told_no = number
        self._publishes.settled_to(number, self._settled_bytes)

    def _drop_refused(self) -> None:
        while self._kept and self._kept[0].refused:
            self._drop()

    def _drop(self) -> None:
        """The first of them need not be kept any more."""
        message = self._kept.popleft().message
        self.first_no += 1
        if message is not None:
            self.size_bytes -= len(message.content)
            self._settled_bytes += len(message.content)
