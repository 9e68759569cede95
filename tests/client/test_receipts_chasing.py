"""The chaser, in both databases: overdue rows are sent again, compensated, and reported."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, update

from tests.client.awaited_rows import FEW, be_late, chase, chase_and_relay, relay, seconds_until_due, send, sent_ids
from tests.client.relayed_rows import DEADLINE_S, add, change, drain_until, refusing, rows, statuses
from tests.support.deadlines import until
from tests.unit.client.outbox.scripted import ScriptedTransport
from warren.client import Message, Properties
from warren.client.errors import CannotConnect, SettingsError, TablesRefused
from warren.client.outbox import Outbox
from warren.client.outbox.outbox import stored_properties
from warren.client.receipts import Alert, Chaser, ChasingSettings, Receipts, compensate, compensating_id
from warren.client.receipts.chaser import LEASE, OverdueRows
from warren.client.tables import LEASES, OUTBOX, database_time
from warren.client.tables.leases import LeaseHolder
from warren.wire.field_tables import Timestamp


def test_messages_that_are_not_overdue_are_left_alone(database: Engine) -> None:
    send(database, "one")
    add(database, "two", "three", wants_receipt=True)
    change(database, "three", status="done")
    before = rows(database)
    assert chase(database).rows == 0
    assert rows(database) == before


def test_an_overdue_row_is_sent_again_with_the_same_id_and_a_higher_attempt(database: Engine) -> None:
    send(database, "one", compensation="reverse")
    assert 280 < seconds_until_due(database, "one") <= 300
    be_late(database)
    chased = chase(database)
    assert (chased.resent, chased.compensated, chased.failed) == (1, 0, 0)
    row = rows(database)["one"]
    assert (row.status, row.due_at, row.resends) == ("pending", None, 1)
    [[again]] = relay(database).calls
    assert again.message.properties is not None
    headers = again.message.properties.headers or {}
    assert (again.message.properties.message_id, headers["x-attempt"]) == ("one", 2)
    assert 100 < seconds_until_due(database, "one") <= 120


def test_a_receipt_between_two_resends_ends_it(database: Engine) -> None:
    send(database, "one", compensation="reverse")
    assert chase_and_relay(database) == ["one"]
    Receipts(database).done(None, "one")
    assert chase_and_relay(database) == []
    assert statuses(database) == {"one": "done"}


@pytest.mark.parametrize("kind", ["confirm", "reverse"])
def test_a_message_without_receipt_is_resent_then_compensated_for_then_alerted(database: Engine, kind: str) -> None:
    alerts: list[Alert] = []
    send(database, "one", compensation=kind)
    sent = [chase_and_relay(database, alerts) for _ in range(7)]
    other = f"one/{kind}"
    assert sent == [["one"], ["one"], [other], [other], [other], [], []]
    assert statuses(database) == {"one": "failed", other: "failed"}
    reason = "no receipt came after 2 resends"
    assert rows(database)[other].last_error == reason
    assert alerts == [Alert("one", "message", kind, "", "", 3, 2, f"{other}: {reason}")]


def test_a_message_without_compensation_alerts_after_its_resends(database: Engine) -> None:
    alerts: list[Alert] = []
    send(database, "one", routing_key="orders")
    sent = [chase_and_relay(database, alerts) for _ in range(4)]
    assert sent == [["one"], ["one"], [], []]
    assert statuses(database) == {"one": "failed"}
    assert alerts == [Alert("one", "message", "", "", "orders", 3, 2, "no receipt came after 2 resends")]


def test_by_default_a_message_is_resent_and_then_reversed(database: Engine) -> None:
    send(database, "one", compensation="reverse")
    sent = []
    for _ in range(10):
        be_late(database)
        chase(database, ChasingSettings())
        sent += sent_ids(relay(database))
    assert sent == ["one"] * 3 + ["one/reverse"] * 5


def test_a_compensating_row_is_the_message_with_an_id_of_its_own(database: Engine) -> None:
    message = Message(b"7 euros", Properties(type="withdrawal", reply_to="receipts", headers={"branch": 9}))
    with database.begin() as transaction:
        Outbox(exchange="bank", routing_key="withdrawals").add(
            transaction,
            message,
            business_id="one",
            ordering_key="account 7",
            wants_receipt=True,
            compensation="reverse",
        )
    relay(database)
    be_late(database)
    chase(database, ChasingSettings(resends=0))
    one, other = rows(database).values()
    same = ("body", "exchange", "routing_key", "ordering_key", "amount", "currency", "wants_receipt")
    assert [getattr(other, name) for name in same] == [getattr(one, name) for name in same]
    assert (other.business_id, other.kind, other.settles, other.compensation) == ("one/reverse", "reversal", "one", "")
    properties = stored_properties(other.properties)
    assert (properties.type, properties.reply_to) == ("withdrawal", "receipts")
    written = Timestamp(int(one.created_at.timestamp()))
    assert properties.headers == {"branch": 9, "x-kind": "reversal", "x-settles": "one", "x-written-at": written}


def test_a_reversal_waits_behind_what_its_key_has_to_send_before(database: Engine) -> None:
    send(database, "a1", compensation="reverse", key="a")
    add(database, "a2", key="a")
    be_late(database)
    chase(database, ChasingSettings(resends=0))
    assert sent_ids(relay(database)) == ["a2", "a1/reverse"]


@pytest.mark.parametrize("business_id", ["x" * 255, "ä" * 127])
def test_messages_with_long_ids_are_compensated_for_too(database: Engine, business_id: str) -> None:
    send(database, business_id, compensation="reverse")
    be_late(database)
    chase(database, ChasingSettings(resends=0))
    own_id = compensating_id(business_id, "reverse")
    assert sent_ids(relay(database)) == [own_id]
    assert rows(database)[own_id].settles == business_id
    Receipts(database).done(None, own_id)
    assert statuses(database) == {business_id: "reversed", own_id: "done"}


def test_a_message_that_cannot_be_compensated_for_fails_and_alerts(database: Engine) -> None:
    alerts: list[Alert] = []
    send(database, "one", compensation="reverse")
    add(database, "one/reverse")
    be_late(database)
    chase(database, ChasingSettings(resends=0), alerts)
    assert statuses(database)["one"] == "failed"
    [alert] = alerts
    assert "it cannot be compensated for: the outbox has another message with business id 'one/reverse'" in alert.reason


def test_a_reversal_that_cannot_be_routed_fails_with_its_message(database: Engine) -> None:
    alerts: list[Alert] = []
    send(database, "one", compensation="reverse")
    be_late(database)
    chase(database, ChasingSettings(resends=0), alerts)
    transport = ScriptedTransport(refusing("one"))
    drain_until(database, transport, lambda: statuses(database)["one/reverse"] == "failed")
    chase(database, FEW, alerts)
    assert statuses(database) == {"one": "failed", "one/reverse": "failed"}
    assert [(alert.business_id, "NO_ROUTE" in alert.reason) for alert in alerts] == [("one", True)]


def test_a_row_that_wants_a_receipt_and_cannot_be_routed_alerts(database: Engine) -> None:
    alerts: list[Alert] = []
    add(database, "one", "two", wants_receipt=True)
    add(database, "three")
    transport = ScriptedTransport(refusing("one", "three"))
    drain_until(database, transport, lambda: list(statuses(database).values()) == ["failed", "sent", "failed"])
    for _ in range(2):
        chase(database, FEW, alerts)
    assert [alert.business_id for alert in alerts] == ["one"]


def test_a_row_that_fails_again_alerts_again(database: Engine) -> None:
    alerts: list[Alert] = []
    send(database, "one")
    for _ in range(2):
        be_late(database)
        chase(database, ChasingSettings(resends=0), alerts)
        with database.begin() as transaction:
            Outbox().resend(transaction, "one")
        relay(database)
    assert [alert.business_id for alert in alerts] == ["one", "one"]


def test_a_failed_message_that_is_sent_again_by_hand_has_its_reversal_sent_again(database: Engine) -> None:
    send(database, "one", compensation="reverse")
    for _ in range(7):
        chase_and_relay(database)
    assert statuses(database) == {"one": "failed", "one/reverse": "failed"}
    with database.begin() as transaction:
        Outbox().resend(transaction, "one")
    relay(database)
    assert [chase_and_relay(database) for _ in range(3)] == [["one"], ["one"], ["one/reverse"]]
    Receipts(database).done(None, "one/reverse")
    assert statuses(database) == {"one": "reversed", "one/reverse": "done"}


def test_compensating_in_ones_own_transaction_is_done_once(database: Engine) -> None:
    send(database, "one")
    with database.begin() as transaction:
        assert compensate(transaction, "one", "reverse") == "one/reverse"
        transaction.rollback()
    assert statuses(database) == {"one": "sent"}
    for _ in range(2):
        with database.begin() as transaction:
            assert compensate(transaction, "one", "reverse") == "one/reverse"
            assert compensate(transaction, "nobody", "reverse") is None
    assert statuses(database) == {"one": "reversing", "one/reverse": "pending"}


def test_an_exception_of_on_alert_does_no_harm(database: Engine, caplog: pytest.LogCaptureFixture) -> None:
    send(database, "one", "two")
    be_late(database)

    def explode(alert: Alert) -> None:
        raise RuntimeError(f"the pager is off for {alert.business_id}")

    chaser = Chaser(database, ChasingSettings(resends=0), on_alert=explode)
    asyncio.run(chaser.once())
    assert statuses(database) == {"one": "failed", "two": "failed"}
    assert (chaser.failed, chaser.alerts) == (2, 2)
    assert caplog.messages.count("receipt.alert") == caplog.messages.count("receipt.alert_failed") == 2
    [first, *_] = [record for record in caplog.records if record.message == "receipt.alert"]
    assert (first.levelno, vars(first)["business_id"]) == (logging.ERROR, "one")
    assert chase(database).rows == 0
    assert all(row.alerted_at is not None for row in rows(database).values())


def test_a_chaser_that_died_before_it_marked_an_alert_has_its_successor_raise_it(database: Engine) -> None:
    send(database, "one")
    be_late(database)
    claim = LeaseHolder(database, LEASE, 10)
    claim.take()
    overdue = OverdueRows(claim, ChasingSettings(resends=0))
    overdue.chase()
    told = overdue.alerts()
    claim.release()
    alerts: list[Alert] = []
    chase(database, alerts=alerts)
    assert told is not None
    assert alerts == [alert for _, alert in told]
    chase(database, alerts=alerts)
    assert len(alerts) == 1


def stolen(engine: Engine, by: LeaseHolder) -> None:
    with engine.begin() as connection:
        connection.execute(update(LEASES).values(expires_at=database_time(-1)))
    assert by.take()


def test_a_chaser_that_lost_its_lease_writes_nothing(database: Engine) -> None:
    send(database, "late", "other", compensation="reverse")
    change(database, "other", status="failed")
    be_late(database)
    claim, thief = LeaseHolder(database, LEASE, 10), LeaseHolder(database, LEASE, 10)
    overdue = OverdueRows(claim, FEW)
    assert claim.take()
    stolen(database, thief)
    before = rows(database)
    assert overdue.chase() is None
    assert overdue.alerts() is None
    assert not overdue.mark_alerted([row.id for row in before.values()])
    assert rows(database) == before
    assert thief.renew()


def test_of_two_chasers_one_is_active(database: Engine) -> None:
    send(database, "one")
    be_late(database)
    first = LeaseHolder(database, LEASE, 10)
    assert first.take()
    assert chase(database).rows == 0
    first.release()
    assert chase(database).rows == 1


async def within(work: Awaitable[Any]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        await work


def test_a_chaser_runs_until_it_is_stopped_and_another_takes_over(database: Engine) -> None:
    settings = ChasingSettings(resends=9, poll_s=0.01, lease_s=0.3)

    async def main() -> None:
        runs = {each: asyncio.create_task(each.run()) for each in [Chaser(database, settings) for _ in range(2)]}
        while runs:
            await asyncio.to_thread(be_late, database)
            await until(lambda: any(each.resent for each in runs))
            [active] = [each for each in runs if each.resent]
            active.stop()
            await runs.pop(active)
            await asyncio.to_thread(relay, database)

    send(database, "one")
    asyncio.run(within(main()))
    assert rows(database)["one"].resends == 2


def test_more_rows_than_a_batch_are_dealt_with_batch_by_batch(database: Engine) -> None:
    send(database, *[f"row {number}" for number in range(25)], compensation="confirm")
    be_late(database)
    assert chase(database, ChasingSettings(resends=0, batch_rows=10)).compensated == 25
    assert set(statuses(database).values()) == {"confirming", "pending"}


def test_a_clock_that_is_set_forward_costs_one_resend(database: Engine) -> None:
    send(database, "one", compensation="reverse")
    # an hour passes within a second
    with database.begin() as connection:
        an_hour = {"sent_at": database_time(-3600), "due_at": database_time(-3300)}
        connection.execute(update(OUTBOX).values(an_hour))
    assert chase(database).resent == 1
    relay(database)
    assert chase(database).rows == 0
    assert 100 < seconds_until_due(database, "one") <= 120


def test_a_clock_that_is_set_back_does_not_prolong_waits(database: Engine) -> None:
    send(database, "one", "two")
    with database.begin() as connection:
        connection.execute(update(OUTBOX).values(sent_at=database_time(3600), due_at=database_time(3900)))
    chase(database)
    assert statuses(database) == {"one": "sent", "two": "sent"}
    assert 280 < seconds_until_due(database, "one") <= 300
    be_late(database)
    assert chase(database).resent == 2


def test_a_chaser_needs_a_database_and_its_tables_at_the_start(empty_database: Engine) -> None:
    with pytest.raises(TablesRefused, match="the outbox tables are missing"):
        asyncio.run(Chaser(empty_database).run())
    away = create_engine("postgresql+psycopg://nobody@127.0.0.1:1/nothing")
    with pytest.raises(CannotConnect, match="onnection refused"):
        asyncio.run(Chaser(away).run())


@pytest.mark.parametrize(
    "wrong", [{"resends": -1}, {"compensations": 0}, {"batch_rows": 0}, {"lease_s": 61.0}, {"poll_s": 0.0}]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        ChasingSettings(**wrong)
