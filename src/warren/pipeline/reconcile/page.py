"""What a reconciliation found, as a page: does it balance, how much is in each ledger, and which keys differ.

The page is made of small results that were added up in Spark. A list of differences shows the first of them and says
how many there are beyond; all of them are in the table that the job writes.

Not here: finding differences (`reconcile.comparing`), what a status means (`reconcile.statuses`).
"""

from dataclasses import dataclass
from decimal import Decimal

from warren.pipeline.html.charts import Chart, bars
from warren.pipeline.html.page import Facts, Page, Paragraph, Part, Section, render
from warren.pipeline.html.quantities import many, shown
from warren.pipeline.html.tables import Table, table


@dataclass(frozen=True)
class LedgerTotals:
    """One ledger: its rows, its keys, the rows beyond the first of a key, those that came late, and its total."""

    name: str
    rows: int
    keys: int
    duplicates: int
    late: int
    amount: Decimal | None
    authority: bool


@dataclass(frozen=True)
class StatusTotals:
    """How many keys have a status, and the amount that they are about; `balanced` ones are no difference."""

    status: str
    meaning: str
    keys: int
    amount: Decimal | None
    balanced: bool


@dataclass(frozen=True)
class DifferenceList:
    """The first rows of a status, in order; `total` is how many keys have it."""

    status: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    total: int


@dataclass(frozen=True)
class Reconciliation:
    """All that the page says; `facts` are what was compared and how, `statuses` in order of precedence."""

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


def page(reconciliation: Reconciliation) -> str:
    """The text of the HTML file."""
    sections = [
        Section("Summary", _summary(reconciliation)),
        Section("Statuses", _statuses(reconciliation)),
        Section("Ledgers", (_ledgers(reconciliation),)),
    ]
    lists = tuple(_difference_lists(reconciliation))
    if lists:
        sections.append(Section("Differences" if reconciliation.differing else "No differences, but to note", lists))
    return render(Page(reconciliation.title, _verdict(reconciliation), tuple(sections)))


def _verdict(found: Reconciliation) -> str:
    if not found.keys:
        return "There is nothing to compare: no ledger has a row."
    if not found.differing:
        return f"The ledgers balance: {many(found.keys, 'key')}, no difference."
    verb = "differs" if found.differing == 1 else "differ"
    return f"The ledgers do not balance: {found.differing:,} of {many(found.keys, 'key')} {verb}."


def _summary(found: Reconciliation) -> tuple[Part, ...]:
    share = "–" if not found.keys else _percent(found.keys - found.differing, found.keys)
    figures = (("Keys", shown(found.keys)), ("Differences", shown(found.differing)), ("In balance", share))
    tone = "good" if found.keys and not found.differing else "bad" if found.differing else "warn"
    parts: list[Part] = [Paragraph(_verdict(found), tone), Facts(figures, large=True)]
    if found.facts:
        parts.append(Facts(found.facts))
    return tuple(parts)


def _statuses(found: Reconciliation) -> tuple[Part, ...]:
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
    """Of the differences alone: beside millions of keys that match they would not be seen."""
    shares = [status for status in found.statuses if status.keys and not status.balanced]
    summary = "; ".join(f"{status.status}: {status.keys:,}" for status in shares) + "."
    labels = [status.status for status in shares]
    return bars(
        "Differences by status", summary, labels, [status.keys for status in shares], "keys", ["bad"] * len(labels)
    )


def _ledgers(found: Reconciliation) -> Table:
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


def _difference_lists(found: Reconciliation) -> list[Table]:
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
    """Never 100 % when something is missing, nor 0 % when there is something."""
    if not whole:
        return "–"
    text = f"{100 * part / whole:.2f}"
    if part < whole and text == "100.00":
        return "> 99.99 %"
    if part and text == "0.00":
        return "< 0.01 %"
    return f"{text} %"
