"""From the findings of a reconciliation of two databases back through the outbox, until they are in balance."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from sqlalchemy import Connection, Engine, delete, select, text, update

from tests.client.databases import opened, postgres_url
from warren.cli.main import run
from warren.client import Message, blocking, recovering
from warren.client.inbox import Inbox
from warren.client.ledgers import corrections
from warren.client.outbox import Outbox, Relay
from warren.client.receipts import compensate
from warren.client.tables import INBOX, OUTBOX, create_tables
from warren.client.transport import Incoming
from warren.pipeline.compensate import job
from warren.pipeline.compensate import outbox as through_outbox
from warren.pipeline.compensate.settings import CompensateSettings
from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder

LEDGERS = """
key = "business_id"
amounts = ["amount"]
[ledgers.teller]
source = "outbox"
url = "{teller}"
in_flight = "0"
[ledgers.bank]
source = "inbox"
url = "{bank}"
consumer = "deposits"
"""
DAY = "2026-11-15"
COUNT = 20


class Desk:
    """A teller and a bank, each with a database, a queue between them, and a folder for jobs."""

    def __init__(self, teller: Engine, bank: Engine, queue: str, url: str, folder: Path) -> None:
        self.teller, self.bank, self.folder = teller, bank, folder
        self.inbox = Inbox(bank, "deposits")
        self.balance = 0
        self._queue, self._url = queue, url
        self._outbox = Outbox(routing_key=queue)

    def deposit(self, number: int) -> None:
        money = {"amount": Decimal(number), "currency": "EUR"}
        with self.teller.begin() as connection:
            body = Message(str(number).encode())
            self._outbox.add(connection, body, business_id=f"d{number}", wants_receipt=True, **money)  # type: ignore[arg-type]

    def deliver(self) -> None:
        """Relay the pending rows, and let the bank handle its messages; corrections bypass the inbox."""
        asyncio.run(self._deliver())

    async def _deliver(self) -> None:
        handle = self.inbox.handler(
            self._book, undo=self._take_back, money=lambda came: (Decimal(int(came.body)), "EUR")
        )
        async with await recovering.open(self._url) as transport:
            await Relay(self.teller, transport).drain()
            while came := await transport.get(self._queue, no_ack=True):
                handle(came)

    def _book(self, _: Connection, message: Incoming) -> None:
        self.balance += int(message.body)

    def _take_back(self, _: Connection, message: Incoming) -> None:
        self.balance -= int(message.body)

    def reconcile(self) -> int:
        teller, bank = (engine.url.render_as_string(hide_password=False) for engine in (self.teller, self.bank))
        (self.folder / "ledgers.toml").write_text(LEDGERS.format(teller=teller, bank=bank))
        return run(["pipeline", "reconcile", f"{self.folder}/ledgers.toml", "--out", f"{self.folder}/found"])

    def compensate(self, *options: str) -> int:
        outbox = self.teller.url.render_as_string(hide_password=False)
        state = ["--state", f"{self.folder}/state", "--day", DAY, "--outbox", outbox]
        return run(["pipeline", "compensate", f"{self.folder}/found", *state, *options])

    def settings(self, **changed: Any) -> CompensateSettings:
        outbox = self.teller.url.render_as_string(hide_password=False)
        given = {"day": DAY, "outbox": outbox, "yes": True} | changed
        return CompensateSettings(Folder(f"{self.folder}/found"), Folder(f"{self.folder}/state"), **given)

    def statuses(self, *ids: str) -> dict[str, str]:
        with self.teller.connect() as connection:
            rows = connection.execute(select(OUTBOX.c.business_id, OUTBOX.c.status)).all()
        return {business_id: status for business_id, status in rows if business_id in ids}

    def spoil(self) -> None:
        """One is lost, one that is to be reversed is still there, and one belongs to no row."""
        with self.bank.begin() as bank, self.teller.begin() as teller:
            bank.execute(delete(INBOX).where(INBOX.c.business_id == "d3"))
            compensate(teller, "d4", "reverse")
            own = OUTBOX.c.business_id == "d4/reverse"
            teller.execute(update(OUTBOX).where(own).values(status="failed", last_error="nobody answered"))
            self.inbox.first_time(bank, "strange", amount=Decimal(7), currency="EUR")
        self.balance -= 3


@pytest.fixture(params=["sqlite", "postgresql"])
def desk(
    request: pytest.FixtureRequest, tmp_path: Path, queue: str, url: str, broker: blocking.Channel
) -> Iterator[Desk]:
    is_file = request.param == "sqlite"
    place = f"sqlite:///{tmp_path / 'teller.db'}" if is_file else postgres_url(request.getfixturevalue("postgres"))
    with opened(place) as teller, opened(f"sqlite:///{tmp_path / 'bank.db'}") as bank:
        create_tables(teller)
        create_tables(bank)
        found = Desk(teller, bank, broker.declare_queue(queue, durable=True).name, url, tmp_path)
        for number in range(COUNT):
            found.deposit(number)
        found.deliver()
        assert found.balance == sum(range(COUNT))
        found.spoil()
        yield found


def test_differences_are_sent_through_the_outbox_until_the_ledgers_balance(
    shared: SparkSession, desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    assert desk.reconcile() == 1
    before = desk.statuses("d3", "d4", "d4/reverse")
    assert desk.compensate("--dry-run") == 0
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines() if line.split()[0] in STEPS] == [
        ["left", "1"],
        ["resent", "1"],
        ["reversed", "1"],
    ]
    assert desk.statuses("d3", "d4", "d4/reverse") == before
    assert desk.compensate() == 0
    assert desk.statuses("d3", "d4", "d4/reverse") == {"d3": "pending", "d4": "reversing", "d4/reverse": "pending"}
    desk.deliver()
    assert desk.balance == sum(range(COUNT)) - 4
    with desk.bank.begin() as connection:
        connection.execute(delete(INBOX).where(INBOX.c.business_id == "strange"))
    assert desk.reconcile() == 0


STEPS = ("left", "resent", "reversed", "added", "on_its_way", "outdated")


@pytest.mark.parametrize("desk", ["sqlite"], indirect=True)
def test_a_key_that_the_outbox_lacks_is_a_new_message_to_the_configured_address(
    shared: SparkSession, desk: Desk, broker: blocking.Channel
) -> None:
    assert desk.reconcile() == 1
    done = job.run(shared, desk.settings(routing_key="{ledger}-corrections"))
    assert done.steps == {"resent": 1, "reversed": 1, "added": 1}
    with desk.teller.connect() as connection:
        row = connection.execute(select(OUTBOX).where(OUTBOX.c.kind == "correction")).one()
    assert (row.routing_key, row.status) == ("bank-corrections", "pending")
    body = json.loads(row.body)
    assert (body["action"], body["key"], body["wrong"]["business_id"]) == ("reverse", "strange", "strange")
    headers = json.loads(row.properties)["headers"]
    assert (headers["key"], headers["ledger"], headers["attempt"]) == ("strange", "bank", "1")
    assert row.business_id == headers["compensation_id"]
    # corrections are in neither ledger
    assert desk.reconcile() == 1


@pytest.mark.parametrize("desk", ["sqlite"], indirect=True)
def test_a_run_that_was_killed_is_taken_up_and_makes_no_second_row(
    shared: SparkSession, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed when the outbox has all of it, before that is recorded."""
    assert desk.reconcile() == 1

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(job.kept, "closed", die)
        with pytest.raises(KeyboardInterrupt):
            job.run(shared, desk.settings(routing_key="corrections"))
    written = row_count(desk)
    with pytest.raises(PipelineError, match="has not ended goes through the outbox"):
        job.run(shared, desk.settings(outbox="", url="amqp://127.0.0.1:1/%2F", routing_key="corrections"))
    taken_up = job.run(shared, desk.settings(routing_key="corrections"))
    assert taken_up.messages == 3
    assert row_count(desk) == written
    assert job.run(shared, desk.settings(routing_key="corrections")).already


