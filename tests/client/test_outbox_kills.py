"""Relays that are killed at random, over and over, several at a time, while rows are written.

At the end the promises of the outbox hold: every committed row has arrived, those of a key in order (repeats aside), no
row that was rolled back has, and every row is marked as sent.
"""

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Engine, create_engine, func, select

from tests.client import relay_process
from tests.support.deadlines import eventually
from warren.client import blocking
from warren.client.outbox import Outbox
from warren.client.tables import OUTBOX

KILLS = 15
LEASE_S = 0.6
DEADLINE_S = 60.0
KEYS = ["", "a", "b", "c"]


class RelayProcess:
    """One that is in flight when this exists: the killer need not wait for it."""

    def __init__(self, database: str, broker: str) -> None:
        command = [sys.executable, relay_process.__file__, database, broker, str(LEASE_S)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def kill(self) -> None:
        self.process.kill()
        self._end()

    def stop(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"
        self.process.terminate()
        assert self._end() == 0

    def _end(self) -> int:
        code = self.process.wait(DEADLINE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


class Writer:
    """A program that writes rows of one key, one transaction after the other; every seventh is rolled back."""

    def __init__(self, engine: Engine, queue: str, key: str) -> None:
        self.committed: list[str] = []
        self._engine = engine
        self._outbox = Outbox(routing_key=queue)
        self._key = key
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def end(self) -> None:
        self._enough.set()
        self._thread.join()

    def _write(self) -> None:
        number = 0
        while not self._enough.wait(0.02):
            number += 1
            body = f"{self._key} {number}"
            with self._engine.connect() as connection:
                self._outbox.add(connection, body.encode(), business_id=body, ordering_key=self._key)
                if number % 7 == 0:
                    connection.rollback()
                else:
                    connection.commit()
                    self.committed.append(body)


@pytest.fixture
def writing(database: Engine) -> Iterator[Engine]:
    """For all writers, of few connections: PostgreSQL has ten here, and a relay that was active once keeps three."""
    engine = create_engine(database.url, pool_size=2, max_overflow=0)
    yield engine
    engine.dispose()


@pytest.fixture
def start_relay(database: Engine, url: str) -> Iterator[Callable[[], RelayProcess]]:
    started: list[RelayProcess] = []

    def start() -> RelayProcess:
        started.append(RelayProcess(database.url.render_as_string(hide_password=False), url))
        return started[-1]

    yield start
    for relay in started:
        if relay.process.poll() is None:
            relay.kill()


def sent_rows(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.execute(select(func.count()).where(OUTBOX.c.status == "sent")).scalar_one()


def until_all_are_sent(engine: Engine, count: int) -> None:
    """Kill relays until all rows are sent; the number of rows depends on the start time of the relays."""
    sent = -1
    while sent < count:
        before = sent
        eventually(lambda: sent_rows(engine) > before)  # noqa: B023
        sent = sent_rows(engine)
    assert sent == count


def arrived(url: str, queue: str) -> list[str]:
    with blocking.connect(url) as connection, connection.channel() as channel:
        count = channel.declare_queue(queue, durable=True).messages
        consumer = channel.consume(queue, no_ack=True)
        bodies: list[str] = []
        while len(bodies) < count:
            bodies += [delivery.body.decode() for delivery in consumer.batch(DEADLINE_S)]
        return bodies


@pytest.mark.timeout(600)
def test_relays_that_are_killed_lose_nothing_and_keep_the_order_of_a_key(
    database: Engine, writing: Engine, url: str, queue: str, start_relay: Callable[[], RelayProcess]
) -> None:
    chance = random.Random(9)
    with blocking.connect(url) as connection, connection.channel() as channel:
        channel.declare_queue(queue, durable=True)
    writers = [Writer(writing, queue, key) for key in KEYS]
    relays = [start_relay() for _ in range(3)]
    for _ in range(KILLS):
        before = sent_rows(database)
        eventually(lambda: sent_rows(database) > before)  # noqa: B023
        time.sleep(chance.uniform(0.0, 0.1))
        victim = chance.randrange(3)
        relays[victim].kill()
        relays[victim] = start_relay()
    for writer in writers:
        writer.end()
    committed = [body for writer in writers for body in writer.committed]
    until_all_are_sent(database, len(committed))
    for relay in relays:
        relay.stop()
    bodies = arrived(url, queue)
    assert Counter(set(bodies)) == Counter(committed)
    firsts = list(dict.fromkeys(bodies))
    for writer, key in zip(writers, KEYS, strict=True):
        if key:
            assert [body for body in firsts if body.startswith(f"{key} ")] == writer.committed


def test_a_relay_that_is_stopped_leaves_nothing_half_done(
    database: Engine, writing: Engine, url: str, queue: str, start_relay: Callable[[], RelayProcess]
) -> None:
    with blocking.connect(url) as connection, connection.channel() as channel:
        channel.declare_queue(queue, durable=True)
    writer = Writer(writing, queue, "a")
    for _ in range(3):
        relay = start_relay()
        before = sent_rows(database)
        eventually(lambda: sent_rows(database) > before)  # noqa: B023
        relay.stop()
    writer.end()
    assert len(arrived(url, queue)) == sent_rows(database) > 0
