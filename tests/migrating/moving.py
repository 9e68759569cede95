"""A RabbitMQ, a node, and `warren migrate` between them, for one virtual host of a test's own.

Not here: the claims (the tests).
"""

import os
import re
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from tests.support.node_process import NodeProcess
from tests.support.operator import Operator
from tests.support.rabbitmq import RabbitMQ
from warren.client import Message, Properties, blocking

WARREN = str(Path(sys.executable).with_name("warren"))
DEADLINE_S = 150.0


class Command:
    """`warren migrate` as a process that is spoken to."""

    def __init__(self, arguments: list[str], deadline_s: float = DEADLINE_S) -> None:
        self._process = subprocess.Popen(
            [WARREN, "migrate", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "COLUMNS": "300"},
        )
        self._timer = threading.Timer(deadline_s, self._process.kill)
        self._timer.start()
        self.out = ""

    def await_line(self, pattern: str) -> str:
        """Read on until a line of standard output has this in it."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.out += line
            if re.search(pattern, line):
                return line
        raise AssertionError(f"it never said {pattern!r}\n{self.out}\n{self.end()}")

    def press_enter(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def send(self, signal_number: int) -> None:
        self._process.send_signal(signal_number)

    def end(self) -> tuple[int, str]:
        """Its exit code and standard error, when it has ended."""
        out, err = self._process.communicate()
        self._timer.cancel()
        self.out += out
        return self._process.returncode, err


class Moving:
    """One test's virtual host at both brokers, and the connections to them."""

    def __init__(self, rabbitmq: RabbitMQ, node: NodeProcess) -> None:
        self.rabbitmq = rabbitmq
        self.node = node
        self.vhost = f"shop/{uuid.uuid4().hex[:8]}"
        self.source_operator = Operator(rabbitmq.http)
        self.operator = Operator(node.addresses["http"])
        self.source_operator.vhost(self.vhost)
        self.source_operator.permit("guest", vhost=self.vhost)
        self._connections: list[blocking.Connection] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._connections:
            connection.close()
        self.source_operator.delete_vhost(self.vhost)

    @property
    def source_url(self) -> str:
        return self._url(self.rabbitmq.address)

    @property
    def url(self) -> str:
        return self._url(self.node.amqp)

    def arguments(self, *more: str) -> list[str]:
        ends = [f"http://guest:guest@{host}:{port}" for host, port in (self.rabbitmq.http, self.node.addresses["http"])]
        return ["--from", ends[0], "--to", ends[1], "--vhost", self.vhost, *more]

    def begin(self, *more: str) -> Command:
        return Command(self.arguments(*more))

    def run(self, *more: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of a whole run."""
        command = self.begin(*more)
        code, err = command.end()
        return code, command.out, err

    def at_source(self) -> blocking.Channel:
        return self._channel(self.source_url)

    def at_warren(self) -> blocking.Channel:
        return self._channel(self.url)

    def fill(self, queue: str, bodies: Iterable[bytes], arguments: Mapping[str, Any] | None = None) -> None:
        """A durable queue at RabbitMQ with these messages in it."""
        channel = self.at_source()
        channel.declare_queue(queue, durable=True, arguments=dict(arguments or {}))
        channel.send_many([Message(body, Properties(delivery_mode=2)) for body in bodies], routing_key=queue)
        channel.wait_for_confirms()

    def shovels(self) -> list[str]:
        """Those of the test's virtual host."""
        rows = self.operator.read("parameters", "shovel")
        return [row["name"] for row in rows if row["vhost"] == self.vhost]

    def _url(self, address: tuple[str, int]) -> str:
        return f"amqp://guest:guest@{address[0]}:{address[1]}/{quote(self.vhost, safe='')}"

    def _channel(self, url: str) -> blocking.Channel:
        self._connections.append(blocking.connect(url))
        return self._connections[-1].channel(confirms=True)


def everything_in(channel: blocking.Channel, queue: str) -> list[bytes]:
    """The bodies of all that is ready, in order, taken out."""
    count = channel.declare_queue(queue, passive=True).messages
    consumer = channel.consume(queue)
    taken: list[bytes] = []
    while len(taken) < count:
        batch = consumer.batch(timeout_s=20.0)
        assert batch, f"{len(taken)} of {count} came"
        taken += [bytes(delivery.body) for delivery in batch]
        channel.ack(batch[-1], multiple=True)
    consumer.cancel()
    return taken
