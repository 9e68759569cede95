"""Whom a master hears that asks to follow it.

Whoever is taken out of the ring drops its copy when it hears of that. If it is taken in again in the same epoch, it may
ask with what it has and is about to drop. So from then on a request counts only if its sender knew of a version of the
ring as late as the one without it. Who has heard of this epoch knows of everything before.

One that asks before its master has heard that it is a member is heard when the master has.

Not here: what becomes of whoever is heard (`mirroring.master`).
"""

from typing import final

from warren.mirroring.mirror import JoinRequest

Asked = tuple[str, int, JoinRequest]
"""A node, its incarnation, and what it said."""


@final
class Entrance:
    """One master's, in one epoch."""

    def __init__(self) -> None:
        # by name: the version of the ring from which it was gone
        self._left: dict[str, int] = {}
        self._early: dict[str, Asked] = {}

    def lets_in(self, asked: Asked, members: list[str]) -> bool:
        """Whether it is heard now."""
        node = asked[0]
        if asked[2].known < self._left.get(node, 0):
            return False
        if node in members:
            return True
        self._early[node] = asked
        return False

    def forget(self, node: str) -> None:
        """There is no way to it any more, or it asks anew."""
        self._early.pop(node, None)

    def changed(self, before: list[str], members: list[str], version: int) -> list[Asked]:
        """There are other members, from that version on; those who have asked and may be heard now."""
        for name in before:
            if name not in members:
                self._left[name] = version
        return [self._early.pop(node) for node in list(self._early) if node in members]
