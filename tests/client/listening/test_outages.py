"""A dependency of handlers is down for some time: with default settings, no message is parked because of it."""

import logging
import time

import pytest
from sqlalchemy import Engine, create_engine, text

from tests.client.databases import postgres_url
from tests.client.listening.worlds import World, is_empty, keyed, queue_of
from tests.support.deadlines import in_event_loop, run, until
from tests.support.postgres import DATABASE, Postgres
from warren.client.listening import Arrival, Listener

AWAY_S = 1.5


@in_event_loop
async def test_an_outage_costs_no_message_its_order_nor_a_place_in_the_parking_queue(world: World) -> None:
    transport = await world.open()
    bodies = [b"%s%d" % (key, number) for number in range(5) for key in (b"a", b"b")]
    queue = await queue_of(world, transport, [keyed(body) for body in bodies])
    handled: list[bytes] = []
    tries = 0
    back_at_s = 0.0

    async def handle(arrival: Arrival[bytes]) -> None:
        nonlocal tries, back_at_s
        if not tries:
            back_at_s = time.monotonic() + AWAY_S
        tries += 1
        if time.monotonic() < back_at_s:
            raise OSError("the database is away")
        handled.append(arrival.body)

    async with Listener(transport, queue, handle):
        await until(lambda: len(handled) == len(bodies))
    for key in (b"a", b"b"):
        assert [body for body in handled if body[:1] == key] == [body for body in bodies if body[:1] == key]
    # the rest of a key waits behind its first, so the database is not asked over and over
    assert len(bodies) < tries <= len(bodies) + 4
    assert await is_empty(transport, f"{queue}.parked")
    await transport.close()


@pytest.fixture
def own_postgres(postgres_server: Postgres) -> Engine:
    """A database beside the shared one, which can be closed to all users."""
    postgres_server.execute("DROP DATABASE IF EXISTS outages WITH (FORCE)")
    postgres_server.execute("CREATE DATABASE outages")
    return create_engine(postgres_url(postgres_server).replace(f"/{DATABASE}", "/outages"))


def test_a_database_closed_for_a_while_loses_nothing(
    own_postgres: Engine, postgres_server: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "warren.client.listening")
    with own_postgres.begin() as connection:
        connection.execute(text("CREATE TABLE paid (reference text PRIMARY KEY)"))

    def pay(arrival: Arrival[bytes]) -> None:
        with own_postgres.begin() as transaction:
            transaction.execute(text("INSERT INTO paid VALUES (:it)"), {"it": arrival.body.decode()})

    def paid() -> list[str]:
        with own_postgres.connect() as connection:
            return list(connection.execute(text("SELECT reference FROM paid ORDER BY reference")).scalars())

    async def scenario() -> None:
        world = World()
        transport = await world.open()
        queue = await queue_of(world, transport, [b"%02d" % number for number in range(20)])
        postgres_server.execute("ALTER DATABASE outages ALLOW_CONNECTIONS false")
        own_postgres.dispose()
        async with Listener(transport, queue, pay, concurrency=2):
            # each failed, and failed again after its pause
            await until(lambda: len(caplog.records) >= 40)
            postgres_server.execute("ALTER DATABASE outages ALLOW_CONNECTIONS true")
            await until(lambda: not world.memory.unacked(queue))
        assert await is_empty(transport, f"{queue}.parked")

    try:
        run(scenario())
        assert paid() == [f"{number:02}" for number in range(20)]
    finally:
        own_postgres.dispose()
        postgres_server.execute("DROP DATABASE outages WITH (FORCE)")
