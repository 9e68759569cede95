"""What operators of a pretend ring do by chance: want other members or another master, stop nodes, let others catch up.

In most runs they do nothing, so that faults are seen alone, too.

Not here: what becomes of it (`sim.rings.wishes`, `sim.rings.newcomers`).
"""

from random import Random

from warren.mirroring.placement import ALL, EXACTLY, NODES
from warren.sim.rings.newcomers import Newcomer
from warren.sim.rings.wishes import ALONE
from warren.sim.rings.world import Action, RingWorld

WHOLE = 1_000
"""As much as anybody has written and not flushed: a node that stops on purpose loses nothing."""

DEEDS = ("want", "want", "want", "master", "master", "retreat", "stop", "sync")


class Operators:
    """Draws what they do next."""

    def __init__(self, world: RingWorld, draw: Random) -> None:
        self._world = world
        self._draw = draw
        self.rate = draw.choice((0.0, 0.0, 0.0, 0.01, 0.03, 0.06))
        # how often what they want leaves it to them when newcomers catch up
        self._manual_rate = draw.choice((0.0, 0.3, 0.8))

    def next(self) -> list[Action]:
        """Things they might do, of one kind."""
        world = self._world
        catching_up = self._catching_up()
        if catching_up and self._draw.random() < 0.5:
            return catching_up
        kind = self._draw.choice(DEEDS)
        if kind == "want":
            return [self._want()] if world.store.majority else []
        if kind == "master":
            return [self._want_another_master()] if world.store.majority else []
        if kind == "retreat":
            leads = [name for name, member in world.members.items() if member.up and member.mastery is not None]
            return [("retreat", name, "", 0) for name in leads]
        if kind == "stop":
            return self.stopping()
        return world.waiting_for_sync()

    def _catching_up(self) -> list[Action]:
        """Where somebody does, which can be stopped."""
        return [
            ("cancel sync", name, "", 0)
            for name, member in self._world.members.items()
            if member.up and member.mastery is not None and any(map(_goes_on, member.mastery.newcomers.values()))
        ]

    def stopping(self) -> list[Action]:
        """The end of nodes that were about to stop."""
        return [
            ("crash", name, "", WHOLE) for name, member in self._world.members.items() if member.up and member.retreats
        ]

    def _want(self) -> Action:
        draw = self._draw
        names = list(self._world.members)
        syncs = int(draw.random() >= self._manual_rate)
        mode = draw.choice((ALL, EXACTLY, EXACTLY, NODES, NODES, ALONE))
        if mode == EXACTLY:
            return "want", mode, "", draw.randint(1, len(names)) * 2 + syncs
        if mode == NODES:
            return "want", mode, " ".join(draw.sample(names, draw.randint(1, len(names)))), syncs
        return "want", mode, "", syncs

    def _want_another_master(self) -> Action:
        """The members that there are, but for the master, which is to be one of them."""
        ring = self._world.store.ring
        others = [name for name in ring.members if name != ring.master] or list(self._world.members)
        others = self._draw.sample(others, self._draw.randint(1, len(others)))
        return "want", NODES, " ".join(others), int(self._draw.random() >= self._manual_rate)


def _goes_on(newcomer: Newcomer) -> bool:
    return newcomer.reader is not None
