"""Whether a plan comes about: a node alone agrees with itself, at once.

A node that was alone may come to share its definitions with others while it runs. So everybody who plans holds the
node's *charter*, which passes plans on to whoever decides at the time.

::

    plan ──► agree ──► changes numbered and made, here and now ──► recorded with the turn's batch

What outlives the node is durable when that batch is; answers about it wait for that (`session.gate`, `broker.control`).

Not here: what a plan is (`store.plan`), how changes are made (`broker.applying`), agreeing with others
(`broker.shared_agreement`).
"""

from abc import abstractmethod
from typing import final

from mypy_extensions import mypyc_attr

from warren.broker.applying import Appliers
from warren.store.metadata import Metadata
from warren.store.plan import AgreementWaiter, Plan, PlannedChange

__all__ = ["Agreement", "AgreementWaiter", "Charter", "LoneAgreement"]


@mypyc_attr(allow_interpreted_subclasses=True)
class Agreement:
    """Decides about plans."""

    @abstractmethod
    def at_once(self) -> bool:
        """Whether `agree` always answers True, so that what comes about can be told before it does."""

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

    def at_once(self) -> bool:
        return True

    def agree(self, plan: Plan, waiter: AgreementWaiter | None) -> bool:
        # recorded as a whole: what making and unmaking writes to the journal must not come between
        revisions = [self._record(change) for change in plan.changes.values()]
        for change, revision in zip(plan.changes.values(), revisions, strict=True):
            if change.definition is None:
                self._appliers.delete_key(change.key)
            else:
                self._appliers.put_under(change.key, change.definition, revision)
        return True

    def _record(self, change: PlannedChange) -> int:
        """The revision of the change, negative if nobody wrote it down."""
        definition = change.definition
        if self.metadata is None or not change.kept:
            return self._passing_id()
        if definition is None:
            return self.metadata.delete(change.key)
        return self.metadata.put(change.key, definition.value())

    def _passing_id(self) -> int:
        """For something that does not outlive the node: never one that a revision could be."""
        self._passing += 1
        return -self._passing

    @property
    def passing_count(self) -> int:
        """How many such ids were given."""
        return self._passing


@final
class Charter(Agreement):
    """How a node agrees at the time."""

    def __init__(self, agreement: Agreement) -> None:
        self.agreement: Agreement = agreement

    def at_once(self) -> bool:
        return self.agreement.at_once()

    def agree(self, plan: Plan, waiter: AgreementWaiter | None) -> bool:
        return self.agreement.agree(plan, waiter)
