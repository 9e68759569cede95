"""The outbox from end to end: real databases, a real node and a real RabbitMQ."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, select, text, update
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from tests.client.conftest import url_of
from tests.client.databases import opened, postgres_url
from tests.support.deadlines import in_event_loop, run, until
from tests.support.node_process import NodeProcess
from tests.support.ports import free_port
from tests.support.postgres import Postgres
from warren.client import CannotConnect, ConnectionClosed, Message, Properties, Timestamp, recovering
from warren.client.outbox import Outbox, Relay, RelaySettings
from warren.client.outbox.table import select_publishable, select_time_without_sort
from warren.client.tables import OUTBOX, create_tables
from warren.client.transport import BindingLayout, ExchangeLayout, Layout, QueueLayout

DEADLINE_S = 30.0
SLOW_POLL = RelaySettings(listening_poll_s=600, backoff_s=0.05)


@pytest.fixture
def postgres(postgres_server: Postgres) -> Iterator[Engine]:
    with opened(postgres_url(postgres_server)) as engine:
        create_tables(engine)
        yield engine


@pytest.fixture(params=["warren", "rabbitmq"])
def broker(request: pytest.FixtureRequest) -> str:
    """Of either kind."""
    if request.param == "warren":
        return str(request.getfixturevalue("url"))
    return str(request.getfixturevalue("rabbitmq").url)


@asynccontextmanager
async def running(relay: Relay) -> Any:
    task = asyncio.create_task(relay.run())
    try:
        yield task
    finally:
        relay.stop()
        await task


def add(engine: Engine, body: str, **options: Any) -> None:
    with engine.begin() as transaction:
        Outbox().add(transaction, body.encode(), business_id=body, **options)


def rows(engine: Engine) -> dict[str, Any]:
    with engine.connect() as connection:
        return {row.business_id: row for row in connection.execute(select(OUTBOX).order_by(OUTBOX.c.id))}


def statuses(engine: Engine) -> dict[str, str]:
    return {name: row.status for name, row in rows(engine).items()}


def test_a_row_arrives_as_a_message_with_all_its_properties(database: Engine, broker: str, queue: str) -> None:
    message = Message(b"100", Properties(content_type="text/plain", headers={"branch": 4, "raw": b"\x00"}))
    with database.begin() as transaction:
        Outbox(routing_key=queue).add(transaction, message, business_id="deposit-1", ordering_key="account 1")

    async def main() -> None:
        transport = await recovering.open(broker)
        await transport.declare(Layout(queues=(QueueLayout(queue),)))
        relay = Relay(database, transport)
        assert await relay.drain() == 1
        with database.begin() as transaction:
            transaction.execute(update(OUTBOX).values(status="pending"))
        assert await Relay(database, transport).drain() == 1
        for attempt in (1, 2):
            incoming = await transport.get(queue, no_ack=True)
            assert incoming is not None
            properties = incoming.properties
            assert (incoming.body, properties.message_id, properties.delivery_mode) == (b"100", "deposit-1", 2)
            assert properties.content_type == "text/plain"
            headers = dict(incoming.headers)
            written = headers.pop("x-written-at")
            assert isinstance(written, Timestamp)
            assert abs(written.seconds - time.time()) < 600
            assert headers == {"branch": 4, "raw": b"\x00", "x-attempt": attempt, "x-key": "account 1"}
        await transport.close()

    run(main())


@in_event_loop
async def test_rows_that_no_broker_takes_fail_with_the_reason_and_others_go_through(
    database: Engine, broker: str, queue: str, unique: Callable[[str], str]
) -> None:
    exchange = unique("exchange")
    for number in range(50):
        add(database, f"good {number}", routing_key=queue)
        if number == 20:
            add(database, "unroutable", exchange=exchange, routing_key="nowhere", ordering_key="a")
            add(database, "behind it", routing_key=queue, ordering_key="a")
        if number == 30:
            add(database, "no exchange", exchange="missing", routing_key=queue)
    transport = await recovering.open(broker)
    await transport.declare(Layout(exchanges=(ExchangeLayout(exchange),), queues=(QueueLayout(queue),)))
    async with running(
        Relay(database, transport, RelaySettings(tries=2, backoff_s=0.01, poll_s=0.01, listening_poll_s=600))
    ):
        await until(lambda: list(statuses(database).values()).count("failed") == 2)
        found = statuses(database)
        assert {name for name, status in found.items() if status == "failed"} == {"unroutable", "no exchange"}
        assert {name for name, status in found.items() if status == "pending"} == {"behind it"}
        assert "NO_ROUTE" in rows(database)["unroutable"].last_error
        assert "no exchange 'missing'" in rows(database)["no exchange"].last_error
        await transport.declare(Layout(bindings=(BindingLayout(exchange, queue, "nowhere"),)))
        with database.begin() as transaction:
            assert Outbox().resend(transaction, "unroutable")
        await until(lambda: statuses(database)["behind it"] == "sent")
        assert rows(database)["unroutable"].attempt == 3
    await transport.close()


@in_event_loop
async def test_a_queue_that_is_full_delays_its_rows_and_fails_none(database: Engine, broker: str, queue: str) -> None:
    add(database, "first", routing_key=queue, ordering_key="a")
    add(database, "second", routing_key=queue, ordering_key="a")
    transport = await recovering.open(broker)
    full = QueueLayout(queue, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    await transport.declare(Layout(queues=(full,)))
    settings = RelaySettings(tries=1, backoff_s=0.01, poll_s=0.01, listening_poll_s=0.01)
    async with running(Relay(database, transport, settings)):
        await until(lambda: rows(database)["second"].attempt > 2)
        assert statuses(database) == {"first": "sent", "second": "pending"}
        assert await transport.get(queue, no_ack=True) is not None
        await until(lambda: statuses(database)["second"] == "sent")
    await transport.close()


@in_event_loop
async def test_a_broker_that_is_down_for_a_while_delays_and_loses_nothing(
    database: Engine, start: Callable[..., NodeProcess]
) -> None:
    node = start()
    transport = await recovering.open(url_of(node.amqp))
    await transport.declare(Layout(queues=(QueueLayout("orders"),)))
    settings = RelaySettings(publish_timeout_s=0.5, backoff_s=0.05, poll_s=0.01)
    async with running(Relay(database, transport, settings)):
        add(database, "before", routing_key="orders", ordering_key="a")
        await until(lambda: statuses(database)["before"] == "sent")
        await asyncio.to_thread(node.kill)
        add(database, "meanwhile", routing_key="orders", ordering_key="a")
        await asyncio.to_thread(node.start)
        add(database, "after", routing_key="orders", ordering_key="a")
        await until(lambda: statuses(database)["after"] == "sent")
    bodies = []
    while incoming := await transport.get("orders", no_ack=True):
        bodies.append(incoming.body)
    assert list(dict.fromkeys(bodies)) == [b"before", b"meanwhile", b"after"]
    await transport.close()


def test_a_transport_that_was_closed_ends_the_relay(database: Engine, url: str) -> None:
    add(database, "one", routing_key="orders")

    async def main() -> None:
        transport = await recovering.open(url)
        await transport.close()
        async with asyncio.timeout(DEADLINE_S):
            with pytest.raises(ConnectionClosed, match="the transport was closed"):
                await Relay(database, transport).run()

    run(main())
    assert statuses(database) == {"one": "pending"}


@in_event_loop
async def test_postgresql_wakes_the_relay_when_a_transaction_commits(postgres: Engine, url: str, queue: str) -> None:
    transport = await recovering.open(url)
    await transport.declare(Layout(queues=(QueueLayout(queue),)))
    async with running(Relay(postgres, transport, SLOW_POLL)):
        for number in range(3):
            add(postgres, f"{number}", routing_key=queue)
            await until(lambda: statuses(postgres)[f"{number}"] == "sent")  # noqa: B023
    await transport.close()


@in_event_loop
async def test_a_word_that_was_missed_is_made_up_for_by_looking(postgres: Engine, url: str, queue: str) -> None:
    transport = await recovering.open(url)
    await transport.declare(Layout(queues=(QueueLayout(queue),)))
    async with running(Relay(postgres, transport, RelaySettings(listening_poll_s=0.05))):
        add(postgres, "told", routing_key=queue)
        await until(lambda: statuses(postgres)["told"] == "sent")
        with postgres.begin() as transaction:
            transaction.execute(OUTBOX.insert().values(business_id="untold", routing_key=queue, body=b""))
        await until(lambda: statuses(postgres)["untold"] == "sent")
    await transport.close()


def cut_all_connections(engine: Engine) -> None:
    with engine.begin() as connection:
        others = "datname IS NOT NULL AND pid <> pg_backend_pid()"
        connection.execute(text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"))


@in_event_loop
async def test_a_database_that_cuts_every_connection_is_taken_up_again(postgres: Engine, url: str, queue: str) -> None:
    relays_engine = create_engine(postgres.url)
    transport = await recovering.open(url)
    await transport.declare(Layout(queues=(QueueLayout(queue),)))
    settings = RelaySettings(listening_poll_s=600, backoff_s=0.05, lease_s=0.5)
    async with running(Relay(relays_engine, transport, settings)):
        for number in range(3):
            add(postgres, f"{number}", routing_key=queue)
            await until(lambda: statuses(postgres)[f"{number}"] == "sent")  # noqa: B023
            cut_all_connections(postgres)
    relays_engine.dispose()
    await transport.close()


@in_event_loop
async def test_a_lower_id_that_commits_later_is_not_skipped(postgres: Engine, url: str, queue: str) -> None:
    transport = await recovering.open(url)
    await transport.declare(Layout(queues=(QueueLayout(queue),)))
    async with running(Relay(postgres, transport, SLOW_POLL)):
        with postgres.begin() as slow:
            Outbox().add(slow, b"", business_id="slow", routing_key=queue)
            add(postgres, "fast", routing_key=queue)
            await until(lambda: statuses(postgres) == {"fast": "sent"})
        await until(lambda: statuses(postgres) == {"slow": "sent", "fast": "sent"})
    assert rows(postgres)["slow"].id < rows(postgres)["fast"].id
    await transport.close()


def test_a_batch_of_a_large_backlog_is_read_by_its_index(postgres: Engine) -> None:
    rows_of = "SELECT {what} || n, decode('00', 'hex'), {status}, {sent} FROM generate_series(1, {count}) AS n"
    fill = "INSERT INTO warren_outbox (business_id, body, status, sent_at) "
    with postgres.begin() as transaction:
        sent = rows_of.format(what="'sent '", status="'sent'", sent="now()", count=20_000)
        transaction.execute(text(fill + sent))
        transaction.execute(text("ANALYZE warren_outbox"))
        # of these PostgreSQL has no notion yet
        pending = rows_of.format(what="'pending '", status="'pending'", sent="NULL", count=20_000)
        transaction.execute(text(fill + pending))
    with postgres.connect() as connection:
        connection.execute(select_time_without_sort("postgresql"))
        statement = select_publishable(datetime.now(UTC), 100).compile(postgres, compile_kwargs={"literal_binds": True})
        plan = "\n".join(connection.exec_driver_sql(f"EXPLAIN {statement}").scalars())
    assert "using warren_outbox_pending" in plan
    assert "warren_outbox_held" in plan
    assert "Sort" not in plan


def test_two_transactions_that_add_the_same_message_leave_one(postgres: Engine) -> None:
    with postgres.begin() as first:
        Outbox().add(first, b"same", business_id="a")

        async def second() -> None:
            await asyncio.to_thread(add_same, postgres)

        async def main() -> None:
            waiting = asyncio.create_task(second())
            await until(lambda: waits_for_a_lock(postgres))
            first.commit()
            await waiting

        run(main())
    assert len(rows(postgres)) == 1


def add_same(engine: Engine) -> None:
    with engine.begin() as transaction:
        Outbox().add(transaction, b"same", business_id="a")


def waits_for_a_lock(engine: Engine) -> bool:
    with engine.connect() as connection:
        waiting = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        return bool(connection.execute(waiting).scalar_one())


def test_an_asynchronous_session_adds_by_run_sync(postgres: Engine) -> None:
    async def main() -> None:
        engine = create_async_engine(postgres.url)
        async with AsyncSession(engine) as session, session.begin():
            await session.run_sync(lambda own: Outbox().add(own, b"one", business_id="a"))
        await engine.dispose()

    run(main())
    assert statuses(postgres) == {"a": "pending"}


@in_event_loop
async def test_a_server_that_does_not_answer_is_reported_at_the_start(url: str) -> None:
    transport = await recovering.open(url)
    nowhere = create_engine(f"postgresql+psycopg://warren:secret@127.0.0.1:{free_port()}/bank")
    began = time.monotonic()
    with pytest.raises(CannotConnect, match=r"cannot connect to postgresql\+psycopg://warren:\*\*\*@127.*refused"):
        await Relay(nowhere, transport).run()
    assert time.monotonic() - began < DEADLINE_S
    await transport.close()
