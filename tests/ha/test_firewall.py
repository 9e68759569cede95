"""The rules that `warren ha plan` prints, loaded by the real nft on hosts of their own."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.support.debian import environment, program
from tests.support.machine import need
from tests.support.namespaces import CLIENTS, NamespaceWorld, obstacle
from tests.unit.cli.ha.deployments import NODE_PORTS
from warren.cli.ha.deployment import Balancer, BrokerNode, Deployment
from warren.cli.ha.port_plan import rules_of

SSH = 22


@pytest.fixture(scope="module")
def world() -> Iterator[NamespaceWorld]:
    need(obstacle())
    made = NamespaceWorld(["lb1", "lb2", "n1", "n2"])
    try:
        yield made
    finally:
        made.remove()


def told(world: NamespaceWorld) -> Deployment:
    return Deployment(
        virtual_address="10.77.0.100",
        prefix=24,
        balancers=tuple(Balancer(name, world.address(name), "eth0") for name in ("lb1", "lb2")),
        nodes=tuple(BrokerNode(f"warren@{name}", world.address(name), "disc", NODE_PORTS) for name in ("n1", "n2")),
        ports={"amqp": 5672, "http": 15672},
        operators=(f"{world.address('lb2')}/32",),
    )


def guard(world: NamespaceWorld, host: str, machine: str) -> None:
    """Twice, because rules are loaded again when they change."""
    for _ in range(2):
        done = subprocess.run(
            world.command(host, program("nft"), "-f", "-"),
            input=rules_of(told(world), machine),
            text=True,
            env=environment(),
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr


def reaches(world: NamespaceWorld, sender: str, host: str, port: int) -> bool:
    with world.inside(host):
        listening = socket.create_server((world.address(host), port))
    with closing(listening), world.inside(sender):
        try:
            socket.create_connection((world.address(host), port), timeout=1.0).close()
        except TimeoutError:
            return False
    return True


@pytest.mark.parametrize(
    ("sender", "port", "passes"),
    [
        ("lb1", 5672, True),
        ("n2", 5672, False),
        (CLIENTS, 5672, False),
        ("lb1", 15672, True),
        ("lb2", 15692, True),
        ("lb1", 15692, False),
        ("n2", 25672, True),
        ("n2", 27672, True),
        ("lb1", 25672, False),
        (CLIENTS, SSH, True),
    ],
)
def test_the_firewall_of_a_node_accepts_only_the_planned_networks(
    world: NamespaceWorld, sender: str, port: int, passes: bool
) -> None:
    guard(world, "n1", "warren@n1")
    assert reaches(world, sender, "n1", port) == passes


@pytest.mark.parametrize(
    ("sender", "port", "passes"), [(CLIENTS, 5672, True), (CLIENTS, 15672, False), ("lb2", 15672, True)]
)
def test_the_firewall_of_a_balancer_accepts_only_the_planned_networks(
    world: NamespaceWorld, sender: str, port: int, passes: bool
) -> None:
    guard(world, "lb1", "lb1")
    assert reaches(world, sender, "lb1", port) == passes
