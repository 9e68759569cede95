"""Open items as lines for people and as a value for programs.

Names in messages may have any characters; unprintable ones are shown as dots.

Not here: the page (`cli.client.open_items_page`).
"""

import dataclasses
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warren.client.ledgers import OpenItem, Standing


COLUMNS = ("status", "business id", "route", "attempt", "age", "due", "amount", "what was said")
CELL_CHARACTERS_MAX = 60
UNITS_S = (("d", 86_400), ("h", 3600), ("min", 60))
NOTHING = "-"


def as_table(standing: "Standing", where: str) -> str:
    """The counts, followed by the first rows of each status."""
    lines = [summary(standing, where)]
    counted = [count for count in standing.counts if count.rows]
    for count in counted:
        facts = [] if count.first_age_s is None else [f"the oldest is {age(count.first_age_s)} old"]
        facts += [f"{count.overdue:,} overdue"] if count.overdue else []
        lines.append(f"  {count.status:<10} {count.rows:>10,}  {', '.join(facts)}".rstrip())
    if standing.items:
        lines += ["", *_aligned([COLUMNS, *(cells(item, standing.at) for item in standing.items)])]
    beyond = standing.rows - len(standing.items)
    if beyond:
        lines.append(f"{beyond:,} more {'is' if beyond == 1 else 'are'} not shown; --limit shows more")
    return "\n".join(lines)


def summary(standing: "Standing", where: str) -> str:
    """The summary as one sentence."""
    rows = standing.rows
    number = "nothing is" if not rows else "1 row is" if rows == 1 else f"{rows:,} rows are"
    relay = "a relay is active" if standing.is_relayed else "no relay is active"
    return f"{where}: {number} open, {relay}"


def cells(item: "OpenItem", now: datetime) -> tuple[str, ...]:
    """The cells of a row, in the order of `COLUMNS`."""
    route = f"{item.exchange or '(default)'} {item.routing_key}".strip()
    amount = NOTHING if item.amount is None else f"{_trimmed(item.amount)} {item.currency or ''}".strip()
    said = f"{'settles ' + item.settles if item.settles else ''} {item.last_error or ''}".strip()
    return (
        item.status,
        _plain(item.business_id),
        _plain(route),
        str(item.attempt),
        age(item.age_s),
        due(item, now),
        _plain(amount),
        _plain(said) or NOTHING,
    )


def due(item: "OpenItem", now: datetime) -> str:
    """When the next attempt is, from now."""
    if item.due_at is None:
        return NOTHING
    seconds = (item.due_at - now).total_seconds()
    return f"in {age(seconds)}" if seconds > 0 else f"{age(-seconds)} ago" if item.is_overdue else "now"


def age(seconds: float | None) -> str:
    """In the unit that fits."""
    if seconds is None:
        return NOTHING
    for unit, length in UNITS_S:
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def as_value(standing: "Standing") -> dict[str, Any]:
    """All items as JSON: times as UTC text, amounts as text with every digit."""
    value = dataclasses.asdict(standing)
    plain: dict[str, Any] = _as_json(value)
    return {"rows": standing.rows, "is_relayed": standing.is_relayed, **plain}


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(COLUMNS))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _plain(text: str) -> str:
    shown = "".join(letter if letter.isprintable() else "·" for letter in text)
    return shown if len(shown) <= CELL_CHARACTERS_MAX else f"{shown[: CELL_CHARACTERS_MAX - 1]}…"


def _trimmed(amount: Decimal) -> Decimal:
    """Without trailing zeros; two decimals stay."""
    cents = round(amount, 2)
    return cents if cents == amount else amount
