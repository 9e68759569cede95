"""Clocks that jump: that of the database, beyond every lease and every date, and that of a process.

The promises hold as before: rows arrive, those of a key in order, repeats aside; one job is active, and a job that lost
its lease writes nothing; and after each jump the work goes on.
"""

import asyncio
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, func, select

from tests.client.awaited_rows import be_late, send
from tests.client.jumping_clock import JumpingClock, jumping_clock
from tests.client.relayed_rows import add, statuses
from tests.client.seam import to, with_queue
from tests.support.deadlines import in_event_loop, run, until
from warren.client import recovering
from warren.client.outbox import Outbox, Relay, RelaySettings
from warren.client.receipts import Chaser, ChasingSettings
from warren.client.recovering import ConnectionDown, Notice
from warren.client.tables import LEASE_S_MAX, OUTBOX, renew_lease, take_lease
from warren.client.testing import MemoryBroker

HOUR = 3600.0
YEAR = 365 * 24 * HOUR
JUMPS = (HOUR, -2 * HOUR, LEASE_S_MAX + 1, -LEASE_S_MAX - 1, 10 * YEAR, -20 * YEAR, 5.0, -5.0, 10 * YEAR)
# keep sent rows: by a clock that is years ahead they would be pruned
SETTINGS = RelaySettings(20, lease_s=0.6, poll_s=0.02, backoff_s=0.05, listening_poll_s=0.1, keep_s=None)
KEYS = ("", "a", "b")


@pytest.fixture
def clock(database: Engine) -> Iterator[JumpingClock]:
    with jumping_clock(database) as made:
        yield made


def test_the_clock_that_is_tested_with_does_jump(clock: JumpingClock) -> None:
    clock.engine()
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(minutes=1)
    clock.jump(-YEAR)
    assert abs(clock.now() + timedelta(seconds=YEAR) - datetime.now(UTC)) < timedelta(minutes=1)


class Writers:
    """Rows of each key, one transaction after the other, until it is enough."""

    def __init__(self, engine: Engine) -> None:
        self.written: dict[str, list[bytes]] = {key: [] for key in KEYS}
        self._engine = engine
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def end(self) -> None:
        self._enough.set()
        self._thread.join()

    def _write(self) -> None:
        number = 0
        while not self._enough.wait(0.005):
            number += 1
            for key in KEYS:
                body = f"{key} {number}".encode()
                with self._engine.begin() as transaction:
                    Outbox(routing_key="orders").add(transaction, body, ordering_key=key)
                self.written[key].append(body)


