"""Reports to look at: one with everything in it and names that mean harm, one of a single moment.

Not here: looking at them (`test_reports`).
"""

from collections.abc import Callable
from decimal import Decimal
from functools import partial

from warren.pipeline.reconcile import summary as reconciling
from warren.pipeline.report import job as reporting
from warren.pipeline.report.findings import LatencyPercentiles, QueueTraffic, ReportFindings, TrafficEntity
from warren.pipeline.report.flows import DAY_S, HOUR_S, QUEUE_KINDS
from warren.pipeline.report.forecast import DailyTotals
from warren.pipeline.report.outlook import Limits

HOSTILE = "</script><img src=x onerror=alert(1)><b>bold</b> & \"'%{x} var(--ink)"
LONG = "q" * 255
FIRST_S = 1_793_491_200  # 2026-11-01
DAYS = 10
QUEUES = [
    TrafficEntity("/", "orders"),
    TrafficEntity("/", HOSTILE),
    TrafficEntity("shop", LONG),
    TrafficEntity("shop", "2026-01-01"),
]
STEPS = range(FIRST_S, FIRST_S + DAYS * DAY_S, HOUR_S)


def course(of: Callable[[int], int]) -> dict[int, int]:
    return {step: of(number) for number, step in enumerate(STEPS)}


def half_daily(least: int, number: int) -> int:
    return least + number % 12


def taken(place: int, number: int) -> LatencyPercentiles:
    return LatencyPercentiles(100, place + number % 24, 2 * place + number % 24, 5 * place + number % 24, 400)


def full_findings() -> ReportFindings:
    days = [
        DailyTotals(FIRST_S // DAY_S + at, 24_000 + 500 * at + 90 * (at % 3), 10**9 + 10**7 * at, 1500)
        for at in range(DAYS)
    ]
    totals = {("exchange", "published"): (245_000, 10**10)} | {
        ("queue", kind): (240_000, 10**10) for kind in QUEUE_KINDS
    }
    counts = dict.fromkeys(QUEUE_KINDS, 60000)
    everyone = {place: taken(at, 5) for at, place in enumerate(QUEUES)}
    return ReportFindings(
        first_s=FIRST_S,
        last_s=FIRST_S + DAYS * DAY_S - 1,
        events=1_000_000,
        step_s=HOUR_S,
        vhosts=2,
        totals=totals,
        published={TrafficEntity("/", ""): course(lambda number: number % 24), None: course(lambda number: 3)},
        delivered={place: course(partial(half_daily, at)) for at, place in enumerate(QUEUES)},
        queues=tuple(QueueTraffic(place, counts, 10**9, 1000) for place in QUEUES),
        queue_count=1000,
        latency={"delivery": everyone, "ack": everyone, "confirm": {}},
        latency_queues={"delivery": 4, "ack": 60},
        latency_course={kind: {step: taken(1, at) for at, step in enumerate(STEPS)} for kind in ("delivery", "ack")},
        latency_map={place: {step: taken(at, step) for step in STEPS} for at, place in enumerate(QUEUES)},
        apart=3,
        days=tuple(days),
        waiting=((QUEUES[1], 480), (QUEUES[0], 240)),
        waiting_queues=2,
        backlog={QUEUES[0]: course(lambda number: 1), QUEUES[1]: course(lambda number: 2)},
    )


def brief_findings() -> ReportFindings:
    """One message, published and never delivered."""
    queue = TrafficEntity("/", "orders")
    counts = dict.fromkeys(QUEUE_KINDS, 0) | {"arrived": 1}
    return ReportFindings(
        first_s=FIRST_S,
        last_s=FIRST_S,
        events=1,
        step_s=1,
        vhosts=1,
        totals={("exchange", "published"): (1, 5), ("queue", "arrived"): (1, 5)},
        published={TrafficEntity("/", ""): {FIRST_S: 1}},
        delivered={},
        queues=(QueueTraffic(queue, counts, 5, 1),),
        queue_count=1,
        latency={"delivery": {}, "ack": {}, "confirm": {}},
        latency_queues={},
        latency_course={},
        latency_map={},
        apart=0,
        days=(DailyTotals(FIRST_S // DAY_S, 1, 5, 1),),
        waiting=((queue, 1),),
        waiting_queues=1,
        backlog={queue: {FIRST_S: 1}},
    )


def full_report() -> str:
    return reporting.render_page(full_findings(), Limits(disk_bytes=10**12, rate=5))


def brief_report() -> str:
    return reporting.render_page(brief_findings(), Limits())


def reconciliation() -> str:
    """Ledgers that do not balance."""
    statuses = [
        reconciling.StatusTotals(
            "missing", "The authority has it, another lacks it.", 40_000, Decimal("9.5"), balanced=False
        ),
        reconciling.StatusTotals("differs", "Amounts differ.", 2, Decimal("0.02"), balanced=False),
        reconciling.StatusTotals("balanced", "Equal in every ledger.", 10**6, None, balanced=True),
    ]
    ledgers = [
        reconciling.LedgerTotals("orders", 1_040_002, 1_040_002, 0, 0, Decimal("123456789.01"), authority=True),
        reconciling.LedgerTotals(HOSTILE, 1_000_002, 1_000_002, 0, 7, Decimal("120000000.00"), authority=False),
    ]
    rows = tuple((f"order-{number}", HOSTILE, Decimal("1.25"), None) for number in range(100))
    lists = [reconciling.DifferenceList("missing", ("Key", "Record", "orders", "payments"), rows, 40_000)]
    facts = (("Day", "2026-11-15"), ("Key", "order_id"))
    return reconciling.render_page(
        reconciling.Reconciliation("Orders and payments", facts, tuple(ledgers), tuple(statuses), tuple(lists))
    )


REPORTS: dict[str, Callable[[], str]] = {
    "full report": full_report,
    "brief report": brief_report,
    "reconciliation": reconciliation,
}
