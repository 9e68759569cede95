"""The report as a page: summary, traffic, latencies, hot queues, growth, forecast.

Not here: the numbers (`findings`); growth and forecast (`outlook`).
"""

from collections.abc import Mapping
from typing import Final

from warren.pipeline.html.charts import Chart, bars, heat_map, lines
from warren.pipeline.html.charts import Series as Line
from warren.pipeline.html.page import Facts, Page, Paragraph, Part, Section, render
from warren.pipeline.html.quantities import duration, many, rounded, shown, size
from warren.pipeline.html.tables import Table, table
from warren.pipeline.report import axes, outlook
from warren.pipeline.report.findings import Courses, Findings, Percentiles, Place, QueueTotals
from warren.pipeline.report.outlook import Limits

BARS: Final = 12
LATENCIES: Final = {
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


def page(found: Findings, limits: Limits, unreadable: int = 0) -> str:
    """The text of the HTML file; so many lines of the lake's traces were `unreadable`."""
    warnings = (Paragraph(QUARANTINE.format(many(unreadable, "line")), "warn"),) if unreadable else ()
    sections = (
        Section("Summary", (_summary(found), *warnings)),
        Section("Traffic", tuple(_traffic(found))),
        Section("Latency", tuple(_latency(found))),
        Section("Hot queues", tuple(_hot_queues(found))),
        Section("Growth", tuple(outlook.growth(found))),
        Section("Forecast", tuple(outlook.forecast(found, limits))),
    )
    first, last = axes.at(found.first_s), axes.at(found.last_s)
    lead = f"{many(found.events, 'event')} from {first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC."
    return render(Page("Traffic report", lead, sections))


def _summary(found: Findings) -> Facts:
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
    return Facts(pairs, large=True)


def _traffic(found: Findings) -> list[Part]:
    return [
        _course(found, "Published, by exchange", found.published),
        _course(found, "Delivered for the first time, by queue", found.delivered),
    ]


def _course(found: Findings, title: str, courses: Courses) -> Part:
    if not courses:
        return Paragraph(f"{title}: nothing.")
    series = axes.course_series(found, courses)
    step = axes.step_name(found)
    sums = [sum(value or 0 for value in line.values) for line in series]
    most = max(range(len(sums)), key=sums.__getitem__)
    peak = max(sum(values) for values in zip(*([value or 0 for value in line.values] for line in series), strict=True))
    summary = f"Most: {series[most].name}, {sums[most]:,.0f}. At most {peak:,.0f} in one {step}, all together."
    return lines(title, summary, [axes.at(moment) for moment in axes.moments(found)], series, f"messages per {step}")


def _latency(found: Findings) -> list[Part]:
    parts: list[Part] = []
    for kind, title in LATENCIES.items():
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


def _latency_chart(title: str, course: Mapping[int, Percentiles]) -> Chart:
    steps = sorted(course)
    series = [
        Line("half of them (p50)", [course[step].p50 for step in steps]),
        Line("9 of 10 (p90)", [course[step].p90 for step in steps]),
        Line("99 of 100 (p99)", [course[step].p99 for step in steps]),
    ]
    worst = max(steps, key=lambda step: course[step].p99)
    summary = f"Worst p99: {duration(course[worst].p99)}, at {axes.at(worst):%Y-%m-%d %H:%M:%S}."
    return lines(f"{title}, all queues", summary, [axes.at(step) for step in steps], series, "ms")


def _latency_table(found: Findings, kind: str, title: str) -> Table:
    rows = [
        (axes.label(found, place), each.messages, *map(duration, (each.p50, each.p90, each.p99, each.longest)))
        for place, each in found.latency[kind].items()
    ]
    columns = ("Queue", "Messages", "p50", "p90", "p99", "Longest")
    right = ("p50", "p90", "p99", "Longest")
    return table(f"{title}, by queue", columns, rows, total=found.latency_queues[kind], right=right)


def _latency_map(found: Findings) -> Chart:
    steps = axes.moments(found)
    places = sorted(found.latency_map, key=lambda place: (-_messages(found, place), place))
    cells = [[_p99(found, place, step) for step in steps] for place in places]
    step = axes.step_name(found)
    summary = f"The {many(len(places), 'queue')} with the most messages, by the {step} of the publish."
    labels = [axes.label(found, place) for place in places]
    title = "Slowest hundredth (p99) from publish to first delivery"
    return heat_map(title, summary, [axes.at(moment) for moment in steps], labels, cells, "ms")


def _messages(found: Findings, place: Place) -> int:
    return sum(each.messages for each in found.latency_map[place].values())


def _p99(found: Findings, place: Place, step: int) -> float | None:
    each = found.latency_map[place].get(step)
    return None if each is None else each.p99


def _hot_queues(found: Findings) -> list[Part]:
    if not found.queues:
        return [Paragraph("No queue is named in these events.")]
    hottest = found.queues[:BARS]
    summary = f"Most: {axes.label(found, hottest[0].place)}, {_passed(hottest[0]):,}."
    labels = [axes.label(found, queue.place) for queue in hottest]
    chart = bars("Messages in and out", summary, labels, [_passed(queue) for queue in hottest], "messages")
    return [chart, _queue_table(found)]


def _passed(queue: QueueTotals) -> int:
    return queue.counts["arrived"] + queue.counts["delivered"]


def _queue_table(found: Findings) -> Table:
    step = axes.step_name(found)
    kinds = ("arrived", "delivered", "redelivered", "acked", "rejected", "dead_lettered")
    rows = [
        (axes.label(found, queue.place), *(queue.counts[kind] for kind in kinds), size(queue.bytes), queue.peak)
        for queue in found.queues
    ]
    names = (*(kind.capitalize().replace("_", "-") for kind in kinds), "Payload", f"Most per {step}")
    return table("Queues, the busiest first", ("Queue", *names), rows, total=found.queue_count, right=("Payload",))