def test_a_run_that_was_killed_half_way_settles_the_rest(
    shared: SparkSession, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One finding is a transaction here, and the second does not come about."""
    assert desk.reconcile() == 1
    monkeypatch.setattr(corrections, "BATCH", 1)
    whole, settled = corrections._done, []

    def die_at_the_second(*given: Any) -> Any:
        if settled:
            raise KeyboardInterrupt
        settled.append(given)
        return whole(*given)

    with monkeypatch.context() as patch:
        patch.setattr(corrections, "_done", die_at_the_second)
        with pytest.raises(KeyboardInterrupt):
            job.run(shared, desk.settings(routing_key="corrections"))
    job.run(shared, desk.settings(routing_key="corrections"))
    assert desk.statuses("d3", "d4", "d4/reverse") == {"d3": "pending", "d4": "reversing", "d4/reverse": "pending"}
    with desk.teller.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM warren_outbox WHERE kind = 'correction'")).scalar() == 1


def row_count(desk: Desk) -> int:
    with desk.teller.connect() as connection:
        return int(connection.execute(text("SELECT count(*) FROM warren_outbox")).scalar_one())


@pytest.mark.parametrize("desk", ["sqlite"], indirect=True)
def test_a_key_is_tried_so_often_and_no_more(shared: SparkSession, desk: Desk) -> None:
    """A message without an action is no attempt: a key that is left to a person, and rows in flight."""
    assert desk.reconcile() == 1
    for attempt in (1, 2):
        done = job.run(shared, desk.settings(max_attempts=2, again=True))
        assert (attempt, done.messages, done.exhausted) == (attempt, 2, 0)
        assert done.steps == {"resent": 1, "reversed": 1, "left": 1}
        waiting = job.run(shared, desk.settings(max_attempts=3, again=True))
        assert (waiting.messages, waiting.steps) == (0, {"on_its_way": 2, "left": 1})
        with desk.teller.begin() as connection:
            connection.execute(update(OUTBOX).where(OUTBOX.c.status == "pending").values(status="sent"))
    left = job.run(shared, desk.settings(max_attempts=2, again=True))
    assert (left.messages, left.exhausted, left.steps) == (0, 2, {"left": 1})


@pytest.mark.parametrize("desk", ["sqlite"], indirect=True)
def test_messages_that_a_side_may_have_forgotten_are_left_alone(shared: SparkSession, desk: Desk) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=8)
    with desk.bank.begin() as bank, desk.teller.begin() as teller:
        teller.execute(update(OUTBOX).where(OUTBOX.c.business_id == "d3").values(created_at=long_ago))
        bank.execute(update(INBOX).where(INBOX.c.business_id == "strange").values(received_at=long_ago))
    assert desk.reconcile() == 1
    done = job.run(shared, desk.settings(routing_key="corrections"))
    assert done.steps == {"reversed": 1, "too_old": 2}
    assert desk.statuses("d3") == {"d3": "sent"}
    kept = job.run(shared, desk.settings(routing_key="corrections", keep_days=30.0, again=True))
    assert kept.steps == {"resent": 1, "added": 1, "on_its_way": 1}


@pytest.mark.parametrize("desk", ["sqlite"], indirect=True)
def test_a_missing_outbox_is_reported_before_anything_is_written(shared: SparkSession, desk: Desk) -> None:
    assert desk.reconcile() == 1
    for outbox, said in (
        ("sqlite:///nowhere.db", "the outbox: the database names a file that is not there: nowhere.db"),
        ("mysql://bank", "the outbox: the database is PostgreSQL or SQLite, not mysql"),
    ):
        with pytest.raises(PipelineError, match=said):
            job.run(shared, desk.settings(outbox=outbox))
    assert not (desk.folder / "state").exists()


@pytest.mark.parametrize("desk", ["sqlite"], indirect=True)
def test_an_outbox_of_an_older_version_is_refused(shared: SparkSession, desk: Desk) -> None:
    with desk.teller.begin() as connection:
        connection.execute(text("UPDATE warren_tables SET version = 1 WHERE part = 'outbox'"))
    with pytest.raises(PipelineError, match=r"create_tables\(engine\) once"):
        through_outbox.check_outbox(desk.teller.url.render_as_string(hide_password=False))


def test_the_environment_may_name_the_outbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As if it stood in the command, where it is one too many beside a broker."""
    monkeypatch.setenv("WARREN_PIPELINE_OUTBOX", "postgresql://teller:secret@localhost/teller")
    command = ["pipeline", "compensate", str(tmp_path), "--state", str(tmp_path / "state")]
    assert run([*command, "--url", "amqp://localhost", "--routing-key", "corrections"]) != 0
    told = capsys.readouterr().err
    assert "give the URL of one of them" in told
    assert "secret" not in told
