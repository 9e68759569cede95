"""Rows with a compensation for a missing receipt, rows that replace others, and compensating rows."""

import pytest
from sqlalchemy import Engine

from tests.client.awaited_rows import relay, seconds_until_due
from tests.client.relayed_rows import add, change, drain, rows
from tests.unit.client.outbox.scripted import ScriptedTransport
from warren.client.outbox import Outbox


def test_a_compensation_is_kept_and_part_of_what_a_message_is(database: Engine) -> None:
    with database.begin() as transaction:
        Outbox().add(transaction, b"a", business_id="a", wants_receipt=True, compensation="reverse")
        with pytest.raises(ValueError, match="with another compensation; give this one an id of its own"):
            Outbox().add(transaction, b"a", business_id="a", wants_receipt=True, compensation="confirm")
    assert rows(database)["a"].compensation == "reverse"


@pytest.mark.parametrize(
    ("compensation", "wants_receipt", "reason"),
    [("undo", True, "a compensation is confirm or reverse, or empty, not 'undo'"), ("confirm", False, "wants_receipt")],
)
def test_a_compensation_that_makes_no_sense_is_refused(
    database: Engine, compensation: str, wants_receipt: bool, reason: str
) -> None:
    with database.begin() as transaction, pytest.raises(ValueError, match=reason):
        Outbox().add(transaction, b"a", wants_receipt=wants_receipt, compensation=compensation)


def test_a_message_that_replaces_another_is_sent_in_its_place(database: Engine) -> None:
    add(database, "a")
    transport = ScriptedTransport()
    drain(database, transport)
    for body in (b"b", b"c"):
        with database.begin() as transaction:
            Outbox().add(transaction, body, business_id="a", replace=True)
    assert drain(database, transport) == 1
    assert transport.bodies == [[b"a"], [b"c"]]
    assert rows(database)["a"].attempt == 2


def test_a_resend_may_be_followed_by_as_many_for_lack_of_a_receipt_as_the_first_sending(database: Engine) -> None:
    add(database, "a")
    change(database, "a", status="failed", resends=3)
    with database.begin() as transaction:
        Outbox().resend(transaction, "a")
    assert rows(database)["a"].resends == 0


def test_the_receipt_of_what_stands_for_another_is_due_as_after_a_resend(database: Engine) -> None:
    add(database, "a", "a/reverse", wants_receipt=True)
    change(database, "a/reverse", settles="a")
    relay(database)
    assert 280 < seconds_until_due(database, "a") <= 300
    assert 100 < seconds_until_due(database, "a/reverse") <= 120
