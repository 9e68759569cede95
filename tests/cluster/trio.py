"""Three real nodes that are one cluster, each with an etcd member of its own, and ways to disturb them.

The nodes are counted from 0 and called n1, n2 and n3. Each is the home of a durable queue named after it, which shows
whether other nodes reach it. `mend` repairs nodes and members that a test left dead or frozen.

Not here: clients and their promises (`promises`).
"""

import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.amqp_client import Channel, Connection, ServerHungUp
from tests.support.deadlines import DEADLINE_S, eventually
from tests.support.node_process import NodeProcess
from tests.support.processes import processes_with

SUSPECTED_S_MAX = 15.0
"""Three seconds of silence, a look a second later, and the delay of a busy machine."""

REFUSED_S_MAX = 40.0
"""A node tries for ten seconds; a busy machine adds to it."""


@contextmanager
def closed_by_node_as_hang_up(connection: Connection) -> Iterator[None]:
    """A node that pauses or stops may send connection.close at any moment: that counts as a hang-up."""
    try:
        yield
    except AssertionError as error:
        if not any(sign in str(error) for sign in ("got connection.close", "the server closes the connection")):
            raise
        with suppress(OSError):
            connection.send(0, "connection.close-ok")
        raise ServerHungUp(str(error)) from None


def refusal(node: NodeProcess, method: str, **fields: object) -> tuple[int, str]:
    """How a node refuses a method on a new channel; (0, "") if it does not."""
    connection = Connection(node.amqp, DEADLINE_S)
    try:
        with closed_by_node_as_hang_up(connection):
            connection.shake_hands("/")
            channel = connection.channel()
            channel.send(method, **fields)
            answer = channel.next()
            connection.close()
        return (answer.reply_code, answer.reply_text) if answer.name == "channel.close" else (0, "")
    finally:
        connection.cut()


def knows(node: NodeProcess, queue: str) -> bool:
    """True if a node serves clients, knows a queue and reaches it."""
    try:
        return refusal(node, "queue.declare", queue=queue, passive=True) == (0, "")
    except (ConnectionError, ServerHungUp):
        return False


def accepts(node: NodeProcess) -> bool:
    """True if a node accepts clients."""
    try:
        connection = Connection(node.amqp, DEADLINE_S)
    except ConnectionError:
        return False
    try:
        with closed_by_node_as_hang_up(connection):
            connection.shake_hands("/")
            connection.close()
    except (ConnectionError, ServerHungUp):
        return False
    finally:
        connection.cut()
    return True


def declare(channel: Channel, queue: str, **fields: object) -> None:
    channel.call("queue.declare", queue=queue, **fields)


def url_of(*nodes: NodeProcess) -> str:
    hosts = ",".join(f"{host}:{port}" for host, port in (node.amqp for node in nodes))
    return f"amqp://guest:guest@{hosts}/%2F"


class Trio:
    """They listen on free ports and trust one cookie."""

    def __init__(self, directory: Path, names: Sequence[str] = ("n1", "n2", "n3")) -> None:
        self._directory = directory.resolve()
        cookie = self._directory / "cookie"
        cookie.write_text("5a" * 32 + "\n")
        cookie.chmod(0o400)
        self.configuration = f"cluster.cookie_file = {cookie}\nprometheus.tcp.port = 0\n"
        self.nodes: list[NodeProcess] = []
        self._connections: list[Connection] = []
        try:
            for name in names:
                self._add(name)
            eventually(self.is_whole, "all nodes reach one another")
        except BaseException:
            self.destroy()
            raise

    def _add(self, name: str) -> None:
        join = ("--join", "{}:{}".format(*self.nodes[0].addresses["peer"])) if self.nodes else ()
        node = self.launch(self._directory / name, *join)
        self.nodes.append(node)
        self.channel(node).call("queue.declare", queue=node.name, durable=True)

    def launch(self, directory: Path, *options: str, command: Sequence[str] = NodeProcess.COMMAND) -> NodeProcess:
        """A node called like its directory."""
        name = f"{directory.name}@localhost"
        return NodeProcess(directory, "--name", name, *options, configuration=self.configuration, command=command)

    def channel(self, node: NodeProcess) -> Channel:
        """Open a channel on a connection of its own, with a long timeout; `hang_up` closes it."""
        connection = Connection.opened(node.amqp)
        self._connections.append(connection)
        connection.deadline_s = DEADLINE_S
        return connection.channel()

    def hang_up(self) -> None:
        """Close all connections of `channel`: a node that stops waits for their connection.close-ok."""
        for connection in self._connections:
            connection.cut()
        self._connections.clear()

    def is_whole(self) -> bool:
        """Whether every node reaches every queue."""
        return all(knows(node, other.name) for node in self.nodes for other in self.nodes)

    def ctl(self, node: NodeProcess, *words: str) -> str:
        """The output of `warren ctl` for this node."""
        host, port = node.addresses["http"]
        done = subprocess.run(
            [sys.executable, "-m", "warren.cli.main", "ctl", "--http", f"http://{host}:{port}", *words],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert done.returncode == 0, done
        return done.stdout

    # -- etcd

    def etcd_directory(self, node: NodeProcess) -> Path:
        return node.data / "etcd"

    def etcd_pid(self, node: NodeProcess) -> int:
        """The pid of the etcd member; 0 if it does not run."""
        return next(iter(_etcd_processes(node.data.resolve())), 0)

    def signal_etcd(self, node: NodeProcess, order: signal.Signals) -> None:
        pid = self.etcd_pid(node)
        assert pid, f"{node.name} has no etcd member"
        os.kill(pid, order)

    def leader_of_etcd(self) -> NodeProcess:
        """The node with etcd's leader; waits during an election."""
        found: list[NodeProcess] = []

        def has_one() -> bool:
            found[:] = [node for node in self.nodes if "etcd_server_is_leader 1\n" in self._metrics_of_etcd(node)]
            return bool(found)

        eventually(has_one, "a member of etcd leads")
        return found[0]

    def _metrics_of_etcd(self, node: NodeProcess) -> str:
        """The member's metrics, read with a certificate of the cluster."""
        identity = node.data / "etcd-identity"
        context = ssl.create_default_context(cafile=identity / "authority.pem")
        context.check_hostname = False
        context.load_cert_chain(identity / "node.pem", identity / "node.key")
        member = json.loads((self.etcd_directory(node) / "member.json").read_text())
        url = f"https://{member['host']}:{member['client_port']}/metrics"
        with urllib.request.urlopen(url, timeout=20.0, context=context) as answer:
            return str(answer.read().decode())

    # -- all of them

    def start(self, *nodes: NodeProcess) -> None:
        """Start nodes that wait for one another."""
        for node in nodes:
            node.spawn()
        for node in nodes:
            node.await_ready()

    def mend(self) -> None:
        """All nodes run again, with their first configuration."""
        self.hang_up()
        for node in self.nodes:
            node.configure(self.configuration)
            if node.alive:
                node.process.send_signal(signal.SIGCONT)
            if self.etcd_pid(node):
                self.signal_etcd(node, signal.SIGCONT)
        self.start(*[node for node in self.nodes if not node.alive])
        eventually(self.is_whole, "all nodes reach one another")

    def destroy(self) -> None:
        self.hang_up()
        for node in self.nodes:
            node.kill()
        for pid in _etcd_processes(self._directory):
            os.kill(pid, signal.SIGKILL)


def _etcd_processes(directory: Path) -> list[int]:
    """The etcd members with data below a directory."""
    return processes_with(lambda argument: argument.startswith(f"--data-dir={directory}/"))
