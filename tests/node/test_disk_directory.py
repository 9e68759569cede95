"""A node's data directory: what the node creates, what it refuses, and two nodes with the same directory."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.node.conftest import Connect, Serve
from tests.node.serving import COMMAND, DEADLINE_S
from tests.support.operator import Operator


def refused(*options: str, exit_code: int = 2) -> str:
    """The one sentence of a node that must not start."""
    ended = subprocess.run(
        [*COMMAND, "serve", "--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0", *options],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert (ended.returncode, ended.stdout) == (exit_code, "")
    assert ended.stderr.startswith("warren: ")
    assert ended.stderr.count("\n") == 1
    return ended.stderr.removeprefix("warren: ").rstrip("\n")


def test_a_node_makes_its_data_directory_and_says_where_it_is(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "a" / "data"
    node = serve("--name", "hare@here", "--data", str(data))
    assert {"NODE", "LOCK", "metadata.db", "journal"} <= {path.name for path in data.iterdir()}
    assert (data / "NODE").read_text() == "warren 1\nname=hare@here\n"
    [started] = node.events("node.started")
    assert started.endswith(f" data={data}")
    assert node.stop() == 0


def test_data_is_kept_in_var_where_the_node_was_started(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = subprocess.run(
        [*COMMAND, "serve", "--amqp", "203.0.113.1:5672"], capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert ended.returncode == 3
    assert (tmp_path / "var" / "NODE").is_file()


def test_a_second_node_on_the_same_data_is_refused_with_the_pid_of_the_first(serve: Serve, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    node = serve("--name", "hare@here", "--data", data)
    assert refused("--name", "hare@here", "--data", data) == (
        f"--data {data} is in use by another node (pid {node.process.pid}); stop that one, or choose another directory "
        "with --data"
    )
    assert node.stop() == 0
    assert serve("--name", "hare@here", "--data", data).stop() == 0


def test_the_data_of_a_killed_node_is_free_at_once(serve: Serve, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    node = serve("--name", "hare@here", "--data", data)
    node.signal(signal.SIGKILL)
    assert node.exit_code() == -signal.SIGKILL
    assert serve("--name", "hare@here", "--data", data).stop() == 0


def test_the_data_of_another_node_is_refused_with_its_name(serve: Serve, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    assert serve("--name", "hare@one", "--data", data).stop() == 0
    assert refused("--name", "hare@two", "--data", data) == (
        f"--data {data} holds the data of the node hare@one, not of hare@two; start it with --name hare@one, or "
        "choose another directory with --data"
    )


def test_files_of_others_in_the_journal_are_named_in_the_log(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert serve("--name", "hare@here", "--data", str(data)).stop() == 0
    (data / "journal" / "notes.txt").write_text("mine")
    node = serve("--name", "hare@here", "--data", str(data))
    [line] = node.events("files.ignored")
    assert line.endswith(" names=notes.txt directory=journal")
    assert (data / "journal" / "notes.txt").read_text() == "mine"
    assert node.stop() == 0


def test_metadata_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "NODE").write_text("warren 1\nname=hare@here\n")
    (tmp_path / "metadata.db").write_bytes(b"something else")
    sentence = refused("--name", "hare@here", "--data", str(tmp_path))
    assert sentence.startswith(f"{tmp_path}/metadata.db is not an SQLite database")
    assert (tmp_path / "metadata.db").read_bytes() == b"something else"


def test_a_damaged_checkpoint_is_one_sentence_and_nothing_listens(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "data"
    for _ in range(2):
        assert serve("--name", "hare@here", "--data", str(data)).stop() == 0
    checkpoint = data / "journal" / "checkpoint"
    content = bytearray(checkpoint.read_bytes())
    content[len(content) // 2] ^= 0xFF
    checkpoint.write_bytes(content)
    assert refused("--name", "hare@here", "--data", str(data), exit_code=1)


def test_a_clean_stop_leaves_everything_on_disk_and_nothing_open(
    serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    node = serve("--name", "hare@here", "--data", str(data))
    client = connect(node, opened=True)
    client.channel().call("queue.declare", queue="kept", durable=True)
    client.close()
    assert node.stop() == 0
    assert not node.events("disk.abandoned")
    # SQLite checkpoints its log into the file on an orderly close
    assert not (data / "metadata.db-wal").exists()
    assert b"kept" in (data / "metadata.db").read_bytes()
    assert os.path.getsize(data / "journal" / "000000000001.seg") > 0


def modes(data: Path) -> dict[str, int]:
    """Of the directory and all files below it."""
    return {str(path.relative_to(data)): path.stat().st_mode & 0o777 for path in [data, *data.rglob("*")]}


def test_other_users_cannot_read_the_files_of_a_node(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "data"
    node = serve("--name", "hare@here", "--data", str(data))
    found = modes(data)
    assert {"metadata.db", "metadata.db-wal", "LOCK", "NODE"} <= found.keys()
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}
    assert node.stop() == 0


def test_a_start_makes_a_readable_directory_private(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert serve("--name", "hare@here", "--data", str(data)).stop() == 0
    data.chmod(0o755)
    (data / "metadata.db").chmod(0o644)
    (data / "traces").mkdir()
    (data / "traces" / "t.log").write_text("a message")
    for path in [*(data / "journal").iterdir(), data / "journal", data / "traces", data / "traces" / "t.log"]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    node = serve("--name", "hare@here", "--data", str(data))
    found = modes(data)
    assert {"metadata.db-wal", "journal/000000000001.seg", "traces/t.log"} <= found.keys()
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}
    assert node.stop() == 0


def test_the_password_of_a_shovel_is_not_in_the_files_and_comes_back_with_the_cookie(
    serve: Serve, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    options = ("--name", "hare@here", "--data", str(data))
    shovel = {"src-uri": "amqp://user:geheim@127.0.0.1:9", "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b"}
    node = serve(*options)
    Operator(node.address("http")).parameter("shovel", "orders", shovel)
    assert node.stop() == 0
    assert [path.name for path in data.rglob("*") if path.is_file() and b"geheim" in path.read_bytes()] == []

    cookie = (data / "cookie").rename(tmp_path / "kept")
    node = serve(*options)
    operator = Operator(node.address("http"))
    assert "shovel orders in /" in node.events("parameters.undecrypted")[0]
    assert [list(row["value"]) for row in operator.read("parameters")] == [["sealed"]]
    assert operator.read("definitions")["parameters"] == []
    assert node.stop() == 0

    cookie.replace(data / "cookie")
    node = serve(*options)
    assert [row["value"] for row in Operator(node.address("http")).read("parameters")] == [shovel]
    assert node.events("parameters.undecrypted") == []
    assert node.stop() == 0
