"""Metrics of the jobs, as OpenTelemetry's SDK receives them: outbox, relay, inbox, listeners."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, create_engine, event

from tests.client.awaited_rows import FEW, be_late, send
from tests.client.observed import Observed
from tests.client.relayed_rows import AT_ONCE, add, change, nacking, refusing, silent_for
from tests.support.deadlines import in_event_loop, run, until
from tests.unit.client.outbox.scripted import ScriptedTransport
from warren.client import Message, Properties
from warren.client.inbox import Inbox
from warren.client.ledgers import OpenRows
from warren.client.listening import Arrival, Listener, RejectAndDontRequeue, Retries
from warren.client.outbox import Relay, RelaySettings
from warren.client.receipts import Chaser, Receipts
from warren.client.tables import create_tables
from warren.client.tables.connections import database_name
from warren.client.telemetry import observe
from warren.client.testing import MemoryBroker
from warren.client.transport import Incoming, Layout, Outgoing, QueueLayout


@pytest.fixture
def observed() -> Observed:
    return Observed()


def points(observed: Observed, name: str, *keys: str) -> dict[tuple[str, ...], float]:
    """The values of a metric, by attributes."""
    data = observed.reader.get_metrics_data()
    found: dict[tuple[str, ...], float] = {}
    for metric in data.resource_metrics[0].scope_metrics[0].metrics if data else []:
        for point in metric.data.data_points if metric.name == name else []:
            attributes = dict(point.attributes or {})
            where = str(attributes.pop("warren.database", "somewhere"))
            assert "@" not in where
            assert where
            assert sorted(attributes) == sorted(keys)
            found[tuple(str(attributes[key]) for key in keys)] = point.value
    return found


# the outbox


def test_open_rows_are_counted_by_status(database: Engine, observed: Observed) -> None:
    observe(OpenRows(database), meter_provider=observed.meters)
    add(database, "one", "two", "three", wants_receipt=True)
    change(database, "three", status="failed")
    rows = points(observed, "warren.client.outbox.rows", "warren.status")
    assert (rows["pending",], rows["failed",], rows["sent",]) == (2, 1, 0)
    ages = points(observed, "warren.client.outbox.age", "warren.status")
    assert sorted(ages) == [("failed",), ("pending",)]
    assert all(0 <= age < 60 for age in ages.values())
    assert points(observed, "warren.client.outbox.overdue") == {(): 0}
    assert points(observed, "warren.client.outbox.relayed") == {(): 0}


def test_two_databases_are_counted_separately(database: Engine, observed: Observed, tmp_path: Path) -> None:
    other = create_engine(f"sqlite:///{tmp_path / 'other.db'}")
    create_tables(other)
    add(other, "one")
    observe(OpenRows(database), OpenRows(other), meter_provider=observed.meters)
    data = observed.reader.get_metrics_data()
    metrics = data.resource_metrics[0].scope_metrics[0].metrics if data else []
    [rows] = [metric for metric in metrics if metric.name == "warren.client.outbox.rows"]
    pending = {
        (point.attributes or {})["warren.database"]: point.value
        for point in rows.data.data_points
        if (point.attributes or {})["warren.status"] == "pending"
    }
    assert pending == {database_name(database): 0, str(tmp_path / "other.db"): 1}
    other.dispose()


def test_metrics_read_together_need_one_query(database: Engine, observed: Observed) -> None:
    looks: list[int] = []
    event.listen(database, "begin", lambda connection: looks.append(1))
    observe(OpenRows(database), meter_provider=observed.meters)
    observed.reader.get_metrics_data()
    assert len(looks) == 1


def test_a_database_that_does_not_answer_has_no_points(
    observed: Observed, caplog: pytest.LogCaptureFixture, tmp_path: object
) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/nowhere/shop.db")
    observe(OpenRows(engine), meter_provider=observed.meters)
    with caplog.at_level(logging.WARNING, "warren.client.ledgers"):
        assert points(observed, "warren.client.outbox.rows", "warren.status") == {}
    told = [record.message for record in caplog.records if record.name.startswith("warren.")]
    assert told == ["outbox.not_measured"]


def test_a_relay_counts_the_outcomes_of_its_rows(database: Engine, observed: Observed) -> None:
    add(database, "fine", "refused", "nacked", "silent")

    def answer(message: Outgoing) -> object:
        return refusing("refused")(message) or nacking("nacked")(message) or silent_for("silent")(message)

    # what is not taken pauses for so long that it is published once
    relay = Relay(database, ScriptedTransport(answer), RelaySettings(backoff_s=60.0))  # type: ignore[arg-type]
    observe(relay, meter_provider=observed.meters)
    none = {("sent",): 0, ("refused",): 0, ("put off",): 0, ("undecided",): 0}
    assert points(observed, "warren.client.relay.rows", "warren.verdict") == none
    run(relay.drain())
    assert points(observed, "warren.client.relay.rows", "warren.verdict") == dict.fromkeys(none, 1)


@in_event_loop
async def test_the_active_relay_is_reported(database: Engine, observed: Observed) -> None:
    relay = Relay(database, ScriptedTransport(), AT_ONCE)
    observe(relay, OpenRows(database), meter_provider=observed.meters)
    assert points(observed, "warren.client.relay.leads") == {(): 0}
    running = asyncio.create_task(relay.run())
    await until(lambda: points(observed, "warren.client.relay.leads") == {(): 1})
    await until(lambda: points(observed, "warren.client.outbox.relayed") == {(): 1})
    relay.stop()
    await running
    assert points(observed, "warren.client.relay.leads") == {(): 0}


def test_a_chaser_and_receipts_count_their_outcomes(database: Engine, observed: Observed) -> None:
    send(database, "again", "gone", "fine")
    change(database, "gone", resends=9)
    receipts, chaser = Receipts(database), Chaser(database, FEW)
    observe(receipts, chaser, meter_provider=observed.meters)
    assert receipts.done(None, "fine")
    assert not receipts.done(None, "stranger")
    be_late(database)
    run(chaser.once())
    done = {("resent",): 1, ("compensated",): 0, ("failed",): 1}
    assert points(observed, "warren.client.chaser.rows", "warren.done") == done
    assert points(observed, "warren.client.chaser.alerts") == {(): 1}
    assert points(observed, "warren.client.chaser.leads") == {(): 0}
    came_to = points(observed, "warren.client.receipts", "warren.marked")
    assert {marked for (marked,), count in came_to.items() if count} == {"done", "unknown"}


# consumers


def test_each_inbox_counts_its_new_and_duplicate_messages(database: Engine, observed: Observed) -> None:
    def work(connection: Connection, message: Incoming) -> None:
        pass

    async def scenario(inboxes: Sequence[Inbox]) -> None:
        transport = MemoryBroker().transport()
        await transport.declare(Layout(queues=(QueueLayout("q"),)))
        for inbox in inboxes:
            await transport.publish([Outgoing(Message(b"a", Properties(message_id="m1")), routing_key="q")] * 3)
            for _ in range(3):
                message = await transport.get("q")
                assert message is not None
                inbox.handler(work)(message)
                message.ack()

    payments, stock = Inbox(database, "payments"), Inbox(database, "stock")
    observe(payments, stock, meter_provider=observed.meters)
    run(scenario([payments, stock, payments]))
    who = "messaging.consumer.group.name"
    assert points(observed, "warren.client.inbox.messages", who) == {("payments",): 1, ("stock",): 1}
    assert points(observed, "warren.client.duplicate.messages", who) == {("payments",): 5, ("stock",): 2}


def test_a_listener_counts_the_outcomes_of_failed_messages(
    observed: Observed, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "warren.client.listening")

    def handle(message: Arrival[bytes]) -> None:
        if message.body == b"reject":
            raise RejectAndDontRequeue("no")
        if message.body != b"fine":
            raise OSError("no disk")

    async def scenario() -> None:
        transport = MemoryBroker().transport()
        await transport.declare(Layout(queues=(QueueLayout("orders"), QueueLayout("bills"))))
        listener = Listener(transport, {"orders": 1, "bills": 1}, handle, retries=Retries(3, ()))
        observe(listener, meter_provider=observed.meters)
        async with listener:
            bodies = {"orders": [b"fine", b"poison", b"reject"], "bills": [b"poison"]}
            for queue, each in bodies.items():
                await transport.publish([Outgoing(Message(body), routing_key=queue) for body in each])
            await until(lambda: sum(told("parked").values()) == 2 and sum(told("rejected").values()) == 1)

    def told(fate: str) -> dict[tuple[str, ...], float]:
        return points(observed, f"warren.client.{fate}.messages", "messaging.destination.name")

    run(scenario())
    assert told("retried") == {("orders",): 2, ("bills",): 2}
    assert told("parked") == {("orders",): 1, ("bills",): 1}
    assert told("rejected") == {("orders",): 1, ("bills",): 0}
    assert told("stuck") == {("orders",): 0, ("bills",): 0}
