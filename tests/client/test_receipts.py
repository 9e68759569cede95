"""The effect of receipts on rows, in both databases: as messages and as calls, in time, late, twice and unmatched."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from tests.client.awaited_rows import Came, be_late, chase, chase_and_relay, relay, send
from tests.client.relayed_rows import add, change, drain, rows, statuses
from tests.unit.client.outbox.scripted import ScriptedTransport
from warren.client.errors import CannotConvert
from warren.client.machine.publishes import Message
from warren.client.outbox import Outbox
from warren.client.receipts import ChasingSettings, Marked, Receipts, receipt_for
from warren.client.tables import Executor, database_time
from warren.wire.properties import Properties

AT_ONCE = ChasingSettings(resends=0, compensations=1)


def receipt(business_id: str, **outcome: Any) -> Came:
    return Came(receipt_for(Came(Message(b"", Properties(message_id=business_id, reply_to="receipts"))), **outcome))


def test_a_receipt_marks_a_row_as_done(database: Engine) -> None:
    send(database, "one", "two")
    Receipts(database).handler(receipt("one"))
    assert statuses(database) == {"one": "done", "two": "sent"}
    row = rows(database)["one"]
    assert (row.done_at is not None, row.due_at) == (True, None)


def test_a_receipt_that_comes_again_changes_nothing(database: Engine) -> None:
    send(database, "one")
    receipts = Receipts(database)
    receipts.handler(receipt("one"))
    before = rows(database)
    receipts.handler(receipt("one"))
    assert rows(database) == before
    assert (receipts.counts[Marked.DONE], receipts.counts[Marked.REPEATED]) == (1, 1)


def test_a_receipt_that_is_faster_than_the_mark_stays_done(database: Engine) -> None:
    add(database, "one", wants_receipt=True)
    transport = ScriptedTransport()

    async def answer() -> None:
        await asyncio.to_thread(Receipts(database).done, None, "one")

    transport.meanwhile = answer
    drain(database, transport)
    assert statuses(database) == {"one": "done"}


def test_a_call_marks_in_the_callers_transaction(database: Engine) -> None:
    send(database, "one", "two")
    receipts = Receipts(database)
    with database.connect() as connection:
        assert receipts.done(connection, "one")
        connection.rollback()
    assert statuses(database) == {"one": "sent", "two": "sent"}
    with Session(database) as session, session.begin():
        assert receipts.done(session, "two")
    assert statuses(database) == {"one": "sent", "two": "done"}


def test_a_receipt_for_an_unknown_message_is_logged_and_dropped(
    database: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    receipts = Receipts(database)
    assert not receipts.done(None, "unknown")
    assert not receipts.refused(None, "unknown")
    receipts.handler(receipt("unknown"))
    told = [record for record in caplog.records if record.name.startswith("warren.")]
    assert [record.message for record in told] == ["receipt.unknown"] * 3
    assert vars(told[0])["business_id"] == "unknown"


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        (Properties(), "it is no receipt: its type is None"),
        (Properties(type="order", correlation_id="one"), "it is no receipt: its type is 'order'"),
        (Properties(type="warren.receipt", headers={"x-outcome": "done"}), "it has no x-receipt-for"),
        (Properties(type="warren.receipt", correlation_id="one"), "has x-outcome None"),
        (Properties(type="warren.receipt", correlation_id="one", headers={"x-outcome": 7}), "has x-outcome 7"),
        (Properties(type="warren.receipt", headers={"x-receipt-for": 7, "x-outcome": "done"}), "no x-receipt-for"),
        (Properties(type="warren.receipt", headers={"x-receipt-for": "a\0", "x-outcome": "done"}), "is not text"),
    ],
)
def test_a_message_that_is_no_receipt_is_refused_as_unreadable(
    database: Engine, properties: Properties, reason: str
) -> None:
    send(database, "one")
    with pytest.raises(CannotConvert, match=reason):
        Receipts(database).handler(Came(Message(b"", properties)))
    assert statuses(database) == {"one": "sent"}


def test_a_receipt_of_another_program_needs_a_correlation_id_and_an_outcome(database: Engine) -> None:
    send(database, "one")
    properties = Properties(type="warren.receipt", correlation_id="one", headers={"x-outcome": "done"})
    Receipts(database).handler(Came(Message(b"", properties)))
    assert statuses(database) == {"one": "done"}


def test_a_failed_row_whose_receipt_comes_after_all_is_done(database: Engine) -> None:
    send(database, "one")
    be_late(database)
    chase(database, AT_ONCE)
    assert statuses(database) == {"one": "failed"}
    assert Receipts(database).done(None, "one")
    assert statuses(database) == {"one": "done"}


def test_a_refusal_is_compensated_for_without_resends(database: Engine) -> None:
    send(database, "one", compensation="reverse")
    Receipts(database).handler(receipt("one", outcome="refused", reason="no such account"))
    row = rows(database)["one"]
    assert (row.status, row.last_error) == ("refused", "refused: no such account")
    chase(database)
    assert statuses(database) == {"one": "reversing", "one/reverse": "pending"}
    assert rows(database)["one"].resends == 0


def test_a_refusal_without_compensation_fails_and_alerts_at_once(database: Engine) -> None:
    send(database, "one")
    assert Receipts(database).refused(None, "one", "no such account")
    alerts: list[Any] = []
    chase(database, alerts=alerts)
    assert statuses(database) == {"one": "failed"}
    assert [(alert.business_id, alert.reason) for alert in alerts] == [("one", "refused: no such account")]


def test_a_refusal_that_is_faster_than_the_mark_holds_back_no_row(database: Engine) -> None:
    add(database, "one", key="a", wants_receipt=True)
    transport = ScriptedTransport()

    async def answer() -> None:
        await asyncio.to_thread(Receipts(database).refused, None, "one", "no")

    transport.meanwhile = answer
    drain(database, transport)
    chase(database)
    assert statuses(database) == {"one": "failed"}
    add(database, "two", key="a")
    relay(database)
    assert statuses(database)["two"] == "sent"


def test_a_refusal_after_the_receipt_changes_nothing(database: Engine, caplog: pytest.LogCaptureFixture) -> None:
    send(database, "one")
    receipts = Receipts(database)
    receipts.done(None, "one")
    assert not receipts.refused(None, "one", "after all, no")
    assert statuses(database) == {"one": "done"}
    assert "receipt.late" in caplog.messages


def test_the_receipt_of_a_confirmation_makes_the_message_done(database: Engine) -> None:
    send(database, "one", compensation="confirm")
    be_late(database)
    chase(database, AT_ONCE)
    relay(database)
    assert statuses(database) == {"one": "confirming", "one/confirm": "sent"}
    assert Receipts(database).done(None, "one/confirm")
    assert statuses(database) == {"one": "done", "one/confirm": "done"}
    assert rows(database)["one"].done_at is not None


def test_a_late_receipt_of_a_message_that_is_being_confirmed_is_as_good(database: Engine) -> None:
    send(database, "one", compensation="confirm")
    be_late(database)
    chase(database, AT_ONCE)
    assert Receipts(database).done(None, "one")
    assert statuses(database) == {"one": "done", "one/confirm": "done"}


def test_the_receipt_of_a_reversal_makes_the_message_reversed(database: Engine) -> None:
    send(database, "one", compensation="reverse")
    be_late(database)
    chase(database, AT_ONCE)
    relay(database)
    assert Receipts(database).done(None, "one/reverse")
    assert statuses(database) == {"one": "reversed", "one/reverse": "done"}


def test_a_late_receipt_of_a_message_that_is_being_reversed_is_logged_and_the_reversal_goes_on(
    database: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    send(database, "one", compensation="reverse")
    be_late(database)
    chase(database, AT_ONCE)
    receipts = Receipts(database)
    assert not receipts.done(None, "one")
    assert statuses(database) == {"one": "reversing", "one/reverse": "pending"}
    [said] = [record for record in caplog.records if record.message == "receipt.late"]
    assert (said.levelno, vars(said)["business_id"]) == (logging.WARNING, "one")
    receipts.done(None, "one/reverse")
    assert not receipts.done(None, "one")
    assert statuses(database)["one"] == "reversed"


def test_a_message_whose_reversal_was_in_vain_is_not_done_by_a_late_receipt(database: Engine) -> None:
    send(database, "one", compensation="reverse")
    for _ in range(2):
        be_late(database)
        chase(database, AT_ONCE)
        relay(database)
    assert statuses(database) == {"one": "failed", "one/reverse": "failed"}
    receipts = Receipts(database)
    assert not receipts.done(None, "one")
    assert statuses(database)["one"] == "failed"
    assert receipts.done(None, "one/reverse")
    assert statuses(database) == {"one": "reversed", "one/reverse": "done"}


def test_a_refused_reversal_fails_with_its_message(database: Engine) -> None:
    send(database, "one", compensation="reverse")
    be_late(database)
    chase(database, AT_ONCE)
    relay(database)
    Receipts(database).refused(None, "one/reverse", "the money is gone")
    alerts: list[Any] = []
    chase(database, alerts=alerts)
    assert statuses(database) == {"one": "failed", "one/reverse": "failed"}
    assert [(alert.business_id, alert.reason) for alert in alerts] == [
        ("one", "one/reverse: refused: the money is gone")
    ]


class Books:
    """The rows that a sender keeps of complete messages."""

    def __init__(self) -> None:
        self.is_down = False

    def note(self, executor: Executor, business_id: str, status: str) -> None:
        executor.execute(text("INSERT INTO books VALUES (:id, :status)"), {"id": business_id, "status": status})
        if self.is_down:
            raise RuntimeError("the books are closed")

    def of(self, engine: Engine) -> list[tuple[str, str]]:
        with engine.connect() as connection:
            found = connection.execute(text("SELECT id, status FROM books ORDER BY id, status")).all()
        return [(row.id, row.status) for row in found]


@pytest.fixture
def books(database: Engine) -> Books:
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE books (id varchar(255), status varchar(20))"))
    return Books()


def test_settled_is_called_once_in_the_transaction_of_the_mark(database: Engine, books: Books) -> None:
    receipts = Receipts(database, books.note)
    send(database, "paid")
    send(database, "confirmed", compensation="confirm")
    send(database, "reversed", compensation="reverse")
    receipts.done(None, "paid")
    for _ in range(3):
        chase_and_relay(database)
    for _ in range(2):
        for business_id in ("paid", "confirmed/confirm", "confirmed", "reversed/reverse", "reversed"):
            receipts.done(None, business_id)
    assert books.of(database) == [("confirmed", "done"), ("paid", "done"), ("reversed", "reversed")]


def test_a_mark_is_rolled_back_with_a_failed_settled(database: Engine, books: Books) -> None:
    send(database, "one")
    receipts = Receipts(database, books.note)
    books.is_down = True
    with pytest.raises(RuntimeError, match="the books are closed"):
        receipts.handler(receipt("one"))
    assert (statuses(database), books.of(database)) == ({"one": "sent"}, [])
    books.is_down = False
    receipts.handler(receipt("one"))
    assert (statuses(database), books.of(database)) == ({"one": "done"}, [("one", "done")])


def test_settled_is_not_called_again_for_a_done_message_that_is_sent_again(database: Engine, books: Books) -> None:
    send(database, "one")
    receipts = Receipts(database, books.note)
    receipts.done(None, "one")
    with database.begin() as transaction:
        Outbox().resend(transaction, "one")
    relay(database)
    assert statuses(database) == {"one": "sent"}
    assert receipts.done(None, "one")
    assert (statuses(database), books.of(database)) == ({"one": "done"}, [("one", "done")])


def test_receipts_that_come_at_once_call_settled_once(database: Engine, books: Books) -> None:
    send(database, "one", compensation="reverse")
    be_late(database)
    chase(database, AT_ONCE)
    receipts = Receipts(database, books.note)
    with ThreadPoolExecutor(4) as threads:
        for marked in [threads.submit(receipts.done, None, each) for each in ["one/reverse", "one"] * 4]:
            marked.result()
    assert (statuses(database)["one"], books.of(database)) == ("reversed", [("one", "reversed")])


def test_a_row_that_wants_no_receipt_may_get_one(database: Engine) -> None:
    add(database, "one")
    relay(database)
    change(database, "one", sent_at=database_time())
    assert Receipts(database).done(None, "one")
    assert statuses(database) == {"one": "done"}
