"""Kinds of rows, and how a message tells its receiver that it stands for another one.

    message        what happened
    confirmation   of a message that nobody acknowledged: it is to be handled, unless it was
    reversal       of such a message: it is to be undone, or never done
    receipt        for a message of somebody else's

Not here: when they are made (`client.receipts`), what a receiver does about them (`client.inbox`).
"""

from typing import Final

MESSAGE: Final = "message"
CONFIRMATION: Final = "confirmation"
REVERSAL: Final = "reversal"
RECEIPT: Final = "receipt"

KIND_HEADER: Final = "x-kind"
SETTLES_HEADER: Final = "x-settles"
WRITTEN_HEADER: Final = "x-written-at"
"""When it, or the one for which it stands, was written: a receiver can tell whether it may have forgotten it."""

COMPENSATIONS: Final = {"confirm": CONFIRMATION, "reverse": REVERSAL}
"""What a row may ask for if no receipt comes, and the kind of the row that does it."""
