"""How long to wait for receipts, and how often to try.

When a receipt is due after each sending is for the relay to say, which knows when that was: `receipt_within_s` and
`resent_receipt_within_s` of the `RelaySettings`.
"""

from dataclasses import dataclass

from warren.client.errors import SettingsError
from warren.client.tables import LEASE_S_MAX


@dataclass(frozen=True, slots=True)
class ChasingSettings:
    """What may be chosen; the defaults suit most."""

    resends: int = 3
    """How often a message is sent again when its receipt is overdue, before it is compensated for; 0: never."""

    compensations: int = 5
    """How often a confirmation or a reversal is sent in all, before somebody has to look."""

    batch_rows: int = 100
    """Overdue rows that are dealt with in one transaction."""

    poll_s: float = 1.0
    """How often the table is looked at."""

    lease_s: float = 10.0
    """How long a chaser that died keeps the others waiting; it is renewed three times within."""

    backoff_s: float = 1.0
    """After trouble with the database."""

    def __post_init__(self) -> None:
        if self.resends < 0 or self.compensations < 1 or self.batch_rows < 1:
            raise SettingsError("a chaser needs resends of 0 or more, and compensations and batch_rows of 1 or more")
        if not 0 < self.lease_s <= LEASE_S_MAX:
            raise SettingsError(f"lease_s is above 0 and at most {LEASE_S_MAX:g}, not {self.lease_s:g}")
        if min(self.poll_s, self.backoff_s) <= 0:
            raise SettingsError("poll_s and backoff_s are above 0")
