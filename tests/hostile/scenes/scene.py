"""One scene, and the parts that scenes share: many queues, many messages, many connections."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.support.amqp_client import Channel, Connection
from tests.support.amqp_frames import METHOD, content_frames, frame
from tests.support.amqp_methods import write_method
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess

WAIT_S = 90.0
"""For an answer to work that takes a node many turns, also on a busy machine and an uncompiled core."""

FRAME_MAX = 131072
Act = Callable[[NodeProcess], None]


def nothing(node: NodeProcess) -> None:
    """A node as it is after its start."""


@dataclass(frozen=True)
class Scene:
    """`prepare` makes the node what the hostile client finds; `attack` ends when the node has done what it asked for.

    A `quick` scene takes seconds and is part of `make test`.
    """

    door: str
    name: str
    needs: str
    attack: Act
    prepare: Act = nothing
    quick: bool = False

    def __str__(self) -> str:
        return f"{self.door}: {self.name}"


def method(name: str, channel: int = 1, **fields: Any) -> bytes:
    return frame(METHOD, channel, write_method(name, fields))


def message(exchange: str, key: str, body: bytes = b"", properties: dict[str, Any] | None = None) -> bytes:
    publish = method("basic.publish", exchange=exchange, routing_key=key)
    return publish + content_frames(1, body, properties or {}, FRAME_MAX)


@contextlib.contextmanager
def client(node: NodeProcess, vhost: str = "/") -> Iterator[tuple[Connection, Channel]]:
    connection = Connection.opened(node.amqp, vhost)
    connection.deadline_s = WAIT_S
    try:
        yield connection, connection.channel()
    finally:
        connection.cut()


def send_all(connection: Connection, frames: Iterable[bytes]) -> None:
    """In large writes. The answers must be few, because none is read meanwhile."""
    written: list[bytes] = []
    for number, octets in enumerate(frames, 1):
        written.append(octets)
        if number % 1000 == 0:
            connection.send_bytes(b"".join(written))
            written.clear()
    connection.send_bytes(b"".join(written))


def declare_queues(node: NodeProcess, count: int, vhost: str = "/", bind: str = "", **fields: Any) -> None:
    """`q0`, `q1`, …; with `bind`, each is bound to that exchange with its name as the key."""
    with client(node, vhost) as (connection, channel):
        frames = []
        for number in range(count):
            frames.append(method("queue.declare", queue=f"q{number}", nowait=True, **fields))
            if bind:
                frames.append(
                    method("queue.bind", queue=f"q{number}", exchange=bind, routing_key=f"q{number}", nowait=True)
                )
        send_all(connection, frames)
        channel.counts(f"q{count - 1}")


def fill(node: NodeProcess, queue: str, count: int, properties: dict[str, Any] | None = None, **arguments: Any) -> None:
    """A queue with so many small messages."""
    with client(node) as (connection, channel):
        channel.call("queue.declare", queue=queue, arguments=arguments)
        publish(connection, queue, count, properties)
        eventually(lambda: channel.counts(queue)[0] == count, f"{queue} has {count} messages", WAIT_S)


def publish(connection: Connection, queue: str, count: int, properties: dict[str, Any] | None = None) -> None:
    batch = message("", queue, b"x", properties) * 1000
    for _ in range(count // 1000):
        connection.send_bytes(batch)


def read_deliveries(connection: Connection, count: int) -> None:
    """Read so many deliveries, which are all there are, and do not look at them."""
    seen = 0
    rest, connection.unread = connection.unread, b""
    connection.socket.settimeout(WAIT_S)
    while seen < count or rest:
        if seen < count:
            rest += connection.socket.recv(1024 * 1024)
        at = 0
        while len(rest) - at >= 7:
            kind, _, size = struct.unpack_from(">BHI", rest, at)
            if len(rest) - at < size + 8:
                break
            seen += kind == 2
            at += size + 8
        rest = rest[at:]


def open_sockets(address: tuple[str, int], count: int, words: bytes = b"") -> list[socket.socket]:
    """Connections that say these words. Some may be refused."""
    opened = []
    for _ in range(count):
        with contextlib.suppress(OSError):
            one = socket.create_connection(address, timeout=WAIT_S)
            opened.append(one)
            one.sendall(words)
    return opened


def close_sockets(opened: list[socket.socket]) -> None:
    """With a reset, so that no port waits."""
    for one in opened:
        with contextlib.suppress(OSError):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()


def at_once(work: Callable[[], object], count: int) -> None:
    """Run the work in so many threads."""
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
