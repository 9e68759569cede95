"""Real nodes behind a real HAProxy that runs the configuration `warren ha render` has written for it.

All of it is on the loopback, where every address beginning with 127 is this machine's: the virtual address and both
balancers' are answered by the one HAProxy. Nodes take a PROXY header from 127.0.0.11, as which HAProxy calls them, and
none from `DIRECT`, as which a test does.

Not here: Keepalived, which wants a network (`tests.support.namespaces`).
"""

import base64
import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.deadlines import eventually
from tests.support.debian import environment, program
from tests.support.node_process import NodeProcess
from tests.support.ports import free_port
from warren.cli.ha.deployment import Balancer, BrokerNode, Deployment, HaproxySettings, KeepalivedSettings
from warren.cli.ha.deployment_file import deployment_text

VIRTUAL = "127.0.0.10"
DIRECT = "127.0.0.77"
DEADLINE_S = 60.0
_PROXY = "proxy_protocol = true\nmanagement.proxy_protocol = true\nproxy_protocol.from.1 = 127.0.0.11\n"
_GUEST = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}


class Front:
    """As many lone nodes as are wanted, and HAProxy before them as balancer lb1.

    `secure` are ports of a node's own configuration, for `amqps` and `https`; clients are led to these alone then.
    """

    def __init__(
        self,
        folder: Path,
        names: tuple[str, ...] = ("n1", "n2"),
        proxy_lines: str = _PROXY,
        secure: Mapping[str, int] | None = None,
    ) -> None:
        self._folder = folder
        self._secure = secure
        self.nodes = {
            name: NodeProcess(folder / name, "--name", f"warren@{name}", configuration=proxy_lines) for name in names
        }
        self.haproxy: subprocess.Popen[bytes] | None = None
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        folder = self._folder
        self.deployment = self._deployment()
        self.file = folder / "deployment.toml"
        self.file.write_text(deployment_text(self.deployment))
        rendered = warren("ha", "render", str(self.file), "--out", str(folder / "rendered"))
        assert rendered.returncode == 0, rendered
        self.script = folder / "rendered/lb1/etc/keepalived/warren-check"
        self._log = folder / "haproxy.log"
        self.start_haproxy()

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{VIRTUAL}:{self.deployment.ports['amqp']}/"

    def _deployment(self) -> Deployment:
        return Deployment(
            virtual_address=VIRTUAL,
            prefix=8,
            balancers=(Balancer("lb1", "127.0.0.11", "eth0"), Balancer("lb2", "127.0.0.12", "eth0")),
            nodes=tuple(
                BrokerNode(node.name, "127.0.0.1", "disc", self._ports_of(node)) for node in self.nodes.values()
            ),
            ports={kind: free_port() for kind in self._secure or ("amqp", "http")},
            haproxy=HaproxySettings("", str(self._folder), 1000, free_port()),
            keepalived=KeepalivedSettings(),
        )

    def _ports_of(self, node: NodeProcess) -> dict[str, int]:
        return dict(self._secure or {kind: port for kind, (_, port) in node.addresses.items()})

    def start_haproxy(self) -> None:
        """Unless it runs."""
        if self.haproxy is not None and self.haproxy.poll() is None:
            return
        configuration = self._folder / "rendered/lb1/etc/haproxy/haproxy.cfg"
        with self._log.open("ab") as log:
            self.haproxy = subprocess.Popen(
                [program("haproxy"), "-db", "-f", str(configuration)], stdout=log, stderr=log, env=environment()
            )
        eventually(lambda: self.watched("/working"), self.log_text)
        for name in self.nodes:
            self.await_standing(name, "UP")

    def watched(self, path: str) -> bool:
        """The exit code of Keepalived's check script."""
        port = str(self.deployment.haproxy.health_port)
        return subprocess.run([str(self.script), port, path]).returncode == 0

    def standings(self) -> dict[str, str]:
        """HAProxy's state of each node."""
        return {row[1].removeprefix("warren-at-"): row[17].split()[0] for row in self._statistics()}

    def is_idle(self) -> bool:
        """Whether HAProxy has no client that it counts for a node."""
        return all(row[4] == "0" for row in self._statistics())

    def _statistics(self) -> list[list[str]]:
        backend = f"{self.deployment.served()[0]}_fit"
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(DEADLINE_S)
            control.connect(str(self._folder / "admin.sock"))
            control.sendall(b"show stat\n")
            told = control.makefile().read()
        return [line.split(",") for line in told.splitlines() if line.startswith(f"{backend},")]

    def log_text(self) -> str:
        """What HAProxy logged."""
        return self._log.read_text(errors="replace")

    def await_standing(self, name: str, standing: str) -> None:
        eventually(lambda: self.standings()[name] == standing, self.log_text)

    def ask(self, name: str, path: str, method: str = "GET") -> Any:
        """A node's API, directly."""
        host, port = self.nodes[name].addresses["http"]
        connection = http.client.HTTPConnection(host, port, timeout=DEADLINE_S, source_address=(DIRECT, 0))
        connection.request(method, path, body="{}" if method == "PUT" else None, headers=_GUEST)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        assert answer.status < 300, (answer.status, body)
        return json.loads(body) if body else None

    def ask_through(self, path: str) -> http.client.HTTPResponse:
        """The API behind the virtual address; its answer, read."""
        connection = http.client.HTTPConnection(VIRTUAL, self.deployment.ports["http"], timeout=DEADLINE_S)
        connection.request("GET", path, headers=_GUEST)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer

    def end_haproxy(self) -> None:
        """SIGKILL: it has no time for anything."""
        if self.haproxy is not None:
            self.haproxy.kill()
            self.haproxy.wait()

    def close(self) -> None:
        self.end_haproxy()
        for node in self.nodes.values():
            if node.alive:
                node.kill()


@contextmanager
def front(folder: Path, *names: str, more_lines: str = "", secure: Mapping[str, int] | None = None) -> Iterator[Front]:
    made = Front(folder, names or ("n1", "n2"), _PROXY + more_lines, secure)
    try:
        yield made
    finally:
        made.close()


def warren(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command line, where Debian's programs are found."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("warren")), *words],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environment() | variables,
    )
