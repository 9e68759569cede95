"""The settings of a compensation, checked before anything is read, and the actions by status.

| action    | the ledger is told to                                   | body                           |
|-----------|---------------------------------------------------------|--------------------------------|
| `resend`  | book what it lacks                                      | the authority's record         |
| `reverse` | reverse its surplus                                     | `rows`, `wrong`; `right` or null |
| `correct` | reverse its record, and book the authority's            | `rows`, `wrong`, `right`       |
| `none`    | nothing: a person has to look                           |                                |

A status allows only possible actions: a record that a ledger lacks cannot be reversed there.

Not here: the result (`compensate.job`), the ledgers concerned (`compensate.attempts`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Final

from warren.client.errors import UriError
from warren.client.uri import parse_uri
from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder
from warren.pipeline.reconcile.comparison import CONTRADICTING, DIFFERS, DUPLICATED, MISSING, UNEXPECTED, UNREADABLE

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
"""The first is the default."""


def chosen_actions(said: Sequence[str]) -> dict[str, str]:
    """The action of each status; `said` has STATUS=ACTION for changes of the default."""
    chosen = {status: allowed[0] for status, allowed in ALLOWED.items()}
    for each in said:
        status, _, action = each.partition("=")
        if status not in ALLOWED:
            raise PipelineError(f"an action is STATUS=ACTION, with a status of {', '.join(ALLOWED)}; not {each!r}")
        if action not in ALLOWED[status]:
            raise PipelineError(f"what is {status} allows {' or '.join(ALLOWED[status])}, not {action!r}")
        chosen[status] = action
    return chosen


MAX_ATTEMPTS: Final = 3
TIMEOUT_S: Final = 60.0
KEEP_DAYS: Final = 7.0
NAME_BYTES_MAX: Final = 255
THROUGH_BROKER: Final = "broker"
THROUGH_OUTBOX: Final = "outbox"


@dataclass(frozen=True)
class CompensateSettings:
    """One run. `routing_key` may contain `{ledger}` and `{action}`; the default `day` is the result's.

    Messages go to the broker at `url`, or through the `outbox`, a database's URL.
    """

    result: Folder
    state: Folder
    url: str = field(default="", repr=False)
    exchange: str = ""
    routing_key: str = ""
    actions: tuple[str, ...] = ()
    max_attempts: int = MAX_ATTEMPTS
    day: str | None = None
    dry_run: bool = False
    yes: bool = False
    again: bool = False
    timeout_s: float = TIMEOUT_S
    abandon: bool = False
    outbox: str = field(default="", repr=False)
    keep_days: float = KEEP_DAYS
    """How long the outbox, and the inbox on the other side, keep rows."""

    def __post_init__(self) -> None:
        if bool(self.url) == bool(self.outbox):
            raise PipelineError("what is sent goes to a broker or through an outbox: give the URL of one of them")
        if self.url:
            self._check_broker()
        for what, text in (("exchange", self.exchange), ("routing key", self.routing_key)):
            if len(text.encode()) > NAME_BYTES_MAX:
                raise PipelineError(f"the {what} has more than {NAME_BYTES_MAX} bytes")
        if self.max_attempts < 1:
            raise PipelineError(f"a key is tried once at least, not {self.max_attempts} times")
        if not 0 < self.timeout_s <= 86_400:
            raise PipelineError(f"the timeout is a number of seconds up to 86400, not {self.timeout_s}")
        if not 0 < self.keep_days <= 36_500:
            raise PipelineError(f"rows are kept for a number of days up to 36500, not {self.keep_days}")
        if self.day is not None:
            _check_day(self.day)
        chosen_actions(self.actions)

    def _check_broker(self) -> None:
        try:
            parse_uri(self.url)
        except UriError as error:
            raise PipelineError(f"the URL of the broker: {error}") from None
        if not self.exchange and not self.routing_key:
            raise PipelineError("nothing says where messages go: give an exchange or a routing key")

    @property
    def keep(self) -> timedelta:
        return timedelta(days=self.keep_days)

    @property
    def through(self) -> str:
        return THROUGH_OUTBOX if self.outbox else THROUGH_BROKER

    def shown(self, result: str) -> dict[str, Any]:
        """The facts of a dry run that the following run must match."""
        return {
            "result": result,
            "actions": chosen_actions(self.actions),
            "exchange": self.exchange,
            "routing_key": self.routing_key,
            "max_attempts": self.max_attempts,
            "again": self.again,
            "through": self.through,
            "keep_days": self.keep_days,
        }


def _check_day(day: str) -> None:
    try:
        date.fromisoformat(day)
    except ValueError:
        raise PipelineError(f"a day is YEAR-MONTH-DAY, not {day!r}") from None
