"""The broker of the demo: three nodes on this machine, by `warren cluster`, with their exchanges, queues and stream.

The queues are mirrored to all nodes, and have their masters on the first one, which will be killed. The stream that
collects the trace is mirrored as well, with its master on the second.

Not here: the clients of the queues (`shop`, `till`, `bank`).
"""

import base64
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import shop
import till

from warren.client import blocking

WARREN = str(Path(sys.executable).with_name("warren"))
MASTER = "n1"
TRACE_STREAM = "trace"
CORRECTIONS = "corrections"
DEAD = "orders.dead"
MIRRORED = {"x-ha-mode": "all"}
DEADLINE_S = 60.0
LOGIN = "Basic " + base64.b64encode(b"guest:guest").decode()


class CommandFailed(Exception):
    """A command failed."""


class Cluster:
    """A context manager; its end stops all nodes. Call `up` first."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._nodes: list[dict[str, Any]] = []

    def up(self) -> None:
        self._command("cluster", "up", "--nodes", "3", "--amqp", "0", "--http", "0", "--peer", "0")
        self._nodes = json.loads((self.directory / "cluster.json").read_text())["nodes"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if (self.directory / "cluster.json").exists():
            self._command("cluster", "down")

    def kill_master(self) -> None:
        os.kill(int((self.directory / f"{MASTER}.pid").read_text()), signal.SIGKILL)

    def start_master_again(self) -> None:
        self._command("cluster", "start", MASTER)

    def url(self, *order: int) -> str:
        """The URL of the nodes in this order; a client uses the first that answers."""
        hosts = ",".join(f"127.0.0.1:{self._nodes[number - 1]['amqp']}" for number in order)
        return f"amqp://{hosts}"

    def patient_url(self, *order: int) -> str:
        """The same URL for a client that waits until a node answers."""
        return f"{self.url(*order)}?connection_attempts=60&retry_delay=0.5"

    def http(self, number: int) -> str:
        return f"http://127.0.0.1:{self._nodes[number - 1]['http']}"

    def declare(self) -> None:
        with blocking.connect(self.url(1)) as connection:
            channel = connection.channel()
            for exchange in (shop.EXCHANGE, till.EXCHANGE):
                channel.declare_exchange(exchange, "topic", durable=True)
            buried = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}
            for queue, arguments in (("orders", buried), ("payments", {}), (CORRECTIONS, {}), (DEAD, {})):
                channel.declare_queue(queue, durable=True, arguments={**MIRRORED, **arguments})
            channel.bind_queue("orders", shop.EXCHANGE, shop.KEY)
            channel.bind_queue("payments", till.EXCHANGE, till.KEY)

    def trace(self) -> None:
        """Collect the Firehose messages of every node in a stream."""
        with blocking.connect(self.url(2)) as connection:
            channel = connection.channel()
            channel.declare_queue(TRACE_STREAM, durable=True, arguments={**MIRRORED, "x-queue-type": "stream"})
            channel.bind_queue(TRACE_STREAM, "amq.rabbitmq.trace", "#")
        for number in (1, 2, 3):
            self._command("ctl", "--http", self.http(number), "trace_on")

    def traced_count(self) -> int:
        """The count of events in the stream; it includes all earlier events of the second and the third node."""
        count = 0
        for number in (2, 3):
            with blocking.connect(self.url(number)) as connection:
                count = connection.channel().declare_queue(TRACE_STREAM, passive=True).messages
        return count

    def master_of(self, queue: str) -> str:
        return str(self._asked(f"queues/%2F/{queue}")["node"])

    def await_mirrors(self, *queues: str) -> None:
        """Wait until all mirrors are in sync again."""
        deadline = time.monotonic() + DEADLINE_S
        for queue in queues:
            while len(self._asked(f"queues/%2F/{queue}").get("synchronised_slave_nodes", ())) < 2:
                if time.monotonic() > deadline:
                    raise CommandFailed(f"the mirrors of {queue} are not in sync after {DEADLINE_S:.0f} s")
                time.sleep(0.1)

    def empty(self, queue: str) -> int:
        """Consume and ack all messages of a queue; the count of them."""
        taken = 0
        with blocking.connect(self.url(2, 3)) as connection:
            channel = connection.channel()
            while (delivery := channel.get(queue)) is not None:
                channel.ack(delivery)
                taken += 1
        return taken

    def _asked(self, path: str) -> Any:
        request = urllib.request.Request(f"{self.http(2)}/api/{path}", headers={"authorization": LOGIN})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def _command(self, kind: str, *words: str) -> None:
        at = ("--data", str(self.directory)) if kind == "cluster" else ()
        done = subprocess.run([WARREN, kind, *words, *at], capture_output=True, text=True)
        if done.returncode:
            raise CommandFailed(f"warren {kind} {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
