"""Whether a plan comes about: a node alone agrees with itself, at once.

::

    plan ──► agree ──► changes numbered and made, here and now ──► recorded with the turn's batch

What outlives the node is durable when that batch is; answers about it wait for that (`session.gate`, `broker.control`).

Not here: what a plan is (`store.plan`), how changes are made (`broker.applying`).
"""

from abc import ABC, abstractmethod
from typing import final

from mypy_extensions import mypyc_attr, trait

from warren.broker.applying import Appliers
from warren.store.metadata import Metadata
from warren.store.plan import Plan


@trait
class AgreementWaiter:
    """Whoever wants to know how it ended; told once, and never within `Agreement.agree`."""

    @abstractmethod
    def agreed(self) -> None:
        """The plan came about, and whoever looks finds it so."""

    @abstractmethod
    def outdated(self) -> None:
        """Something that the plan relies on has changed, and is to be seen: plan again."""

    @abstractmethod
    def failed(self, reason: str) -> None:
        """It is not known to have come about, for this reason."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Agreement(ABC):
    """Decides about plans."""

    @abstractmethod
    def agree(self, plan: Plan, waiter: AgreementWaiter | None) -> bool:
        """True: the plan was carried out. False: that is not known yet, and the waiter will be told."""


@final
class LoneAgreement(Agreement):
    """Of a node that has definitions to itself. Without metadata nothing outlives it."""

    def __init__(self, appliers: Appliers) -> None:
        self._appliers: Appliers = appliers
        self.metadata: Metadata | None = None
        self._passing: int = 0

    def agree(self, plan: Plan, waiter: AgreementWaiter | None) -> bool:
        for change in plan.changes.values():
            definition = change.definition
            if definition is None:
                if self.metadata is not None and change.kept:
                    self.metadata.delete(change.key)
                self._appliers.delete_key(change.key)
            elif self.metadata is not None and change.kept:
                self._appliers.put(definition, self.metadata.put(change.key, definition.value()))
            else:
                self._appliers.put(definition, self._passing_id())
        return True

    def _passing_id(self) -> int:
        """For something that does not outlive the node: never one that a revision could be."""
        self._passing += 1
        return -self._passing
