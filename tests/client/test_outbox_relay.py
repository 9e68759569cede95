"""The relay in both databases, with a scripted transport. Real brokers are in `test_outbox_brokers`."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text, update

from tests.client.relayed_rows import AT_ONCE, add, change, drain, drain_until, refusing, rows, silent_for, statuses
from tests.support.deadlines import in_event_loop, until
from tests.unit.client.outbox.scripted import ScriptedTransport
from warren.client.errors import CallTimeout, CannotConnect, SettingsError, TablesRefused
from warren.client.outbox import Relay, RelaySettings
from warren.client.outbox.table import LEASE, OutboxTable
from warren.client.tables import LEASES, OUTBOX, database_time
from warren.client.tables.leases import LeaseHolder
from warren.wire.field_tables import Timestamp


def test_rows_are_published_and_marked_after_the_confirm(database: Engine) -> None:
    add(database, "one", "two")
    transport = ScriptedTransport()
    seen: list[dict[str, str]] = []

    async def look() -> None:
        seen.append(statuses(database))

    transport.meanwhile = look
    assert drain(database, transport) == 2
    assert seen == [{"one": "pending", "two": "pending"}]
    assert statuses(database) == {"one": "sent", "two": "sent"}
    assert transport.bodies == [[b"one", b"two"]]
    assert [(row.attempt, row.sent_at is not None, row.due_at) for row in rows(database).values()] == [
        (1, True, None)
    ] * 2


def test_rows_of_a_key_wait_for_each_other_and_other_rows_do_not(database: Engine) -> None:
    add(database, "a1", "a2", key="a")
    add(database, "b1", key="b")
    add(database, "loose")
    transport = ScriptedTransport()
    drain(database, transport)
    assert [sorted(call) for call in transport.bodies] == [[b"a1", b"b1", b"loose"], [b"a2"]]


def test_a_refused_row_fails_after_its_tries_and_holds_back_its_key_alone(database: Engine) -> None:
    add(database, "a1", "a2", "a3", key="a")
    add(database, "b1", "b2", key="b")
    transport = ScriptedTransport(refusing("a2"))
    drain_until(database, transport, lambda: statuses(database)["a2"] == "failed")
    assert statuses(database) == {"a1": "sent", "a2": "failed", "a3": "pending", "b1": "sent", "b2": "sent"}
    assert sum(call.count(b"a2") for call in transport.bodies) == 3
    assert rows(database)["a2"].attempt == 3
    assert "1 came back, the first from exchange '' with key '': NO_ROUTE" in rows(database)["a2"].last_error
    assert drain(database, transport) == 0


def test_a_failed_row_is_sent_again_by_its_status_and_what_it_held_back_follows(database: Engine) -> None:
    add(database, "a1", "a2", key="a")
    transport = ScriptedTransport(refusing("a1"))
    drain_until(database, transport, lambda: statuses(database)["a1"] == "failed")
    change(database, "a1", status="pending")
    again = ScriptedTransport()
    assert drain(database, again) == 2
    assert again.bodies == [[b"a1"], [b"a2"]]
    assert (rows(database)["a1"].attempt, rows(database)["a1"].last_error) == (4, None)


def test_a_failed_row_that_is_given_up_lets_its_key_go_on(database: Engine) -> None:
    add(database, "a1", "a2", key="a")
    transport = ScriptedTransport(refusing("a1"))
    drain_until(database, transport, lambda: statuses(database)["a1"] == "failed")
    change(database, "a1", status="done")
    assert drain(database, ScriptedTransport()) == 1
    assert statuses(database)["a2"] == "sent"


def test_a_row_that_waits_for_its_next_try_holds_back_its_key(database: Engine) -> None:
    add(database, "a1", "a2", key="a")
    drain(database, ScriptedTransport(refusing("a1")), RelaySettings(backoff_s=60))
    again = ScriptedTransport()
    assert drain(database, again) == 0
    change(database, "a1", due_at=None)
    drain(database, again)
    assert again.bodies == [[b"a1"], [b"a2"]]


def test_a_resend_keeps_the_id_counts_up_and_does_not_wait(database: Engine) -> None:
    add(database, "a1", "a2", key="a")
    drain(database, ScriptedTransport(refusing("a2")), RelaySettings(tries=1))
    change(database, "a1", status="pending")
    transport = ScriptedTransport()
    assert drain(database, transport) == 1
    [[message]] = transport.calls
    assert message.message.properties is not None
    assert message.message.properties.message_id == "a1"
    headers = message.message.properties.headers or {}
    assert {name: headers[name] for name in ("x-attempt", "x-key")} == {"x-attempt": 2, "x-key": "a"}
    assert statuses(database) == {"a1": "sent", "a2": "failed"}


def written_at(transport: ScriptedTransport) -> object:
    [[message]] = transport.calls
    assert message.message.properties is not None
    return (message.message.properties.headers or {}).get("x-written-at")


def test_a_message_that_is_sent_again_keeps_the_time_it_was_written(database: Engine) -> None:
    add(database, "a")
    with database.begin() as connection:
        connection.execute(update(OUTBOX).values(created_at=datetime(2026, 1, 1, tzinfo=UTC)))
    for _ in range(2):
        transport = ScriptedTransport()
        drain(database, transport)
        assert written_at(transport) == Timestamp(1_767_225_600)
        change(database, "a", status="pending")


def test_a_row_that_says_nothing_of_when_it_was_written_says_from_then_on_when_it_was_sent(database: Engine) -> None:
    with database.begin() as connection:
        connection.execute(text("INSERT INTO warren_outbox (business_id, body) VALUES ('a', 'b')"))
    transport = ScriptedTransport()
    drain(database, transport)
    assert written_at(transport) is None
    sent_at = rows(database)["a"].sent_at
    change(database, "a", status="pending")
    transport = ScriptedTransport()
    drain(database, transport)
    assert written_at(transport) == Timestamp(int(sent_at.timestamp()))


def test_a_refused_resend_holds_back_no_row(database: Engine) -> None:
    add(database, "a1", key="a")
    drain(database, ScriptedTransport())
    change(database, "a1", status="pending")
    drain(database, ScriptedTransport(refusing("a1")), RelaySettings(tries=1))
    add(database, "a2", key="a")
    assert drain(database, ScriptedTransport()) == 1
    assert statuses(database) == {"a1": "failed", "a2": "sent"}


def test_an_undecided_row_is_sent_again_and_holds_back_its_key_meanwhile(database: Engine) -> None:
    add(database, "a1", "a2", key="a")
    add(database, "loose")
    drain(database, ScriptedTransport(silent_for("a1")), RelaySettings(backoff_s=60))
    assert statuses(database) == {"a1": "pending", "a2": "pending", "loose": "sent"}
    assert (rows(database)["a1"].attempt, rows(database)["a1"].last_error) == (1, "no confirm")
    transport = ScriptedTransport()
    assert drain(database, transport) == 0
    change(database, "a1", due_at=None)
    drain(database, transport)
    assert transport.bodies == [[b"a1"], [b"a2"]]


def test_repeated_silence_about_one_row_is_no_refusal(database: Engine) -> None:
    add(database, "one")
    for number in range(3):
        add(database, f"other {number}")
        assert drain(database, ScriptedTransport(silent_for("one")), RelaySettings(tries=1, backoff_s=60)) == 1
        change(database, "one", due_at=None)
    assert (statuses(database)["one"], rows(database)["one"].attempt) == ("pending", 3)


def test_a_broker_that_cannot_be_reached_leaves_the_rows_untouched(database: Engine) -> None:
    add(database, "one", "two")
    before = rows(database)
    with pytest.raises(CallTimeout, match="no confirm"):
        drain(database, ScriptedTransport(silent_for("one", "two")))
    assert rows(database) == before


def test_a_row_that_becomes_visible_late_is_not_skipped(database: Engine) -> None:
    add(database, "one", "two", "three")
    with database.begin() as transaction:
        transaction.execute(OUTBOX.delete().where(OUTBOX.c.business_id == "two"))
    drain(database, ScriptedTransport())
    with database.begin() as transaction:
        transaction.execute(OUTBOX.insert().values(id=2, business_id="two", body=b"two"))
    assert drain(database, ScriptedTransport()) == 1
    assert statuses(database)["two"] == "sent"


def test_more_rows_than_a_batch_are_all_sent_in_order(database: Engine) -> None:
    names = [f"{number}" for number in range(25)]
    add(database, *names, key="a")
    transport = ScriptedTransport()
    assert drain(database, transport, RelaySettings(batch_rows=10)) == 25
    assert transport.bodies == [[name.encode()] for name in names]


def test_a_row_that_wants_a_receipt_has_a_date_for_it(database: Engine) -> None:
    add(database, "one", wants_receipt=True)
    settings = RelaySettings(receipt_within_s=300, resent_receipt_within_s=120)
    for within_s in (300, 120):
        drain(database, ScriptedTransport(), settings)
        row = rows(database)["one"]
        assert (row.due_at - row.sent_at).total_seconds() == pytest.approx(within_s, abs=1)
        change(database, "one", status="pending", due_at=None)


def test_a_receipt_that_is_faster_than_the_mark_stays(database: Engine) -> None:
    add(database, "one", wants_receipt=True)
    transport = ScriptedTransport()

    async def receipt() -> None:
        change(database, "one", status="done")

    transport.meanwhile = receipt
    drain(database, transport)
    assert statuses(database) == {"one": "done"}


def stolen(engine: Engine, thief: LeaseHolder) -> Callable[[], Awaitable[None]]:
    async def steal() -> None:
        with engine.begin() as transaction:
            transaction.execute(update(LEASES).values(expires_at=database_time(-1)))
        assert thief.take()

    return steal


def test_a_relay_that_lost_its_lease_in_mid_batch_marks_nothing(database: Engine) -> None:
    add(database, "one", "two", "refused")
    before = rows(database)
    thief = LeaseHolder(database, LEASE, 10)
    transport = ScriptedTransport(refusing("refused"))
    transport.meanwhile = stolen(database, thief)
    assert drain(database, transport) == 0
    assert rows(database) == before
    assert thief.renew()


def test_of_two_relays_one_is_active(database: Engine) -> None:
    add(database, "one")
    first = ScriptedTransport()

    async def second_drains() -> None:
        assert await Relay(database, ScriptedTransport(), AT_ONCE).drain() == 0

    first.meanwhile = second_drains
    assert drain(database, first) == 1


def age(engine: Engine, business_id: str, **values: Any) -> None:
    change(engine, business_id, sent_at=database_time(-100), created_at=database_time(-100), **values)


def test_old_finished_rows_are_deleted(database: Engine) -> None:
    add(database, "sent", "young", "failed", "pending", "reversed", "done lately")
    add(database, "done", "without receipt", wants_receipt=True)
    for name, status in [("sent", "sent"), ("failed", "failed"), ("done", "done"), ("reversed", "reversed")]:
        age(database, name, status=status)
    age(database, "pending")
    age(database, "without receipt", status="sent")
    age(database, "done lately", status="done", done_at=database_time())
    change(database, "young", status="sent", sent_at=database_time())
    claim = LeaseHolder(database, LEASE, 10)
    shelf = OutboxTable(database, claim, RelaySettings(keep_s=50))
    assert shelf.clean() == 0
    assert claim.take()
    assert shelf.clean() == 3
    assert sorted(rows(database)) == ["done lately", "failed", "pending", "without receipt", "young"]


def test_a_running_relay_takes_what_comes_and_cleans_up(database: Engine) -> None:
    async def main() -> None:
        transport = ScriptedTransport()
        add(database, "old")
        age(database, "old", status="sent")
        relay = Relay(database, transport, RelaySettings(poll_s=0.01, keep_s=50))
        running = asyncio.create_task(relay.run())
        for name in ("one", "two"):
            add(database, name)
            await until(lambda: statuses(database).get(name) == "sent")  # noqa: B023
        relay.stop()
        await running

    asyncio.run(main())
    assert statuses(database) == {"one": "sent", "two": "sent"}


def test_a_relay_that_is_stopped_finishes_what_is_in_hand_and_lets_go(database: Engine) -> None:
    add(database, "one")

    async def main() -> None:
        transport = ScriptedTransport()
        relay = Relay(database, transport, AT_ONCE)

        async def stop() -> None:
            relay.stop()

        transport.meanwhile = stop
        await relay.run()

    asyncio.run(main())
    assert statuses(database) == {"one": "sent"}
    assert LeaseHolder(database, LEASE, 10).take()


@in_event_loop
async def test_a_second_relay_takes_over_from_one_that_stops(database: Engine) -> None:
    # long enough not to expire between a publish and its mark; renewed every two seconds
    settings = RelaySettings(lease_s=6.0, poll_s=0.01)
    transports = [ScriptedTransport(), ScriptedTransport()]
    relays = [Relay(database, transport, settings) for transport in transports]
    running = [asyncio.create_task(relay.run()) for relay in relays]
    add(database, "one")
    await until(lambda: statuses(database)["one"] == "sent")
    active = 0 if transports[0].calls else 1
    relays[active].stop()
    await running[active]
    add(database, "two")
    await until(lambda: statuses(database)["two"] == "sent")
    relays[1 - active].stop()
    await running[1 - active]
    assert [transports[active].bodies, transports[1 - active].bodies] == [[[b"one"]], [[b"two"]]]


def test_a_database_that_cannot_be_reached_is_reported_at_the_start(tmp_path: Path) -> None:
    nowhere = create_engine(f"sqlite:///{tmp_path}/missing/outbox.db")
    with pytest.raises(CannotConnect, match=r"cannot connect to sqlite:///.*: unable to open database file"):
        asyncio.run(Relay(nowhere, ScriptedTransport()).run())


def test_a_relay_without_transactions_does_not_start(database: Engine) -> None:
    at_once = database.execution_options(isolation_level="AUTOCOMMIT")
    with pytest.raises(ValueError, match="transactions are needed, no AUTOCOMMIT"):
        asyncio.run(Relay(at_once, ScriptedTransport()).run())


def test_missing_tables_are_reported_at_the_start() -> None:
    empty = create_engine("sqlite://")
    with pytest.raises(TablesRefused, match=r"call warren\.client\.tables\.create_tables\(engine\) once"):
        asyncio.run(Relay(empty, ScriptedTransport()).run())
    empty.dispose()


@pytest.mark.parametrize("wrong", [{"batch_rows": 0}, {"tries": 0}, {"lease_s": 61}, {"backoff_s": 0}, {"poll_s": -1}])
def test_invalid_settings_are_reported(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        RelaySettings(**wrong)
