"""The outcome of a reconciliation: counts, as plain values, as text, and as an HTML page.

Text and facts depend on the findings alone, so a repeated job writes the same. The page is made of small results that
were added up in Spark. A list of differences shows the first ones and the number of the rest; all of them are in the
table that the job writes.

Not here: finding differences and the statuses (`reconcile.comparison`).
"""

from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, Final

from warren.pipeline.html.page import (
    Chart,
    FactList,
    HtmlPage,
    HtmlTable,
    PagePart,
    PageSection,
    Paragraph,
    bars,
    render,
    table,
)
from warren.pipeline.html.quantities import many, shown
from warren.pipeline.reconcile import comparison
from warren.pipeline.reconcile.settings import ReconcileSettings


@dataclass(frozen=True)
class LedgerTotals:
    """One ledger: its rows, keys, rows beyond the first of a key, late rows, and total."""

    name: str
    rows: int
    keys: int
    duplicates: int
    late: int
    amount: Decimal | None
    authority: bool


@dataclass(frozen=True)
class StatusTotals:
    """How many keys have a status, and the sum of their amounts; `balanced` ones are no difference."""

    status: str
    meaning: str
    keys: int
    amount: Decimal | None
    balanced: bool


@dataclass(frozen=True)
class DifferenceList:
    """The first rows of a status, in order; `total` is the number of its keys."""

    status: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    total: int


@dataclass(frozen=True)
class Reconciliation:
    """The contents of the page; `facts` are what was compared and how, `statuses` are in order of precedence."""

    title: str
    facts: tuple[tuple[str, str], ...]
    ledgers: tuple[LedgerTotals, ...]
    statuses: tuple[StatusTotals, ...]
    differences: tuple[DifferenceList, ...]

    @property
    def keys(self) -> int:
        return sum(status.keys for status in self.statuses)

    @property
    def differing(self) -> int:
        return sum(status.keys for status in self.statuses if not status.balanced)


def render_page(reconciliation: Reconciliation) -> str:
    """The text of the HTML file."""
    sections = [
        PageSection("Summary", _summary(reconciliation)),
        PageSection("Statuses", _statuses(reconciliation)),
        PageSection("Ledgers", (_ledgers(reconciliation),)),
    ]
    lists = tuple(_difference_lists(reconciliation))
    if lists:
        sections.append(
            PageSection("Differences" if reconciliation.differing else "No differences, but to note", lists)
        )
    return render(HtmlPage(reconciliation.title, _verdict(reconciliation), tuple(sections)))


def _verdict(found: Reconciliation) -> str:
    if not found.keys:
        return "There is nothing to compare: no ledger has a row."
    if not found.differing:
        return f"The ledgers balance: {many(found.keys, 'key')}, no difference."
    verb = "differs" if found.differing == 1 else "differ"
    return f"The ledgers do not balance: {found.differing:,} of {many(found.keys, 'key')} {verb}."


def _summary(found: Reconciliation) -> tuple[PagePart, ...]:
    share = "–" if not found.keys else _percent(found.keys - found.differing, found.keys)
    headline = (("Keys", shown(found.keys)), ("Differences", shown(found.differing)), ("In balance", share))
    tone = "good" if found.keys and not found.differing else "bad" if found.differing else "warn"
    parts: list[PagePart] = [Paragraph(_verdict(found), tone), FactList(headline, large=True)]
    if found.facts:
        parts.append(FactList(found.facts))
    return tuple(parts)


def _statuses(found: Reconciliation) -> tuple[PagePart, ...]:
    has_amounts = any(status.amount is not None for status in found.statuses)
    columns = ["Status", "Keys", "Share", *(["Amount"] if has_amounts else []), "Meaning"]
    rows = [
        [
            status.status,
            status.keys,
            _percent(status.keys, found.keys),
            *([status.amount] if has_amounts else []),
            status.meaning,
        ]
        for status in found.statuses
    ]
    listed = table("Keys by status, in order of precedence", columns, rows, right=("Share",))
    return (_status_chart(found), listed) if found.differing else (listed,)


def _status_chart(found: Reconciliation) -> Chart:
    """Only of differences: beside millions of matching keys they would not be visible."""
    shares = [status for status in found.statuses if status.keys and not status.balanced]
    summary = "; ".join(f"{status.status}: {status.keys:,}" for status in shares) + "."
    labels = [status.status for status in shares]
    return bars(
        "Differences by status", summary, labels, [status.keys for status in shares], "keys", ["bad"] * len(labels)
    )


def _ledgers(found: Reconciliation) -> HtmlTable:
    has_amounts = any(ledger.amount is not None for ledger in found.ledgers)
    columns = ["Ledger", "Rows", "Keys", "Repeated rows", "Late rows", *(["Total"] if has_amounts else [])]
    rows = [
        [
            f"{ledger.name} (the authority)" if ledger.authority else ledger.name,
            ledger.rows,
            ledger.keys,
            ledger.duplicates,
            ledger.late,
            *([ledger.amount] if has_amounts else []),
        ]
        for ledger in found.ledgers
    ]
    return table("What each ledger has", columns, rows)


