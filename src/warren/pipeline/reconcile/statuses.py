"""The status of a key: one word, the first that applies.

The order is that in which somebody has to look. Each status takes for granted that none above it applies: what cannot
be read cannot be judged; where a ledger contradicts itself, nobody knows which of its rows counts; what is not
there cannot differ; and that a row is there twice, or came late, matters by itself only when all else is right.

Not here: how it is found out whether one applies (`reconcile.comparing`).
"""

from collections.abc import Collection
from typing import Final

UNREADABLE: Final = "unreadable"
CONTRADICTING: Final = "contradicting"
UNEXPECTED: Final = "unexpected"
MISSING: Final = "missing"
DIFFERS: Final = "differs"
DUPLICATED: Final = "duplicated"
LATE: Final = "late"
BALANCED: Final = "balanced"

MEANINGS: Final[dict[str, str]] = {
    UNREADABLE: "A row has a key, an amount or a time that cannot be read.",
    CONTRADICTING: "A ledger has the key more than once, with different values.",
    UNEXPECTED: "The authority does not have the key, another ledger does.",
    MISSING: "The authority has the key, another ledger does not.",
    DIFFERS: "An amount differs from the authority's by more than the tolerance, or another compared column does.",
    DUPLICATED: "A ledger has the key more than once, each time with the same values.",
    LATE: "Everything is there and agrees; a ledger had it only after the day's end.",
    BALANCED: "Every ledger has the key once, and they agree.",
}
"""What each says, in the order of precedence."""

PRECEDENCE: Final = tuple(MEANINGS)
IN_ORDER: Final = frozenset({LATE, BALANCED})
"""Nothing needs to be done about these; all others are differences."""


def status_of(findings: Collection[str]) -> str:
    """The status of a key of which all these apply."""
    return next((status for status in PRECEDENCE if status in findings), BALANCED)
