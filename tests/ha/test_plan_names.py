"""`warren ha plan` of nodes that are known by names."""

import socket
from pathlib import Path

import pytest

from tests.ha.front import warren
from tests.unit.cli.ha.deployments import FILE, deployment
from warren.cli.ha.deployment import Balancer
from warren.cli.ha.deployment_file import parse_deployment
from warren.cli.ha.port_plan import rules_of
from warren.cli.ha.source import with_addresses
from warren.errors import WarrenError

BY_NAME = parse_deployment(FILE.replace('"10.0.0.22"', '"n2.example.com"'), "ours.toml")


def found_at(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the name stands for on this machine."""
    answer = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *question: answer)


def test_names_are_looked_up_for_the_firewall(monkeypatch: pytest.MonkeyPatch) -> None:
    found_at("10.0.0.22", monkeypatch)
    assert "ip saddr { 10.0.0.22, 10.0.0.23 } tcp dport 25672 accept" in rules_of(with_addresses(BY_NAME), "warren@n1")


def test_a_name_of_this_machine_alone_is_useless_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian has a machine's own name at 127.0.1.1: rules with that would keep the node from the others."""
    found_at("127.0.1.1", monkeypatch)
    with pytest.raises(
        WarrenError, match=r"node warren@n2 is at n2\.example\.com, which means 127\.0\.1\.1 on this machine only"
    ):
        with_addresses(BY_NAME)


def test_where_everything_is_on_one_machine_its_names_are_good() -> None:
    balancers = tuple(Balancer(f"lb{number}", f"127.0.0.1{number}", "eth0") for number in (1, 2))
    told = parse_deployment(FILE.replace('"10.0.0.22"', '"localhost"'), "ours.toml").nodes[1:2]
    [found] = with_addresses(deployment(virtual_address="127.0.0.10", prefix=8, balancers=balancers, nodes=told)).nodes
    assert found.address == "127.0.0.1"


def test_an_unknown_name_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "ours.toml"
    file.write_text(FILE.replace('"10.0.0.22"', '"no-such-host.invalid"'))
    done = warren("ha", "plan", str(file))
    assert (done.returncode, done.stdout) == (1, "")
    assert "node warren@n2 is at no-such-host.invalid, and firewall rules need addresses" in done.stderr
