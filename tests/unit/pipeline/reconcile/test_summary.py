"""The summary of a reconciliation: amounts without trailing zeros, and one verdict for scripts and people."""

from decimal import Decimal

import pytest

from warren.pipeline.reconcile.comparison import PRECEDENCE
from warren.pipeline.reconcile.settings import LedgerSource, ReconcileLedger, ReconcileSettings
from warren.pipeline.reconcile.summary import LedgerCounts, ReconcileOutcome, facts, summary_text, trimmed

SETTINGS = ReconcileSettings(
    tuple(ReconcileLedger(name, LedgerSource("csv")) for name in ("orders", "payments")), ("order_id",), "orders"
)
TALLIES = tuple(LedgerCounts(name, 1234, 1234, 0, 0, None) for name in SETTINGS.names)


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        ("10", "10"),
        ("10.00", "10.00"),
        ("20.0000000000000000", "20.00"),
        ("20.0105000", "20.0105"),
        ("0.000000", "0.00"),
        ("1234567890123456789.123456789012345678", "1234567890123456789.123456789012345678"),
    ],
)
def test_an_amount_keeps_its_digits_and_loses_the_zeros_of_its_type(amount: str, shown: str) -> None:
    assert str(trimmed(Decimal(amount))) == shown


def test_late_keys_are_no_differences() -> None:
    outcome = _outcome(late=2, balanced=1232)
    assert outcome.balanced
    assert summary_text(outcome).splitlines() == [
        "orders and payments",
        "  orders                1,234 rows  the authority",
        "  payments              1,234 rows",
        "  late                      2 keys",
        "  balanced              1,232 keys",
        "in balance",
    ]


@pytest.mark.parametrize("status", [status for status in PRECEDENCE if status not in ("late", "balanced")])
def test_every_other_status_is_one(status: str) -> None:
    outcome = _outcome(**{status: 1})
    assert not outcome.balanced
    assert facts(outcome)["balanced"] is False
    assert summary_text(outcome).splitlines()[-1] == "1 difference"


def _outcome(**counts: int) -> ReconcileOutcome:
    return ReconcileOutcome(SETTINGS, dict.fromkeys(PRECEDENCE, 0) | counts, TALLIES)
