"""Receipts in rare combinations: replaced while sent, reversed after pruning, completed twice; in both databases."""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, select, text

from tests.client.awaited_rows import Came, be_late, chase, relay, send, sent_ids
from tests.client.relayed_rows import AT_ONCE, add, change, drain, drain_until, refusing, rows, statuses
from tests.unit.client.outbox.scripted import ScriptedTransport
from warren.client.errors import CannotConvert, SettingsError
from warren.client.inbox import Inbox, Refused, Subject, subject_of
from warren.client.machine.publishes import Message
from warren.client.outbox import Outbox, RelaySettings
from warren.client.outbox.outbox import stored_properties
from warren.client.receipts import Alert, ChasingSettings, Receipts, compensate
from warren.client.tables import INBOX, Executor, database_time
from warren.wire.field_tables import Table, Timestamp
from warren.wire.properties import Properties

NO_RESENDS = ChasingSettings(resends=0, compensations=1)
DAY = timedelta(days=1)


def replace(engine: Engine, body: bytes) -> None:
    with engine.begin() as transaction:
        Outbox().add(transaction, body, business_id="a", replace=True)


@pytest.mark.parametrize("answer", [lambda message: None, refusing("a")])
def test_a_row_that_is_replaced_while_it_is_sent_is_sent_as_it_is(database: Engine, answer: Any) -> None:
    add(database, "a")
    transport = ScriptedTransport(answer)

    async def meanwhile() -> None:
        transport.meanwhile = None
        await asyncio.to_thread(replace, database, b"b")

    transport.meanwhile = meanwhile
    drain(database, transport, RelaySettings(tries=1))
    drain(database, transport, RelaySettings(tries=1))
    assert transport.bodies == [[b"a"], [b"b"]]
    row = rows(database)["a"]
    assert (row.status, row.body, row.last_error) == ("sent", b"b", None)


