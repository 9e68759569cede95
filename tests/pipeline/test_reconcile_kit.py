"""An outbox and an inbox as the two ledgers of a reconciliation: SQLite and PostgreSQL, without a driver for Java."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from sqlalchemy import Engine, create_engine, insert, text, update

from tests.client.databases import opened, postgres_url
from tests.support.ports import free_port
from warren.cli.main import run
from warren.client import Message
from warren.client.inbox import Inbox
from warren.client.ledgers import database
from warren.client.outbox import Outbox
from warren.client.tables import INBOX, OUTBOX, create_tables
from warren.pipeline import tables
from warren.pipeline.folder import Folder
from warren.pipeline.reconcile import job, sources
from warren.pipeline.reconcile.settings import LedgerSource

DESCRIPTION = """
key = "business_id"
amounts = ["amount"]
compared = ["currency"]

[ledgers.teller]
source = "outbox"
url = "{teller}"
where = "routing_key = 'deposits'"
in_flight = "0"

[ledgers.bank]
source = "inbox"
url = "{bank}"
consumer = "deposits"
"""
DAY = "2026-11-15"
COUNT = 200


@pytest.fixture(params=["sqlite", "postgresql"])
def engines(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Engine, Engine]]:
    """The teller's database and the bank's; the bank has a file of SQLite."""
    with opened(f"sqlite:///{tmp_path / 'bank.db'}") as bank:
        is_file = request.param == "sqlite"
        url = f"sqlite:///{tmp_path / 'teller.db'}" if is_file else postgres_url(request.getfixturevalue("postgres"))
        with opened(url) as teller:
            create_tables(bank)
            create_tables(teller)
            fill(teller, bank)
            yield teller, bank


def fill(teller: Engine, bank: Engine) -> None:
    """Deposits that the bank has done, all but a few of which something is to be said."""
    outbox, inbox = Outbox(routing_key="deposits"), Inbox(bank, "deposits")
    with teller.begin() as sender, bank.begin() as receiver:
        for number in range(COUNT):
            money = {"amount": Decimal(number) / 4, "currency": "EUR"}
            outbox.add(sender, Message(b"{}"), business_id=f"d{number}", **money)  # type: ignore[arg-type]
            inbox.first_time(receiver, f"d{number}", **money)  # type: ignore[arg-type]
        outbox.add(sender, b"", business_id="of another road", routing_key="withdrawals")
        Inbox(bank, "withdrawals").first_time(receiver, "of another consumer")


def write(folder: Path, engines: tuple[Engine, Engine], above: str = "") -> str:
    """The description; a file of SQLite is named as it is found from there."""
    teller, bank = (engine.url for engine in engines)
    place = "sqlite:///teller.db" if teller.get_backend_name() == "sqlite" else teller.render_as_string(False)
    text = DESCRIPTION.format(teller=place, bank=f"sqlite:///{Path(bank.database or '').name}")
    path = folder / "ledgers.toml"
    path.write_text(above + text)
    return str(path)


def statuses(spark: SparkSession, out: Path) -> dict[str, str]:
    rows, _ = tables.read(spark, Folder(str(out)), job.KIND, job.VERSION)
    return {row["key"]: row["status"] for row in rows.collect()}


def test_two_sides_that_agree_are_in_balance(
    shared: SparkSession, engines: tuple[Engine, Engine], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["pipeline", "reconcile", write(tmp_path, engines), "--out", str(tmp_path / "out")]) == 0
    told = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert told[1:4] == [["teller", "200"], ["bank", "200"], ["balanced", "200"]]
    assert not (tmp_path / "out" / "unfinished").exists()


def test_differences_of_the_sides_are_found(
    shared: SparkSession, engines: tuple[Engine, Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # in pieces, of which the last is not full
    monkeypatch.setattr(database, "CHUNK_ROWS", 7)
    teller, bank = engines
    with teller.begin() as sender, bank.begin() as receiver:
        receiver.execute(text("DELETE FROM warren_inbox WHERE business_id = 'd3'"))
        receiver.execute(update(INBOX).where(INBOX.c.business_id == "d4").values(amount=Decimal("1.0001")))
        receiver.execute(update(INBOX).where(INBOX.c.business_id == "d5").values(currency="USD"))
        sender.execute(text("DELETE FROM warren_outbox WHERE business_id = 'd6'"))
    assert run(["pipeline", "reconcile", write(tmp_path, engines), "--out", str(tmp_path / "out")]) == 1
    assert statuses(shared, tmp_path / "out") == {"d3": "missing", "d4": "differs", "d5": "differs", "d6": "unexpected"}


def test_reversed_messages_are_in_neither_ledger(
    shared: SparkSession, engines: tuple[Engine, Engine], tmp_path: Path
) -> None:
    teller, bank = engines
    with teller.begin() as sender, bank.begin() as receiver:
        for status, number in (("reversed", 1), ("reversing", 2), ("refused", 3), ("failed", 4), ("confirming", 5)):
            sender.execute(update(OUTBOX).where(OUTBOX.c.business_id == f"d{number}").values(status=status))
        for kind, number in (("reversal", 1), ("reversal", 4), ("confirmation", 5)):
            settles = {"business_id": f"d{number}/{kind}", "kind": kind, "settles": f"d{number}"}
            sender.execute(insert(OUTBOX).values(body=b"", routing_key="deposits", **settles))
        for outcome, number in (("taken_back", 1), ("refused", 3), ("taken_back", 4)):
            receiver.execute(update(INBOX).where(INBOX.c.business_id == f"d{number}").values(outcome=outcome))
    assert run(["pipeline", "reconcile", write(tmp_path, engines), "--out", str(tmp_path / "out")]) == 1
    assert statuses(shared, tmp_path / "out") == {"d2": "unexpected"}


def test_messages_under_way_while_the_ledgers_are_read_are_no_difference(
    shared: SparkSession,
    engines: tuple[Engine, Engine],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Written before and not done, done but written while the other is read; an older one is missing all the same."""
    teller, bank = engines
    outbox, whole = Outbox(routing_key="deposits"), sources.copied
    with teller.begin() as sender, bank.begin() as receiver:
        for name in ("pending", "sent", "lost"):
            outbox.add(sender, b"", business_id=name, amount=Decimal(1), currency="EUR")
        long_ago = datetime.now(UTC) - timedelta(minutes=5)
        sender.execute(update(OUTBOX).values(created_at=long_ago).where(OUTBOX.c.business_id.in_(["sent", "lost"])))
        sender.execute(update(OUTBOX).values(sent_at=datetime.now(UTC)).where(OUTBOX.c.business_id == "sent"))
        receiver.execute(text("DELETE FROM warren_inbox WHERE business_id = 'd9'"))

    def copied_slowly(spark: SparkSession, source: LedgerSource, folder: Folder) -> DataFrame:
        found = whole(spark, source, folder)
        name = f"behind {source.kind}"
        with teller.begin() as sender, bank.begin() as receiver:
            outbox.add(sender, b"", business_id=name, amount=Decimal(1), currency="EUR")
            Inbox(bank, "deposits").first_time(receiver, name, amount=Decimal(1), currency="EUR")
        return found

    monkeypatch.setattr(sources, "copied", copied_slowly)
    file = Path(write(tmp_path, engines))
    file.write_text(file.read_text().replace('in_flight = "0"', 'in_flight = "2m"'))
    assert run(["pipeline", "reconcile", str(file), "--out", str(tmp_path / "out")]) == 1
    assert statuses(shared, tmp_path / "out") == {"lost": "missing"}
    # pending, sent, d9, and behind inbox
    assert ["on", "their", "way", "4", "left", "out"] in [line.split() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("engines", ["sqlite"], indirect=True)
def test_an_amount_that_makes_no_sense_makes_its_own_key_unreadable(
    shared: SparkSession, engines: tuple[Engine, Engine], tmp_path: Path
) -> None:
    odd = {"d1": "abc", "d2": "0.12345", "d3": "1" + "0" * 16, "d4": "NaN", "d5": ""}
    with engines[1].begin() as receiver:
        for name, amount in odd.items():
            wrong = text("UPDATE warren_inbox SET amount = :amount WHERE business_id = :name")
            receiver.execute(wrong, {"amount": amount, "name": name})
    assert run(["pipeline", "reconcile", write(tmp_path, engines), "--out", str(tmp_path / "out")]) == 1
    assert statuses(shared, tmp_path / "out") == dict.fromkeys(odd, "unreadable")


def test_a_day_that_is_not_over_is_refused(
    shared: SparkSession, engines: tuple[Engine, Engine], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["pipeline", "reconcile", write(tmp_path, engines), "--out", str(tmp_path / "out")]
    assert run([*command, "--day", datetime.now(UTC).date().isoformat()]) == 2
    assert "is not over, with its grace, before" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_day_is_that_of_the_tables_own_times(
    shared: SparkSession, engines: tuple[Engine, Engine], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    teller, bank = engines
    with teller.begin() as sender, bank.begin() as receiver:
        sender.execute(update(OUTBOX).values(created_at=datetime(2026, 11, 15, 23, 59, tzinfo=UTC)))
        receiver.execute(update(INBOX).values(received_at=datetime(2026, 11, 15, 23, 59, 30, tzinfo=UTC)))
        late = update(INBOX).where(INBOX.c.business_id == "d7")
        receiver.execute(late.values(received_at=datetime(2026, 11, 16, 0, 10, tzinfo=UTC)))
    file = write(tmp_path, engines, "grace = '1h'")
    command = ["pipeline", "reconcile", file, "--out", str(tmp_path / "out")]
    assert run([*command, "--day", DAY]) == 0
    assert ["late", "1"] in [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert run([*command, "--day", "2026-11-10"]) == 2
    assert "ledger teller has no row of 2026-11-10 (in UTC) among 200" in capsys.readouterr().err


def test_a_row_that_was_written_by_hand_has_the_time_at_which_it_was_sent(engines: tuple[Engine, Engine]) -> None:
    teller, _ = engines
    with teller.begin() as sender:
        sender.execute(text("UPDATE warren_outbox SET sent_at = created_at, created_at = NULL"))
    at = database.OUTBOX_COLUMNS.index("created_at")
    assert all(row[at] is not None and row[at].tzinfo for piece in database.outbox_rows(teller) for row in piece)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("{teller}", "jdbc:postgresql://127.0.0.1/bank", "ledger teller: the url of an outbox is like postgresql://"),
        ("{teller}", "sqlite:///nowhere.db", "ledger teller cannot be read: url names a file that is not there"),
        ("{teller}", "mysql://bank", "url is PostgreSQL or SQLite, not mysql"),
        ("{teller}", "postgresql://b:secret@127.0.0.1:{unused}/b", "cannot connect to postgresql+psycopg://b:***@"),
        ("{teller}", "sqlite:///empty.db", "call warren.client.tables.create_tables"),
        ('consumer = "deposits"\n', "", "ledger bank: source inbox needs consumer"),
        ("'deposits'", "'nobody'", "ledger teller is empty"),
    ],
)
def test_unreadable_input_is_reported_before_anything_is_written(
    shared: SparkSession, tmp_path: Path, old: str, new: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.db").touch()
    for name in ("teller", "bank"):
        engine = create_engine(f"sqlite:///{tmp_path / name}.db")
        create_tables(engine)
        engine.dispose()
    places = {"teller": "sqlite:///teller.db", "bank": "sqlite:///bank.db", "unused": free_port()}
    described = DESCRIPTION.replace(old, new).format(**places)
    (tmp_path / "ledgers.toml").write_text(described)
    assert run(["pipeline", "reconcile", str(tmp_path / "ledgers.toml"), "--out", str(tmp_path / "out")]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "secret" not in told
    assert not (tmp_path / "out").exists()
