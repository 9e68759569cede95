"""In which epoch steps were numbered: where each epoch begins, as far back as anybody has to know.

Steps up to the settled one are the same everywhere, so only those above have to be told apart.

Not here: the steps themselves (`mirroring.steps`).
"""

from typing import final

from mypy_extensions import i64

Beginning = tuple[int, int]
"""An epoch, and its first step."""


@final
class Epochs:
    """Those of one member's steps, oldest first."""

    def __init__(self, beginnings: list[Beginning] | None = None) -> None:
        self.beginnings: list[Beginning] = [] if beginnings is None else beginnings

    def add(self, epoch: i64, number: i64) -> None:
        """A step of that epoch is held."""
        if not self.beginnings or self.beginnings[-1][0] != epoch:
            self.beginnings.append((int(epoch), int(number)))

    def of(self, number: i64) -> int:
        """The epoch of a step; 0 if it was too long ago."""
        found = 0
        for epoch, first in self.beginnings:
            if first > number:
                break
            found = epoch
        return found

    def first_of(self, epoch: int) -> int:
        for each, first in self.beginnings:
            if each == epoch:
                return first
        return 0

    def cut(self, last: i64) -> None:
        """Steps above this one are no more."""
        self.beginnings = [(epoch, first) for epoch, first in self.beginnings if first <= last]

    def forget(self, settled: i64) -> None:
        """Steps up to this one need not be told apart any more."""
        while len(self.beginnings) > 1 and self.beginnings[1][1] <= settled:
            self.beginnings.pop(0)


def last_common(ours: Epochs, our_end: i64, theirs: Epochs, their_end: i64) -> i64:
    """The last step that two members both have; 0 if there is none that they can tell.

    Both got their steps, in order, from one master after another. So if they have the same epoch for a step, they have
    the same steps up to there.
    """
    number: i64 = min(our_end, their_end)
    while number > 0:
        ours_there, theirs_there = ours.of(number), theirs.of(number)
        if ours_there == theirs_there and ours_there != 0:
            return number
        if ours_there == 0 or theirs_there == 0:
            return 0
        # the one of the later epoch begins with steps that the other does not have
        if ours_there > theirs_there:
            number = ours.first_of(ours_there) - 1
        else:
            number = theirs.first_of(theirs_there) - 1
    return 0
