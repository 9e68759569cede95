"""`warren journal` on the data directories of real nodes: its output, its changes, its refusals."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pika
import pytest

from tests.support.node_process import NodeProcess
from warren.broker.model.journal import MetadataChange
from warren.cli.main import run
from warren.node.cluster.cluster_file import ClusterFacts, ClusterFile
from warren.node.disk.offline_directory import OfflineDirectory
from warren.node.disk.sqlite_store import SqliteStore

Captured = pytest.CaptureFixture[str]
FREE_PORTS = ("--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0")


def connected(node: NodeProcess) -> pika.BlockingConnection:
    host, port = node.amqp
    return pika.BlockingConnection(pika.ConnectionParameters(host, port))


def publish(node: NodeProcess, queue: str, bodies: list[bytes]) -> None:
    connection = connected(node)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare(queue, durable=True)
    for body in bodies:
        channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2))
    connection.close()


def drained(node: NodeProcess, queue: str) -> list[bytes]:
    connection = connected(node)
    channel = connection.channel()
    bodies = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        bodies.append(got[2])
    connection.close()
    return bodies


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    """Killed, with five messages in one queue and three in another."""
    started = NodeProcess(tmp_path, "--amqp", "127.0.0.1:0")
    publish(started, "orders", [b"order %d" % number for number in range(5)])
    publish(started, "news", [b"news %d" % number for number in range(3)])
    started.kill()
    yield started
    if started.alive:
        started.kill()


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def inspected(directory: Path, capsys: Captured) -> tuple[int, dict[str, Any]]:
    code = run(["journal", "inspect", str(directory), "--json"])
    return code, json.loads(capsys.readouterr().out)


def messages(findings: dict[str, Any]) -> dict[str, int]:
    return {queue["name"]: queue["messages"] for queue in findings["queues"]}


def damage(directory: Path, wanted: bytes, replacement: bytes) -> None:
    for path in (directory / "journal").glob("*.seg"):
        data = path.read_bytes()
        if wanted in data:
            path.write_bytes(data.replace(wanted, replacement))


def damage_header_before(directory: Path, wanted: bytes) -> None:
    """Flip a byte in the header of the record that has this body."""
    (path,) = [path for path in (directory / "journal").glob("*.seg") if wanted in path.read_bytes()]
    data = bytearray(path.read_bytes())
    at = data.index(wanted) - 100
    data[at] ^= 0xFF
    path.write_bytes(bytes(data))


def test_inspect_reports_the_contents_and_changes_nothing(node: NodeProcess, capsys: Captured) -> None:
    before = contents(node.data)
    code, findings = inspected(node.data, capsys)
    assert code == 0
    assert messages(findings) == {"orders": 5, "news": 3}
    assert findings["faults"] == []
    assert findings["format"] == 1
    assert findings["incarnations"] == 1
    assert findings["metadata"]["queues"] == 2
    assert not findings["stopped_cleanly"]
    assert findings["segments"][0]["records"]["message"] == 8
    assert findings["segments"][0]["live_messages"] == 8
    assert findings["segments"][0]["tail"] == "clean"
    assert contents(node.data) == before


def test_inspect_shows_tables_and_records(node: NodeProcess, capsys: Captured) -> None:
    assert run(["journal", "inspect", str(node.data)]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"Metadata at revision \d+: .*\b2 queues\b", shown)
    assert all(word in shown for word in ("orders", "news", "live bytes", "clean"))
    assert run(["journal", "inspect", str(node.data), "--records", "--segment", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "segment 1"
    assert sum(" message " in line for line in lines) == 8


def test_a_node_that_stopped_in_good_order_is_known_by_its_journal(node: NodeProcess, capsys: Captured) -> None:
    node.start()
    node.stop()
    code, findings = inspected(node.data, capsys)
    assert code == 0
    assert findings["stopped_cleanly"]
    assert findings["incarnations"] == 2


def test_a_torn_tail_is_not_damage(node: NodeProcess, capsys: Captured) -> None:
    segment = node.data / "journal" / "000000000001.seg"
    used = inspected(node.data, capsys)[1]["segments"][0]["used_bytes"]
    data = segment.read_bytes()
    segment.write_bytes(data[:used] + b"half a batch" + data[used + 12 :])
    code, findings = inspected(node.data, capsys)
    assert code == 0
    assert findings["segments"][0]["tail"] == f"torn at byte {used}"


def test_a_running_node_is_left_alone(node: NodeProcess, capsys: Captured) -> None:
    node.start()
    for command in ("inspect", "salvage"):
        assert run(["journal", command, str(node.data)]) == 1
        assert f"is in use by a running node (pid {node.pid}); stop it first" in capsys.readouterr().err


def test_a_path_that_is_no_data_directory_is_refused(tmp_path: Path, capsys: Captured) -> None:
    for command in ("inspect", "salvage"):
        assert run(["journal", command, str(tmp_path)]) == 2
        assert "is not a data directory of Warren" in capsys.readouterr().err
        assert run(["journal", command, str(tmp_path / "absent")]) == 2


def test_a_message_that_is_damaged_costs_no_more_than_itself(node: NodeProcess, capsys: Captured) -> None:
    damage(node.data, b"order 2", b"ORDER 2")
    code, findings = inspected(node.data, capsys)
    assert code == 1
    assert findings["starts"]
    assert {queue["name"]: queue["lost_messages"] for queue in findings["salvage"]["queues"]} == {
        "orders": 1,
        "news": 0,
    }
    assert run(["journal", "salvage", str(node.data), "--yes"]) == 0
    assert "The node can start" in capsys.readouterr().out
    node.start()
    assert drained(node, "orders") == [b"order 0", b"order 1", b"order 3", b"order 4"]
    assert drained(node, "news") == [b"news 0", b"news 1", b"news 2"]


def test_a_node_that_does_not_start_does_after_salvage(node: NodeProcess, capsys: Captured) -> None:
    damage_header_before(node.data, b"order 2")
    refused = subprocess.run(
        [sys.executable, "-m", "warren.cli.main", "serve", "--data", str(node.data), *FREE_PORTS],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert refused.returncode == 1
    assert "'warren journal salvage DIR' saves the readable messages" in refused.stderr
    code, findings = inspected(node.data, capsys)
    assert code == 1
    assert not findings["starts"]
    assert findings["salvage"]["left_out"]
    assert run(["journal", "salvage", str(node.data), "--yes"]) == 0
    node.start()
    assert drained(node, "orders") == [b"order 0", b"order 1", b"order 3", b"order 4"]
    assert drained(node, "news") == [b"news 0", b"news 1", b"news 2"]


def test_a_dry_run_changes_nothing_and_salvaging_needs_an_order(node: NodeProcess, capsys: Captured) -> None:
    damage(node.data, b"order 2", b"ORDER 2")
    before = contents(node.data)
    assert run(["journal", "salvage", str(node.data), "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "Salvage leaves out: segment 1, bytes" in printed
    assert "Nothing was changed." in printed
    assert run(["journal", "salvage", str(node.data)]) == 2
    assert "give --yes" in capsys.readouterr().err
    assert contents(node.data) == before


def test_a_sound_journal_needs_no_salvage(node: NodeProcess, capsys: Captured) -> None:
    before = contents(node.data)
    assert run(["journal", "salvage", str(node.data), "--yes"]) == 0
    assert "nothing to salvage" in capsys.readouterr().out
    assert contents(node.data) == before


def test_salvage_keeps_what_it_replaces_and_writes_to_no_segment(node: NodeProcess) -> None:
    node.start()
    node.stop()
    damage(node.data, b"order 2", b"ORDER 2")
    before = contents(node.data)
    assert run(["journal", "salvage", str(node.data), "--yes"]) == 0
    after = contents(node.data)
    (kept,) = [path.name for path in node.data.glob("salvage-*")]
    assert after[f"{kept}/checkpoint"] == before["journal/checkpoint"]
    assert after[f"{kept}/000000000001.idx"] == before["journal/000000000001.idx"]
    assert after[f"{kept}/000000000001.seg"] == before["journal/000000000001.seg"]
    segments = [name for name in before if name.endswith(".seg")]
    assert [name for name in segments if after[name] != before[name]] == []


@pytest.mark.parametrize("name", ["checkpoint", "000000000001.idx"])
def test_a_lost_file_beside_the_segments_costs_no_message(node: NodeProcess, capsys: Captured, name: str) -> None:
    node.start()
    publish(node, "orders", [b"order 5"])
    node.kill()
    path = node.data / "journal" / name
    path.write_bytes(b"nonsense")
    if name == "checkpoint":
        assert run(["journal", "salvage", str(node.data), "--yes"]) == 0
    else:
        os.unlink(path)
    node.start()
    assert drained(node, "orders") == [b"order %d" % number for number in range(6)]


def test_messages_of_queues_that_old_metadata_does_not_know_are_named_and_left_alone(
    node: NodeProcess, capsys: Captured
) -> None:
    node.start()
    node.stop()
    backup = contents(node.data)["metadata.db"]
    node.start()
    publish(node, "young", [b"young 1", b"young 2"])
    node.kill()
    for path in node.data.glob("metadata.db*"):
        path.unlink()
    (node.data / "metadata.db").write_bytes(backup)
    code, findings = inspected(node.data, capsys)
    assert code == 1
    assert "older than the journal" in " ".join(findings["faults"])
    assert [queue["messages"] for queue in findings["salvage"]["unknown_queues"]] == [2]
    assert run(["journal", "salvage", str(node.data), "--yes"]) == 0
    assert "Salvage leaves alone: 2 messages of queue number" in capsys.readouterr().out
    node.start()
    publish(node, "other", [b"mine"])
    assert drained(node, "other") == [b"mine"]
    assert drained(node, "orders") == [b"order %d" % number for number in range(5)]


def make_member(directory: Path, *unknown: str) -> Path:
    """Make it the journal of a cluster member: the cluster's store has these queues. Returns its mark."""
    ClusterFile(str(directory)).write(ClusterFacts("some cluster", "disc", enlisted=True))
    metadata = SqliteStore(str(directory / "metadata.db"))
    revision, values = metadata.snapshot()
    gone = [key for key in values if key.startswith("queues/") and key.endswith(unknown)] if unknown else []
    metadata.apply([MetadataChange(revision + 1 + at, key, None) for at, key in enumerate(gone)])
    metadata.close()
    identity = directory / "journal" / "identity"
    identity.write_bytes(b"17\n")
    return identity


