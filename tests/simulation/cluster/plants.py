"""Bugs to plant between a node of a cluster and its world.

Not here: bugs in a node's output to clients (`tests.simulation.plants`), which rule must catch which
(`test_planted_cluster_bugs`).
"""

from tests.simulation.plants import OutputPlant, two_swapped
from warren.broker.metadata.store import COMMITTED
from warren.broker.model.effects import Effect, ProposeTransaction
from warren.broker.model.events import (
    DefinitionsChanged,
    DefinitionsCurrent,
    DefinitionsReplaced,
    Event,
    TransactionDecided,
)
from warren.broker.model.journal import MetadataChange
from warren.sim.process import Interceptor


class MissedChange(Interceptor):
    """Some changes of the store never arrive, and the node does not notice."""

    def __init__(self) -> None:
        self._left = 12

    def events(self, events: list[Event]) -> list[Event]:
        return [event for event in events if not self._misses(event)]

    def _misses(self, event: Event) -> bool:
        if not isinstance(event, DefinitionsChanged) or not any("queues/" in one.key for one in event.changes):
            return False
        self._left -= 1
        return self._left == 0


class MadeUp(Interceptor):
    """The node commits a change by itself that no other node hears of."""

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
        if not isinstance(effect, ProposeTransaction) or not any(
            key.startswith("queues/") for key, value in effect.changes
        ):
            return False
        self._left -= 1
        if self._left > 0 or self._revision == 0:
            return False
        self._revision += 1
        changes = [MetadataChange(self._revision, key, value) for key, value in effect.changes]
        self._made_up += [
            DefinitionsChanged(self._revision, changes),
            TransactionDecided(effect.ticket, COMMITTED, self._revision),
        ]
        return True


class AlwaysSwapped(OutputPlant):
    """Deliveries of one consumer change places whenever two go out at once."""

    def __init__(self) -> None:
        super().__init__(two_swapped, 1)

    def effects(self, effects: list[Effect]) -> list[Effect]:
        self.planted = False
        return super().effects(effects)
