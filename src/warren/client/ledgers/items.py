"""What is open, as plain values.

Not here: how it is found out (`ledgers.looking`).
"""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

MEANINGS: Final[dict[str, str]] = {
    "failed": "Nobody goes on with it: somebody has to look.",
    "refused": "Its receiver has refused it.",
    "reversing": "There was no receipt: another row takes it back.",
    "confirming": "There was no receipt: another row asks for it once more.",
    "sent": "It was sent, and there is no receipt yet.",
    "pending": "It is to be sent.",
}
"""The statuses of rows that are open, in the order in which somebody has to look."""


@dataclass(frozen=True, slots=True)
class OpenItem:
    """A row that is not through with.

    `due_at` is when it is tried again if it is pending, and when its receipt is due if it was sent; then `is_overdue`
    says whether that is past.
    """

    business_id: str
    kind: str
    status: str
    exchange: str
    routing_key: str
    attempt: int
    resends: int
    settles: str | None
    amount: Decimal | None
    currency: str | None
    created_at: datetime | None
    sent_at: datetime | None
    due_at: datetime | None
    last_error: str | None
    age_s: float | None
    is_overdue: bool


@dataclass(frozen=True, slots=True)
class StatusCount:
    """How many rows have a status; the receipts of `overdue` should be there, and the first row is so old."""

    status: str
    rows: int
    overdue: int
    first_age_s: float | None


@dataclass(frozen=True, slots=True)
class Standing:
    """What is open at a moment of the database's clock; `items` has the first of each status."""

    at: datetime
    counts: tuple[StatusCount, ...]
    items: tuple[OpenItem, ...]
    relay_until: datetime | None
    """Until when the active relay has its lease; in the past, or None, if there is none."""

    @property
    def rows(self) -> int:
        return sum(count.rows for count in self.counts)

    @property
    def is_relayed(self) -> bool:
        """Whether there is an active relay."""
        return self.relay_until is not None and self.relay_until > self.at

    def items_of(self, status: str) -> tuple[OpenItem, ...]:
        return tuple(item for item in self.items if item.status == status)
