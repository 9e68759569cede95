"""Many messages that are sent in a row, and what became of each of them.

A bulk hears of its own numbers only, in runs, whoever else publishes on its channel, and it costs a handful of objects
however many messages it has.

Not here: sending it (`client.publishing`), who sends the rest of one whose channel has ended (`recovering.sending`).
"""

from collections.abc import Callable, Sequence

from warren.client.errors import PublishFailed
from warren.client.link import Error
from warren.client.machine.confirms import ConfirmRange
from warren.client.machine.deliveries import ReturnedMessage
from warren.client.machine.publishing import Message


class Bulk:
    """Messages that are sent in a row; what becomes of each is told by its place among them.

    `on_end` is called once: when all are decided, or when the channel has ended, and then there is an `error`. Whoever
    does not want the rest to be sent sets `wanted` to False.
    """

    def __init__(self, messages: Sequence[bytes | Message], on_end: "Callable[[Bulk], None]") -> None:
        self.messages = messages
        self.wanted = True
        self.sent = 0
        # how many will have been sent in the end
        self._count = len(messages)
        self.error: Error | None = None
        # by place; what is decided and not here was acked
        self.failed: dict[int, PublishFailed] = {}
        self._on_end = on_end
        self._first_no = 0
        # decided, as runs of places in the order in which they were told
        self._runs: list[tuple[int, int]] = []
        self._decided = 0

    @property
    def first_no(self) -> int:
        return self._first_no

    @property
    def last_no(self) -> int:
        """The highest number that it may come to have."""
        return self._first_no + self._count - 1

    def undecided(self) -> list[int]:
        """The places of those that were sent, and of which nothing is known; in order."""
        left: list[int] = []
        at = 0
        for first, last in sorted(self._runs):
            left += range(at, first)
            at = last + 1
        left += range(at, self.sent)
        return left

    def is_decided(self) -> bool:
        return self._decided == self._count

    def begin(self, first_no: int) -> None:
        self._first_no = first_no

    def cut(self) -> None:
        """No more of it will be sent."""
        self._count = self.sent

    def decide(self, decided: ConfirmRange, returned: dict[int, ReturnedMessage]) -> None:
        """A range of its own numbers, and of what came back at least all that is among them."""
        first, last = decided.first - self._first_no, decided.last - self._first_no
        if not decided.acked:
            for number in range(decided.first, decided.last + 1):
                came_back = returned.pop(number, None)
                refused = [ConfirmRange(number, number, False)]
                self.failed[number - self._first_no] = PublishFailed(refused, [came_back] if came_back else [])
        elif returned:
            for number in [number for number in returned if decided.first <= number <= decided.last]:
                self.failed[number - self._first_no] = PublishFailed([], [returned.pop(number)])
        if self._runs and self._runs[-1][1] + 1 == first:
            self._runs[-1] = (self._runs[-1][0], last)
        else:
            self._runs.append((first, last))
        self._decided += last - first + 1

    def end(self, error: Error | None) -> None:
        self.error = error
        self._on_end(self)
