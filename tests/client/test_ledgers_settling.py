"""Findings of a reconciliation that go through a real outbox, of SQLite and PostgreSQL."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, create_engine, insert, select, text

from tests.support.ports import free_port
from warren.client import Message, Properties
from warren.client.errors import CannotConnect
from warren.client.ledgers import corrections
from warren.client.ledgers.corrections import (
    CorrectionAction,
    CorrectionStep,
    ReconciliationFinding,
    apply_corrections,
    preview_corrections,
)
from warren.client.ledgers.database import outbox_rows
from warren.client.outbox import Outbox
from warren.client.outbox.outbox import stored_properties
from warren.client.receipts import compensating_id
from warren.client.tables import OUTBOX, database_time

Rows = dict[str, tuple[str, str, str | None]]
DAY_S = 86_400.0


def finding(
    business_id: str, action: CorrectionAction = "resend", is_unexpected: bool = False, route: str = ""
) -> ReconciliationFinding:
    headers = {"action": action, "key": business_id}
    return ReconciliationFinding(
        business_id, action, is_unexpected, f"{business_id}-digest-1", b"{}", headers, routing_key=route
    )


def rows(engine: Engine) -> Rows:
    """Of each business id: kind, status, and what it settles."""
    columns = (OUTBOX.c.business_id, OUTBOX.c.kind, OUTBOX.c.status, OUTBOX.c.settles)
    with engine.connect() as connection:
        return {row[0]: (row[1], row[2], row[3]) for row in connection.execute(select(*columns))}


@pytest.fixture
def outbox(database: Engine) -> Engine:
    """A row of each status; what is being taken back has its reversal, which was sent."""
    with database.begin() as connection:
        for status in ("pending", "sent", "done", "failed", "confirming", "reversing", "reversed", "refused"):
            message = Message(b"10", Properties(content_type="text/plain", headers={"x-branch": "north"}))
            Outbox(exchange="BANK", routing_key="deposits").add(connection, message, business_id=status)
            connection.execute(OUTBOX.update().where(OUTBOX.c.business_id == status).values(status=status))
        for settles, status in (("reversing", "sent"), ("reversed", "done")):
            own = {"business_id": compensating_id(settles, "reverse"), "kind": "reversal", "settles": settles}
            values = {"body": b"10", "status": status, "wants_receipt": True, "sent_at": database_time()}
            connection.execute(insert(OUTBOX).values(**own, **values))
    return database


def steps(engine: Engine, findings: Iterable[ReconciliationFinding]) -> dict[str, str]:
    """What is done about each; a preview of it says the same, and changes nothing."""
    chosen, before = list(findings), rows(engine)
    shown = preview_corrections(engine, chosen)
    assert rows(engine) == before
    assert apply_corrections(engine, chosen) == shown
    return {each.business_id: str(step) for each, step in zip(chosen, shown, strict=True)}


def test_a_missing_message_is_sent_again_under_its_id(outbox: Engine) -> None:
    before = rows(outbox)
    assert steps(outbox, [finding(name) for name in [*before, "elsewhere"] if "/" not in name]) == {
        "pending": "on_its_way",
        "sent": "resent",
        "done": "resent",
        "failed": "resent",
        "confirming": "on_its_way",
        "reversing": "outdated",
        "reversed": "outdated",
        "refused": "outdated",
        "elsewhere": "left",
    }
    sent_again = dict.fromkeys(("sent", "done", "failed"), ("message", "pending", None))
    assert rows(outbox) == before | sent_again


def test_an_unexpected_message_is_reversed_once(outbox: Engine) -> None:
    before = rows(outbox)
    names = [name for name in before if "/" not in name]
    found = steps(outbox, [finding(name, "reverse", is_unexpected=True) for name in names])
    assert {name for name, step in found.items() if step == "reversed"} == {"reversing", "reversed", "refused"}
    assert {step for name, step in found.items() if name not in ("reversing", "reversed", "refused")} == {"outdated"}
    assert rows(outbox) == before | {
        "reversing/reverse": ("reversal", "pending", "reversing"),
        "reversed/reverse": ("reversal", "pending", "reversed"),
        "refused/reverse": ("reversal", "pending", "refused"),
        "refused": ("message", "reversing", None),
    }


def test_the_reversal_goes_where_its_message_went_and_says_what_it_settles(outbox: Engine) -> None:
    apply_corrections(outbox, [finding("refused", "reverse", is_unexpected=True)])
    with outbox.connect() as connection:
        row = connection.execute(select(OUTBOX).where(OUTBOX.c.business_id == "refused/reverse")).one()
    assert (row.exchange, row.routing_key, row.body, row.wants_receipt) == ("BANK", "deposits", b"10", True)
    headers = stored_properties(row.properties).headers or {}
    assert headers.items() >= {"x-branch": "north", "x-kind": "reversal", "x-settles": "refused"}.items()


def test_the_same_findings_again_make_no_second_row(outbox: Engine) -> None:
    wanted = [finding("done"), finding("refused", "reverse", is_unexpected=True)]
    strange = finding("strange", "reverse", is_unexpected=True, route="corrections")
    wanted += [replace(strange, at=datetime.now(UTC)), finding("sent", "correct")]
    apply_corrections(outbox, wanted)
    after = rows(outbox)
    apply_corrections(outbox, wanted)
    assert rows(outbox) == after
    assert after["strange-digest-1"] == ("correction", "pending", None)


def test_a_message_that_the_outbox_lacks_is_added_with_its_own_body(outbox: Engine) -> None:
    assert steps(outbox, [finding("sent", "correct", route="corrections")]) == {"sent": "added"}
    with outbox.connect() as connection:
        row = connection.execute(select(OUTBOX).where(OUTBOX.c.business_id == "sent-digest-1")).one()
        original = connection.execute(select(OUTBOX.c.status).where(OUTBOX.c.business_id == "sent")).scalar_one()
    assert (row.kind, row.exchange, row.routing_key, row.body) == ("correction", "", "corrections", b"{}")
    assert stored_properties(row.properties).headers == {"action": "correct", "key": "sent"}
    assert original == "sent"


def test_a_batch_is_settled_wholly_or_not_at_all(outbox: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third of four cannot be added; batches are of two."""
    monkeypatch.setattr(corrections, "BATCH", 2)
    with outbox.begin() as connection:
        Outbox(routing_key="corrections").add(connection, b"another", business_id="wrong-digest-1")
    before = rows(outbox)
    wanted = [finding("sent"), finding("done"), finding("failed"), finding("wrong", "correct", route="corrections")]
    with pytest.raises(ValueError, match="has another message with business id 'wrong-digest-1'"):
        apply_corrections(outbox, wanted)
    assert rows(outbox) == before | dict.fromkeys(("sent", "done"), ("message", "pending", None))


