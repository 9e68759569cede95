"""Clients of a stream that real nodes hold: those who publish, those who read, and what all of them have seen.

Each is a thread with a connection, to whichever node it reaches; one that loses its connection takes another and goes
on. A writer that has lost one does not know what became of what it had published last, and says it again under another
number.

Not here: the nodes (`tests.cluster.trio`).
"""

import threading
from collections.abc import Sequence

import pika
import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.node_process import NodeProcess

PAUSE_S = 0.2
BODY_BYTES = 4_000


class Register:
    """Which message has which offset, by all that anybody has read; and what was confirmed."""

    def __init__(self) -> None:
        self.by_offset: dict[int, bytes] = {}
        self.confirmed: set[bytes] = set()
        self.complaints: list[str] = []
        self._lock = threading.Lock()

    def read(self, offset: int, body: bytes) -> None:
        with self._lock:
            before = self.by_offset.setdefault(offset, body)
            if before != body:
                self.complaints.append(f"offset {offset} was {before[:20]!r} and is {body[:20]!r}")

    def check(self) -> None:
        assert self.complaints == []
        assert sorted(self.by_offset) == list(range(len(self.by_offset)))
        bodies = set(self.by_offset.values())
        assert len(bodies) == len(self.by_offset), "a message has two offsets"
        assert self.confirmed <= bodies, f"{len(self.confirmed - bodies)} messages were confirmed and are lost"


class StreamClient:
    """A thread that goes on until it is told to end."""

    def __init__(self, name: str, nodes: Sequence[NodeProcess], stream: str, register: Register) -> None:
        """Of the nodes the first one that is there serves it."""
        self.name = name
        self.stream = stream
        self.register = register
        self._nodes = list(nodes)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), f"{self.name} does not end"

    def _run(self) -> None:
        while not self._over.is_set():
            for node in self._nodes:
                try:
                    self._use(node)
                    break
                except (pika.exceptions.AMQPError, OSError):
                    self._over.wait(PAUSE_S)

    def _use(self, node: NodeProcess) -> None:
        host, port = node.amqp
        parameters = pika.ConnectionParameters(host, port, heartbeat=10, blocked_connection_timeout=30)
        with pika.BlockingConnection(parameters) as connection:
            self.work(connection.channel())

    def over(self) -> bool:
        return self._over.is_set()

    def work(self, channel: BlockingChannel) -> None:
        raise AssertionError("each does something else")


class Writer(StreamClient):
    """Publishes one message after another, and waits for each to be confirmed."""

    count = 0

    def work(self, channel: BlockingChannel) -> None:
        channel.confirm_delivery()
        while not self.over():
            self.count += 1
            body = f"{self.name}/{self.count}".encode().ljust(BODY_BYTES, b".")
            channel.basic_publish("", self.stream, body, pika.BasicProperties(delivery_mode=2))
            self.register.confirmed.add(body)


class Reader(StreamClient):
    """Reads from the beginning, and goes on where it was."""

    def __init__(self, name: str, nodes: Sequence[NodeProcess], stream: str, register: Register) -> None:
        self.next = 0
        self.connections = 0
        super().__init__(name, nodes, stream, register)

    def work(self, channel: BlockingChannel) -> None:
        self.connections += 1
        channel.basic_qos(prefetch_count=50)
        arguments = {"x-stream-offset": self.next}
        for method, properties, body in channel.consume(self.stream, arguments=arguments, inactivity_timeout=PAUSE_S):
            if self.over():
                return
            if method is None:
                continue
            offset = properties.headers["x-stream-offset"]
            if offset != self.next:
                self.register.complaints.append(f"{self.name} got {offset} and not {self.next}")
            self.register.read(offset, body)
            self.next = offset + 1
            channel.basic_ack(method.delivery_tag)
