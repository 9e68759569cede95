"""Real nodes that join and leave clusters, and the commands for it.

Each node begins alone, on free ports, and all share one cookie. A command is run in this process, as `warren ctl` would
be; commands to a stopped node take the cookie from the environment.

Not here: faults of a cluster with fixed members (`trio`).
"""

import io
import json
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from tests.support.amqp_client import Channel, Connection
from tests.support.deadlines import DEADLINE_S, eventually
from tests.support.node_process import NodeProcess
from tests.support.operator import Operator
from tests.support.ports import free_port, peer_port
from tests.support.processes import processes_with
from warren.cli.main import run


@dataclass(frozen=True)
class Said:
    """The output of a command, and its exit code."""

    code: int
    out: str
    err: str


class MemberNodes:
    """All nodes of one test directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.cookie = directory / "cookie"
        self.cookie.write_text("5a" * 32 + "\n")
        self.cookie.chmod(0o400)
        self._nodes: list[NodeProcess] = []

    def start(self, name: str, *options: str, configuration: str = "") -> NodeProcess:
        """A node that is ready, on free ports."""
        words, lines = self._words(name, options), self._lines(configuration)
        self._nodes.append(NodeProcess(self.directory / name, *words, configuration=lines))
        return self._nodes[-1]

    def spawn(self, name: str, *options: str, configuration: str = "", port: int = 0) -> NodeProcess:
        """A node that need not become ready."""
        words, lines = self._words(name, options), self._lines(configuration)
        self._nodes.append(UnreadyNode(self.directory / name, *words, configuration=lines, port=port))
        return self._nodes[-1]

    def _words(self, name: str, options: tuple[str, ...]) -> tuple[str, ...]:
        return ("--name", f"{name}@localhost", *options)

    def _lines(self, configuration: str) -> str:
        return f"cluster.cookie_file = {self.cookie}\nprometheus.tcp.port = 0\n{configuration}"

    def ctl(self, node: NodeProcess, *words: str) -> Said:
        """Run a command for one node."""
        host, port = node.addresses["http"]
        environment = {"WARREN_HTTP": f"http://{host}:{port}", "WARREN_CLUSTER__COOKIE_FILE": str(self.cookie)}
        with (
            mock.patch.dict(os.environ, environment),
            redirect_stdout(io.StringIO()) as out,
            redirect_stderr(io.StringIO()) as err,
        ):
            code = run(["ctl", *words])
        return Said(code, out.getvalue(), err.getvalue())

    def done(self, node: NodeProcess, *words: str) -> str:
        said = self.ctl(node, *words)
        assert (said.code, said.err) == (0, ""), (words, said, node.log()[-3000:])
        return said.out

    def join(self, node: NodeProcess, other: NodeProcess, *options: str) -> None:
        self.done(node, "stop_app")
        self.done(node, "join_cluster", *options, peer_of(other))
        self.done(node, "start_app")

    def members(self, node: NodeProcess) -> dict[str, tuple[str, bool]]:
        """The type of each member, and whether it runs, as one of them reports."""
        lines = self.done(node, "-q", "cluster_status", "--formatter", "json")
        return standing_in(lines)

    def destroy(self) -> None:
        """End everything that runs here, the members of etcd included."""
        for node in self._nodes:
            node.kill()
        for pid in processes_below(self.directory):
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: not processes_below(self.directory))


class UnreadyNode(NodeProcess):
    """A node that need not serve clients yet; its addresses are fixed beforehand."""

    def __init__(self, data: Path, *options: str, configuration: str, port: int) -> None:
        self._peer_port = port or peer_port()
        super().__init__(data, *options, configuration=configuration)

    def start(self) -> None:
        ports = {"amqp": free_port(), "http": free_port(), "peer": self._peer_port}
        self.addresses = {kind: ("127.0.0.1", port) for kind, port in ports.items()}
        self.spawn()


def ended(node: NodeProcess) -> int:
    """The exit code of a process that ended by itself."""
    code = node.process.wait(DEADLINE_S)
    assert node.process.stdout is not None
    node.process.stdout.close()
    return code


def standing_in(document: str) -> dict[str, tuple[str, bool]]:
    status = json.loads(document)
    disc, ram, running = status["disk_nodes"], status["ram_nodes"], status["running_nodes"]
    return {name: ("disc" if name in disc else "ram", name in running) for name in sorted([*disc, *ram])}


def joining(node: NodeProcess) -> tuple[str, str]:
    """The options of a node that joins another."""
    return "--join", "127.0.0.1:{}".format(node.addresses["peer"][1])


def peer_of(node: NodeProcess) -> str:
    """A node's name with its port, as operators write it for another than the default port."""
    return f"{node.name}:{node.addresses['peer'][1]}"


@contextmanager
def channel_to(node: NodeProcess) -> Iterator[Channel]:
    connection = Connection.opened(node.amqp)
    connection.deadline_s = DEADLINE_S
    try:
        yield connection.channel()
    finally:
        connection.cut()


def declare(node: NodeProcess, queue: str, *bodies: bytes) -> None:
    """A durable queue at that node, with persistent messages."""
    with channel_to(node) as channel:
        channel.call("queue.declare", queue=queue, durable=True)
    publish(node, queue, bodies)


def publish(node: NodeProcess, queue: str, bodies: Sequence[bytes]) -> None:
    """Persistent messages, all of them confirmed."""
    with channel_to(node) as channel:
        channel.confirm()
        for body in bodies:
            channel.publish("", queue, body, {"delivery_mode": 2})
        channel.confirms(range(1, len(bodies) + 1))


def ready_in(node: NodeProcess, queue: str) -> int:
    """How many ready messages a queue has; -1 if it cannot be reached."""
    with channel_to(node) as channel:
        channel.send("queue.declare", queue=queue, passive=True)
        answer = channel.next()
        return int(answer.message_count) if answer.name == "queue.declare-ok" else -1


def holders(node: NodeProcess, queue: str) -> list[str]:
    """The in-sync nodes of a mirrored queue, as a node reports them; none if it knows of no such queue or no master."""
    rows = Operator(node.addresses["http"]).read("queues", "/")
    row: dict[str, Any] = next((row for row in rows if row["name"] == queue), {})
    return sorted([row["node"], *row.get("synchronised_slave_nodes", [])]) if "node" in row else []


def queues_of(node: NodeProcess) -> list[str]:
    """All queues that a node reports."""
    return sorted(queue["name"] for queue in Operator(node.addresses["http"]).read("queues"))


def processes_below(directory: Path, beginning: str = "") -> list[int]:
    """The processes that have a path below the directory in an argument that begins like this."""
    return processes_with(lambda argument: f"{directory}/" in argument and argument.startswith(beginning))


def etcd_pid(node: NodeProcess) -> int:
    """The pid of the node's etcd member; 0 if it does not run."""
    return next(iter(processes_below(node.data, "--data-dir=")), 0)
