"""The publishes of one node to one mirrored queue that are not committed, kept for the next master.

Publishes and fences are numbered once, for as long as the node's process lives: masters know the node by these
numbers. The window is the only ledger of them on the publisher's node besides the session's.

A publisher is told when its publish is committed; or, where a policy says so, when the master alone holds it. A publish
confirmed early stays in the window until it is committed, and is sent to the next master like any other: it is lost
only with this node. Its publisher has the confirm already, so a later refusal cannot be reported.

Invariant: the window has the numbers from `first_no` to `last_no`, without a gap.

Not here: sending them (`broker.links.mirrored_queue_proxy`), the waiters (`broker.links.publish_waiters`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.links.publish_waiters import PublishWaiters
from warren.broker.model.message import Message
from warren.errors import InvariantBroken, PeerFault

COMMITTED_MAX: Final[i64] = 256
"""Places of committed publishes are dropped when there are more than this, and more than other places."""


@final
class WindowedPublish:
    """A message, or a fence if there is none, kept to be sent again."""

    def __init__(self, number: i64, message: Message | None, uncounted: bool) -> None:
        self.number: i64 = number
        self.message: Message | None = message
        self.uncounted: bool = uncounted


@final
class PublishWindow:
    """The window of one node for one mirrored queue."""

    def __init__(self) -> None:
        self.waiters: PublishWaiters = PublishWaiters()
        self.first_no: i64 = 1
        self.last_no: i64 = 0
        self.size_bytes: i64 = 0
        # the highest number that any master was sent
        self.ever_sent: i64 = 0
        # the outcome of publishes up to this one is reported; those still in the window are not committed yet
        self._settled_no: i64 = 0
        # in the order of their numbers, from `_at` on; the places before are empty
        self._kept: list[Message | None] = []
        self._at: i64 = 0
        # numbers of publishes that no channel made, and of refused publishes
        self._uncounted: set[int] = set()
        self._refused: set[int] = set()

    def add(self, message: Message | None, uncounted: bool) -> i64:
        """Keep a publish, or a fence if there is no message; its number."""
        self.last_no += 1
        if message is not None:
            self.size_bytes += len(message.content)
        self._kept.append(message)
        if uncounted:
            self._uncounted.add(int(self.last_no))
        return self.last_no

    def to_send(self, mark: i64) -> list[WindowedPublish]:
        """The publishes above the mark: a master that has all up to the mark lacks these."""
        found: list[WindowedPublish] = []
        number: i64 = max(mark + 1, self.first_no)
        while number <= self.last_no:
            if int(number) not in self._refused:
                message = self._kept[self._at + number - self.first_no]
                found.append(WindowedPublish(number, message, int(number) in self._uncounted))
            number += 1
        return found

    def confirm_to(self, number: i64) -> None:
        """Publishes up to this number can be confirmed."""
        if number > self.ever_sent:
            raise PeerFault(f"publish {number} of {self.ever_sent} is held")
        if number > self._settled_no:
            self._settle_waiters_to(number)

    def settle_to(self, number: i64) -> None:
        """Everything up to this number is committed, or was refused."""
        assert number <= self.last_no, "only numbered publishes are committed"
        self._drop_to(number)
        if number > self._settled_no:
            self._settle_waiters_to(number)

    def refuse(self, number: i64) -> bool:
        """A publish is refused; whether that can still be reported to its publisher."""
        assert number <= self.last_no, "only numbered publishes are refused"
        self._refused.add(int(number))
        if number <= self._settled_no:
            return False
        self.waiters.refuse(number)
        return True

    def refuse_doubtful(self) -> None:
        """The new master cannot tell which publishes it has. Publishers get a nack and decide whether to publish again.

        Publishes that were confirmed early are sent again, whether a master has them or not.
        """
        number: i64 = max(self.first_no, self._settled_no + 1)
        while number <= self.ever_sent:
            if int(number) not in self._refused:
                self._refused.add(int(number))
                self.waiters.refuse(number, doubted=True)
            number += 1
        if self._settled_no < self.ever_sent:
            self._settle_waiters_to(self.ever_sent)
        self._drop_refused()

    def give_up(self, reason: str) -> None:
        """The outcome of the unconfirmed publishes stays unknown."""
        self.waiters.lose(reason)
        self._refused.update(range(int(max(self.first_no, self._settled_no + 1)), int(self.last_no) + 1))
        if self._settled_no < self.last_no:
            self._settle_waiters_to(self.last_no)
        self._drop_refused()

    def _settle_waiters_to(self, number: i64) -> None:
        self._settled_no = number
        self.waiters.settle_to(number)

    def _drop_refused(self) -> None:
        number: i64 = self.first_no
        while int(number) in self._refused:
            number += 1
        self._drop_to(number - 1)

    def _drop_to(self, number: i64) -> None:
        """Drop the publishes up to this one."""
        kept = self._kept
        dropped_bytes: i64 = 0
        at: i64 = self._at
        while at < len(kept) and self.first_no <= number:
            message = kept[at]
            if message is not None:
                dropped_bytes += len(message.content)
                kept[at] = None
            at += 1
            self.first_no += 1
        self._at = at
        self.size_bytes -= dropped_bytes
        if self._uncounted or self._refused:
            self._uncounted = {one for one in self._uncounted if one >= self.first_no}
            self._refused = {one for one in self._refused if one >= self.first_no}
        self._sweep()

    def check(self) -> None:
        """Raise `InvariantBroken` if the window contradicts itself."""
        kept = self._kept[self._at :]
        if len(kept) != self.last_no - self.first_no + 1:
            raise InvariantBroken(f"publishes {self.first_no} to {self.last_no} are kept as {len(kept)}")
        if self.size_bytes != sum([len(message.content) for message in kept if message is not None]):
            raise InvariantBroken(f"{self.size_bytes} bytes of publishes are counted, and others are kept")
        if self.ever_sent > self.last_no or self._settled_no > self.last_no:
            raise InvariantBroken(f"publish {self.last_no} is the last, and a later one was sent or reported")
        self.waiters.check()

    def _sweep(self) -> None:
        """Drop the places of committed publishes: at once if all are committed, else when most are."""
        if self._at == len(self._kept):
            self._kept = []
            self._at = 0
        elif self._at > COMMITTED_MAX and self._at * 2 > len(self._kept):
            del self._kept[: self._at]
            self._at = 0
