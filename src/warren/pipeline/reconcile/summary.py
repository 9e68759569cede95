"""What a reconciliation came to: counts, as plain values, and as they are told.

The text and the facts depend on what was found alone, so that a job that is run again tells the same.

Not here: the HTML page (`reconcile.page`).
"""

from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, Final

from warren.pipeline.reconcile import statuses
from warren.pipeline.reconcile.page import DifferenceList, LedgerTotals, Reconciliation, StatusTotals
from warren.pipeline.reconcile.settings import Settings

CENT: Final = Decimal("0.01")
EVERY_DIGIT: Final = Context(prec=40)


@dataclass(frozen=True)
class Tally:
    """Of one ledger: `rows` of the day and `total` of their amounts, if such a total means anything; the rest is of the
    day's keys."""

    name: str
    rows: int
    keys: int
    repeated: int
    late: int
    total: Decimal | None


@dataclass(frozen=True)
class Outcome:
    """`counts` has every status, `tallies` every ledger; keys `in_flight` are in neither."""

    settings: Settings
    counts: dict[str, int]
    tallies: tuple[Tally, ...]
    in_flight: int = 0

    @property
    def differences(self) -> int:
        return sum(count for status, count in self.counts.items() if status not in statuses.IN_ORDER)

    @property
    def balanced(self) -> bool:
        return not self.differences


def facts(outcome: Outcome) -> dict[str, Any]:
    """What is kept beside the table."""
    settings = outcome.settings
    return {
        "authority": settings.authority,
        "ledgers": list(settings.names),
        "day": settings.day.isoformat() if settings.day else None,
        "zone": settings.zone,
        "key": list(settings.key),
        "amounts": list(settings.amounts),
        "compared": list(settings.compared),
        "counts": outcome.counts,
        "balanced": outcome.balanced,
        "in_flight": outcome.in_flight,
        "rows": {tally.name: tally.rows for tally in outcome.tallies},
    }


def told(outcome: Outcome) -> str:
    """A few lines for people."""
    width = max(len(name) for name in (*outcome.settings.names, *outcome.counts))
    lines = [title(outcome.settings)]
    for tally in outcome.tallies:
        role = "  the authority" if tally.name == outcome.settings.authority else ""
        lines.append(f"  {tally.name:<{width}}  {tally.rows:>12,} {'row' if tally.rows == 1 else 'rows'}{role}")
    for status, count in outcome.counts.items():
        if count:
            lines.append(f"  {status:<{width}}  {count:>12,} {'key' if count == 1 else 'keys'}")
    if outcome.in_flight:
        lines.append(f"  {'on their way':<{width}}  {outcome.in_flight:>12,} left out")
    found = outcome.differences
    lines.append("in balance" if not found else "1 difference" if found == 1 else f"{found:,} differences")
    return "\n".join(lines)


def title(settings: Settings) -> str:
    names = f"{', '.join(settings.names[:-1])} and {settings.names[-1]}"
    return f"{names} of {settings.day}" if settings.day else names


def reconciliation(outcome: Outcome, lists: tuple[DifferenceList, ...]) -> Reconciliation:
    """As the page takes it."""
    settings = outcome.settings
    shown = [("Day", f"{settings.day} in {settings.zone}")] if settings.day else []
    if settings.grace:
        shown.append(("Grace", str(settings.grace)))
    shown += [("Key", ", ".join(settings.key)), ("Authority", settings.authority)]
    if settings.values:
        shown.append(("Compared", ", ".join(settings.values)))
    if outcome.in_flight:
        shown.append(("Keys on their way, left out", f"{outcome.in_flight:,}"))
    if settings.tolerance:
        shown.append(("Tolerance", f"{settings.tolerance:f}"))
    if settings.relative:
        shown.append(("Relative tolerance", f"{settings.relative:f}"))
    return Reconciliation(
        f"Reconciliation of {title(settings)}",
        tuple(shown),
        tuple(_ledger_totals(settings, tally) for tally in outcome.tallies),
        tuple(_status_totals(status, count) for status, count in outcome.counts.items()),
        lists,
    )


def trimmed(value: Decimal) -> Decimal:
    """An amount without the zeros that only its type has; two digits behind the point stay."""
    if len(f"{value:f}".partition(".")[2]) <= 2:
        return value
    cents = value.quantize(CENT, context=EVERY_DIGIT)
    return cents if cents == value else value.normalize(EVERY_DIGIT)


def _ledger_totals(settings: Settings, tally: Tally) -> LedgerTotals:
    is_authority = tally.name == settings.authority
    total = None if tally.total is None else trimmed(tally.total)
    return LedgerTotals(tally.name, tally.rows, tally.keys, tally.repeated, tally.late, total, is_authority)


def _status_totals(status: str, count: int) -> StatusTotals:
    return StatusTotals(status, statuses.MEANINGS[status], count, None, status in statuses.IN_ORDER)
