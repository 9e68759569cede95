"""Networks as people give them, in rules that the real nft takes."""

import subprocess
from collections.abc import Iterator

import pytest

from tests.support.debian import environment, program
from tests.support.machine import need
from tests.support.namespaces import NamespaceWorld, obstacle
from tests.unit.cli.ha.deployments import FILE
from warren.cli.ha.deployment_file import parse_deployment
from warren.cli.ha.port_plan import rules_of


@pytest.fixture(scope="module")
def world() -> Iterator[NamespaceWorld]:
    need(obstacle())
    made = NamespaceWorld(["lb1"])
    try:
        yield made
    finally:
        made.remove()


@pytest.mark.parametrize(
    "networks",
    [
        '["10.0.0.0/8", "10.1.0.0/16"]',
        '["10.1.0.0/16", "10.1.0.0/255.255.0.0"]',
        '["10.1.2.3", "10.1.2.3/32"]',
        '["0.0.0.0/0", "::/0", "fd00::/8", "FD00::1"]',
    ],
)
def test_networks_may_overlap_and_be_given_in_any_way(world: NamespaceWorld, networks: str) -> None:
    told = parse_deployment(f"clients = {networks}\noperators = {networks}\n{FILE}", "ours.toml")
    for machine in ("lb1", "warren@n1"):
        done = subprocess.run(
            world.command("lb1", program("nft"), "-f", "-"),
            input=rules_of(told, machine),
            text=True,
            env=environment(),
            capture_output=True,
        )
        assert (done.returncode, done.stderr) == (0, "")
