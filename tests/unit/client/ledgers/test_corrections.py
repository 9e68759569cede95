"""The correction of a finding, by the outbox row with its business id."""

from datetime import UTC, datetime

import pytest

from warren.client.ledgers.corrections import (
    CorrectionAction,
    CorrectionStep,
    OutboxRecord,
    ReconciliationFinding,
    decide_correction,
)

MISSING: tuple[CorrectionAction, bool] = ("resend", False)
UNEXPECTED: tuple[CorrectionAction, bool] = ("reverse", True)


def finding(wanted: tuple[CorrectionAction, bool], routing_key: str = "corrections") -> ReconciliationFinding:
    action, is_unexpected = wanted
    return ReconciliationFinding("deposit-1", action, is_unexpected, "digest-1", b"{}", routing_key=routing_key)


@pytest.mark.parametrize(
    ("status", "step"),
    [
        ("sent", CorrectionStep.RESENT),
        ("done", CorrectionStep.RESENT),
        ("failed", CorrectionStep.RESENT),
        ("pending", CorrectionStep.ON_ITS_WAY),
        ("confirming", CorrectionStep.ON_ITS_WAY),
        ("reversing", CorrectionStep.OUTDATED),
        ("reversed", CorrectionStep.OUTDATED),
        ("refused", CorrectionStep.OUTDATED),
    ],
)
def test_a_missing_message_is_sent_again_unless_it_is_in_flight_or_reversed(status: str, step: CorrectionStep) -> None:
    assert decide_correction(finding(MISSING), OutboxRecord(status)) is step
    assert decide_correction(finding(MISSING), OutboxRecord(status, "failed")) is CorrectionStep.OUTDATED


@pytest.mark.parametrize("status", ["pending", "sent", "done", "failed", "confirming"])
def test_a_message_that_the_outbox_counts_is_never_reversed(status: str) -> None:
    assert decide_correction(finding(UNEXPECTED), OutboxRecord(status)) is CorrectionStep.OUTDATED


@pytest.mark.parametrize("status", ["reversing", "reversed", "refused", "failed"])
def test_a_message_to_be_reversed_is_reversed(status: str) -> None:
    for reversal in ("sent", "done", "failed", "refused"):
        assert decide_correction(finding(UNEXPECTED), OutboxRecord(status, reversal)) is CorrectionStep.REVERSED
    assert decide_correction(finding(UNEXPECTED), OutboxRecord(status, "pending")) is CorrectionStep.ON_ITS_WAY


def test_a_refused_message_that_arrived_all_the_same_is_reversed() -> None:
    assert decide_correction(finding(UNEXPECTED), OutboxRecord("refused")) is CorrectionStep.REVERSED


@pytest.mark.parametrize("wanted", [MISSING, UNEXPECTED, ("correct", False), ("reverse", False)])
def test_a_finding_without_an_outbox_row_becomes_a_message_if_it_has_a_destination(
    wanted: tuple[CorrectionAction, bool],
) -> None:
    assert decide_correction(finding(wanted), None) is CorrectionStep.ADDED
    assert decide_correction(finding(wanted, routing_key=""), None) is CorrectionStep.LEFT


@pytest.mark.parametrize("status", ["sent", "done", "reversed"])
@pytest.mark.parametrize("wanted", [("correct", False), ("reverse", False)])
def test_a_partial_difference_is_corrected_by_a_message_with_any_outbox_row(
    wanted: tuple[CorrectionAction, bool], status: str
) -> None:
    assert decide_correction(finding(wanted), OutboxRecord(status)) is CorrectionStep.ADDED


def test_without_a_row_and_a_time_only_a_missing_message_is_added() -> None:
    kept_since = datetime(2026, 11, 10, tzinfo=UTC)
    assert decide_correction(finding(UNEXPECTED), None, kept_since=kept_since) is CorrectionStep.LEFT
    assert decide_correction(finding(MISSING), None, kept_since=kept_since) is CorrectionStep.ADDED
