"""One virtual address on two balancers: the real Keepalived and HAProxy on hosts of their own, before a real node.

Not here: what clients with a cluster behind it notice of all that (`tests/frontdoor`).
"""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.ha.front import warren
from tests.support.balancer import BalancerMachine
from tests.support.machine import need
from tests.support.namespaces import CLIENTS, NamespaceWorld, obstacle
from tests.support.node_process import NodeProcess
from warren.client import ClientError, blocking
from warren.ha.deployment import Balancer, BrokerNode, Deployment, HaproxySettings, KeepalivedSettings
from warren.ha.document import write
from warren.ha.node_settings import node_config

VIRTUAL = "10.77.0.100"
PORTS = {"amqp": 5672, "http": 15672, "peer": 25672}
DEADLINE_S = 30.0
BALANCERS = ("lb1", "lb2")
OPEN_TO_CLIENTS = "loopback_users = none\n"


class Pair:
    """Two balancers and one node."""

    def __init__(self, folder: Path, world: NamespaceWorld) -> None:
        self.world = world
        self.deployment = self._described(folder)
        self.file = folder / "deployment.toml"
        self.file.write_text(write(self.deployment))
        rendered = folder / "rendered"
        done = warren("ha", "render", str(self.file), "--out", str(rendered))
        assert done.returncode == 0, done
        self.machines = {}
        for name in BALANCERS:
            # each host has a folder for its sockets, and its script where its configuration says
            own = replace(self.deployment, haproxy=replace(self.deployment.haproxy, run_directory=str(folder / name)))
            self._settle(rendered / name, str(folder / "run"), str(folder / name))
            self.machines[name] = BalancerMachine(world, own, name, rendered)
        [node] = self.deployment.nodes
        self.node = NodeProcess(
            folder / "n1",
            *("--name", node.name),
            configuration=node_config(self.deployment, node) + OPEN_TO_CLIENTS,
            command=world.command("n1", *NodeProcess.COMMAND),
            addresses={kind: (world.address("n1"), port) for kind, port in PORTS.items()},
        )

    def _described(self, folder: Path) -> Deployment:
        return Deployment(
            virtual_address=VIRTUAL,
            prefix=24,
            balancers=tuple(Balancer(name, self.world.address(name), "eth0") for name in BALANCERS),
            nodes=(BrokerNode("warren@n1", self.world.address("n1"), "disc", PORTS),),
            ports={"amqp": 5672, "http": 15672},
            haproxy=HaproxySettings("", str(folder / "run"), maxconn=1000),
            keepalived=KeepalivedSettings(directory="/etc/keepalived"),
        )

    def _settle(self, own: Path, shared: str, run_directory: str) -> None:
        """Both balancers are on one machine here: their files cannot lie where they belong."""
        for path, was, is_now in (
            (own / "etc/haproxy/haproxy.cfg", shared, run_directory),
            (own / "etc/keepalived/keepalived.conf", '"/etc/keepalived/', f'"{own}/etc/keepalived/'),
        ):
            text = path.read_text()
            assert was in text
            path.write_text(text.replace(was, is_now))

    def holder(self) -> str | None:
        """Who has the virtual address; None if nobody has, or both."""
        holders = [name for name, machine in self.machines.items() if machine.holds(VIRTUAL)]
        return holders[0] if len(holders) == 1 else None

    def await_holder(self, *names: str) -> str:
        self.eventually(lambda: self.holder() in names)
        return self.holder() or ""

    def has_settled_as_backup(self, name: str) -> bool:
        """Its Keepalived wants the address again, and knows that another one has it."""
        states = re.findall(r"Entering (\w+) STATE", self.machines[name].log())
        return bool(states) and states[-1] == "BACKUP"

    def other(self, name: str) -> str:
        return next(each for each in BALANCERS if each != name)

    def answers(self) -> bool:
        with self.world.inside(CLIENTS):
            try:
                blocking.connect(f"amqp://guest:guest@{VIRTUAL}/?connection_timeout=1000").close()
            except ClientError:
                return False
        return True

    def eventually(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, {name: each.log()[-2000:] for name, each in self.machines.items()}
            time.sleep(0.05)

    def close(self) -> None:
        for machine in self.machines.values():
            machine.close()
        if self.node.alive:
            self.node.kill()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    need(obstacle())
    world = NamespaceWorld([*BALANCERS, "n1"])
    try:
        made = Pair(tmp_path_factory.mktemp("pair"), world)
        try:
            for machine in made.machines.values():
                machine.start()
            yield made
        finally:
            made.close()
    finally:
        world.remove()


@pytest.fixture
def pair(shared: Pair) -> Pair:
    """With an address that leads to the node."""
    shared.await_holder(*BALANCERS)
    shared.eventually(shared.answers)
    return shared


def test_the_address_moves_when_haproxy_or_keepalived_is_lost_and_not_when_it_is_back(pair: Pair) -> None:
    for what in ("haproxy", "keepalived"):
        first = pair.holder()
        assert first is not None
        second = pair.other(first)
        pair.machines[first].kill(what)
        pair.eventually(lambda second=second: pair.machines[second].holds(VIRTUAL))  # type: ignore[misc]
        pair.eventually(pair.answers)
        pair.machines[first].start_haproxy() if what == "haproxy" else pair.machines[first].start_keepalived()
        pair.await_holder(second)
        pair.eventually(lambda first=first: pair.has_settled_as_backup(first))  # type: ignore[misc]
        assert pair.holder() == second, "an address that goes back costs every client its connection again"


def test_a_balancer_that_is_cut_off_from_the_nodes_gives_the_address_to_one_that_is_not(pair: Pair) -> None:
    first = pair.holder()
    assert first is not None
    pair.world.cut(first, "n1")
    pair.await_holder(pair.other(first))
    pair.eventually(pair.answers)
    pair.world.heal()


def test_the_address_stays_when_no_balancer_reaches_a_node(pair: Pair) -> None:
    """Clients are refused at once, instead of finding nobody."""
    told = "VRRP_Script(haproxy_working) failed"
    before = {name: machine.log().count(told) for name, machine in pair.machines.items()}
    pair.node.kill()
    pair.eventually(lambda: all(machine.log().count(told) > before[name] for name, machine in pair.machines.items()))
    assert pair.holder() in BALANCERS
    pair.node.start()
    pair.eventually(pair.answers)


def test_a_deployment_that_is_well_passes_the_check(pair: Pair) -> None:
    with pair.world.inside(CLIENTS):
        done = warren("ha", "check", str(pair.file), "--user", "guest", "--password", "guest")
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[-1]) == (0, "nothing is wrong"), lines
    assert f"good     the virtual address is on {pair.holder()}" in lines
    assert f"good     nodes see clients with their own addresses: ours is {pair.world.address(CLIENTS)}" in lines
    assert [line for line in lines if not line.startswith("good")] == [
        "warning  there is one node: nothing outlives its loss",
        "nothing is wrong",
    ]