def test_a_journal_of_a_member_is_not_salvaged_without_queues_that_only_the_cluster_knows(
    node: NodeProcess, capsys: Captured
) -> None:
    make_member(node.data, "news")
    damage(node.data, b"order 2", b"ORDER 2")
    before = contents(node.data)
    for option in ("--yes", "--dry-run"):
        assert run(["journal", "salvage", str(node.data), option]) == 1
        refusal = capsys.readouterr().err
        assert "its journal has queues that metadata.db does not know (1 of them)" in refusal
        assert "nothing was changed" in refusal
    assert contents(node.data) == before


def test_a_journal_of_a_member_is_another_one_once_it_was_salvaged(node: NodeProcess, capsys: Captured) -> None:
    identity = make_member(node.data)
    assert run(["journal", "salvage", str(node.data), "--yes"]) == 0
    assert identity.read_bytes() == b"17\n", "there was nothing to salvage"
    damage(node.data, b"order 2", b"ORDER 2")
    assert run(["journal", "salvage", str(node.data), "--yes"]) == 0
    assert "will not rely on this node's copies" in capsys.readouterr().out
    assert not identity.exists()
    _code, findings = inspected(node.data, capsys)
    assert messages(findings) == {"orders": 4, "news": 3}


def test_a_journal_of_a_member_is_another_one_before_anything_in_it_is_changed(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = make_member(node.data)
    damage(node.data, b"order 2", b"ORDER 2")
    journal = {name: data for name, data in contents(node.data).items() if name.startswith("journal/")}
    monkeypatch.setattr(OfflineDirectory, "_write", mock.Mock(side_effect=OSError("no room")))
    assert run(["journal", "salvage", str(node.data), "--yes"]) == 1
    assert not identity.exists()
    del journal["journal/identity"]
    assert journal.items() <= contents(node.data).items()
