"""Changing settings of a running node, and stopping it."""

import json
import os
from pathlib import Path

import pytest

from tests.ctl.conftest import Ctl, Said, speaking_to, start_node

NAME = "warren@here"


def lines(said: Said) -> list[str]:
    assert (said.code, said.err) == (0, "")
    return said.out.splitlines()


def test_an_alarm_fails_the_checks_until_it_is_over(ctl: Ctl) -> None:
    lines(ctl("set_disk_free_limit", "1000TB"))
    for verb in ("check_alarms", "check_local_alarms"):
        refused = ctl("-q", verb)
        assert (refused.code, refused.err) == (69, f"Error:\nFree disk space alarm on node {NAME}\n")
    assert ctl("-q", "node_health_check").code == 69
    assert f"Free disk space alarm on node {NAME}" in lines(ctl("status"))
    lines(ctl("set_disk_free_limit", "50MB"))
    lines(ctl("check_alarms"))


def test_settings_are_changed_while_the_node_runs_and_shown(ctl: Ctl) -> None:
    said = lines(ctl("set_vm_memory_high_watermark", "absolute", "2GB"))
    assert said == [f"Setting memory threshold on {NAME} to 2GB bytes ..."]
    assert json.loads(ctl("status", "--formatter", "json").out)["vm_memory_high_watermark_limit"] == 2_000_000_000
    lines(ctl("set_vm_memory_high_watermark", "0.4"))
    assert lines(ctl("environment"))[:2] == [f"Application environment of node {NAME} ...", "[{warren,"]
    assert lines(ctl("set_log_level", "debug")) == ['Setting log level to "debug" ...']
    lines(ctl("set_log_level", "info", "connection"))
    lines(ctl("set_log_level", "info"))


def test_a_node_is_drained_and_revived(ctl: Ctl) -> None:
    assert lines(ctl("drain")) == [f"Draining node {NAME} ..."]
    assert json.loads(ctl("status", "--formatter", "json").out)["is_under_maintenance"] is True
    assert lines(ctl("revive")) == [f"Reviving node {NAME} ..."]
    assert json.loads(ctl("status", "--formatter", "json").out)["is_under_maintenance"] is False


def test_the_report_has_every_part(ctl: Ctl) -> None:
    found = lines(ctl("report"))
    expected = [
        f"Status of node {NAME} ...",
        f"Cluster status of node {NAME} ...",
        f"Application environment of node {NAME} ...",
        "Listing connections ...",
        "Listing channels ...",
        "Listing queues for vhost / ...",
        "Listing exchanges for vhost / ...",
        "Listing bindings for vhost /...",
        'Listing permissions for vhost "/" ...',
        'Listing policies for vhost "/" ...',
        'Listing runtime parameters for vhost "/" ...',
        "Listing users ...",
        "Listing global runtime parameters ...",
    ]
    assert [line for line in found if line in expected] == expected
    assert [line for line in found if line.startswith("Error")] == []


def test_the_report_has_no_logins_of_shovels(ctl: Ctl) -> None:
    uri = "amqp://mover:very%20secret@far.example:5672"
    value = {"src-uri": [uri], "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b"}
    lines(ctl("set_parameter", "shovel", "reported", json.dumps(value)))
    try:
        found = ctl("report").out
    finally:
        ctl("clear_parameter", "shovel", "reported")
    assert "amqp://...@far.example:5672" in found
    assert "secret" not in found


def test_a_node_that_is_stopped_ends_and_can_be_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = start_node(tmp_path)
    try:
        ctl = speaking_to(node, monkeypatch)
        assert lines(ctl("await_startup")) == []
        pid_file = tmp_path / "pid"
        pid_file.write_text(f"{node.process.pid}\n")
        assert lines(ctl("stop")) == ["Stopping and halting node warren@here ..."]
        assert node.exit_code() == 0
        assert ctl("ping").code == 69
        assert ctl("stop").code == 69
        assert ctl("stop", "--idempotent").code == 0
        assert not os.path.exists(f"/proc/{node.process.pid}")
    finally:
        node.end()
