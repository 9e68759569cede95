"""The job `report`: reads the lake's events, adds them up, and writes the page.

The page has summary, traffic, latencies, hot queues, growth and forecast. It is written whole at the end: a job that is
killed leaves the former page.

Not here: the numbers (`report.findings`), growth and forecast (`report.outlook`), the command (`cli.pipeline.report`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder
from warren.pipeline.html.page import (
    Chart,
    FactList,
    HtmlPage,
    HtmlTable,
    PagePart,
    PageSection,
    Paragraph,
    bars,
    heat_map,
    lines,
    render,
    table,
)
from warren.pipeline.html.page import ChartSeries as Line
from warren.pipeline.html.quantities import duration, many, rounded, shown, size
from warren.pipeline.progress import watch
from warren.pipeline.report import outlook
from warren.pipeline.report.findings import (
    EntitySeries,
    LatencyPercentiles,
    QueueTraffic,
    ReportFindings,
    TrafficEntity,
    gather,
)
from warren.pipeline.report.outlook import Limits
from warren.pipeline.trace import lake
from warren.pipeline.trace.passages import passages

BARS: Final = 12
LATENCY_TITLES: Final = {
    "delivery": "From publish to first delivery",
    "ack": "From publish to ack",
    "confirm": "From publish to confirm",
}
CLOCKS: Final = (
    "{} seem to have come before they were sent: the clocks of two nodes disagree. These are left out of the latencies."
)
QUARANTINE: Final = (
    "{} of this lake's traces could not be read and are in its quarantine: the figures are without them."
)


def render_page(found: ReportFindings, limits: Limits, unreadable: int = 0) -> str:
    """The text of the HTML file; `unreadable` is the number of invalid lines in the lake's traces."""
    warnings = (Paragraph(QUARANTINE.format(many(unreadable, "line")), "warn"),) if unreadable else ()
    sections = (
        PageSection("Summary", (_summary(found), *warnings)),
        PageSection("Traffic", tuple(_traffic(found))),
        PageSection("Latency", tuple(_latency(found))),
        PageSection("Hot queues", tuple(_hot_queues(found))),
        PageSection("Growth", tuple(outlook.growth(found))),
        PageSection("Forecast", tuple(outlook.forecast(found, limits))),
    )
    first, last = outlook.utc_time(found.first_s), outlook.utc_time(found.last_s)
    lead = f"{many(found.events, 'event')} from {first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC."
    return render(HtmlPage("Traffic report", lead, sections))


def _summary(found: ReportFindings) -> FactList:
    published, published_bytes = found.totals.get(("exchange", "published"), (0, 0))
    length_s = max(found.last_s - found.first_s, 1)

    def of_queues(kind: str) -> str:
        return shown(found.totals.get(("queue", kind), (0, 0))[0])

    pairs = (
        ("Published", shown(published)),
        ("Payload", size(published_bytes)),
        ("Published a second", rounded(published / length_s)),
        ("Arrived in queues", of_queues("arrived")),
        ("Delivered", of_queues("delivered")),
        ("Redelivered", of_queues("redelivered")),
        ("Acked", of_queues("acked")),
        ("Dead-lettered", of_queues("dead_lettered")),
        ("Queues", shown(found.queue_count)),
    )
    return FactList(pairs, large=True)


def _traffic(found: ReportFindings) -> list[PagePart]:
    return [
        _course(found, "Published, by exchange", found.published),
        _course(found, "Delivered for the first time, by queue", found.delivered),
    ]


def _course(found: ReportFindings, title: str, courses: EntitySeries) -> PagePart:
    if not courses:
        return Paragraph(f"{title}: nothing.")
    series = outlook.chart_series(found, courses)
    step = outlook.step_name(found)
    sums = [sum(value or 0 for value in line.values) for line in series]
    most = max(range(len(sums)), key=sums.__getitem__)
    peak = max(sum(values) for values in zip(*([value or 0 for value in line.values] for line in series), strict=True))
    summary = f"Most: {series[most].name}, {sums[most]:,.0f}. At most {peak:,.0f} in one {step}, all together."
    return lines(
        title,
        summary,
        [outlook.utc_time(moment) for moment in outlook.step_times(found)],
        series,
        f"messages per {step}",
    )


def _latency(found: ReportFindings) -> list[PagePart]:
    parts: list[PagePart] = []
    for kind, title in LATENCY_TITLES.items():
        course = found.latency_course.get(kind)
        if not course:
            parts.append(Paragraph(f"{title}: no message has both in these events."))
            continue
        parts.append(_latency_chart(title, course))
        parts.append(_latency_table(found, kind, title))
        if kind == "delivery":
            parts.append(_latency_map(found))
    if found.apart:
        parts.append(Paragraph(CLOCKS.format(many(found.apart, "message")), "warn"))
    return parts


def _latency_chart(title: str, course: Mapping[int, LatencyPercentiles]) -> Chart:
    steps = sorted(course)
    series = [
        Line("half of them (p50)", [course[step].p50 for step in steps]),
        Line("9 of 10 (p90)", [course[step].p90 for step in steps]),
        Line("99 of 100 (p99)", [course[step].p99 for step in steps]),
    ]
    worst = max(steps, key=lambda step: course[step].p99)
    summary = f"Worst p99: {duration(course[worst].p99)}, at {outlook.utc_time(worst):%Y-%m-%d %H:%M:%S}."
    return lines(f"{title}, all queues", summary, [outlook.utc_time(step) for step in steps], series, "ms")