class Counter:
    """A consumer that counts its work and its undo calls."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.did: list[str] = []
        self.inbox = Inbox(engine, "counter", keep=7 * DAY)
        self.handle: Callable[[Came], None] = self.inbox.handler(self.do, undo=self.undo, receipts=Outbox())

    def do(self, connection: Connection, message: Came) -> None:
        self.did.append("do")

    def undo(self, connection: Connection, message: Came) -> None:
        self.did.append("undo")

    def receipt(self, business_id: str) -> Table:
        row = rows(self.engine)[f"{business_id}/receipt/counter"]
        return stored_properties(row.properties).headers or {}

    def rows(self) -> dict[str, Any]:
        with self.engine.connect() as connection:
            return {row.business_id: row for row in connection.execute(select(INBOX))}


@pytest.fixture
def counter(database: Engine) -> Counter:
    return Counter(database)


def original() -> Came:
    return Came(Message(b"", Properties(message_id="a", reply_to="receipts")))


def written(age: timedelta) -> Timestamp:
    return Timestamp(int((datetime.now(UTC) - age).timestamp()))


def old(age: timedelta, reply_to: str | None = "receipts") -> Came:
    headers: Table = {"x-written-at": written(age)}
    return Came(Message(b"", Properties(message_id="a", reply_to=reply_to, headers=headers)))


def standing_for(kind: str, age: timedelta) -> Came:
    headers: Table = {"x-kind": kind, "x-settles": "a", "x-written-at": written(age)}
    return Came(Message(b"", Properties(message_id=f"a/{kind}", reply_to="receipts", headers=headers)))


@pytest.mark.parametrize("kind", ["reversal", "confirmation"])
def test_a_message_that_may_have_been_done_and_forgotten_is_refused(counter: Counter, kind: str) -> None:
    counter.handle(original())
    with counter.engine.begin() as connection:
        connection.execute(text("DELETE FROM warren_inbox"))
    counter.handle(standing_for(kind, 8 * DAY))
    assert counter.did == ["do"]
    said = counter.receipt(f"a/{kind}")
    assert said["x-outcome"] == "refused"
    assert "UTC, and may have been done and forgotten since" in str(said["x-reason"])


def test_a_resend_that_may_have_been_done_and_forgotten_is_refused(counter: Counter) -> None:
    counter.handle(old(timedelta()))
    with counter.engine.begin() as connection:
        connection.execute(text("DELETE FROM warren_inbox"))
    counter.handle(old(8 * DAY))
    assert (counter.did, counter.rows()["a"].outcome) == (["do"], "refused")
    said = counter.receipt("a")
    assert said["x-outcome"] == "refused"
    assert "UTC, and may have been done and forgotten since" in str(said["x-reason"])


def test_a_resend_with_a_pruned_row_is_parked_if_no_receipt_is_possible(counter: Counter) -> None:
    silent: Callable[[Came], None] = counter.inbox.handler(counter.do)
    for handle, message in ((counter.handle, old(8 * DAY, reply_to=None)), (silent, old(8 * DAY))):
        with pytest.raises(CannotConvert, match="forgotten since: handle it by hand, or send it again without x-"):
            handle(message)
    assert (counter.did, counter.rows()) == ([], {})
    counter.handle(original())
    assert counter.did == ["do"]


def test_a_resend_that_is_remembered_or_young_enough_is_a_duplicate_or_handled(counter: Counter) -> None:
    counter.handle(old(6 * DAY))
    counter.handle(old(800 * DAY))
    assert (counter.did, counter.inbox.duplicates) == (["do"], 1)


def test_a_message_that_cannot_have_been_forgotten_is_reversed_or_confirmed_at_any_age(counter: Counter) -> None:
    counter.handle(standing_for("confirmation", 6 * DAY))
    assert counter.did == ["do"]
    counter.handle(standing_for("reversal", 6 * DAY))
    assert counter.did == ["do", "undo"]
    assert counter.receipt("a/reversal")["x-outcome"] == "done"


def test_a_remembered_message_is_reversed_at_any_age(counter: Counter) -> None:
    counter.handle(original())
    counter.handle(standing_for("reversal", 800 * DAY))
    assert counter.did == ["do", "undo"]


def test_a_row_that_is_taken_back_is_kept_from_then_on(counter: Counter) -> None:
    counter.handle(original())
    with counter.engine.begin() as connection:
        connection.execute(INBOX.update().values(received_at=database_time(-6 * 86_400)))
    counter.handle(standing_for("reversal", 6 * DAY))
    assert datetime.now(UTC) - counter.rows()["a"].received_at < DAY


def test_taking_back_by_hand_refuses_what_may_be_forgotten(counter: Counter) -> None:
    with counter.engine.begin() as connection, pytest.raises(Refused, match="done and forgotten"):
        counter.inbox.take_back(connection, "a", datetime.now(UTC) - 8 * DAY)


def test_a_reversal_of_what_never_came_is_no_duplicate(counter: Counter, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    counter.handle(standing_for("reversal", DAY))
    assert (counter.inbox.handled, counter.inbox.duplicates) == (1, 0)
    counter.handle(standing_for("reversal", DAY))
    assert (counter.inbox.handled, counter.inbox.duplicates) == (1, 1)
    assert caplog.messages.count("message.duplicated") == 1


def test_a_program_that_records_by_hand_finds_the_message_of_a_compensation() -> None:
    assert subject_of(original().properties) == Subject("a")
    assert subject_of(old(DAY).properties).written_at is not None
    found = subject_of(standing_for("confirmation", DAY).properties)
    assert (found.business_id, found.is_reversal, found.written_at is not None) == ("a", False, True)
    assert subject_of(standing_for("reversal", DAY).properties).is_reversal
    far: Table = {"x-kind": "reversal", "x-settles": "a", "x-written-at": Timestamp(2**62)}
    assert subject_of(Properties(message_id="b", headers=far)) == Subject("a", True, None)


def test_a_refusal_is_always_logged(database: Engine, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(connection: Connection, message: Came) -> None:
        raise Refused("not today")

    Inbox(database, "till").handler(refuse)(Came(Message(b"", Properties(message_id="a"))))
    [said] = [record for record in caplog.records if record.message == "message.refused"]
    facts = vars(said)
    assert (said.levelno, facts["consumer"], facts["business_id"], facts["reason"]) == (
        logging.WARNING,
        "till",
        "a",
        "not today",
    )


def test_a_reversal_does_not_wait_for_a_row_that_holds_back_its_key(database: Engine) -> None:
    send(database, "a1", compensation="reverse", key="a")
    add(database, "a2", "a3", key="a")
    drain_until(database, ScriptedTransport(refusing("a2")), lambda: statuses(database)["a2"] == "failed")
    be_late(database)
    chase(database, NO_RESENDS)
    transport = ScriptedTransport(refusing("a2"))
    drain(database, transport, AT_ONCE)
    assert sent_ids(transport) == ["a1/reverse"]
    assert statuses(database)["a3"] == "pending"


def test_a_message_that_was_never_sent_and_could_not_be_reversed_lets_its_key_go_on(database: Engine) -> None:
    add(database, "a1", "a2", key="a", wants_receipt=True)
    drain_until(database, ScriptedTransport(refusing("a1")), lambda: statuses(database)["a1"] == "failed")
    with database.begin() as transaction:
        compensate(transaction, "a1", "reverse")
    drain_until(database, ScriptedTransport(refusing("a1")), lambda: statuses(database)["a1/reverse"] == "failed")
    chase(database)
    assert statuses(database)["a1"] == "failed"
    change(database, "a2", status="pending", sent_at=None, due_at=None)
    assert sent_ids(relay(database)) == ["a2"]


def test_a_refused_message_is_not_confirmed_and_its_reason_is_kept(database: Engine) -> None:
    alerts: list[Alert] = []
    send(database, "one", compensation="confirm")
    Receipts(database).refused(None, "one", "no such account")
    chase(database, alerts=alerts)
    assert statuses(database) == {"one": "failed"}
    assert [alert.reason for alert in alerts] == ["refused: no such account"]


def test_a_refused_row_that_wanted_no_receipt_alerts(database: Engine) -> None:
    alerts: list[Alert] = []
    add(database, "one")
    relay(database)
    Receipts(database).refused(None, "one", "no")
    chase(database, alerts=alerts)
    assert [(alert.business_id, alert.reason) for alert in alerts] == [("one", "refused: no")]


def test_a_reason_that_is_no_text_is_kept_as_far_as_it_is(database: Engine) -> None:
    send(database, "one")
    assert Receipts(database).refused(None, "one", "no\udc80 \x00money")
    assert rows(database)["one"].last_error == "refused: no? money"


def test_a_confirmation_in_vain_does_not_end_a_reversal(database: Engine) -> None:
    send(database, "one", compensation="confirm")
    be_late(database)
    chase(database, NO_RESENDS)
    relay(database)
    with database.begin() as transaction:
        compensate(transaction, "one", "reverse")
    be_late(database)
    chase(database, NO_RESENDS)
    assert statuses(database) == {"one": "reversing", "one/confirm": "failed", "one/reverse": "pending"}
    chase(database, NO_RESENDS)
    assert statuses(database)["one"] == "reversing"


def test_a_late_receipt_settles_the_confirmation_that_was_in_vain(database: Engine) -> None:
    send(database, "one", compensation="confirm")
    for _ in range(2):
        be_late(database)
        chase(database, NO_RESENDS)
        relay(database)
    assert statuses(database) == {"one": "failed", "one/confirm": "failed"}
    assert Receipts(database).done(None, "one")
    assert statuses(database) == {"one": "done", "one/confirm": "done"}


def test_settled_is_called_once_for_a_reversal_even_if_all_is_sent_again(database: Engine) -> None:
    told: list[tuple[str, str]] = []

    def settled(executor: Executor, business_id: str, status: str) -> None:
        told.append((business_id, status))

    send(database, "one", compensation="reverse")
    be_late(database)
    chase(database, NO_RESENDS)
    receipts = Receipts(database, settled)
    for _ in range(2):
        relay(database)
        assert receipts.done(None, "one/reverse")
        assert statuses(database) == {"one": "reversed", "one/reverse": "done"}
        with database.begin() as transaction:
            for business_id in ("one", "one/reverse"):
                Outbox().resend(transaction, business_id)
    assert told == [("one", "reversed")]


def test_a_compensation_message_is_not_compensated_for_itself(database: Engine) -> None:
    send(database, "one")
    with database.begin() as transaction:
        compensate(transaction, "one", "reverse")
        with pytest.raises(ValueError, match="'one/reverse' is a reversal itself"):
            compensate(transaction, "one/reverse", "reverse")


def test_a_receipt_cannot_be_due_before_a_message_is_sent() -> None:
    for wrong in ({"receipt_within_s": -1.0}, {"resent_receipt_within_s": -1.0}):
        with pytest.raises(SettingsError, match="are 0 or above"):
            RelaySettings(**wrong)  # type: ignore[arg-type]
