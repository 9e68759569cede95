"""Up to where the master of a mirrored queue may hand out: the horizon that every member in sync knows of.

After a failover whatever is at or below it carries `redelivered`. So before anything is handed out, a step that says so
is settled. To wait seldom, a message that somebody waits for is lent in the step that stores it, and a queue that hands
out much asks for more than it needs.

A queue with priorities does not hand out in order: once anything goes, everything may have gone.

Not here: steps (`mirroring.steps`), who asks (`broker.mirrors.mirrored_log`).
"""

from typing import Final, final

from mypy_extensions import i64

AHEAD_MAX: Final[i64] = 4096
EVERYTHING: Final[i64] = 1 << 62


@final
class Lending:
    """One queue's horizon."""

    def __init__(self, in_order: bool) -> None:
        # as far as every member in sync knows
        self.settled: i64 = 0
        # as far as any step says
        self.asked: i64 = 0
        # somebody was refused, and is to be told when that is over
        self.refused: bool = False
        self._in_order: bool = in_order
        # what the steps under way say: their numbers and positions
        self._under_way: list[tuple[int, int]] = []
        self.unwritten: bool = False
        self._ahead: i64 = 0

    def may_go(self, position: i64) -> bool:
        if position <= self.settled:
            return True
        if position > self.asked:
            self._ahead = min(self._ahead * 2 + 1, AHEAD_MAX)
            self.ask(position + self._ahead - 1)
        self.refused = True
        return False

    def ask(self, position: i64) -> None:
        """Have the next step say so."""
        if not self._in_order:
            position = EVERYTHING
        if position > self.asked:
            self.asked = position
            self.unwritten = True

    def take_unwritten(self) -> i64:
        """What the step that is being written has to say; 0 for nothing."""
        if not self.unwritten:
            return 0
        self.unwritten = False
        return self.asked

    def written(self, number: i64) -> None:
        """That step has this number."""
        self._under_way.append((int(number), int(self.asked)))

    def step_settled(self, number: i64) -> bool:
        """Whether somebody who was refused is to ask again."""
        before = self.settled
        while self._under_way and self._under_way[0][0] <= number:
            self.settled = self._under_way.pop(0)[1]
        again = self.refused and self.settled > before
        if again:
            self.refused = False
        return again
