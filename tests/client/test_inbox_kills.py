"""A consumer that is killed with SIGKILL at any point: each payment is booked once."""

import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Engine, select, text

from tests.client import payments_program
from tests.support.deadlines import eventually
from warren.client import Message, Properties, blocking
from warren.client.tables import INBOX

DEADLINE_S = 30.0
KILLS = 3


@pytest.fixture
def engine(database: Engine) -> Engine:
    """A database with a table for the work."""
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE paid (reference varchar(255))"))
    return database


@pytest.fixture
def start(url: str, queue: str, engine: Engine) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Consumers, each a process that is ready; none is left when the test is over."""
    started: list[subprocess.Popen[str]] = []

    def start_one(*death: str) -> "subprocess.Popen[str]":
        database = engine.url.render_as_string(hide_password=False)
        command = [sys.executable, "-m", payments_program.__name__, url, queue, database, *death]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout is not None
        assert started[-1].stdout.readline() == "ready\n"
        return started[-1]

    yield start_one
    for process in started:
        process.kill()
        process.communicate()


def publish(url: str, queue: str, references: list[str]) -> None:
    with blocking.connect(url) as connection, connection.channel(confirms=True) as channel:
        channel.declare_queue(queue, durable=True)
        channel.send_many(
            [Message(each.encode(), Properties(message_id=each, delivery_mode=2)) for each in references],
            routing_key=queue,
        )
        channel.wait_for_confirms()


def paid(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return sorted(connection.execute(text("SELECT reference FROM paid")).scalars())


def recorded(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return sorted(connection.execute(select(INBOX.c.business_id)).scalars())


def paid_and_recorded(engine: Engine) -> tuple[list[str], list[str]]:
    """Both at one moment: a commit that a killed consumer had sent may come between two looks."""
    both = "SELECT 'paid', reference FROM paid UNION ALL SELECT 'recorded', business_id FROM warren_inbox"
    with engine.connect() as connection:
        rows = connection.execute(text(both)).all()
    are_paid, are_recorded = (sorted(name for kind, name in rows if kind == each) for each in ("paid", "recorded"))
    return are_paid, are_recorded


def tallies(process: "subprocess.Popen[str]") -> tuple[int, int]:
    """End it with SIGTERM: the number of handled messages, and how many of them were duplicates."""
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    handled, duplicates = output.split()
    return int(handled), int(duplicates)


def left_in(url: str, queue: str) -> int:
    with blocking.connect(url) as connection, connection.channel() as channel:
        return channel.declare_queue(queue, passive=True).messages


@pytest.mark.parametrize(
    ("place", "is_paid"),
    [("before-commit", False), ("after-commit", True)],
)
def test_a_consumer_killed_at_the_commit_has_paid_once_in_the_end(
    url: str,
    queue: str,
    engine: Engine,
    start: Callable[..., "subprocess.Popen[str]"],
    place: str,
    is_paid: bool,
) -> None:
    references = [f"p{number}" for number in range(10)]
    publish(url, queue, references)
    killed = start(place, "p4")
    assert killed.wait(DEADLINE_S) == -signal.SIGKILL
    assert ("p4" in paid(engine)) is is_paid
    are_paid, are_recorded = paid_and_recorded(engine)
    assert are_paid == are_recorded

    successor = start()
    eventually(lambda: len(recorded(engine)) == 10)
    # the last message is acked last, so all duplicates have come by then
    publish(url, queue, ["last"])
    eventually(lambda: "last" in recorded(engine))
    handled, duplicates = tallies(successor)
    assert paid(engine) == recorded(engine) == sorted([*references, "last"])
    assert left_in(url, queue) == 0
    assert duplicates >= is_paid
    assert handled <= 11 - is_paid


def test_consumers_killed_at_random_pay_everything_once(
    url: str, queue: str, engine: Engine, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    chance = random.Random(9)
    references = [f"p{number:04}" for number in range(400)]
    publish(url, queue, references)
    for _ in range(KILLS):
        consumer = start()
        goal = len(recorded(engine)) + chance.randrange(1, 60)
        eventually(lambda goal=goal: len(recorded(engine)) >= min(goal, 400))
        consumer.kill()
        consumer.wait(DEADLINE_S)
        are_paid, are_recorded = paid_and_recorded(engine)
        assert are_paid == are_recorded
    successor = start()
    eventually(lambda: len(recorded(engine)) == 400)
    publish(url, queue, ["z-last"])
    eventually(lambda: "z-last" in recorded(engine))
    tallies(successor)
    assert paid(engine) == [*references, "z-last"]
    assert left_in(url, queue) == 0
