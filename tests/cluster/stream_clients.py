"""Clients of a stream that real nodes hold: writers, readers, and the messages that all of them have seen.

Each is a thread with a connection to a node that it reaches; one that loses its connection opens another and goes on. A
writer that has lost one does not know whether its last messages were stored, and publishes them again under other
numbers.

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
    """The message at each offset, as all readers have read it; and the confirmed messages."""

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
    """A thread that goes on until `end`."""

    def __init__(self, name: str, nodes: Sequence[NodeProcess], stream: str, register: Register) -> None:
        """Connects to the first node that answers."""
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
