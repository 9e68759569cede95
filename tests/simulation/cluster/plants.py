"""Bugs to plant between a node of a cluster and its world.

Not here: bugs in what is said to clients (`tests.simulation.plants`), which rule must catch which
(`test_planted_cluster_bugs`).
"""

from tests.simulation.plants import OutputPlant, two_swapped
from warren.model.effects import Effect, Propose
from warren.model.events import Decided, DefinitionsChanged, DefinitionsCurrent, DefinitionsReplaced, Event
from warren.model.journal import Change
from warren.sim.process import Meddler
from warren.store.metadata import AGREED


class MissedChange(Meddler):
    """Some news of the store never arrive, and nobody notices."""

    def __init__(self) -> None:
        self._left = 12

    def events(self, events: list[Event]) -> list[Event]:
        return [event for event in events if not self._misses(event)]

    def _misses(self, event: Event) -> bool:
        if not isinstance(event, DefinitionsChanged) or not any("queues/" in one.key for one in event.changes):
            return False
        self._left -= 1
        return self._left == 0


class MadeUp(Meddler):
    """The node agrees with itself on something that nobody else hears of."""

    def __init__(self) -> None:
        self._left = 5
        self._made_up: list[Event] = []
        self._revision = 0

    def events(self, events: list[Event]) -> list[Event]:
        for event in events:
            if isinstance(event, DefinitionsChanged | DefinitionsReplaced | DefinitionsCurrent):
                self._revision = max(self._revision, event.revision)
        made_up, self._made_up = self._made_up, []
        return [*events, *made_up]

    def effects(self, effects: list[Effect]) -> list[Effect]:
        return [effect for effect in effects if not self._decides(effect)]

    def _decides(self, effect: Effect) -> bool:
        if not isinstance(effect, Propose) or not any(key.startswith("queues/") for key, value in effect.changes):
            return False
        self._left -= 1
        if self._left > 0 or self._revision == 0:
            return False
        self._revision += 1
        changes = [Change(self._revision, key, value) for key, value in effect.changes]
        self._made_up += [DefinitionsChanged(self._revision, changes), Decided(effect.ticket, AGREED, self._revision)]
        return True


class AlwaysSwapped(OutputPlant):
    """Deliveries of one consumer change places whenever two go out at once."""

    def __init__(self) -> None:
        super().__init__(two_swapped, 1)

    def effects(self, effects: list[Effect]) -> list[Effect]:
        self.planted = False
        return super().effects(effects)
