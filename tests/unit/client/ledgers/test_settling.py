"""What is done about a finding, by what the outbox has under its business id."""

from datetime import UTC, datetime

import pytest

from warren.client.ledgers.settling import Action, Finding, Known, Step, decided

MISSING: tuple[Action, bool] = ("resend", False)
UNEXPECTED: tuple[Action, bool] = ("reverse", True)


def finding(wanted: tuple[Action, bool], routing_key: str = "corrections") -> Finding:
    action, is_unexpected = wanted
    return Finding("deposit-1", action, is_unexpected, "digest-1", b"{}", routing_key=routing_key)


@pytest.mark.parametrize(
    ("status", "step"),
    [
        ("sent", Step.RESENT),
        ("done", Step.RESENT),
        ("failed", Step.RESENT),
        ("pending", Step.ON_ITS_WAY),
        ("confirming", Step.ON_ITS_WAY),
        ("reversing", Step.OUTDATED),
        ("reversed", Step.OUTDATED),
        ("refused", Step.OUTDATED),
    ],
)
def test_what_is_missing_is_sent_again_unless_it_is_on_its_way_or_taken_back(status: str, step: Step) -> None:
    assert decided(finding(MISSING), Known(status)) is step
    assert decided(finding(MISSING), Known(status, "failed")) is Step.OUTDATED


@pytest.mark.parametrize("status", ["pending", "sent", "done", "failed", "confirming"])
def test_what_the_outbox_counts_is_never_taken_back(status: str) -> None:
    assert decided(finding(UNEXPECTED), Known(status)) is Step.OUTDATED


@pytest.mark.parametrize("status", ["reversing", "reversed", "refused", "failed"])
def test_what_is_to_be_taken_back_is(status: str) -> None:
    for reversal in ("sent", "done", "failed", "refused"):
        assert decided(finding(UNEXPECTED), Known(status, reversal)) is Step.REVERSED
    assert decided(finding(UNEXPECTED), Known(status, "pending")) is Step.ON_ITS_WAY


def test_what_was_refused_and_is_there_all_the_same_is_taken_back() -> None:
    assert decided(finding(UNEXPECTED), Known("refused")) is Step.REVERSED


@pytest.mark.parametrize("wanted", [MISSING, UNEXPECTED, ("correct", False), ("reverse", False)])
def test_what_the_outbox_has_not_is_a_message_more_if_it_has_somewhere_to_go(wanted: tuple[Action, bool]) -> None:
    assert decided(finding(wanted), None) is Step.ADDED
    assert decided(finding(wanted, routing_key=""), None) is Step.LEFT


@pytest.mark.parametrize("status", ["sent", "done", "reversed"])
@pytest.mark.parametrize("wanted", [("correct", False), ("reverse", False)])
def test_a_part_of_what_there_is_is_corrected_by_a_message_whatever_the_row_says(
    wanted: tuple[Action, bool], status: str
) -> None:
    assert decided(finding(wanted), Known(status)) is Step.ADDED


def test_of_what_the_outbox_has_not_and_nobody_knows_when_it_was_only_the_missing_is_added() -> None:
    kept_since = datetime(2026, 11, 10, tzinfo=UTC)
    assert decided(finding(UNEXPECTED), None, kept_since=kept_since) is Step.LEFT
    assert decided(finding(MISSING), None, kept_since=kept_since) is Step.ADDED
