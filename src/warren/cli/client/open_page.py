"""What is open as one HTML page, in the look of the pipeline's reports.

Not here: serving it (`cli.client.page_server`).
"""

from warren.cli.client.open_table import age, due, told
from warren.client.ledgers import OpenItem, Standing
from warren.client.ledgers.items import MEANINGS
from warren.pipeline.html.page import Facts, Page, Paragraph, Part, Section, render
from warren.pipeline.html.tables import Table, table

COLUMNS = ("Business id", "Kind", "Settles", "Exchange", "Routing key", "Attempts", "Amount", "Currency", "Age", "Due")


def page(standing: Standing, where: str, refresh_s: int = 0) -> str:
    """The text of the HTML file; a browser asks for it again every `refresh_s` seconds, unless that is 0."""
    lead = f"{where}, at {standing.at.isoformat(' ', 'seconds')}"
    sections = [Section("Summary", _summary(standing, where))]
    for count in standing.counts:
        if count.rows:
            parts = (Paragraph(MEANINGS[count.status]), _rows(standing, count.status, count.rows))
            sections.append(Section(f"{count.status.capitalize()} ({count.rows:,})", parts))
    return render(Page("Open in the outbox", lead, tuple(sections), refresh_s))


def _summary(standing: Standing, where: str) -> tuple[Part, ...]:
    pairs = tuple((count.status.capitalize(), f"{count.rows:,}") for count in standing.counts)
    overdue = sum(count.overdue for count in standing.counts)
    failed = next(count.rows for count in standing.counts if count.status == "failed")
    tone = "good" if not standing.rows else "bad" if failed else "warn" if overdue or _is_stuck(standing) else "plain"
    first = [(count.status, age(count.first_age_s)) for count in standing.counts if count.rows]
    ages = table("Since when", ("Status", "Age of the first"), first, right=("Age of the first",))
    sentence = Paragraph(f"{told(standing, where)}." + (f" Receipts overdue: {overdue:,}." if overdue else ""), tone)
    return (sentence, Facts(pairs, large=True), *([ages] if first else []))


def _is_stuck(standing: Standing) -> bool:
    """Whether something is to be sent, and nobody does."""
    return bool(standing.items_of("pending")) and not standing.is_relayed


def _rows(standing: Standing, status: str, total: int) -> Table:
    items = standing.items_of(status)
    rows = [(*_cells(item), age(item.age_s), due(item, standing.at), item.last_error) for item in items]
    right = ("Age", "Due")
    return table(
        f"Rows that are {status}", (*COLUMNS, "What was said"), rows, total=total, limit=len(rows), right=right
    )


def _cells(item: OpenItem) -> tuple[object, ...]:
    return (
        item.business_id,
        item.kind,
        item.settles,
        item.exchange or "(default)",
        item.routing_key,
        item.attempt,
        item.amount,
        item.currency,
    )
