"""How a relay goes about its work.

Not here: where it publishes to; that is in the rows and in the transport.
"""

from dataclasses import dataclass

from warren.client.errors import SettingsError
from warren.client.tables import LEASE_S_MAX

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class RelaySettings:
    """What may be chosen; the defaults suit most."""

    batch_rows: int = 1000
    """Rows that are read, published and marked together; fewer if they have more than 16 MiB."""

    tries: int = 5
    """How often a row that cannot be routed, or could never be taken, is offered before it counts as failed."""

    backoff_s: float = 1.0
    """Before a row that was not taken is offered again; doubled each time, up to a minute."""

    lease_s: float = 10.0
    """How long a relay that died keeps the others waiting; it is renewed three times within."""

    publish_timeout_s: float = 10.0
    """How long a confirm may take before the row counts as undecided and is sent again."""

    poll_s: float = 0.2
    """How often the table is looked at where nobody tells that there is something."""

    listening_poll_s: float = 5.0
    """The same where PostgreSQL tells, in case a word of it was missed."""

    keep_s: float | None = 7 * DAY_S
    """How long rows that are through with are kept, and their business ids refused a second time; None: for ever."""

    receipt_within_s: float = 300.0
    """When a receipt is due after the first sending, for rows that want one."""

    resent_receipt_within_s: float = 120.0
    """When it is due after a resend, and after every sending of a confirmation or a reversal."""

    def __post_init__(self) -> None:
        if self.batch_rows < 1 or self.tries < 1:
            raise SettingsError("a relay needs batch_rows and tries of 1 or more")
        if not 0 < self.lease_s <= LEASE_S_MAX:
            raise SettingsError(f"lease_s is above 0 and at most {LEASE_S_MAX:g}, not {self.lease_s:g}")
        if min(self.backoff_s, self.publish_timeout_s, self.poll_s, self.listening_poll_s) <= 0:
            raise SettingsError("backoff_s, publish_timeout_s, poll_s and listening_poll_s are above 0")
        if min(self.receipt_within_s, self.resent_receipt_within_s) < 0:
            raise SettingsError("receipt_within_s and resent_receipt_within_s are 0 or above")