def test_many_findings_are_settled(database: Engine) -> None:
    count = 3 * corrections.BATCH + 1
    with database.begin() as connection:
        values = [{"business_id": f"d{number}", "body": b"", "status": "sent"} for number in range(count)]
        connection.execute(insert(OUTBOX), values)
        connection.execute(OUTBOX.update().values(created_at=database_time()))
    assert (
        apply_corrections(database, (finding(f"d{number}") for number in range(count)))
        == [CorrectionStep.RESENT] * count
    )
    with database.connect() as connection:
        pending = connection.execute(text("SELECT count(*) FROM warren_outbox WHERE status = 'pending'")).scalar_one()
    assert pending == count


@pytest.mark.parametrize("status", ["sent", "done", "failed"])
def test_a_message_that_the_receiver_may_have_forgotten_is_not_sent_again(outbox: Engine, status: str) -> None:
    written = OUTBOX.update().where(OUTBOX.c.business_id == status)
    for days, step in ((5.9, "resent"), (6.1, "too_old"), (8, "too_old")):
        with outbox.begin() as connection:
            connection.execute(written.values(status=status, created_at=database_time(-days * DAY_S)))
        assert steps(outbox, [finding(status)]) == {status: step}
        assert rows(outbox)[status][1] == ("pending" if step == "resent" else status)
    assert apply_corrections(outbox, [finding(status)], keep=timedelta(days=10)) == [CorrectionStep.RESENT]


