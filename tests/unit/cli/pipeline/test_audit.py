"""The arguments that `warren pipeline audit` refuses before Spark is started."""

import json
from pathlib import Path

import pytest

from tests.support.ports import free_port
from warren.cli.main import run
from warren.pipeline.folder import Folder
from warren.pipeline.trace.lake import KIND, LAKE, VERSION


@pytest.fixture
def lake(tmp_path: Path) -> str:
    folder = tmp_path / "lake"
    Folder(str(folder)).put_json(LAKE, {"kind": KIND, "version": VERSION})
    return str(folder)


def _said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.strip()


def test_counters_come_from_the_broker_or_from_a_file(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    for given in ([], ["--http", "http://localhost:15672", "--counters", "counters.json"]):
        assert run(["pipeline", "audit", "--lake", lake, *given]) == 2
        assert _said(capsys) == "warren: an audit needs the broker's counters: give either --http or --counters"


def test_a_time_belongs_to_saved_counters_and_is_one(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["pipeline", "audit", "--lake", lake]
    assert run([*arguments, "--http", "http://localhost:15672", "--until", "2026-11-16T08:00:00Z"]) == 2
    assert "--until belongs to --counters" in _said(capsys)
    assert run([*arguments, "--counters", "counters.json", "--until", "noon"]) == 2
    assert _said(capsys) == "warren: 'noon' is no time such as 2026-11-16T08:30:00Z"


def test_a_broker_that_does_not_answer_is_named(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert run(["pipeline", "audit", "--lake", lake, "--http", url]) == 1
    assert _said(capsys).startswith(f"warren: the HTTP API of the broker does not answer at {url}: ")


def test_a_folder_that_is_no_lake_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counters = tmp_path / "counters.json"
    counters.write_text("[]")
    assert run(["pipeline", "audit", "--lake", str(tmp_path), "--counters", str(counters)]) == 1
    assert _said(capsys) == f"warren: {tmp_path} is no lake of traces: there is no lake.json in it"


def test_a_queue_whose_node_is_away_cannot_be_audited(
    lake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counters = tmp_path / "counters.json"
    counters.write_text(json.dumps([{"vhost": "/", "name": "orders", "state": "down"}]))
    assert run(["pipeline", "audit", "--lake", lake, "--counters", str(counters)]) == 1
    assert _said(capsys).startswith("warren: queue 'orders' in virtual host '/' does not say how many messages")