def sent_rows(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.execute(select(func.count()).where(OUTBOX.c.status == "sent")).scalar_one()


def test_relays_lose_nothing_and_go_on_after_each_jump(database: Engine, clock: JumpingClock) -> None:
    memory = MemoryBroker()

    async def scenario() -> dict[str, list[bytes]]:
        transport = memory.transport()
        await transport.declare(with_queue("orders"))
        relays = [Relay(clock.engine(), memory.transport(), SETTINGS) for _ in range(3)]
        running = [asyncio.create_task(relay.run()) for relay in relays]
        writers = Writers(clock.engine())
        try:
            for seconds in JUMPS:
                before = sent_rows(database)
                await until(lambda: sent_rows(database) > before + 10)  # noqa: B023
                clock.jump(seconds)
            before = sent_rows(database)
            await until(lambda: sent_rows(database) > before + 10)
        finally:
            writers.end()
        written = sum(len(bodies) for bodies in writers.written.values())
        await until(lambda: sent_rows(database) == written)
        for relay in relays:
            relay.stop()
        await asyncio.gather(*running)
        return writers.written

    written = run(scenario())
    arrived = list(dict.fromkeys(message.body for message in memory.ready("orders")))
    assert set(arrived) == {body for bodies in written.values() for body in bodies}
    for key in KEYS[1:]:
        assert [body for body in arrived if body.startswith(f"{key} ".encode())] == written[key]


@pytest.mark.parametrize("seconds", [HOUR, -HOUR, 10 * YEAR, -10 * YEAR])
def test_a_holder_whose_lease_the_clock_has_ended_writes_nothing_when_another_has_it(
    clock: JumpingClock, seconds: float
) -> None:
    engine = clock.engine()
    with engine.begin() as connection:
        first = take_lease(connection, "job", "one", 30.0)
    assert first is not None
    clock.jump(seconds)
    with engine.begin() as connection:
        second = take_lease(connection, "job", "two", 30.0)
    assert second is not None
    assert second.fence > first.fence
    with engine.begin() as connection:
        assert not renew_lease(connection, first, 30.0)
    clock.jump(-seconds)
    with engine.begin() as connection:
        # the second still has it, although by the clock it has expired
        assert renew_lease(connection, second, 30.0)
        assert not renew_lease(connection, first, 30.0)


def test_a_holder_that_is_alone_keeps_its_lease_through_jumps(clock: JumpingClock) -> None:
    engine = clock.engine()
    with engine.begin() as connection:
        lease = take_lease(connection, "job", "one", 30.0)
    assert lease is not None
    for seconds in JUMPS:
        clock.jump(seconds)
        with engine.begin() as connection:
            assert renew_lease(connection, lease, 30.0)
            assert take_lease(connection, "job", "two", 30.0) is None


@in_event_loop
async def test_a_row_that_pauses_when_the_clock_is_set_back_does_not_pause_for_years(
    database: Engine, clock: JumpingClock
) -> None:
    memory = MemoryBroker()
    transport = memory.transport()
    await transport.declare(with_queue("orders"))
    memory.faults.refuse(1)
    add(database, "one", routing_key="orders")
    relay = Relay(clock.engine(), transport, RelaySettings(backoff_s=30.0))
    assert await relay.drain() == 0
    clock.jump(-10 * YEAR)
    assert await Relay(clock.engine(), transport).drain() == 1


@in_event_loop
async def test_a_chaser_goes_on_after_jumps_and_sends_again_what_it_has_to(
    database: Engine, clock: JumpingClock
) -> None:
    # by a clock that is ahead of the relay's, receipts are overdue at once, again and again
    settings = ChasingSettings(resends=10_000, lease_s=0.6, poll_s=0.02, backoff_s=0.05)
    chasers = [Chaser(clock.engine(), settings) for _ in range(2)]
    running = [asyncio.create_task(chaser.run()) for chaser in chasers]
    for number, seconds in enumerate((-HOUR, 10 * YEAR, -20 * YEAR, HOUR)):
        name = f"row {number}"
        await asyncio.to_thread(send, database, name)
        clock.jump(seconds)
        await asyncio.to_thread(be_late, clock.engine())
        await until(lambda: statuses(database)[name] == "pending")  # noqa: B023
    for chaser in chasers:
        chaser.stop()
    await asyncio.gather(*running)


# the clock of a process


def test_the_clock_of_a_process_may_jump_as_it_likes(url: str, queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every wait is measured by a clock that does not jump: heartbeats, time-outs, pauses."""
    really, jumps = time.time, iter(range(10**9))
    notices: list[Notice] = []

    async def scenario() -> None:
        async with await recovering.open(f"{url}?heartbeat=3", observer=notices.append) as transport:
            await transport.declare(with_queue(queue))
            ends_at = time.monotonic() + 7.0
            # longer than a heartbeat may be late
            while time.monotonic() < ends_at:
                assert await transport.publish(to(queue, b"x"), 30.0) == [None]
                found = await transport.get(queue)
                assert found is not None
                found.ack()

    monkeypatch.setattr(time, "time", lambda: really() + (-1) ** next(jumps) * YEAR)
    run(scenario())
    assert [notice for notice in notices if isinstance(notice, ConnectionDown)] == []
