"""Nodes of one cluster, three as a rule, each on a host of its own, so that their network can be cut.

A node listens on the same ports everywhere, its etcd member 1000 and 2000 above. A test is on the host of the clients,
which stays connected to all of them.

Not here: hosts and the switch between them (`tests.support.namespaces`).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.trio import Trio, knows
from tests.support.deadlines import eventually
from tests.support.link_proxy import LinkProxy
from tests.support.machine import need
from tests.support.namespaces import CLIENTS, NamespaceWorld, obstacle
from tests.support.node_process import NodeProcess

HOSTS = ("n1", "n2", "n3")
_PORTS = {"amqp": 5672, "http": 15672, "peer": 25672}
PEER_PORTS = (25672, 26672, 27672)
"""Nodes among themselves, and their etcd members' clients and peers."""


class NamespaceTrio(Trio):
    """`choices` has the configuration of each host beside the common one; it has as many nodes as hosts."""

    def __init__(self, directory: Path, world: NamespaceWorld, choices: Mapping[str, str]) -> None:
        self.world = world
        self._choices = choices
        super().__init__(directory, tuple(choices))

    def launch(self, directory: Path, *options: str, command: Sequence[str] = NodeProcess.COMMAND) -> NodeProcess:
        host = directory.name
        return NodeProcess(
            directory,
            *("--name", f"{host}@{host}", *options),
            configuration=self.configuration + "loopback_users = none\n" + self._choices[host],
            command=self.world.command(host, *command),
            addresses={kind: (self.world.address(host), port) for kind, port in _PORTS.items()},
        )

    def mend(self) -> None:
        """All nodes run again, and reach one another."""
        self.world.heal()
        self.hang_up()
        self.start(*[node for node in self.nodes if not node.alive])
        eventually(self.is_whole, "all nodes reach one another")

    def await_known(self, queue: str) -> None:
        """Wait until all nodes know a queue and reach it: a node that was cut off has to catch up first."""
        eventually(lambda: all(knows(node, queue) for node in self.nodes), f"all nodes know of {queue!r}")

    def await_unanimity(self, queue: str) -> None:
        """All nodes know of a queue, or none does."""
        eventually(lambda: len({knows(node, queue) for node in self.nodes}) == 1, f"all know the same of {queue!r}")

    def detour(self, one: str, other: str) -> LinkProxy:
        """All traffic of nodes and etcd members between two hosts."""
        return self.world.detour(one, other, PEER_PORTS)


@contextmanager
def namespace_trio(directory: Path, choices: Mapping[str, str]) -> Iterator[NamespaceTrio]:
    """One cluster, until the block ends; the test is skipped on a machine without network namespaces."""
    need(obstacle())
    world = NamespaceWorld(tuple(choices))
    try:
        with world.inside(CLIENTS):
            trio = NamespaceTrio(directory, world, choices)
            try:
                yield trio
            finally:
                trio.destroy()
    finally:
        world.remove()
