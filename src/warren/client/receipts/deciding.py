"""What is done about a row whose receipt is overdue, or which its receiver has refused.

    message                  overdue: sent again, `resends` times; then, or if refused: compensated for, or failed.
                             To confirm what was refused is of no use
    confirmation, reversal   overdue: sent again, until it was sent `compensations` times; then, or if refused: failed

Not here: doing it (`receipts.overdue`).
"""

from enum import Enum
from typing import NamedTuple

from warren.client.outbox.kinds import COMPENSATIONS
from warren.client.receipts.settings import ChasingSettings


class AwaitedRow(NamedTuple):
    """What is read of a row of which nobody has heard, or nothing good."""

    id: int
    business_id: str
    kind: str
    status: str
    resends: int
    compensation: str
    settles: str | None
    last_error: str | None


class Step(Enum):
    RESEND = "resend"
    COMPENSATE = "compensate"
    FAIL = "fail"


def next_step(row: AwaitedRow, settings: ChasingSettings) -> Step:
    """What is done about it now."""
    is_refused = row.status == "refused"
    if not is_refused and row.resends < _resends_max(row, settings):
        return Step.RESEND
    if (
        row.settles is not None
        or row.compensation not in COMPENSATIONS
        or (is_refused and row.compensation == "confirm")
    ):
        return Step.FAIL
    return Step.COMPENSATE


def why_failed(row: AwaitedRow) -> str:
    """For whoever has to look."""
    if row.status == "refused":
        return row.last_error or "it was refused"
    known = row.compensation in ("", *COMPENSATIONS)
    unknown = "" if known else f", and its compensation is {row.compensation!r}, which is none"
    return f"no receipt came after {row.resends} resends{unknown}"


def _resends_max(row: AwaitedRow, settings: ChasingSettings) -> int:
    return settings.resends if row.settles is None else settings.compensations - 1
