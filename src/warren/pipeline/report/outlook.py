"""Growth and forecast, as parts of the page.

Not here: the line through the days (`trend`), what it foretells (`forecast`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from warren.pipeline.html.charts import Band, Chart, Series, lines
from warren.pipeline.html.page import Paragraph, Part
from warren.pipeline.html.quantities import many, rounded, size
from warren.pipeline.html.tables import Table, table
from warren.pipeline.report import axes
from warren.pipeline.report import forecast as outlooks
from warren.pipeline.report.findings import Findings
from warren.pipeline.report.flows import HOUR_S
from warren.pipeline.report.forecast import AHEAD_DAYS, Day, Foretold
from warren.pipeline.report.trend import Trend

DAYS_LISTED: Final = 60
WAITING: Final = (
    "By what the trace has seen: what expires, is dropped or purged without becoming a dead letter counts as waiting, "
    "and what was there before the first event does not count."
)
METHOD: Final = (
    "A straight line through the whole days, by least squares, and where 95 % of days would lie about it. It knows no "
    "weekdays and no holidays."
)


@dataclass(frozen=True)
class Limits:
    """What must not be reached: bytes of room on a disk, messages a second; None where nobody asks."""

    disk_bytes: int | None = None
    rate: float | None = None


@dataclass(frozen=True)
class Quantity:
    """One number of each day: what it is called, how it is read off, shown and scaled for its chart."""

    name: str
    of: Callable[[Day], float]
    shown: Callable[[float], str]
    title: str
    unit: str
    scale: float = 1


MESSAGES: Final = Quantity(
    "messages a day", lambda day: day.messages, lambda value: f"{rounded(value)} messages", "Messages a day", "messages"
)
BYTES: Final = Quantity("bytes of payload a day", lambda day: day.bytes, size, "Payload a day", "MiB", 1 / 1024**2)
BUSIEST: Final = Quantity(
    "messages in the busiest hour",
    lambda day: day.busiest,
    lambda value: f"{rounded(value)} messages",
    "Messages a second in the busiest hour of each day",
    "messages a second",
    1 / HOUR_S,
)


def growth(found: Findings) -> list[Part]:
    """Day by day, and what waits."""
    parts: list[Part] = [_days_table(found.days)] if found.days else []
    if not found.waiting:
        return [*parts, Paragraph("No queue has more messages at the end than at the beginning.", "good")]
    steps = axes.moments(found)
    places = [place for place, _ in found.waiting if place in found.backlog]
    series = [Series(axes.label(found, place), axes.running(found.backlog[place], steps)) for place in places]
    most, number = found.waiting[0]
    summary = f"Most at the end: {axes.label(found, most)}, {number:,}."
    rows = [(axes.label(found, place), waiting) for place, waiting in found.waiting]
    return [
        *parts,
        lines("Waiting in queues", summary, [axes.at(step) for step in steps], series, "messages"),
        table("Waiting at the end", ("Queue", "Messages"), rows, total=found.waiting_queues),
        Paragraph(WAITING),
    ]


def forecast(found: Findings, limits: Limits) -> list[Part]:
    """The days to come, and when a limit is reached."""
    days = outlooks.whole_days(found.days, found.first_s, found.last_s)
    trends = {quantity.name: outlooks.trend_of(days, quantity.of) for quantity in (MESSAGES, BYTES, BUSIEST)}
    messages, payload, busiest = trends.values()
    if messages is None or payload is None or busiest is None:
        return [Paragraph(outlooks.too_few(days), "warn")]
    parts: list[Part] = [Paragraph(METHOD)]
    if limits.rate is not None:
        parts.append(_told(outlooks.of_rate(busiest, days, limits.rate)))
    if limits.disk_bytes is not None:
        parts.append(_told(outlooks.of_disk(payload, days, limits.disk_bytes)))
    for quantity, trend in ((MESSAGES, messages), (BYTES, payload), (BUSIEST, busiest)):
        parts.append(_trend_chart(days, quantity, trend))
    return [*parts, _ahead_table(days, messages, payload, busiest)]


def _told(foretold: Foretold) -> Paragraph:
    return Paragraph(foretold.text, "warn" if foretold.is_near else "good")


def _days_table(days: Sequence[Day]) -> Table:
    """The latest days first; a change is against the day before, if there is one."""
    by_number = {day.number: day for day in days}
    rows = []
    for day in reversed(days):
        before = by_number.get(day.number - 1)
        change = "–" if before is None else f"{100 * (day.messages / before.messages - 1):+.1f} %"
        rows.append((day.date, day.messages, change, size(day.bytes), day.busiest))
    columns = ("Day", "Messages", "Change", "Payload", "In the busiest hour")
    return table("Published, day by day", columns, rows, limit=DAYS_LISTED, right=("Change", "Payload"))


def _trend_chart(days: Sequence[Day], quantity: Quantity, trend: Trend) -> Chart:
    numbers = range(trend.days + AHEAD_DAYS)
    first = datetime.combine(days[0].date, datetime.min.time(), UTC)
    scale = quantity.scale
    line = [max(0.0, trend.at(number)) * scale for number in numbers]
    low = [max(0.0, trend.at(number) - trend.day_margin(number)) * scale for number in numbers]
    high = [max(0.0, trend.at(number) + trend.day_margin(number)) * scale for number in numbers]
    seen = [quantity.of(day) * scale for day in days] + [None] * AHEAD_DAYS
    return lines(
        quantity.title,
        outlooks.growth_sentence(trend, quantity.name, quantity.shown),
        [first + timedelta(days=number) for number in numbers],
        [Series("trend", line), Series("whole days", seen, loose=True)],
        quantity.unit,
        [Band("95 % of days", low, high)],
    )


def _ahead_table(days: Sequence[Day], messages: Trend, payload: Trend, busiest: Trend) -> Table:
    rows = []
    for ahead in (1, 7, AHEAD_DAYS, 90):
        number = messages.days - 1 + ahead
        rows.append(
            (
                f"{days[-1].date + timedelta(days=ahead)} ({many(ahead, 'day')} ahead)",
                _range(messages, number, rounded),
                _range(payload, number, size),
                _range(busiest, number, lambda value: rounded(value / HOUR_S)),
            )
        )
    columns = ("Day", "Messages", "Payload", "A second in the busiest hour")
    return table("Foretold for a day, with the range of 95 %", columns, rows, right=columns[1:])


def _range(trend: Trend, number: int, shown: Callable[[float], str]) -> str:
    middle, margin = trend.at(number), trend.day_margin(number)
    low, high = max(0.0, middle - margin), max(0.0, middle + margin)
    return f"{shown(max(0.0, middle))} ({shown(low)} to {shown(high)})"
