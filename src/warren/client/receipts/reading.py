"""A receipt as it came, read.

Not here: what it looks like (`inbox.receipting`), what it changes (`receipts.marking`).
"""

from typing import NamedTuple

from warren.client.errors import CannotConvert
from warren.client.inbox.receipting import OUTCOME, REASON, RECEIPT, RECEIPT_FOR
from warren.client.inbox.recording import checked_id
from warren.client.transport import Incoming


class Receipt(NamedTuple):
    """Of which message, and what became of it."""

    business_id: str
    is_refusal: bool = False
    reason: str = ""


def receipt_of(incoming: Incoming) -> Receipt:
    """What it says; a `CannotConvert` if it is no receipt, or says nothing that makes sense."""
    properties = incoming.properties
    if properties.type != RECEIPT:
        raise CannotConvert(f"it is no receipt: its type is {properties.type!r}, not {RECEIPT!r}")
    headers = properties.headers or {}
    said = headers.get(RECEIPT_FOR, properties.correlation_id)
    business_id = checked_id(said if isinstance(said, str) else "", RECEIPT_FOR)
    outcome, reason = headers.get(OUTCOME), headers.get(REASON, "")
    if outcome not in ("done", "refused"):
        raise CannotConvert(f"the receipt for {business_id!r} has {OUTCOME} {outcome!r}; it is 'done' or 'refused'")
    return Receipt(business_id, outcome == "refused", reason if isinstance(reason, str) else "")
