"""Two balancers before the nodes of a cluster, on hosts of their own: all that stands behind one virtual address.

The configurations are what `warren ha render` writes; HAProxy, Keepalived and the nodes are the real programs.

Not here: its clients (`visitors`), its faults (`troubles`).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tests.ha.front import warren
from tests.support.balancer import BalancerMachine
from tests.support.deadlines import eventually
from tests.support.machine import need
from tests.support.namespaces import CLIENTS, NamespaceWorld, obstacle
from tests.support.node_process import NodeProcess
from warren.cli.ha.deployment import Balancer, BrokerNode, Deployment, HaproxySettings, KeepalivedSettings
from warren.cli.ha.deployment_file import deployment_text
from warren.cli.ha.node_files import node_config
from warren.client import ClientError, blocking

VIRTUAL = "10.77.0.100"
PORTS = {"amqp": 5672, "http": 15672, "peer": 25672}
DEADLINE_S = 60.0
BALANCERS = ("lb1", "lb2")
_OPEN_TO_CLIENTS = "loopback_users = none\n"


class FrontDoor:
    """Nodes of these kinds, by their hosts, and two balancers that are not started yet."""

    def __init__(self, folder: Path, world: NamespaceWorld, kinds: Mapping[str, str]) -> None:
        self.world = world
        self.deployment = self._described(folder, kinds)
        self.file = folder / "deployment.toml"
        self.file.write_text(deployment_text(self.deployment))
        rendered = folder / "rendered"
        done = warren("ha", "render", str(self.file), "--out", str(rendered))
        assert done.returncode == 0, done
        self.machines = {}
        for name in BALANCERS:
            # each host has a folder for its sockets, and its script where its configuration says
            own = replace(self.deployment, haproxy=replace(self.deployment.haproxy, run_directory=str(folder / name)))
            self._settle(rendered / name, str(folder / "run"), str(folder / name))
            self.machines[name] = BalancerMachine(world, own, name, rendered)
        cookie = folder / "cookie"
        cookie.write_text("5a" * 32 + "\n")
        cookie.chmod(0o400)
        self.hosts = list(kinds)
        self.nodes: list[NodeProcess] = []
        try:
            for host, node in zip(kinds, self.deployment.nodes, strict=True):
                lines = f"cluster.cookie_file = {cookie}\n{_OPEN_TO_CLIENTS}"
                self.nodes.append(
                    NodeProcess(
                        folder / host,
                        *("--name", node.name),
                        configuration=node_config(self.deployment, node) + lines,
                        command=world.command(host, *NodeProcess.COMMAND),
                        addresses={kind: (world.address(host), port) for kind, port in PORTS.items()},
                    )
                )
        except BaseException:
            self.close()
            raise

    def _described(self, folder: Path, kinds: Mapping[str, str]) -> Deployment:
        return Deployment(
            virtual_address=VIRTUAL,
            prefix=24,
            balancers=tuple(Balancer(name, self.world.address(name), "eth0") for name in BALANCERS),
            nodes=tuple(
                # a node finds the others by their names, which must be addresses: there is no name service here
                BrokerNode(f"warren@{self.world.address(host)}", self.world.address(host), kind, PORTS)
                for host, kind in kinds.items()
            ),
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
        """The balancer that has the virtual address; None if neither has it, or both."""
        holders = [name for name, machine in self.machines.items() if machine.holds(VIRTUAL)]
        return holders[0] if len(holders) == 1 else None

    def await_holder(self, *names: str) -> str:
        self.eventually(lambda: self.holder() in names)
        return self.holder() or ""

    def has_settled_as_backup(self, name: str) -> bool:
        """Its Keepalived is a backup again, and knows that another machine has the address."""
        states = re.findall(r"Entering (\w+) STATE", self.machines[name].log())
        return bool(states) and states[-1] == "BACKUP"

    def await_open(self) -> None:
        """The address is somewhere, and leads to a node."""
        self.await_holder(*BALANCERS)
        self.eventually(self.answers)

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
        eventually(condition, lambda: {name: each.log()[-2000:] for name, each in self.machines.items()})

    def close(self) -> None:
        for machine in self.machines.values():
            machine.close()
        for node in self.nodes:
            if node.alive:
                node.kill()


@contextmanager
def front_door(folder: Path, kinds: Mapping[str, str]) -> Iterator[FrontDoor]:
    """One that is open, until the end; the test is skipped on a machine that has no hosts to offer."""
    need(obstacle())
    world = NamespaceWorld([*BALANCERS, *kinds])
    try:
        door = FrontDoor(folder, world, kinds)
        try:
            for machine in door.machines.values():
                machine.start()
            door.await_open()
            yield door
        finally:
            door.close()
    finally:
        world.remove()