def test_a_row_without_a_time_is_too_old(outbox: Engine) -> None:
    """The time of a second sending says nothing of the first."""
    own = OUTBOX.update().where(OUTBOX.c.business_id == "sent")
    for attempt, step in ((2, "too_old"), (1, "resent")):
        with outbox.begin() as connection:
            connection.execute(own.values(created_at=None, sent_at=database_time(), attempt=attempt))
        assert steps(outbox, [finding("sent")]) == {"sent": step}


def test_a_message_that_the_outbox_may_have_forgotten_is_not_reversed(outbox: Engine) -> None:
    strange = finding("strange", "reverse", is_unexpected=True, route="corrections")
    long_ago = datetime.now(UTC) - timedelta(days=6, hours=1)
    assert steps(outbox, [replace(strange, at=long_ago)]) == {"strange": "too_old"}
    assert steps(outbox, [strange]) == {"strange": "left"}
    assert steps(outbox, [replace(strange, at=datetime.now(UTC))]) == {"strange": "added"}


def test_a_row_of_any_kind_is_known(outbox: Engine) -> None:
    with outbox.begin() as connection:
        connection.execute(OUTBOX.update().where(OUTBOX.c.business_id.in_(["done", "sent"])).values(kind="payment"))
        Outbox(routing_key="receipts").add(connection, b"", business_id="a receipt", kind="receipt")
    unexpected = [finding(name, "reverse", True, "corrections") for name in ("sent", "a receipt", "reversed/reverse")]
    assert steps(outbox, [finding("done"), *unexpected]) == {
        "done": "resent", "sent": "outdated", "a receipt": "left", "reversed/reverse": "left"
    }  # fmt: skip
    counted = {row[0] for piece in outbox_rows(outbox) for row in piece}
    assert counted == {"pending", "sent", "done", "failed", "confirming"}


def test_a_refused_row_stays_refused_after_it_failed(outbox: Engine) -> None:
    with outbox.begin() as connection:
        own = OUTBOX.update().where(OUTBOX.c.business_id == "failed")
        connection.execute(own.values(refused_at=database_time(), last_error="refused: closed account"))
    assert "failed" not in {row[0] for piece in outbox_rows(outbox) for row in piece}
    assert steps(outbox, [finding("failed")]) == {"failed": "outdated"}


def test_a_correction_is_made_once_and_sent_again_by_a_further_attempt(outbox: Engine) -> None:
    first = finding("sent", "correct", route="corrections")
    again = replace(first, headers={**first.headers, "attempt": "2"})
    assert steps(outbox, [first]) == {"sent": "added"}
    before = rows(outbox)
    assert steps(outbox, [again]) == {"sent": "on_its_way"}
    with outbox.begin() as connection:
        own = OUTBOX.update().where(OUTBOX.c.business_id == first.message_id)
        connection.execute(own.values(status="sent", sent_at=database_time()))
    assert steps(outbox, [again]) == {"sent": "resent"}
    assert rows(outbox) == before


def test_a_correction_that_went_out_with_another_body_is_not_sent_again_in_its_old_form(outbox: Engine) -> None:
    first = replace(finding("sent", "correct", route="corrections"), body=b'{"right": {"amount": 100}}')
    other = replace(first, body=b'{"right": {"amount": 120}}')
    own = OUTBOX.update().where(OUTBOX.c.business_id == first.message_id)
    assert steps(outbox, [first]) == {"sent": "added"}
    assert steps(outbox, [other]) == {"sent": "on_its_way"}
    for status in ("sent", "done", "failed"):
        with outbox.begin() as connection:
            connection.execute(own.values(status=status, sent_at=database_time()))
        before = rows(outbox)
        assert steps(outbox, [other]) == {"sent": "left"}
        assert rows(outbox) == before
    assert steps(outbox, [first]) == {"sent": "resent"}


def test_a_missing_database_is_reported_without_its_password() -> None:
    engine = create_engine(f"postgresql+psycopg://warren:secret@127.0.0.1:{free_port()}/postgres")
    with pytest.raises(CannotConnect, match="cannot connect to") as found:
        apply_corrections(engine, [finding("a")])
    assert "secret" not in str(found.value)
