"""A refusal leaves a permanent mark in its row, also after the status has changed; in both databases."""

from sqlalchemy import Engine

from tests.client.awaited_rows import be_late, chase, relay, send
from tests.client.relayed_rows import rows, statuses
from warren.client.ledgers.database import outbox_rows
from warren.client.outbox import Outbox
from warren.client.receipts import ChasingSettings, Receipts

NO_RESENDS = ChasingSettings(resends=0, compensations=1)


def fail_for_lack_of_a_receipt(engine: Engine) -> None:
    be_late(engine)
    chase(engine, NO_RESENDS)


def marked(engine: Engine) -> set[str]:
    return {name for name, row in rows(engine).items() if row.refused_at is not None}


def test_failed_rows_record_whether_they_were_refused(database: Engine) -> None:
    send(database, "refused", "unanswered")
    Receipts(database).refused(None, "refused", "no such account")
    refused_at = rows(database)["refused"].refused_at
    fail_for_lack_of_a_receipt(database)
    assert statuses(database) == {"refused": "failed", "unanswered": "failed"}
    assert marked(database) == {"refused"}
    assert rows(database)["refused"].refused_at == refused_at


def test_a_refusal_after_the_failure_is_marked_once(database: Engine) -> None:
    send(database, "one")
    fail_for_lack_of_a_receipt(database)
    receipts = Receipts(database)
    assert not receipts.refused(None, "one", "no such account")
    [first] = rows(database).values()
    assert (first.status, first.refused_at is None) == ("failed", False)
    assert not receipts.refused(None, "one", "no such account")
    assert list(rows(database).values()) == [first]


def test_a_message_whose_confirmation_is_refused_may_have_been_done_and_counts(database: Engine) -> None:
    send(database, "one", compensation="confirm")
    fail_for_lack_of_a_receipt(database)
    relay(database)
    Receipts(database).refused(None, "one/confirm", "it is not known any more whether it was done")
    chase(database)
    assert statuses(database) == {"one": "failed", "one/confirm": "failed"}
    assert marked(database) == {"one/confirm"}
    assert [row[0] for piece in outbox_rows(database) for row in piece] == ["one"]


def test_a_message_whose_reversal_is_refused_was_not(database: Engine) -> None:
    send(database, "one", compensation="reverse")
    fail_for_lack_of_a_receipt(database)
    relay(database)
    Receipts(database).refused(None, "one/reverse", "the money is gone")
    chase(database)
    assert statuses(database) == {"one": "failed", "one/reverse": "failed"}
    assert marked(database) == {"one/reverse"}


def test_a_message_that_is_done_or_sent_anew_is_refused_no_longer(database: Engine) -> None:
    send(database, "done", "resent", "replaced", "still")
    receipts = Receipts(database)
    for name in rows(database):
        receipts.refused(None, name, "not today")
    chase(database)
    assert marked(database) == {"done", "resent", "replaced", "still"}
    receipts.done(None, "done")
    with database.begin() as transaction:
        Outbox().resend(transaction, "resent")
        Outbox().add(transaction, b"other", business_id="replaced", wants_receipt=True, replace=True)
    assert marked(database) == {"still"}


def test_a_refusal_after_the_receipt_leaves_no_mark(database: Engine) -> None:
    send(database, "one")
    receipts = Receipts(database)
    receipts.done(None, "one")
    receipts.refused(None, "one", "after all, no")
    assert marked(database) == set()
