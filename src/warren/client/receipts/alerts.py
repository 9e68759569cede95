"""Somebody is told: a message is `failed`, and nothing more is done about it.

Not here: how it came to that (`receipts.deciding`), which rows nobody was told of (`receipts.overdue`).
"""

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass

from warren.client.telling import account, sentence

log = logging.getLogger("warren.client.receipts")


@dataclass(frozen=True, slots=True)
class Alert:
    """A message of which somebody has to find out what became of it."""

    business_id: str
    kind: str
    compensation: str
    exchange: str
    routing_key: str
    attempt: int
    resends: int
    reason: str


OnAlert = Callable[[Alert], object]


def tell(alert: Alert, on_alert: OnAlert | None) -> None:
    """Log it and call; what the callee raises is logged, and changes nothing."""
    log.error("receipt.alert", extra=asdict(alert))
    if on_alert is None:
        return
    try:
        on_alert(alert)
    except Exception as trouble:
        # whatever it is, the message's row says that it failed, and has been logged
        facts = {"business_id": alert.business_id, "reason": sentence(trouble), "raised": account(trouble)}
        log.error("receipt.alert_failed", extra=facts)
