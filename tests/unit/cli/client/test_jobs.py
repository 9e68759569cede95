"""Refusals before a job starts, and its log."""

import logging
import sys
from pathlib import Path

import pytest

from warren.cli.client.databases import engine_of
from warren.cli.client.jobs import LogLineFormatter, chosen
from warren.cli.main import run
from warren.client.outbox import RelaySettings
from warren.errors import ConfigError

NOWHERE = "postgresql://shop:moles@127.0.0.1:1/shop"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["relay"], "Missing option '--database'"),
        (["relay", "--database", NOWHERE], "where is the broker?"),
        (["relay", "--database", NOWHERE, "--url", "http://localhost"], "amqp"),
        (["relay", "--database", "shop", "--url", "amqp://localhost"], "--database is no URL"),
        (["relay", "--database", "mysql://localhost/shop", "--url", "amqp://localhost"], "not mysql"),
        (
            ["relay", "--database", "postgresql+moles://localhost/shop", "--url", "amqp://localhost"],
            "is of an unknown kind",
        ),
        (["relay", "--database", "sqlite://", "--url", "amqp://localhost"], "no other process sees a database"),
        (["relay", "--database", "sqlite:///nowhere.db", "--url", "amqp://localhost"], "is not there: nowhere.db"),
        (["relay", "--database", NOWHERE, "--url", "amqp://localhost", "--set", "tries"], "--set is NAME=VALUE"),
        (["relay", "--database", NOWHERE, "--url", "amqp://localhost", "--set", "trys=1"], "did you mean tries?"),
        (["relay", "--database", NOWHERE, "--url", "amqp://localhost", "--set", "tries=0.5"], "is a whole number"),
        (["relay", "--database", NOWHERE, "--url", "amqp://localhost", "--set", "lease_s=x"], "is a number"),
        (["relay", "--database", NOWHERE, "--url", "amqp://localhost", "--set", "lease_s=99"], "at most 60"),
        (["relay", "--database", NOWHERE, "--settings", "absent.toml"], "absent.toml: it cannot be read"),
        (["relay", "--database", NOWHERE, "--url", "amqp://localhost", "--log-format", "xml"], "plaintext, json"),
        (["tables"], "Missing option '--database'"),
        (["chase"], "Missing option '--database'"),
        (["chase", "--database", NOWHERE, "--set", "resends=-1"], "resends of 0 or more"),
        (["chase", "--database", NOWHERE, "--set", "tries=1"], "--set knows resends, compensations"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_one_sentence_without_secrets(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["client", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("warren: ")
    assert printed.err.count("\n") == 1
    assert said in printed.err
    assert "moles" not in printed.err.replace("postgresql.moles", "").replace("postgresql+moles", "")


@pytest.mark.parametrize("command", ["chase", "relay", "tables"])
def test_every_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["client", command, "--help"]) == 0
    assert f"Example: warren client {command} --database" in capsys.readouterr().out


def test_settings_are_chosen_by_their_names() -> None:
    settings = chosen(RelaySettings, ["tries=7", "lease_s=0.5", "keep_s=none"])
    assert settings == RelaySettings(tries=7, lease_s=0.5, keep_s=None)
    assert chosen(RelaySettings, None) == RelaySettings()
    with pytest.raises(ConfigError, match="tries is a whole number"):
        chosen(RelaySettings, ["tries=none"])


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_postgresql_needs_no_name_of_a_driver(scheme: str) -> None:
    engine = engine_of(f"{scheme}://shop@localhost/shop")
    assert engine.url.drivername == "postgresql+psycopg"


def record(said: str, level: int = logging.WARNING, **facts: object) -> logging.LogRecord:
    made = logging.LogRecord("warren.client.outbox", level, __file__, 1, said, (), None)
    vars(made).update(facts)
    made.created = 0.0
    return made


def test_an_event_is_a_line_with_its_facts() -> None:
    line = LogLineFormatter("plaintext").format(record("relay.rows_put_off", rows=3, reason="no room\nat all"))
    head = "time=1970-01-01T00:00:00Z level=warning"
    assert line == f'{head} event=relay.rows_put_off rows=3 reason="no room\\nat all"'


def test_a_sentence_is_a_fact_of_its_loggers_event() -> None:
    assert LogLineFormatter("json").format(record("it broke", logging.ERROR)) == (
        '{"time": "1970-01-01T00:00:00Z", "level": "error", "event": "warren.client.outbox", "message": "it broke"}'
    )


def test_a_traceback_follows_its_line() -> None:
    failed = record("relay.broke")
    try:
        raise ValueError("moles")
    except ValueError:
        failed.exc_info = sys.exc_info()
    first, *rest = LogLineFormatter("plaintext").format(failed).splitlines()
    assert first.endswith("event=relay.broke")
    assert rest[-1] == "ValueError: moles"