def _latency_table(found: ReportFindings, kind: str, title: str) -> HtmlTable:
    rows = [
        (
            outlook.entity_label(found, place),
            each.messages,
            *map(duration, (each.p50, each.p90, each.p99, each.longest)),
        )
        for place, each in found.latency[kind].items()
    ]
    columns = ("Queue", "Messages", "p50", "p90", "p99", "Longest")
    right = ("p50", "p90", "p99", "Longest")
    return table(f"{title}, by queue", columns, rows, total=found.latency_queues[kind], right=right)


def _latency_map(found: ReportFindings) -> Chart:
    steps = outlook.step_times(found)
    places = sorted(found.latency_map, key=lambda place: (-_messages(found, place), place))
    cells = [[_p99(found, place, step) for step in steps] for place in places]
    step = outlook.step_name(found)
    summary = f"The {many(len(places), 'queue')} with the most messages, by the {step} of the publish."
    labels = [outlook.entity_label(found, place) for place in places]
    title = "Slowest hundredth (p99) from publish to first delivery"
    return heat_map(title, summary, [outlook.utc_time(moment) for moment in steps], labels, cells, "ms")


def _messages(found: ReportFindings, place: TrafficEntity) -> int:
    return sum(each.messages for each in found.latency_map[place].values())


def _p99(found: ReportFindings, place: TrafficEntity, step: int) -> float | None:
    each = found.latency_map[place].get(step)
    return None if each is None else each.p99


def _hot_queues(found: ReportFindings) -> list[PagePart]:
    if not found.queues:
        return [Paragraph("No queue is named in these events.")]
    hottest = found.queues[:BARS]
    summary = f"Most: {outlook.entity_label(found, hottest[0].place)}, {_passed(hottest[0]):,}."
    labels = [outlook.entity_label(found, queue.place) for queue in hottest]
    chart = bars("Messages in and out", summary, labels, [_passed(queue) for queue in hottest], "messages")
    return [chart, _queue_table(found)]


def _passed(queue: QueueTraffic) -> int:
    return queue.counts["arrived"] + queue.counts["delivered"]


def _queue_table(found: ReportFindings) -> HtmlTable:
    step = outlook.step_name(found)
    kinds = ("arrived", "delivered", "redelivered", "acked", "rejected", "dead_lettered")
    rows = [
        (
            outlook.entity_label(found, queue.place),
            *(queue.counts[kind] for kind in kinds),
            size(queue.bytes),
            queue.peak,
        )
        for queue in found.queues
    ]
    names = (*(kind.capitalize().replace("_", "-") for kind in kinds), "Payload", f"Most per {step}")
    return table("Queues, the busiest first", ("Queue", *names), rows, total=found.queue_count, right=("Payload",))


@dataclass(frozen=True)
class Settings:
    """The lake, the file to write, and the days (both included) and virtual host; None is all."""

    lake: Folder
    out: str
    since: date | None = None
    until: date | None = None
    vhost: str | None = None
    limits: Limits = field(default_factory=Limits)

    def check(self) -> None:
        """Check the settings before Spark starts."""
        lake.check(self.lake)
        if self.since and self.until and self.since > self.until:
            raise PipelineError(f"there are no days from {self.since} to {self.until}")
        _, name = self.place
        if not name or _is_folder(Folder(self.out)):
            raise PipelineError(f"{self.out} is a folder, and the report is a file")

    @property
    def place(self) -> tuple[Folder, str]:
        """The folder of the file, and its name there."""
        above, separator, name = self.out.rpartition("/")
        return Folder(above or "/" if separator else "."), name


@dataclass(frozen=True)
class ReportOutcome:
    """The path of the page, and its number of events."""

    path: str
    events: int


def run(spark: SparkSession, settings: Settings) -> ReportOutcome:
    """Write the report."""
    settings.check()
    events = select_events(lake.events(spark, settings.lake), settings)
    with watch(spark, "report"):
        found = gather(events, passages(events))
        unreadable = lake.quarantine(spark, settings.lake).count()
    if found is None:
        raise PipelineError(f"{settings.lake} has no events{_of_which(settings)}")
    folder, name = settings.place
    folder.put_text(name, render_page(found, settings.limits, unreadable))
    return ReportOutcome(f"{folder}/{name}", found.events)


def select_events(events: DataFrame, settings: Settings) -> DataFrame:
    """The events of the report. Days and virtual hosts are folders of the lake, so others are not read."""
    if settings.since is not None:
        events = events.where(events["day"] >= settings.since)
    if settings.until is not None:
        events = events.where(events["day"] <= settings.until)
    if settings.vhost is not None:
        events = events.where(events["vhost"] == settings.vhost)
    return events


def _of_which(settings: Settings) -> str:
    words = "" if settings.vhost is None else f" of the virtual host {settings.vhost!r}"
    words += "" if settings.since is None else f" since {settings.since}"
    return words + ("" if settings.until is None else f" until {settings.until}")


def _is_folder(place: Folder) -> bool:
    try:
        return bool(place.children())
    except NotADirectoryError:
        return False
