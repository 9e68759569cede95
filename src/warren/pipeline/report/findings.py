"""The numbers of the report, collected from Spark: a few thousand, however many events there are.

The events are read twice, once for the flows and once for the passage counts. Spark keeps both in between (`persist`),
in few partitions, because they are small, and each partition costs a task in every query that follows.

Not here: the calculations (`report.flows`, `report.latencies`), the page (`report.job`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sql

from warren.pipeline.report import flows, latencies
from warren.pipeline.report.flows import DAY_S, HOUR_S
from warren.pipeline.report.forecast import DailyTotals
from warren.pipeline.report.latencies import LATENCY_KINDS, passage_counts

LINES_MAX: Final = 7
"""As many exchanges or queues have their own line; all others share the eighth."""
MAP_ROWS: Final = 12
LISTED_MAX: Final = 50
PARTS: Final = 8
# the longest span, in seconds, for each step; days beyond
STEPS: Final = ((1, 600), (60, 6 * HOUR_S), (HOUR_S, 60 * DAY_S))


class TrafficEntity(NamedTuple):
    """An exchange or a queue."""

    vhost: str
    name: str


EntitySeries = Mapping[TrafficEntity | None, Mapping[int, int]]
"""A number by entity and moment; None stands for all other entities."""


@dataclass(frozen=True)
class QueueTraffic:
    """The traffic of a queue; `counts` by kind, `peak` is the most in one step."""

    place: TrafficEntity
    counts: Mapping[str, int]
    bytes: int
    peak: int


@dataclass(frozen=True)
class LatencyPercentiles:
    """Percentiles in milliseconds, and the number of messages."""

    messages: int
    p50: float
    p90: float
    p99: float
    longest: int


@dataclass(frozen=True)
class ReportFindings:
    """The numbers of a report. Moments are seconds since 1970; kinds are those of `flows` and `latencies`."""

    first_s: int
    last_s: int
    events: int
    step_s: int
    vhosts: int
    totals: Mapping[tuple[str, str], tuple[int, int]]
    published: EntitySeries
    delivered: EntitySeries
    queues: tuple[QueueTraffic, ...]
    queue_count: int
    latency: Mapping[str, Mapping[TrafficEntity, LatencyPercentiles]]
    latency_queues: Mapping[str, int]
    latency_course: Mapping[str, Mapping[int, LatencyPercentiles]]
    latency_map: Mapping[TrafficEntity, Mapping[int, LatencyPercentiles]]
    apart: int
    days: tuple[DailyTotals, ...]
    waiting: tuple[tuple[TrafficEntity, int], ...]
    waiting_queues: int
    backlog: EntitySeries


def step_for(length_s: int) -> int:
    """A step of time for a span: some hundred steps, two thousand at most."""
    return next((step for step, longest in STEPS if length_s <= longest), DAY_S)


def gather(events: DataFrame, passages: DataFrame) -> ReportFindings | None:
    """Collect all numbers; None if there is no event."""
    [reach] = flows.span(events).collect()
    if reach["first"] is None:
        return None
    step_s = step_for(reach["last"] - reach["first"])
    flow = flows.flows(events, min(step_s, HOUR_S)).coalesce(PARTS).persist()
    queue_counts = passage_counts(passages, step_s).coalesce(PARTS).persist()
    try:
        return _gathered(reach, step_s, flow, queue_counts)
    finally:
        flow.unpersist()
        queue_counts.unpersist()


def _gathered(reach: Row, step_s: int, flow: DataFrame, queue_counts: DataFrame) -> ReportFindings:
    counts, change = latencies.latency_counts(queue_counts), latencies.backlog_changes(queue_counts)
    passed = sql.col("arrived") + sql.col("delivered")
    queues = _ranked(flows.busiest_first(flows.queue_totals(flow, step_s), passed, LISTED_MAX))
    slow = _ranked(flows.busiest_first(latencies.by_queue(counts), sql.col("messages"), LISTED_MAX, "kind"))
    ranked = flows.busiest_first(latencies.final_backlog(change), sql.col("waiting"), LISTED_MAX)
    waiting = _ranked(ranked)
    growing = change.join(sql.broadcast(ranked.where(sql.col("rank") <= LINES_MAX)), ["vhost", "name"])
    sums = flows.totals(flow).collect()
    [apart] = latencies.negative_latencies(counts).collect()
    return ReportFindings(
        first_s=reach["first"],
        last_s=reach["last"],
        events=reach["events"],
        step_s=step_s,
        vhosts=len({row["vhost"] for row in sums}),
        totals=_totals(sums),
        published=_courses(flows.over_time(flow, "exchange", "published", step_s, LINES_MAX).collect(), "messages"),
        delivered=_courses(flows.over_time(flow, "queue", "delivered", step_s, LINES_MAX).collect(), "messages"),
        queues=tuple(_queue_totals(row) for row in queues),
        queue_count=queues[0]["of"] if queues else 0,
        latency={
            kind: {_place(row): _percentiles(row) for row in slow if row["kind"] == kind} for kind in LATENCY_KINDS
        },
        latency_queues={row["kind"]: row["of"] for row in slow},
        latency_course=_by_kind(latencies.by_moment(counts).collect()),
        latency_map=_by_place(latencies.by_queue_and_moment(counts, "delivery", MAP_ROWS).collect()),
        apart=apart["messages"],
        days=tuple(sorted((_day(row) for row in flows.daily(flow).collect()), key=lambda day: day.number)),
        waiting=tuple((_place(row), row["waiting"]) for row in waiting),
        waiting_queues=waiting[0]["of"] if waiting else 0,
        backlog=_courses(growing.collect(), "change"),
    )


def _ranked(frame: DataFrame) -> list[Row]:
    return sorted(frame.collect(), key=lambda row: int(row["rank"]))


def _totals(rows: Iterable[Row]) -> dict[tuple[str, str], tuple[int, int]]:
    """Over all virtual hosts."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for row in rows:
        messages, size = found.get((row["side"], row["kind"]), (0, 0))
        found[row["side"], row["kind"]] = messages + row["messages"], size + row["bytes"]
    return found


def _courses(rows: Iterable[Row], column: str) -> dict[TrafficEntity | None, dict[int, int]]:
    found: dict[TrafficEntity | None, dict[int, int]] = {}
    for row in rows:
        place = None if row["name"] is None else _place(row)
        found.setdefault(place, {})[row["moment"]] = row[column]
    return found


def _by_kind(rows: Iterable[Row]) -> dict[str, dict[int, LatencyPercentiles]]:
    found: dict[str, dict[int, LatencyPercentiles]] = {}
    for row in rows:
        found.setdefault(row["kind"], {})[row["moment"]] = _percentiles(row)
    return found


def _by_place(rows: Iterable[Row]) -> dict[TrafficEntity, dict[int, LatencyPercentiles]]:
    found: dict[TrafficEntity, dict[int, LatencyPercentiles]] = {}
    for row in rows:
        found.setdefault(_place(row), {})[row["moment"]] = _percentiles(row)
    return found


def _place(row: Row) -> TrafficEntity:
    return TrafficEntity(row["vhost"], row["name"])


def _percentiles(row: Row) -> LatencyPercentiles:
    return LatencyPercentiles(row["messages"], row["p50"], row["p90"], row["p99"], row["longest"])


def _queue_totals(row: Row) -> QueueTraffic:
    return QueueTraffic(_place(row), {kind: row[kind] for kind in flows.QUEUE_KINDS}, row["bytes"], row["peak"])


def _day(row: Row) -> DailyTotals:
    return DailyTotals(row["day"], row["messages"], row["bytes"], row["busiest"])
