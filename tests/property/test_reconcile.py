"""Reconciling: a key has one status, and every row is counted on some day."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from hypothesis import example, given
from hypothesis import strategies as some

from tests.pipeline.naive_ledgers import Entry, belongs, is_seen
from warren.pipeline.reconcile.comparison import BALANCED, PRECEDENCE, status_of
from warren.pipeline.reconcile.settings import LedgerSource, ReconcileLedger, ReconcileSettings

findings = some.lists(some.sampled_from(PRECEDENCE))
FIRST = date(2026, 3, 28)
DAYS = 4
SETTINGS = ReconcileSettings(
    tuple(ReconcileLedger(name, LedgerSource("parquet"), time="at") for name in ("orders", "payments")),
    key=("order_id",),
    authority="orders",
    day=FIRST,
    zone="Europe/Berlin",
)


@given(findings)
def test_a_status_is_one_that_applies_and_none_above_it_does(found: list[str]) -> None:
    status = status_of(found)
    assert status in found or (status == BALANCED and not found)
    assert not set(PRECEDENCE[: PRECEDENCE.index(status)]) & set(found)


@given(findings, some.randoms(use_true_random=False))
def test_a_status_depends_on_no_order_and_no_repetition(found: list[str], chance: object) -> None:
    shuffled = found * 2
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert status_of(shuffled) == status_of(found)


@given(findings, findings)
def test_one_finding_more_never_makes_a_status_less_grave(found: list[str], more: list[str]) -> None:
    assert PRECEDENCE.index(status_of(found + more)) <= PRECEDENCE.index(status_of(found))


@given(
    some.lists(
        some.tuples(some.integers(0, 1), some.integers(24 * 60, 24 * 60 * (DAYS - 1) - 1)), min_size=1, max_size=5
    ),
    some.integers(0, 23),
)
@example([(0, 24 * 60), (1, 24 * 60 * 3 - 20)], 6)
def test_every_row_is_part_of_a_key_that_some_day_counts(rows: list[tuple[int, int]], grace_h: int) -> None:
    """The example has its second row two days after the first, in the grace of a day on which the key has no row."""
    start = datetime(2026, 3, 27, 23, tzinfo=UTC)
    entries = [
        Entry(ledger, "k", start + timedelta(minutes=minutes), Decimal(1), None, True) for ledger, minutes in rows
    ]
    seen: set[Entry] = set()
    for number in range(-1, DAYS + 1):
        run = replace(SETTINGS, day=FIRST + timedelta(days=number), grace=timedelta(hours=grace_h))
        of_run = [entry for entry in entries if is_seen(entry, run)]
        if belongs(of_run, run):
            seen.update(of_run)
    assert seen == set(entries)
