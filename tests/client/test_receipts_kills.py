"""Chasers that are killed at random, over and over, several at a time, while receipts come, come late or never come.

The end state is as promised: every message is done, reversed or failed, consistent with its confirmation or reversal;
none was sent more often than allowed; and each failed message had an alert.
"""

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, func, select

from tests.client import chaser_process
from tests.client.chaser_process import COMPENSATIONS, RESENDS
from tests.client.relayed_rows import add, drain, rows
from tests.support.deadlines import eventually
from tests.unit.client.outbox.scripted import ScriptedTransport
from warren.client.outbox import RelaySettings
from warren.client.receipts import Receipts, compensating_id
from warren.client.tables import OUTBOX

KILLS = 15
LEASE_S = 0.6
DEADLINE_S = 120.0
MESSAGES = 120
ENDS = ("done", "reversed", "failed")
# the receipt is overdue as soon as it is waited for
IMPATIENT = RelaySettings(receipt_within_s=0.05, resent_receipt_within_s=0.05, poll_s=0.01, lease_s=10)


class ChaserProcess:
    """One that is on its way when this exists; its alerts are in a file."""

    def __init__(self, database: str, said: Path) -> None:
        self.said = said
        with said.open("w") as output:
            command = [sys.executable, chaser_process.__file__, database, str(LEASE_S)]
            self.process = subprocess.Popen(command, stdout=output)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(DEADLINE_S)

    def stop(self) -> None:
        eventually(lambda: self.said.read_text().startswith("ready\n"))
        self.process.terminate()
        assert self.process.wait(DEADLINE_S) == 0


class World:
    """The relay and the receiver: they count sendings, and answer after as many as the body says."""

    def __init__(self, engine: Engine) -> None:
        self.sent: Counter[str] = Counter()
        self._engine = engine
        self._receipts = Receipts(engine)
        self._enough = threading.Event()
        self._trouble: list[BaseException] = []
        self._thread = threading.Thread(target=self._go_round)
        self._thread.start()

    def end(self) -> None:
        self._enough.set()
        self._thread.join()
        assert self._trouble == []

    def _go_round(self) -> None:
        try:
            while not self._enough.wait(0.01):
                transport = ScriptedTransport()
                drain(self._engine, transport, IMPATIENT)
                for each in (message for call in transport.calls for message in call):
                    assert each.message.properties is not None
                    self._answer(each.message.properties.message_id or "", each.message.body.decode())
        except BaseException as trouble:
            self._trouble.append(trouble)

    def _answer(self, business_id: str, body: str) -> None:
        self.sent[business_id] += 1
        message_answers, other_answers = (int(word) for word in body.split()[:2])
        answers_at = other_answers if business_id.endswith(("/confirm", "/reverse")) else message_answers
        if answers_at == 0:
            self._receipts.refused(None, business_id, "no")
        elif self.sent[business_id] == answers_at:
            self._receipts.done(None, business_id)


def open_rows(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.execute(select(func.count()).where(OUTBOX.c.status.not_in(ENDS))).scalar_one()


def chased(engine: Engine) -> int:
    """How much chasers have done so far."""
    with engine.connect() as connection:
        resends, others = connection.execute(
            select(func.coalesce(func.sum(OUTBOX.c.resends), 0), func.count(OUTBOX.c.settles))
        ).one()
    return int(resends) + int(others)


@pytest.fixture
def start_chaser(database: Engine, tmp_path: Path) -> Iterator[Callable[[], ChaserProcess]]:
    started: list[ChaserProcess] = []

    def start() -> ChaserProcess:
        said = tmp_path / f"chaser{len(started)}"
        started.append(ChaserProcess(database.url.render_as_string(hide_password=False), said))
        return started[-1]

    yield start
    for chaser in started:
        if chaser.process.poll() is None:
            chaser.kill()


def write(engine: Engine, chance: random.Random, first: int) -> None:
    """Messages of every sort: answered at the first sending or later, refused (0), or never answered (99)."""
    for number in range(first, first + MESSAGES // KILLS):
        compensation = chance.choice(["", "confirm", "reverse"])
        body = f"{chance.choice([0, 1, 2, 99])} {chance.choice([0, 1, 2, 99])} {number}"
        add(engine, body, wants_receipt=True, compensation=compensation)


@pytest.mark.timeout(600)
def test_chasers_that_are_killed_leave_every_message_done_reversed_or_alerted(
    database: Engine, start_chaser: Callable[[], ChaserProcess], tmp_path: Path
) -> None:
    chance = random.Random(9)
    world = World(database)
    chasers = [start_chaser() for _ in range(2)]
    for number in range(KILLS):
        before = chased(database)
        write(database, chance, number * MESSAGES)
        eventually(lambda: chased(database) > before)  # noqa: B023
        time.sleep(chance.uniform(0.0, 0.1))
        victim = chance.randrange(2)
        chasers[victim].kill()
        chasers[victim] = start_chaser()
    eventually(lambda: open_rows(database) == 0)
    eventually(lambda: all(row.status != "failed" or row.alerted_at for row in rows(database).values()))
    for chaser in chasers:
        chaser.stop()
    world.end()
    told = Counter(line for path in tmp_path.glob("chaser*") for line in path.read_text().splitlines())
    found = rows(database)
    for business_id, row in found.items():
        if row.settles is None:
            check_message(found, business_id, row, world, told)
        else:
            # a message's own receipt may come before its confirmation is sent
            assert world.sent[business_id] == row.attempt <= row.resends + 1 <= COMPENSATIONS
    assert {row.status for row in found.values()} == set(ENDS)


def check_message(found: dict[str, Any], business_id: str, row: Any, world: World, told: Counter[str]) -> None:
    # a receipt may come after the chaser has had it sent again, and before the relay sends it
    assert 1 <= world.sent[business_id] == row.attempt <= row.resends + 1 <= RESENDS + 1
    other = found.get(compensating_id(business_id, row.compensation)) if row.compensation else None
    if row.status == "failed":
        assert told[business_id] >= 1
        # a refused message is not confirmed
        is_alone = not row.compensation or (row.compensation == "confirm" and row.last_error == "refused: no")
        assert (None if other is None else other.status) == (None if is_alone else "failed")
    elif row.status == "reversed":
        assert other is not None
        assert (row.compensation, other.status) == ("reverse", "done")
    elif other is not None:
        assert (row.compensation, other.status) == ("confirm", "done")
