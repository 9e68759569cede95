"""Growth and forecast as parts of the page, and labels of moments and queues.

Not here: the trend and the forecast (`report.forecast`), charts (`html.page`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from warren.pipeline.html.page import Chart, ChartBand, ChartSeries, HtmlTable, PagePart, Paragraph, lines, table
from warren.pipeline.html.quantities import many, rounded, size
from warren.pipeline.report import forecast as outlooks
from warren.pipeline.report.findings import EntitySeries, ReportFindings, TrafficEntity
from warren.pipeline.report.flows import HOUR_S
from warren.pipeline.report.forecast import AHEAD_DAYS, DailyTotals, LimitForecast, Trend

STEP_NAMES = {1: "second", 60: "minute", 3600: "hour", 86_400: "day"}
OTHERS = "all others"


def utc_time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def step_times(found: ReportFindings) -> list[int]:
    """Every step from the first event to the last."""
    first = found.first_s // found.step_s * found.step_s
    return list(range(first, found.last_s + 1, found.step_s))


def step_name(found: ReportFindings) -> str:
    return STEP_NAMES[found.step_s]


def entity_label(found: ReportFindings, place: TrafficEntity | None) -> str:
    """The name, with its virtual host if there are several."""
    if place is None:
        return OTHERS
    name = place.name or "(default)"
    return f"{name} in {place.vhost}" if found.vhosts > 1 else name


def busiest_entities(courses: EntitySeries) -> list[TrafficEntity | None]:
    """Entities by their sums, largest first; "others" last."""
    named = [place for place in courses if place is not None]
    named.sort(key=lambda place: (-sum(courses[place].values()), place))
    return [*named, *([None] if None in courses else [])]


def chart_series(found: ReportFindings, courses: EntitySeries) -> list[ChartSeries]:
    """A line for each entity; a step without a message is zero."""
    steps = step_times(found)
    return [
        ChartSeries(entity_label(found, place), [courses[place].get(moment, 0) for moment in steps])
        for place in busiest_entities(courses)
    ]


def running_totals(changes: Mapping[int, int], steps: Iterable[int]) -> list[int]:
    """The sum of all changes up to each step."""
    level = 0
    levels: list[int] = []
    for moment in steps:
        level += changes.get(moment, 0)
        levels.append(level)
    return levels


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
    """The limits: bytes of disk space, messages a second; None if not given."""

    disk_bytes: int | None = None
    rate: float | None = None


@dataclass(frozen=True)
class DailyQuantity:
    """One number of each day: its name, how to read, show and scale it."""

    name: str
    of: Callable[[DailyTotals], float]
    shown: Callable[[float], str]
    title: str
    unit: str
    scale: float = 1


MESSAGES: Final = DailyQuantity(
    "messages a day", lambda day: day.messages, lambda value: f"{rounded(value)} messages", "Messages a day", "messages"
)
BYTES: Final = DailyQuantity("bytes of payload a day", lambda day: day.bytes, size, "Payload a day", "MiB", 1 / 1024**2)
BUSIEST: Final = DailyQuantity(
    "messages in the busiest hour",
    lambda day: day.busiest,
    lambda value: f"{rounded(value)} messages",
    "Messages a second in the busiest hour of each day",
    "messages a second",
    1 / HOUR_S,
)


def growth(found: ReportFindings) -> list[PagePart]:
    """Day by day, and the backlog."""
    parts: list[PagePart] = [_days_table(found.days)] if found.days else []
    if not found.waiting:
        return [*parts, Paragraph("No queue has more messages at the end than at the beginning.", "good")]
    steps = step_times(found)
    places = [place for place, _ in found.waiting if place in found.backlog]
    series = [ChartSeries(entity_label(found, place), running_totals(found.backlog[place], steps)) for place in places]
    most, number = found.waiting[0]
    summary = f"Most at the end: {entity_label(found, most)}, {number:,}."
    rows = [(entity_label(found, place), waiting) for place, waiting in found.waiting]
    return [
        *parts,
        lines("Waiting in queues", summary, [utc_time(step) for step in steps], series, "messages"),
        table("Waiting at the end", ("Queue", "Messages"), rows, total=found.waiting_queues),
        Paragraph(WAITING),
    ]


def forecast(found: ReportFindings, limits: Limits) -> list[PagePart]:
    """The coming days, and when a limit is reached."""
    days = outlooks.whole_days(found.days, found.first_s, found.last_s)
    trends = {quantity.name: outlooks.trend_of(days, quantity.of) for quantity in (MESSAGES, BYTES, BUSIEST)}
    messages, payload, busiest = trends.values()
    if messages is None or payload is None or busiest is None:
        return [Paragraph(outlooks.too_few_days(days), "warn")]
    parts: list[PagePart] = [Paragraph(METHOD)]
    if limits.rate is not None:
        parts.append(_limit_paragraph(outlooks.forecast_rate(busiest, days, limits.rate)))
    if limits.disk_bytes is not None:
        parts.append(_limit_paragraph(outlooks.forecast_disk(payload, days, limits.disk_bytes)))
    for quantity, trend in ((MESSAGES, messages), (BYTES, payload), (BUSIEST, busiest)):
        parts.append(_trend_chart(days, quantity, trend))
    return [*parts, _ahead_table(days, messages, payload, busiest)]


def _limit_paragraph(foretold: LimitForecast) -> Paragraph:
    return Paragraph(foretold.text, "warn" if foretold.is_near else "good")


def _days_table(days: Sequence[DailyTotals]) -> HtmlTable:
    """The latest days first; a change is against the day before, if there is one."""
    by_number = {day.number: day for day in days}
    rows = []
    for day in reversed(days):
        before = by_number.get(day.number - 1)
        change = "–" if before is None else f"{100 * (day.messages / before.messages - 1):+.1f} %"
        rows.append((day.date, day.messages, change, size(day.bytes), day.busiest))
    columns = ("Day", "Messages", "Change", "Payload", "In the busiest hour")
    return table("Published, day by day", columns, rows, limit=DAYS_LISTED, right=("Change", "Payload"))


def _trend_chart(days: Sequence[DailyTotals], quantity: DailyQuantity, trend: Trend) -> Chart:
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
        [ChartSeries("trend", line), ChartSeries("whole days", seen, loose=True)],
        quantity.unit,
        [ChartBand("95 % of days", low, high)],
    )


def _ahead_table(days: Sequence[DailyTotals], messages: Trend, payload: Trend, busiest: Trend) -> HtmlTable:
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
