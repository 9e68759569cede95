"""`warren client open`: the table, the JSON and the page of open rows, exit codes, and the page served live."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from sqlalchemy import Engine, create_engine, delete, insert

from tests.support.ports import free_port
from warren.cli.main import run
from warren.client import Message
from warren.client.outbox import Outbox
from warren.client.tables import OUTBOX, create_tables, database_time, take_lease

WARREN = Path(sys.executable).with_name("warren")
HOSTILE = "<script>alert(1)</script>\x1b[2J"


def url_of(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


@pytest.fixture
def outbox(database: Engine) -> Engine:
    """A database with a pending row, a failed row, and an overdue row."""
    with database.begin() as connection:
        outbox = Outbox(exchange="BANK", routing_key="deposits")
        outbox.add(connection, Message(b"1"), business_id="deposit-1", amount=Decimal("12.5"), currency="EUR")
        late = {"status": "sent", "wants_receipt": True, "due_at": database_time(-125), "attempt": 3}
        connection.execute(insert(OUTBOX).values(business_id="deposit-2", body=b"", **late))
        connection.execute(insert(OUTBOX).values(business_id="bad", body=b"", status="failed", last_error=HOSTILE))
    return database


def test_open_rows_are_a_table_in_the_terminal(outbox: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["client", "open", "--database", url_of(outbox)]) == 1
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.endswith(": 3 rows are open, no relay is active")
    words = [line.split() for line in lines]
    assert [each[:2] for each in words[:3]] == [["failed", "1"], ["sent", "1"], ["pending", "1"]]
    assert words[1][-2:] == ["1", "overdue"]
    assert lines[4].split("  ")[0] == "status"
    assert words[5][:3] == ["failed", "bad", "(default)"]
    assert words[6][:5] == ["sent", "deposit-2", "(default)", "3", "-"]
    assert " 2 min ago " in lines[6]
    assert words[7][:4] == ["pending", "deposit-1", "BANK", "deposits"]
    assert " 12.50 EUR " in lines[7]


def test_control_characters_of_messages_do_not_reach_the_terminal(
    outbox: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["client", "open", "--database", url_of(outbox)])
    assert "\x1b" not in capsys.readouterr().out


def test_nothing_open_is_0(database: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    with database.begin() as connection:
        take_lease(connection, "outbox", "somebody", 30.0)
    assert run(["client", "open", "--database", url_of(database)]) == 0
    assert capsys.readouterr().out.endswith(": nothing is open, a relay is active\n")


def test_rows_beyond_the_limit_are_counted(database: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    with database.begin() as connection:
        for number in range(5):
            Outbox(routing_key="deposits").add(connection, b"", business_id=f"deposit-{number}")
    assert run(["client", "open", "--database", url_of(database), "--limit", "2"]) == 1
    told = capsys.readouterr().out
    assert [number for number in range(5) if f"deposit-{number}" in told] == [0, 1]
    assert told.endswith("3 more are not shown; --limit shows more\n")


def test_programs_get_json(outbox: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["client", "open", "--database", url_of(outbox), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["is_relayed"], found["relay_until"]) == (3, False, None)
    assert {each["status"]: each["rows"] for each in found["counts"] if each["rows"]} == {
        "failed": 1, "sent": 1, "pending": 1
    }  # fmt: skip
    bad, late, pending = found["items"]
    assert bad["last_error"] == HOSTILE
    assert (late["business_id"], late["is_overdue"]) == ("deposit-2", True)
    assert (pending["amount"], pending["currency"]) == ("12.5000", "EUR")
    assert pending["created_at"].endswith("+00:00")


def test_the_page_is_one_file_and_names_are_no_markup(outbox: Engine, tmp_path: Path) -> None:
    file = tmp_path / "open.html"
    assert run(["client", "open", "--database", url_of(outbox), "--html", str(file)]) == 1
    text = file.read_text()
    assert "deposit-1" in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script" not in text
    assert 'http-equiv="refresh"' not in text
    assert "script-src &#39;none&#39;" in text
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith((".html", ".unfinished"))] == ["open.html"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--database", "sqlite:///nowhere/at/all.db"], "names a file that is not there"),
        (["--database", "postgresql://warren:secret@127.0.0.1:{port}/bank"], "cannot connect to"),
        (["--database", "mysql://bank"], "PostgreSQL or SQLite, not mysql"),
        (["--database", "postgresql://127.0.0.1:{port}/bank?user=a&password=secret"], "cannot connect to"),
        (["--database", "postgresql://warren:a@b:secret@localhost/bank"], "--database is no URL"),
        (["--database", "postgresql://warren:a@secret@localhost/bank"], "--database has more than one @"),
        (["--database", "postgresql://warren:a@b/secret@localhost/bank"], "--database has more than one @"),
        (["--database", "postgresql://warren:secret@localhost:port/bank"], "--database is no URL"),
        (["--database", "postgresql+asyncpg://warren:secret@localhost/bank"], "--database needs a package"),
        (["--database", "sqlite:///{file}"], "call warren.client.tables.create_tables"),
        (["--database", "sqlite:///{file}", "--serve", "everywhere"], "--serve is PORT or HOST:PORT"),
        (["--database", "sqlite:///{file}", "--serve", "0", "--json"], "--serve goes without --html and --json"),
    ],
)
def test_trouble_is_2_and_a_sentence(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.db").touch()
    given = [each.format(file=tmp_path / "empty.db", port=free_port()) for each in options]
    assert run(["client", "open", *given]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert "secret" not in told


@pytest.mark.parametrize("options", [[], ["--serve", "0"]], ids=["shown", "served"])
def test_a_row_that_makes_no_sense_is_2_and_not_something_that_is_open(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'odd.db'}")
    create_tables(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO warren_outbox (business_id, body, amount) VALUES ('a', '', 'abc')")
    engine.dispose()
    assert run(["client", "open", "--database", url_of(engine), *options]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert "has data that cannot be shown" in told.err


def test_a_currency_cannot_command_the_terminal(database: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    with database.begin() as connection:
        connection.execute(insert(OUTBOX).values(business_id="a", body=b"", amount=Decimal(1), currency="\x1bc"))
    assert run(["client", "open", "--database", url_of(database)]) == 1
    assert "\x1b" not in capsys.readouterr().out


def test_a_page_that_cannot_be_written_is_2(outbox: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["client", "open", "--database", url_of(outbox), "--html", str(tmp_path / "no" / "open.html")]) == 2
    assert "cannot be written: No such file or directory" in capsys.readouterr().err


def test_a_port_that_is_taken_is_2(served: str, outbox: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    address = urlsplit(served).netloc
    assert run(["client", "open", "--database", url_of(outbox), "--serve", address]) == 2
    assert f"cannot listen on {address}: Address already in use" in capsys.readouterr().err


@pytest.fixture
def served(outbox: Engine) -> Iterator[str]:
    """The address at which a process serves the page; it exits with 0 after SIGTERM."""
    command = [str(WARREN), "client", "open", "--database", url_of(outbox), "--serve", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def ask(url: str, path: str = "/", method: str = "GET", host: str | None = None) -> tuple[int, str]:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        connection.request(method, path, headers={} if host is None else {"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_the_page_is_served_as_the_outbox_is_at_the_moment(served: str, outbox: Engine) -> None:
    assert served.startswith("http://127.0.0.1:")
    status, text = ask(served)
    assert (status, "deposit-1" in text, '<meta http-equiv="refresh" content="5">' in text) == (200, True, True)
    with outbox.begin() as connection:
        connection.execute(delete(OUTBOX).where(OUTBOX.c.business_id == "deposit-1"))
    assert "deposit-1" not in ask(served)[1]
    assert json.loads(ask(served, "/open.json")[1])["rows"] == 2


def test_the_page_can_only_be_read_and_only_from_here(served: str) -> None:
    assert ask(served, method="HEAD") == (200, "")
    assert ask(served, "/elsewhere")[0] == 404
    assert [ask(served, method=method)[0] for method in ("POST", "DELETE", "PUT")] == [501, 501, 501]
    assert ask(served, host="bank.example:80")[0] == 403
    assert ask(served, host=f"localhost:{urlsplit(served).port}")[0] == 200


def test_a_failing_database_is_reported_and_asked_again(served: str, outbox: Engine) -> None:
    with outbox.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE warren_tables RENAME TO elsewhere")
    status, text = ask(served)
    assert (status, "is not ours" in text) == (503, True)
    with outbox.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE elsewhere RENAME TO warren_tables")
    assert ask(served)[0] == 200
