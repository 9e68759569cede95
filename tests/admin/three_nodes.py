"""Three real nodes of one cluster, two disc nodes and a RAM node, and the operations of tests on them.

Where `told` is used (`conftest`), queue `of0` lives on the first node, `of1` on the second, `of2` on the third, and
each node has a client that consumes from the next node's queue.

Not here: the answers of the HTTP API (the tests).
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import pika

from tests.admin.calling import Api, Heard
from tests.support.node_process import NodeProcess
from tests.support.ports import cluster_ports

DEADLINE_S = 60.0
_COMMAND = [sys.executable, "-m", "warren.cli.main"]

MESSAGES = {"of0": 1, "of1": 5, "of2": 3}
NOBODY = ("nobody", "nothing")

T = TypeVar("T")


class OneNode:
    """Where one of them is found."""

    def __init__(self, name: str, amqp: int, http: int) -> None:
        self.name = name
        self.addresses = {"amqp": ("127.0.0.1", amqp), "http": ("127.0.0.1", http)}
        self.api = Api(cast(NodeProcess, self))

    def connect(self, name: str = "", user: tuple[str, str] = ("guest", "guest")) -> pika.BlockingConnection:
        host, port = self.addresses["amqp"]
        return pika.BlockingConnection(
            pika.ConnectionParameters(
                host,
                port,
                credentials=pika.PlainCredentials(*user),
                client_properties={"connection_name": name},
                heartbeat=0,
            )
        )

    def ctl(self, *words: str) -> str:
        """What `warren ctl` prints when it asks this node."""
        done = self.try_ctl(*words)
        assert done.returncode == 0, done
        return done.stdout

    def try_ctl(self, *words: str) -> "subprocess.CompletedProcess[str]":
        host, port = self.addresses["http"]
        return subprocess.run(
            [*_COMMAND, "ctl", "--http", f"http://{host}:{port}", *words],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )


class Trio:
    """`warren cluster` for three nodes, or with other options for others; they are counted from 0."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory = directory
        chosen = options or ("--nodes", "3", "--ram", "1")
        count = int(chosen[chosen.index("--nodes") + 1])
        self.run("up", *chosen, *cluster_ports(count))
        laid_out = json.loads((directory / "cluster.json").read_text())["nodes"]
        self.nodes = [OneNode(f"{one['name']}@localhost", one["amqp"], one["http"]) for one in laid_out]

    def __getitem__(self, number: int) -> OneNode:
        return self.nodes[number]

    @property
    def names(self) -> list[str]:
        return [node.name for node in self.nodes]

    def run(self, *words: str) -> None:
        done = subprocess.run(
            [*_COMMAND, "cluster", *words, "--data", str(self.directory)],
            capture_output=True,
            text=True,
            timeout=2 * DEADLINE_S,
        )
        assert done.returncode == 0, done

    def read(self, path: str) -> list[Any]:
        """The document at a path, as each node tells it when all others have answered; they run, and may be busy."""
        return [eventually(partial(node.api.get, path), answered_by_all).json for node in self.nodes]


def answered_by_all(heard: Heard) -> bool:
    if "x-silent-nodes" in heard.headers:
        return False
    assert heard.status == 200, (heard.status, heard.body)
    return True


def eventually(look: Callable[[], T], holds: Callable[[T], bool]) -> T:
    """Read until a condition holds; the last value."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        seen = look()
        if holds(seen):
            return seen
        assert time.monotonic() < deadline, seen
        time.sleep(0.02)


def make_user(trio: Trio) -> None:
    """A user with all permissions, and without the tag `monitoring`."""
    assert trio[0].api.call("PUT", "users/nobody", {"password": NOBODY[1], "tags": "management"}).status in (201, 204)
    permissions = {"configure": ".*", "write": ".*", "read": ".*"}
    assert trio[0].api.call("PUT", "permissions/%2F/nobody", permissions).status in (201, 204)
