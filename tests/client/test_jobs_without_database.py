"""Relay and chaser while their database fails: they log it, and go on."""

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, NullPool, create_engine, text

from tests.client.awaited_rows import be_late, send
from tests.client.databases import opened, postgres_url
from tests.client.relayed_rows import DEADLINE_S, add, statuses
from tests.support.deadlines import until
from tests.support.postgres import Postgres
from tests.unit.client.outbox.scripted import ScriptedTransport
from warren.client.outbox import Relay, RelaySettings
from warren.client.receipts import Alert, Chaser, ChasingSettings
from warren.client.tables import create_tables

BUSY = {"lease_s": 2.0, "poll_s": 0.01, "backoff_s": 0.01}
"""The next to use the database is the work."""

IDLE = {"lease_s": 0.3, "poll_s": 2.0, "backoff_s": 0.01}
"""And here it is the renewal of the lease, which comes every tenth of a second."""


class RelayAtWork:
    """Sends rows."""

    name = "relay"

    def __init__(self, engine: Engine, settings: dict[str, Any]) -> None:
        self.job = Relay(engine, ScriptedTransport(), RelaySettings(listening_poll_s=settings["poll_s"], **settings))

    def give(self, engine: Engine, row: str) -> None:
        add(engine, row)

    def is_done(self, engine: Engine, row: str) -> bool:
        return statuses(engine)[row] == "sent"


class ChaserAtWork:
    """Marks rows with overdue receipts as failed."""

    name = "chaser"

    def __init__(self, engine: Engine, settings: dict[str, Any]) -> None:
        self.job = Chaser(engine, ChasingSettings(resends=0, **settings))

    def give(self, engine: Engine, row: str) -> None:
        send(engine, row)
        be_late(engine)

    def is_done(self, engine: Engine, row: str) -> bool:
        return statuses(engine)[row] == "failed"


AtWork = RelayAtWork | ChaserAtWork
each_job = pytest.mark.parametrize("kind", [RelayAtWork, ChaserAtWork])
each_trouble = pytest.mark.parametrize(
    ("settings", "event"), [(BUSY, "database_failed"), (IDLE, "renewal_failed")], ids=["work", "renewal"]
)


@pytest.fixture
def postgres(postgres_server: Postgres) -> Iterator[Engine]:
    """A database with the tables and without a pool, so that only the job's connections are cut."""
    with opened(postgres_url(postgres_server)) as kept:
        create_tables(kept)
        kept.dispose()
        yield create_engine(kept.url, poolclass=NullPool)


def reasons(caplog: pytest.LogCaptureFixture, event: str) -> list[str]:
    return [vars(record)["reason"] for record in caplog.records if record.message == event]


def run_beside(at_work: AtWork, trouble: Callable[[], Awaitable[None]], engine: Engine) -> None:
    """The job handles one row before the fault, and another one after it."""

    async def do(row: str) -> None:
        await asyncio.to_thread(at_work.give, engine, row)
        while not await asyncio.to_thread(at_work.is_done, engine, row):
            await asyncio.sleep(0.01)

    async def main() -> None:
        running = asyncio.create_task(at_work.job.run())
        async with asyncio.timeout(DEADLINE_S):
            await do("before")
            await trouble()
            await do("after")
            at_work.job.stop()
            await running

    asyncio.run(main())


def execute(engine: Engine, statement: str) -> None:
    with engine.begin() as connection:
        connection.execute(text(statement))


def cut(engine: Engine, *, listening: bool) -> int:
    """Cut every connection but this one, or only those without LISTEN; the count of them."""
    others = "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
    some = "" if listening else " AND query NOT LIKE 'LISTEN%'"
    with engine.connect() as connection:
        return int(connection.execute(text(f"SELECT count(pg_terminate_backend(pid)) {others}{some}")).scalar_one())


@each_job
@each_trouble
def test_a_job_whose_connections_are_cut_says_so_and_goes_on(
    postgres: Engine,
    kind: type[RelayAtWork] | type[ChaserAtWork],
    settings: dict[str, Any],
    event: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    own = create_engine(postgres.url)
    at_work = kind(own, settings)

    async def trouble() -> None:
        hit = 0
        while not reasons(caplog, f"{at_work.name}.{event}"):
            # without the notice of a lost connection, which would make the work fail first
            hit += await asyncio.to_thread(cut, postgres, listening=settings is BUSY)
            await asyncio.sleep(0.2)
        assert hit > 0

    run_beside(at_work, trouble, postgres)
    own.dispose()
    # a job that was stopped, or found it closed
    assert all("connection" in reason.lower() for reason in reasons(caplog, f"{at_work.name}.{event}"))


@each_job
@each_trouble
def test_the_values_of_a_statement_that_failed_are_in_no_log(
    database: Engine,
    kind: type[RelayAtWork] | type[ChaserAtWork],
    settings: dict[str, Any],
    event: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    at_work = kind(database, settings)

    def has_said() -> bool:
        return bool(reasons(caplog, f"{at_work.name}.{event}"))

    async def trouble() -> None:
        # repeat: if the work fails first, the lease is not renewed meanwhile
        for number in itertools.count():
            await asyncio.to_thread(execute, database, "ALTER TABLE warren_leases RENAME TO away")
            # the relay cannot mark sent rows; the chaser notices without any row
            if kind is RelayAtWork and settings is BUSY:
                await asyncio.to_thread(add, database, f"meanwhile {number}")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(until(has_said), 0.5)
            await asyncio.to_thread(execute, database, "ALTER TABLE away RENAME TO warren_leases")
            if has_said():
                return
            await asyncio.sleep(0.2)

    run_beside(at_work, trouble, database)
    for reason in reasons(caplog, f"{at_work.name}.{event}"):
        assert "warren_leases" in reason
        assert "\n" not in reason
        assert "parameters" not in reason


def test_the_values_of_a_statement_of_on_alert_are_in_no_log(
    database: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    send(database, "one")
    be_late(database)

    secret = "4111 " * 2

    def note(alert: Alert) -> None:
        with database.begin() as connection:
            connection.execute(text("INSERT INTO nowhere VALUES (:secret)"), {"secret": secret})

    asyncio.run(Chaser(database, ChasingSettings(resends=0), on_alert=note).once())
    [record] = [record for record in caplog.records if record.message == "receipt.alert_failed"]
    assert "nowhere" in vars(record)["reason"]
    assert "in note" in vars(record)["raised"]
    assert secret not in caplog.text + vars(record)["reason"] + vars(record)["raised"]
