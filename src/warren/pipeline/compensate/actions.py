"""What is done about a key, by its status.

| action    | the ledger is told to                                   | body                           |
|-----------|---------------------------------------------------------|--------------------------------|
| `resend`  | book what it lacks                                      | the authority's record         |
| `reverse` | take back what it has too much                          | `rows`, `wrong`; `right` or null |
| `correct` | take back what it has, and book what the authority has  | `rows`, `wrong`, `right`       |
| `none`    | nothing: somebody has to look                           |                                |

A status allows only actions that have what they need: what a ledger lacks cannot be reversed there.

Not here: which ledgers are concerned (`compensate.planning`).
"""

from collections.abc import Mapping, Sequence
from typing import Final

from warren.pipeline.errors import PipelineError
from warren.pipeline.reconcile.statuses import CONTRADICTING, DIFFERS, DUPLICATED, MISSING, UNEXPECTED, UNREADABLE

RESEND: Final = "resend"
REVERSE: Final = "reverse"
CORRECT: Final = "correct"
NONE: Final = "none"

ALLOWED: Final[Mapping[str, tuple[str, ...]]] = {
    MISSING: (RESEND, NONE),
    UNEXPECTED: (REVERSE, NONE),
    DIFFERS: (CORRECT, REVERSE, RESEND, NONE),
    DUPLICATED: (REVERSE, CORRECT, NONE),
    CONTRADICTING: (NONE, CORRECT, REVERSE),
    UNREADABLE: (NONE,),
}
"""The first is what is done unless something else is said."""


def chosen_actions(said: Sequence[str]) -> dict[str, str]:
    """The action of each status; `said` has STATUS=ACTION for those that are to be others."""
    chosen = {status: allowed[0] for status, allowed in ALLOWED.items()}
    for each in said:
        status, _, action = each.partition("=")
        if status not in ALLOWED:
            raise PipelineError(f"an action is STATUS=ACTION, with a status of {', '.join(ALLOWED)}; not {each!r}")
        if action not in ALLOWED[status]:
            raise PipelineError(f"what is {status} allows {' or '.join(ALLOWED[status])}, not {action!r}")
        chosen[status] = action
    return chosen
