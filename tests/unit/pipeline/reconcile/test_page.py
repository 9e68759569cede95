"""The page of a reconciliation."""

from dataclasses import replace
from decimal import Decimal

import pytest

from warren.pipeline.reconcile.summary import DifferenceList, LedgerTotals, Reconciliation, StatusTotals, render_page

FOUND = Reconciliation(
    title="Orders and payments",
    facts=(("Day", "2026-11-15"), ("Tolerance", "0.01")),
    ledgers=(
        LedgerTotals("orders", 1004, 1003, 1, 0, Decimal("5017.50"), authority=True),
        LedgerTotals("payments", 1001, 1001, 0, 2, Decimal("5001.25"), authority=False),
    ),
    statuses=(
        StatusTotals("missing", "The authority has it, another ledger lacks it.", 2, Decimal("12.00"), balanced=False),
        StatusTotals("differs", "An amount differs.", 1, Decimal("4.25"), balanced=False),
        StatusTotals("duplicated", "A ledger has it several times.", 0, None, balanced=False),
        StatusTotals("balanced", "It is in every ledger, and equal.", 1000, None, balanced=True),
    ),
    differences=(
        DifferenceList("differs", ("Key", "orders", "payments"), (("o7", Decimal("9.25"), Decimal("5.00")),), 1),
        DifferenceList("missing", ("Key", "orders", "payments"), (("o1", Decimal("6.00"), None),), 2),
    ),
)


def test_the_page_says_whether_the_ledgers_balance() -> None:
    assert "The ledgers do not balance: 3 of 1,003 keys differ." in render_page(FOUND)
    even = replace(FOUND, statuses=FOUND.statuses[-1:], differences=())
    assert "The ledgers balance: 1,000 keys, no difference." in render_page(even)
    assert "Differences</h2>" not in render_page(even)
    assert "There is nothing to compare" in render_page(replace(FOUND, statuses=(), differences=(), ledgers=()))


def test_a_list_of_differences_says_how_many_it_leaves_out() -> None:
    assert '<p class="more">1 more is not shown.</p>' in render_page(FOUND)


def test_a_listed_key_without_a_difference_is_not_called_a_difference() -> None:
    late = StatusTotals("late", "It came after the day.", 1, None, balanced=True)
    written = render_page(
        replace(FOUND, statuses=(late,), differences=(DifferenceList("late", ("Key",), (("o9",),), 1),))
    )
    assert "No differences, but to note</h2>" in written
    assert '<th scope="row">o9</th>' in written


def test_lists_come_in_the_order_of_precedence() -> None:
    written = render_page(FOUND)
    assert 0 < written.index("<caption>missing: 2 keys</caption>") < written.index("<caption>differs: 1 key</caption>")


def test_amounts_keep_every_digit_and_the_authority_is_named() -> None:
    written = render_page(FOUND)
    assert '<th scope="row">orders (the authority)</th>' in written
    assert '<td class="right">5,017.50</td>' in written


@pytest.mark.parametrize(("missing", "share"), [(1, "&gt; 99.99 %"), (500_000, "95.24 %")])
def test_a_share_is_never_rounded_to_all(missing: int, share: str) -> None:
    statuses = (
        StatusTotals("missing", "It lacks.", missing, None, balanced=False),
        StatusTotals("balanced", "It is there.", 10_000_000, None, balanced=True),
    )
    assert f"<dd>{share}</dd>" in render_page(replace(FOUND, statuses=statuses, differences=()))


def test_the_same_result_gives_the_same_bytes() -> None:
    assert render_page(FOUND) == render_page(replace(FOUND))
