"""The rules for rows that are overdue or refused."""

import pytest

from warren.client.receipts.chaser import AwaitedRow, ChasingSettings, OverdueStep, failure_reason, next_overdue_step

SETTINGS = ChasingSettings(resends=3, compensations=5)


def message(resends: int = 0, compensation: str = "", status: str = "sent") -> AwaitedRow:
    return AwaitedRow(1, "payment", "message", status, resends, compensation, None, None)


def reversal(resends: int = 0, status: str = "sent") -> AwaitedRow:
    return AwaitedRow(2, "payment/reverse", "reversal", status, resends, "", "payment", "refused: no")


@pytest.mark.parametrize("compensation", ["", "confirm", "reverse"])
def test_a_message_is_sent_again_as_often_as_is_allowed(compensation: str) -> None:
    steps = [next_overdue_step(message(resends, compensation), SETTINGS) for resends in range(5)]
    last = OverdueStep.COMPENSATE if compensation else OverdueStep.FAIL
    assert steps == [OverdueStep.RESEND] * 3 + [last] * 2


def test_a_reversal_is_sent_as_often_as_is_allowed_the_first_time_included() -> None:
    steps = [next_overdue_step(reversal(resends), SETTINGS) for resends in range(5)]
    assert steps == [OverdueStep.RESEND] * 4 + [OverdueStep.FAIL]


@pytest.mark.parametrize(
    ("row", "step"),
    [
        (message(status="refused"), OverdueStep.FAIL),
        (message(compensation="confirm", status="refused"), OverdueStep.FAIL),
        (message(compensation="reverse", status="refused"), OverdueStep.COMPENSATE),
        (reversal(status="refused"), OverdueStep.FAIL),
    ],
)
def test_a_refused_message_is_not_sent_again(row: AwaitedRow, step: OverdueStep) -> None:
    assert next_overdue_step(row, SETTINGS) is step


def test_without_resends_a_message_is_compensated_for_at_once() -> None:
    assert next_overdue_step(message(0, "reverse"), ChasingSettings(resends=0)) is OverdueStep.COMPENSATE


def test_an_unknown_compensation_is_none() -> None:
    row = message(3, "Confirm")
    assert next_overdue_step(row, SETTINGS) is OverdueStep.FAIL
    assert failure_reason(row) == "no receipt came after 3 resends, and its compensation is 'Confirm', which is none"


def test_the_alert_has_the_reason() -> None:
    assert failure_reason(message(3)) == "no receipt came after 3 resends"
    assert failure_reason(reversal(status="refused")) == "refused: no"
    assert failure_reason(message(status="refused")) == "it was refused"
