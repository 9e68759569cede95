"""The systemd unit of a node, checked by systemd's own tools if they are installed."""

import shlex
import shutil
import subprocess
import sys
from configparser import RawConfigParser
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.machine import need
from tests.unit.cli.ha.deployments import NODE_PORTS, deployment, node
from warren.cli.ha.bundle import rendered_files
from warren.cli.ha.deployment import AMQPS
from warren.cli.ha.node_files import DIRECTORIES_PATH, UNIT_PATH, USERS_PATH, SystemdService, service_files, service_of
from warren.errors import ConfigError

WARREN = str(Path(sys.executable).with_name("warren"))
MACHINES = [
    pytest.param(service_of(node(1), WARREN), id="disc"),
    pytest.param(service_of(node(2, "ram"), WARREN), id="ram"),
    pytest.param(service_of(node(3, "witness"), WARREN), id="witness"),
    pytest.param(service_of(node(1, ports={**NODE_PORTS, AMQPS: 443}), WARREN), id="a reserved port"),
]


@pytest.fixture
def systemd() -> None:
    need("" if shutil.which("systemd-analyze") else "there is no systemd on this machine")


def unit_of(service: SystemdService) -> dict[str, dict[str, str]]:
    parser = RawConfigParser(delimiters=("=",), comment_prefixes=("#",), strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(service_files(service)[UNIT_PATH])
    return {section: dict(parser[section]) for section in parser.sections()}


@pytest.mark.usefixtures("systemd")
@pytest.mark.parametrize("service", MACHINES)
def test_systemd_understands_the_unit(service: SystemdService, tmp_path: Path) -> None:
    file = tmp_path / "warren.service"
    file.write_text(service_files(service)[UNIT_PATH])
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(file)], capture_output=True, text=True)
    complaints = [line for line in (done.stdout + done.stderr).splitlines() if "warren.service" in line]
    assert (done.returncode, complaints) == (0, [])


@pytest.mark.usefixtures("systemd")
def test_systemd_finds_a_fault_in_a_unit_that_has_one(tmp_path: Path) -> None:
    file = tmp_path / "warren.service"
    file.write_text(service_files(service_of(node(1), "/nonexistent/warren"))[UNIT_PATH])
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(file)], capture_output=True, text=True)
    assert "/nonexistent/warren" in done.stderr


@pytest.mark.usefixtures("systemd")
def test_the_service_can_do_little_harm(tmp_path: Path) -> None:
    file = tmp_path / "warren.service"
    file.write_text(service_files(service_of(node(1), WARREN))[UNIT_PATH])
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.usefixtures("systemd")
def test_users_and_directories_are_made_as_they_should_be(tmp_path: Path) -> None:
    files = service_files(service_of(node(1)))
    for path in (USERS_PATH, DIRECTORIES_PATH):
        file = tmp_path / path
        file.parent.mkdir(parents=True)
        file.write_text(files[path])
    (tmp_path / "etc/warren").mkdir()
    (tmp_path / "etc/warren/warren.conf").write_text("")
    for tool in (["systemd-sysusers"], ["systemd-tmpfiles", "--create"]):
        done = subprocess.run([*tool, f"--root={tmp_path}"], capture_output=True, text=True)
        assert done.returncode == 0, done
    assert "warren:x:" in (tmp_path / "etc/passwd").read_text()
    modes = {path: (tmp_path / path).stat().st_mode & 0o777 for path in ("etc/warren", "var/lib/warren")}
    assert modes == {"etc/warren": 0o750, "var/lib/warren": 0o700}
    assert (tmp_path / "etc/warren/warren.conf").stat().st_mode & 0o777 == 0o640


def test_the_command_line_is_one_of_a_node() -> None:
    started = shlex.split(unit_of(service_of(node(1)))["Service"]["ExecStart"])
    assert started == [
        "/opt/warren/.venv/bin/warren",
        "serve",
        *("--name", "warren@n1"),
        *("--data", "/var/lib/warren"),
        *("--config", "/etc/warren/warren.conf"),
        *("--peer", "10.0.0.21:25672"),
    ]


def test_only_a_reserved_port_needs_a_capability() -> None:
    plain, reserved = (
        unit_of(service_of(node(1, ports={**NODE_PORTS, AMQPS: port})))["Service"] for port in (5671, 443)
    )
    assert (plain["CapabilityBoundingSet"], plain.get("AmbientCapabilities")) == ("", None)
    assert reserved["CapabilityBoundingSet"] == reserved["AmbientCapabilities"] == "CAP_NET_BIND_SERVICE"


def test_the_unit_leaves_the_member_of_etcd_alone_and_waits_for_the_others() -> None:
    service = unit_of(service_of(node(1)))["Service"]
    assert service["KillMode"] == "process"
    assert service["TimeoutStartSec"] == "infinity"
    assert service["Type"] == "notify"


def test_characters_of_a_name_that_systemd_would_replace_are_escaped() -> None:
    odd = replace(service_of(node(1)), name='warren%h@a "b"')
    assert '--name "warren%%h@a \\"b\\"" --data' in service_files(odd)[UNIT_PATH]


def test_a_unit_has_no_room_for_a_second_line() -> None:
    for odd in ({"peer": "[fe80::1%x\nExecStartPre=/bin/false]:25672"}, {"name": "warren@a\nb"}):
        with pytest.raises(ConfigError, match="a unit of systemd has room for one line"):
            replace(service_of(node(1)), **odd)


def test_the_program_is_where_the_deployment_says() -> None:
    told = deployment(program="/usr/bin/warren")
    units = [file.text for file in rendered_files(told) if file.path.endswith(UNIT_PATH)]
    assert len(units) == 3
    assert all("\nExecStart=/usr/bin/warren serve " in text for text in units)
