"""The relay with large rows, a failing broker, or a closed transport; in both databases."""

import asyncio
import logging

import pytest
from sqlalchemy import Engine

from tests.client.relayed_rows import (
    AT_ONCE,
    DEADLINE_S,
    add,
    change,
    drain,
    drain_until,
    nacking,
    refusing,
    rows,
    silent_for,
    statuses,
)
from tests.unit.client.outbox.scripted import Answering, ScriptedTransport
from warren.client.errors import ClientError, ConnectionClosed, LoginRefused
from warren.client.outbox import Outbox, Relay, RelaySettings
from warren.client.outbox.table import BACKOFF_S_MAX, LEASE
from warren.client.tables import database_time
from warren.client.tables.leases import LeaseHolder
from warren.client.testing import MemoryBroker, MemoryTransport

MIB = 1 << 20


def test_a_batch_has_as_many_rows_as_fit_its_bytes_and_one_at_least(database: Engine) -> None:
    with database.begin() as transaction:
        for mib in (6, 6, 6, 17, 1, 1):
            Outbox().add(transaction, bytes(mib * MIB))
    transport = ScriptedTransport()
    assert drain(database, transport) == 6
    assert [[len(body) // MIB for body in call] for call in transport.bodies] == [[6, 6], [6], [17], [1, 1]]


def test_a_nacked_row_is_offered_until_it_is_taken_and_holds_back_its_key(database: Engine) -> None:
    add(database, "a1", "a2", key="a")
    add(database, "b1", key="b")
    nacked = ScriptedTransport(nacking("a1"))
    drain_until(database, nacked, lambda: rows(database)["a1"].attempt > 2 * AT_ONCE.tries)
    row = rows(database)["a1"]
    assert (row.refusals, row.last_error) == (0, "publishes failed: 1 were refused")
    assert statuses(database) == {"a1": "pending", "a2": "pending", "b1": "sent"}
    taken = ScriptedTransport()
    drain_until(database, taken, lambda: statuses(database)["a2"] == "sent")
    assert [call for call in taken.bodies if call] == [[b"a1"], [b"a2"]]


@pytest.mark.parametrize("trouble", [nacking("a1"), refusing("a1")])
def test_a_row_that_waits_when_the_clock_is_set_back_is_offered_at_once(database: Engine, trouble: Answering) -> None:
    add(database, "a1", "a2", key="a")
    drain(database, ScriptedTransport(trouble), RelaySettings(backoff_s=60))
    # a time that was written an hour ago, before the clock went back by an hour
    change(database, "a1", due_at=database_time(3600))
    transport = ScriptedTransport()
    assert drain(database, transport) == 2
    assert transport.bodies == [[b"a1"], [b"a2"]]


def test_the_longest_pause_is_kept(database: Engine) -> None:
    add(database, "a1", "a2", key="a")
    drain(database, ScriptedTransport(nacking("a1")), RelaySettings(backoff_s=BACKOFF_S_MAX))
    assert drain(database, ScriptedTransport()) == 0


def test_nacked_rows_make_way_for_those_behind_them(database: Engine) -> None:
    add(database, "full 1", "full 2", "full 3", "other")
    settings = RelaySettings(batch_rows=2, backoff_s=60)
    assert drain(database, ScriptedTransport(nacking("full 1", "full 2", "full 3")), settings) == 1
    assert statuses(database)["other"] == "sent"


def test_nacks_of_a_pass_are_logged_once(database: Engine, caplog: pytest.LogCaptureFixture) -> None:
    add(database, "one", "two")
    drain(database, ScriptedTransport(nacking("one", "two")), RelaySettings(backoff_s=60))
    [said] = [record for record in caplog.records if record.name == "warren.client.outbox"]
    assert (said.message, said.levelno, vars(said)["rows"]) == ("relay.rows_put_off", logging.WARNING, 2)


@pytest.mark.parametrize("trouble", [refusing("one"), silent_for("one"), nacking("one")])
def test_earlier_offers_of_a_row_do_not_change_when_its_first_receipt_is_due(
    database: Engine, trouble: Answering
) -> None:
    add(database, "one", wants_receipt=True)
    add(database, "other")
    drain(database, ScriptedTransport(trouble), RelaySettings(backoff_s=60))
    change(database, "one", due_at=None)
    assert drain(database, ScriptedTransport()) == 1
    row = rows(database)["one"]
    assert (row.attempt, row.sent_at is None) == (2, False)
    assert (row.due_at - row.sent_at).total_seconds() == pytest.approx(300, abs=1)


def test_a_row_that_waits_for_its_receipt_is_sent_again_by_its_status_alone(database: Engine) -> None:
    add(database, "one", wants_receipt=True)
    drain(database, ScriptedTransport())
    change(database, "one", status="pending")
    assert drain(database, ScriptedTransport()) == 1
    assert (statuses(database)["one"], rows(database)["one"].attempt) == ("sent", 2)


@pytest.mark.parametrize("trouble", [refusing("one"), silent_for("one"), nacking("one")])
def test_a_resend_that_is_not_taken_pauses_like_any_other_row(database: Engine, trouble: Answering) -> None:
    add(database, "one", wants_receipt=True)
    drain(database, ScriptedTransport())
    change(database, "one", status="pending")
    add(database, "other")
    drain(database, ScriptedTransport(trouble), RelaySettings(backoff_s=60))
    assert drain(database, ScriptedTransport()) == 0
    change(database, "one", due_at=database_time(-1))
    assert drain(database, ScriptedTransport()) == 1


async def run_to_its_end(relay: Relay) -> None:
    async with asyncio.timeout(DEADLINE_S):
        await relay.run()


def check_that_it_ended(database: Engine, caplog: pytest.LogCaptureFixture) -> None:
    assert statuses(database) == {"one": "pending"}
    assert rows(database)["one"].attempt == 0
    [said] = [record for record in caplog.records if record.message == "relay.transport_ended"]
    assert said.levelno == logging.ERROR
    assert LeaseHolder(database, LEASE, 10).take()


def test_a_relay_whose_login_is_refused_ends_and_lets_go_of_the_lease(
    database: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    add(database, "one")
    refused: ClientError = LoginRefused("no such user")
    relay = Relay(database, ScriptedTransport(lambda message: refused), RelaySettings(backoff_s=0.01, lease_s=60))
    with pytest.raises(LoginRefused, match="no such user"):
        asyncio.run(run_to_its_end(relay))
    check_that_it_ended(database, caplog)


def test_a_relay_whose_transport_was_closed_ends_and_lets_go_of_the_lease(
    database: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    add(database, "one")

    async def main() -> None:
        transport = MemoryTransport(MemoryBroker())
        await transport.close()
        await run_to_its_end(Relay(database, transport, RelaySettings(backoff_s=0.01, lease_s=60)))

    with pytest.raises(ConnectionClosed, match="the transport was closed"):
        asyncio.run(main())
    check_that_it_ended(database, caplog)
