"""A metadata backend under the test's control: every transaction waits until the test decides it."""

from warren.broker.metadata.backend import LocalMetadataBackend, MetadataAppliers, MetadataBackend
from warren.broker.metadata.transaction import MetadataTransaction, TransactionWaiter


class SlowAgreement(MetadataBackend):
    """Keeps pending transactions, oldest first."""

    def __init__(self, appliers: MetadataAppliers) -> None:
        self.waiting: list[tuple[MetadataTransaction, TransactionWaiter | None]] = []
        self._lone = LocalMetadataBackend(appliers)

    def is_immediate(self) -> bool:
        return False

    def submit(self, transaction: MetadataTransaction, waiter: TransactionWaiter | None) -> bool:
        self.waiting.append((transaction, waiter))
        return False

    def keys(self) -> list[list[str]]:
        """The changes of the waiting transactions."""
        return [list(transaction.changes) for transaction, _ in self.waiting]

    def grant(self) -> None:
        """Commit the oldest transaction."""
        transaction, waiter = self.waiting.pop(0)
        self._lone.submit(transaction, None)
        if waiter is not None:
            waiter.committed()

    def outdate(self) -> None:
        """Refuse the oldest transaction as outdated."""
        waiter = self.waiting.pop(0)[1]
        if waiter is not None:
            waiter.outdated()

    def fail(self, reason: str) -> None:
        """The outcome of the oldest transaction is unknown."""
        waiter = self.waiting.pop(0)[1]
        if waiter is not None:
            waiter.failed(reason)
