"""The broker: three nodes on this machine, by `warren cluster`, with queues mirrored to all of them.

Not here: the messages (`operations`).
"""

import base64
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from http.client import HTTPException
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from operations import QUEUES

from warren.client import blocking

WARREN = str(Path(sys.executable).with_name("warren"))
NODES = ("n1", "n2", "n3")
MIRRORED = {"ha-mode": "all", "ha-sync-mode": "automatic"}
ALONE = {"x-single-active-consumer": True}
DEADLINE_S = 60.0
LOGIN = "Basic " + base64.b64encode(b"guest:guest").decode()


class ClusterFailed(Exception):
    """A command or an HTTP request to the cluster failed."""


class Cluster:
    """A context manager; its end stops all nodes. Call `up` first."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._nodes: list[dict[str, Any]] = []
        self._down: set[str] = set()

    def up(self) -> None:
        """Start three nodes, set the policy, declare the queues; each has one active consumer, to keep the order."""
        self._command("cluster", "up", "--nodes", "3", "--amqp", "0", "--http", "0", "--peer", "0")
        self._nodes = json.loads((self._directory / "cluster.json").read_text())["nodes"]
        policy = ("set_policy", "ha", "^bank\\.", json.dumps(MIRRORED), "--apply-to", "queues")
        self._command("ctl", "--http", self._http("n1"), *policy)
        with blocking.connect(self.url()) as connection:
            for queue in QUEUES:
                connection.channel().declare_queue(queue, durable=True, arguments=dict(ALONE))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if (self._directory / "cluster.json").exists():
            self._command("cluster", "down")

    def url(self, first: int = 0) -> str:
        """The URL of all nodes, beginning with this one. A client uses the first that answers, and waits for one."""
        ports = [node["amqp"] for node in self._nodes[first % 3 :] + self._nodes[: first % 3]]
        return f"amqp://{','.join(f'127.0.0.1:{port}' for port in ports)}?connection_attempts=120&retry_delay=0.5"

    def kill(self, node: str) -> None:
        os.kill(int((self._directory / f"{node}.pid").read_text()), signal.SIGKILL)
        self._down.add(node)

    def start(self, node: str) -> None:
        self._command("cluster", "start", node)
        self._down.discard(node)

    def master_of(self, queue: str) -> str:
        """The queue's master; asks again while the queue has none."""
        deadline = time.monotonic() + DEADLINE_S
        while not (node := str(self._told(queue).get("node", ""))):
            if time.monotonic() > deadline:
                raise ClusterFailed(f"{queue} has no master after {DEADLINE_S:.0f} s")
            time.sleep(0.1)
        return node.partition("@")[0]

    def active_consumer_of(self, queue: str) -> str:
        """The connection name of the queue's active consumer; empty if there is none or no node answers."""
        active = [each for each in self._told(queue).get("consumer_details", ()) if each.get("active")]
        try:
            names = {each["name"]: each.get("user_provided_name", "") for each in self._asked("connections")}
        except (OSError, HTTPException):
            return ""
        found = [names.get(each["channel_details"]["connection_name"], "") for each in active]
        # a transport has two connections, with different suffixes after its name
        return str(found[0]).partition(" (")[0] if len(found) == 1 else ""

    def await_mirrors(self) -> None:
        """Wait until the mirrors of every queue are in sync."""
        deadline = time.monotonic() + DEADLINE_S
        for queue in QUEUES:
            while len(self._told(queue).get("synchronised_slave_nodes", ())) < 2:
                if time.monotonic() > deadline:
                    raise ClusterFailed(f"the mirrors of {queue} are not in sync after {DEADLINE_S:.0f} s")
                time.sleep(0.1)

    def is_empty(self) -> bool:
        """True if all queues are empty, unacked messages and parking queues included; False if no node answers."""
        try:
            return all(queue.get("messages") == 0 for queue in self._asked("queues/%2F"))
        except (OSError, HTTPException):
            return False

    def purge(self, queue: str, within_s: float) -> int:
        """Purge a queue, as by mistake, as soon as it has ready messages; the count of purged messages."""
        deadline = time.monotonic() + within_s
        with blocking.connect(self.url()) as connection:
            channel = connection.channel()
            while not (gone := channel.purge_queue(queue)) and time.monotonic() < deadline:
                time.sleep(0.02)
        return gone

    def _told(self, queue: str) -> dict[str, Any]:
        try:
            told: dict[str, Any] = self._asked(f"queues/%2F/{queue}")
        except (OSError, HTTPException):
            return {}
        return told

    def _asked(self, path: str) -> Any:
        node = next(name for name in NODES if name not in self._down)
        request = urllib.request.Request(f"{self._http(node)}/api/{path}", headers={"authorization": LOGIN})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def _http(self, node: str) -> str:
        return f"http://127.0.0.1:{self._nodes[NODES.index(node)]['http']}"

    def _command(self, kind: str, *words: str) -> None:
        at = ("--data", str(self._directory)) if kind == "cluster" else ()
        done = subprocess.run([WARREN, kind, *words, *at], capture_output=True, text=True)
        if done.returncode:
            raise ClusterFailed(f"warren {kind} {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