def _difference_lists(found: Reconciliation) -> list[HtmlTable]:
    """In order of precedence, those that have any."""
    order = {status.status: place for place, status in enumerate(found.statuses)}
    given = sorted(found.differences, key=lambda each: order.get(each.status, len(order)))
    return [
        table(
            f"{each.status}: {many(each.total, 'key')}", each.columns, each.rows, total=each.total, limit=len(each.rows)
        )
        for each in given
        if each.total
    ]


def _percent(part: int, whole: int) -> str:
    """Never 100 % if something is missing, nor 0 % if there is something."""
    if not whole:
        return "–"
    text = f"{100 * part / whole:.2f}"
    if part < whole and text == "100.00":
        return "> 99.99 %"
    if part and text == "0.00":
        return "< 0.01 %"
    return f"{text} %"


CENT: Final = Decimal("0.01")
EVERY_DIGIT: Final = Context(prec=40)


@dataclass(frozen=True)
class LedgerCounts:
    """One ledger's counts.

    `rows` are those of the day and `total` is the sum of their amounts, if such a sum means anything; the rest is of
    the day's keys.
    """

    name: str
    rows: int
    keys: int
    repeated: int
    late: int
    total: Decimal | None


@dataclass(frozen=True)
class ReconcileOutcome:
    """`counts` has every status, `ledgers` every ledger; keys `in_flight` are in neither."""

    settings: ReconcileSettings
    counts: dict[str, int]
    ledgers: tuple[LedgerCounts, ...]
    in_flight: int = 0

    @property
    def differences(self) -> int:
        return sum(count for status, count in self.counts.items() if status not in comparison.IN_ORDER)

    @property
    def balanced(self) -> bool:
        return not self.differences


def facts(outcome: ReconcileOutcome) -> dict[str, Any]:
    """The contents of `summary.json`."""
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
        "rows": {ledger.name: ledger.rows for ledger in outcome.ledgers},
    }


def summary_text(outcome: ReconcileOutcome) -> str:
    """A few lines for people."""
    width = max(len(name) for name in (*outcome.settings.names, *outcome.counts))
    lines = [title(outcome.settings)]
    for ledger in outcome.ledgers:
        role = "  the authority" if ledger.name == outcome.settings.authority else ""
        lines.append(f"  {ledger.name:<{width}}  {ledger.rows:>12,} {'row' if ledger.rows == 1 else 'rows'}{role}")
    for status, count in outcome.counts.items():
        if count:
            lines.append(f"  {status:<{width}}  {count:>12,} {'key' if count == 1 else 'keys'}")
    if outcome.in_flight:
        lines.append(f"  {'on their way':<{width}}  {outcome.in_flight:>12,} left out")
    found = outcome.differences
    lines.append("in balance" if not found else "1 difference" if found == 1 else f"{found:,} differences")
    return "\n".join(lines)


def title(settings: ReconcileSettings) -> str:
    names = f"{', '.join(settings.names[:-1])} and {settings.names[-1]}"
    return f"{names} of {settings.day}" if settings.day else names


def reconciliation(outcome: ReconcileOutcome, lists: tuple[DifferenceList, ...]) -> Reconciliation:
    """The contents of the page."""
    settings = outcome.settings
    shown = [("Day", f"{settings.day} in {settings.zone}")] if settings.day else []
    if settings.grace:
        shown.append(("Grace", str(settings.grace)))
    shown += [("Key", ", ".join(settings.key)), ("Authority", settings.authority)]
    if settings.values:
        shown.append(("Compared", ", ".join(settings.values)))
    if outcome.in_flight:
        shown.append(("Keys in flight, left out", f"{outcome.in_flight:,}"))
    if settings.tolerance:
        shown.append(("Tolerance", f"{settings.tolerance:f}"))
    if settings.relative:
        shown.append(("Relative tolerance", f"{settings.relative:f}"))
    return Reconciliation(
        f"Reconciliation of {title(settings)}",
        tuple(shown),
        tuple(_ledger_totals(settings, ledger) for ledger in outcome.ledgers),
        tuple(_status_totals(status, count) for status, count in outcome.counts.items()),
        lists,
    )


def trimmed(value: Decimal) -> Decimal:
    """An amount without trailing zeros of its type; two digits after the point stay."""
    if len(f"{value:f}".partition(".")[2]) <= 2:
        return value
    cents = value.quantize(CENT, context=EVERY_DIGIT)
    return cents if cents == value else value.normalize(EVERY_DIGIT)


def _ledger_totals(settings: ReconcileSettings, ledger: LedgerCounts) -> LedgerTotals:
    is_authority = ledger.name == settings.authority
    total = None if ledger.total is None else trimmed(ledger.total)
    return LedgerTotals(ledger.name, ledger.rows, ledger.keys, ledger.repeated, ledger.late, total, is_authority)


def _status_totals(status: str, count: int) -> StatusTotals:
    return StatusTotals(status, comparison.MEANINGS[status], count, None, status in comparison.IN_ORDER)
