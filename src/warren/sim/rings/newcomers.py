"""Those who are not in sync with a pretend master and have told what they have: each gets what it lacks, when it may.

Where nobody lets newcomers catch up by themselves, an operator does, and may stop them again: what one was sent it
keeps, and when it is let again it gets the rest. If by and by everything goes that it lacks, it has caught up, too.

One begins once this epoch is open: before, inherited removals have yet to be carried out. And it begins when the step
behind which its steps come is settled: of what was removed up to there it will not hear.

Not here: what newcomers make of it (`mirroring.mirror`), admitting them (`mirroring.master`).
"""

from typing import TYPE_CHECKING

from warren.errors import InvariantBroken
from warren.mirroring.difference import difference
from warren.model.copies import PastTaker, Span
from warren.sim.rings import letters
from warren.sim.rings.toy_copy import Kept, ToyReader, spans_of

if TYPE_CHECKING:
    from warren.sim.rings.mastery import Mastery


class Newcomer(PastTaker):
    """One of them, and the way of what it lacks."""

    def __init__(self, mastery: "Mastery", node: str, spans: list[Span]) -> None:
        self.allowed = mastery.member.wanted.syncs
        self.reader: ToyReader | None = None
        self._mastery = mastery
        self._node = node
        self._theirs = spans
        # the first position that it gets in a step, and the step behind which those come
        self._below = mastery.firsts[node]
        self._began = int(mastery.master.followers[node].began)
        self._sent: list[int] = []

    def look(self) -> None:
        """Begin, if it may, or if it lacks nothing."""
        mastery = self._mastery
        if self.reader is not None or not mastery.is_open or mastery.master.settled < self._began:
            return
        ours = mastery.copy.spans()
        lacking = difference(ours, self._theirs, self._below)
        if lacking and not self.allowed:
            return
        surplus = difference(self._theirs, ours, self._below)
        for span in surplus:
            mastery.say(self._node, letters.SURPLUS, 0, span)
        self._theirs = difference(self._theirs, surplus, self._below)
        self.reader = mastery.copy.read(lacking, self)

    def feed(self, count: int) -> None:
        """The next slice of what it lacks."""
        assert self.reader is not None
        self.reader.more(count)

    def stop(self) -> None:
        """It gets no more until it is let again."""
        self.allowed = False
        self.reader = None
        theirs = [each for span in self._theirs for each in range(int(span.first), int(span.last) + 1)]
        self._theirs = spans_of([*theirs, *self._sent])
        self._sent = []

    def past(
        self,
        position: int,
        priority: int,
        expires_at_ms: int,
        persistent: bool,
        returned: int,
        payload: bytes,
        payload_crc: int,
    ) -> None:
        self._sent.append(position)
        self._mastery.say(self._node, letters.PAST, position, (Kept(priority, persistent, payload), returned))

    def past_given(self) -> None:
        pass

    def past_is_over(self) -> None:
        self._mastery.fed(self._node)
        self._mastery.say(self._node, letters.PAST_OVER, 0, None)

    def past_failed(self, reason: str) -> None:
        raise InvariantBroken(reason)

    def picture(self) -> object:
        """All of it, to be compared."""
        left = -1 if self.reader is None else len(self.reader.found)
        return (self.allowed, tuple(self._theirs), self._below, self._began, tuple(self._sent), left)
