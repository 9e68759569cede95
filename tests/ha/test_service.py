"""A node as a service, by the unit that is rendered for it, under a real systemd."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.machine import need
from tests.support.systemd_machine import SystemdMachine, obstacle
from warren.cli.ha.deployment import BrokerNode
from warren.cli.ha.node_files import CONFIGURATION, DATA, service_files, service_of

WARREN = str(Path(sys.executable).with_name("warren"))
MEMBER = f"--data-dir={DATA}/etcd/data"
CONFIG = "listeners.tcp.default = 127.0.0.1:5672\nmanagement.tcp.ip = 127.0.0.1\n"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SystemdMachine]:
    need(obstacle())
    files = service_files(service_of(BrokerNode("warren@localhost", "127.0.0.1", ports={"peer": 25672}), WARREN))
    running = SystemdMachine(tmp_path_factory.mktemp("machine"), {**files, CONFIGURATION: CONFIG})
    for command in (["systemd-sysusers"], ["systemd-tmpfiles", "--create", "/etc/tmpfiles.d/warren.conf"]):
        assert running.run(*command).returncode == 0
    yield running
    running.close()


def start(machine: SystemdMachine) -> dict[str, str]:
    """What there is to say of the service when systemd takes it for started."""
    started = machine.run("systemctl", "start", "warren")
    assert started.returncode == 0, machine.run("journalctl", "-u", "warren", "--no-pager").stdout + started.stderr
    return machine.show("warren")


def member(machine: SystemdMachine) -> str:
    return machine.run("pgrep", "-f", "--", MEMBER).stdout.strip()


def test_the_service_is_started_when_clients_can_connect(machine: SystemdMachine) -> None:
    shown = start(machine)
    assert (shown["ActiveState"], shown["SubState"]) == ("active", "running")
    serves = "warren@localhost serves amqp=127.0.0.1:5672 http=127.0.0.1:15672 peer=127.0.0.1:25672"
    assert shown["StatusText"] == serves
    assert machine.run(WARREN, "ctl", "-q", "ping").returncode == 0
    assert machine.run("stat", "--format=%U", f"/proc/{shown['MainPID']}").stdout.strip() == "warren"
    assert machine.run("stat", "--format=%U %a", f"{DATA}/cookie").stdout.strip() == "warren 400"
    assert "event=node.started" in machine.run("journalctl", "-u", "warren", "--no-pager").stdout


def test_a_restart_leaves_the_member_of_etcd_alone(machine: SystemdMachine) -> None:
    start(machine)
    machine.run("sh", "-c", f"mkdir /tmp/other && cp {DATA}/cookie /tmp/other/cookie")
    other = [WARREN, "serve", "--name", "other@localhost", "--data", "/tmp/other", "--amqp", "127.0.0.1:5673"]
    other += ["--http", "127.0.0.1:15673", "--peer", "127.0.0.1:25673", "--join", "127.0.0.1:25672"]
    assert machine.run("systemd-run", "--unit=other", *other).returncode == 0
    machine.until(lambda: "event=node.started" in machine.run("journalctl", "-u", "other", "--no-pager").stdout)
    before = member(machine)
    assert before
    assert machine.run("systemctl", "restart", "warren").returncode == 0
    assert member(machine) == before
    assert machine.run("systemctl", "stop", "warren").returncode == 0
    assert (machine.show("warren")["Result"], member(machine)) == ("success", before)
    assert machine.run("systemctl", "kill", "--kill-whom=all", "warren").returncode == 0
    machine.until(lambda: not member(machine))


def test_a_node_that_is_killed_comes_back(machine: SystemdMachine) -> None:
    before = start(machine)
    assert machine.run("kill", "-9", before["MainPID"]).returncode == 0

    def is_back() -> bool:
        shown = machine.show("warren")
        return shown["SubState"] == "running" and shown["MainPID"] not in ("0", before["MainPID"])

    machine.until(is_back)
    assert int(machine.show("warren")["NRestarts"]) == int(before["NRestarts"]) + 1


def test_a_node_that_cannot_start_is_not_started_again(machine: SystemdMachine) -> None:
    assert machine.run("systemctl", "stop", "warren").returncode == 0
    machine.run("sh", "-c", f"echo 'nonsense = 1' >> {CONFIGURATION}")
    assert machine.run("systemctl", "start", "warren").returncode != 0
    shown = machine.show("warren")
    assert (shown["ActiveState"], shown["ExecMainStatus"], shown["NRestarts"]) == ("failed", "2", "0")
    assert "line 3: unknown key nonsense" in machine.run("journalctl", "-u", "warren", "--no-pager").stdout
