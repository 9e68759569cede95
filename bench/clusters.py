"""The two brokers as clusters of several nodes, each private, on free ports, with data that is thrown away.

    with CLUSTERS["warren"]() as cluster: …     `warren cluster up` of this checkout (`make setup` first)
    with CLUSTERS["rabbitmq"]() as cluster: …   Debian's rabbitmq-server, several times

Nothing is mirrored until `Cluster.mirror` sets a policy.

Both are stopped when the block ends, also by an exception. The processes of a node are its broker and, for Warren, its
etcd member. Erlang's port mapper serves all nodes, and counts for the cluster.

Not here: single nodes (`brokers.py`), the load (`load.py`).
"""

import contextlib
import json
import pathlib
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from brokers import STOP_LIMIT_S, WARREN, NotAvailable, PortMapper, RabbitNode, available, own_folder
from measure import processes_naming

NODES = 3
ALL_NODES = {"ha-mode": "all", "ha-sync-mode": "automatic"}
Address = tuple[str, int]


@dataclass(frozen=True)
class Cluster:
    name: str
    addresses: list[Address]
    node_pids: list[list[int]]
    """For each node its broker's process, then its etcd member."""
    shared_pids: list[int]
    control: Callable[..., str]
    """Runs a command of `rabbitmqctl` or `warren ctl` and returns its output."""
    folders: list[pathlib.Path]
    """The data folders of the nodes."""
    restart: Callable[[], object]
    """Starts the first node again after a kill; returns when it accepts clients."""

    def mirror(self, wanted: bool, definition: dict[str, object] | None = None) -> None:
        """Set a policy that mirrors all queues by `definition`, by default to all nodes; or one that matches none."""
        pattern = "^" if wanted else "^none$"
        self.control("set_policy", "mirrored", pattern, json.dumps(definition or ALL_NODES), "--apply-to", "queues")

    def await_in_sync(self, queues: int, mirrors: int, limit_s: float = 120) -> None:
        """Return when `queues` queues have `mirrors` mirrors in sync."""
        deadline_s = time.monotonic() + limit_s
        while time.monotonic() < deadline_s:
            lines = self.control("list_queues", "synchronised_slave_pids", "--silent").splitlines()
            if sum(line.count("<") >= mirrors for line in lines) >= queues:
                return
            time.sleep(0.2)
        raise NotAvailable(f"{self.name}: the mirrors of {queues} queues were not in sync within {limit_s:g} s")

    @property
    def pids(self) -> list[int]:
        """All measured processes."""
        return [pid for pids in self.node_pids for pid in pids] + self.shared_pids


@contextlib.contextmanager
def warren_cluster(count: int = NODES, program: pathlib.Path = WARREN, name: str = "Warren") -> Iterator[Cluster]:
    """`program` may be of another checkout."""
    warren = str(available(program))
    with own_folder("warren") as folder, contextlib.ExitStack() as held:
        directory = folder.resolve() / "cluster"
        held.callback(_run, warren, "cluster", "down", f"--data={directory}")
        _run(warren, "cluster", "up", f"--data={directory}", f"--nodes={count}", "--amqp=0", "--http=0", "--peer=0")
        nodes = json.loads((directory / "cluster.json").read_text())["nodes"]
        yield Cluster(
            name,
            [("127.0.0.1", node["amqp"]) for node in nodes],
            [_processes_of(directory, node["name"]) for node in nodes],
            [],
            partial(_run, warren, "ctl", "--http", f"http://127.0.0.1:{nodes[0]['http']}"),
            [directory / node["name"] for node in nodes],
            partial(_run, warren, "cluster", "up", f"--data={directory}"),
        )


def _run(*words: str, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotAvailable(f"`{' '.join(words[:3])} …` failed: {done.stderr[-2000:]}")
    return done.stdout


def _processes_of(directory: pathlib.Path, name: str) -> list[int]:
    """The broker, and the processes that name its data directory on their command lines."""
    broker = int((directory / f"{name}.pid").read_text())
    return [broker, *(pid for pid in processes_naming(directory / name) if pid != broker)]


@contextlib.contextmanager
def rabbitmq_cluster(count: int = NODES) -> Iterator[Cluster]:
    with own_folder("rabbitmq") as folder, contextlib.ExitStack() as held:
        mapper = PortMapper(folder)
        held.callback(mapper.close)
        names = [f"n{number}" for number in range(1, count + 1)]
        nodes, brokers = [], []
        for number, name in enumerate(names, 1):
            (folder / name).mkdir()
            nodes.append(RabbitNode(folder / name, _joining(names[:number]), name, mapper))
            held.callback(nodes[-1].close)
            brokers.append(nodes[-1].start())
        _check_joined(nodes[0], names)
        control = partial(_run, nodes[0].tool("rabbitmqctl"), "-q", environment=nodes[0].environment)
        pids = [[broker.pid] for broker in brokers]
        addresses, folders = [broker.address for broker in brokers], [folder / name for name in names]
        yield Cluster("RabbitMQ", addresses, pids, [mapper.pid], control, folders, nodes[0].restart)


def _joining(names: list[str]) -> tuple[str, ...]:
    """Settings of a node that looks for the nodes before it, and for itself."""
    listed = [
        f"cluster_formation.classic_config.nodes.{number} = {name}@localhost" for number, name in enumerate(names, 1)
    ]
    return ("cluster_formation.peer_discovery_backend = classic_config", *listed)


def _check_joined(node: RabbitNode, names: list[str]) -> None:
    words = [node.tool("rabbitmqctl"), "-q", "cluster_status", "--formatter", "json"]
    done = subprocess.run(
        words, env=node.environment, capture_output=True, text=True, check=False, timeout=STOP_LIMIT_S
    )
    running = json.loads(done.stdout)["running_nodes"] if done.returncode == 0 else []
    if sorted(running) != [f"{name}@localhost" for name in names]:
        raise NotAvailable(f"the RabbitMQ nodes did not form a cluster: {running or done.stderr[-600:]}")


CLUSTERS: dict[str, Callable[[], contextlib.AbstractContextManager[Cluster]]] = {
    "warren": warren_cluster,
    "rabbitmq": rabbitmq_cluster,
}
