"""An agreement whose answers are the test's: every transaction waits until the test decides it."""

from warren.broker.metadata.backend import LocalMetadataBackend, MetadataAppliers, MetadataBackend
from warren.broker.metadata.transaction import MetadataTransaction, TransactionWaiter


class SlowAgreement(MetadataBackend):
    """Plans that wait, oldest first."""

    def __init__(self, appliers: MetadataAppliers) -> None:
        self.waiting: list[tuple[MetadataTransaction, TransactionWaiter | None]] = []
        self._lone = LocalMetadataBackend(appliers)

    def is_immediate(self) -> bool:
        return False

    def submit(self, plan: MetadataTransaction, waiter: TransactionWaiter | None) -> bool:
        self.waiting.append((plan, waiter))
        return False

    def keys(self) -> list[list[str]]:
        """The changes of the waiting transactions."""
        return [list(plan.changes) for plan, _ in self.waiting]

    def grant(self) -> None:
        """The oldest plan comes about."""
        plan, waiter = self.waiting.pop(0)
        self._lone.submit(plan, None)
        if waiter is not None:
            waiter.committed()

    def outdate(self) -> None:
        """The oldest plan is refused, because of something that has changed."""
        waiter = self.waiting.pop(0)[1]
        if waiter is not None:
            waiter.outdated()

    def fail(self, reason: str) -> None:
        """The outcome of the oldest transaction is unknown."""
        waiter = self.waiting.pop(0)[1]
        if waiter is not None:
            waiter.failed(reason)
