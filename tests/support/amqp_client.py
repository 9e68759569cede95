"""A raw AMQP 0-9-1 client for scripted conversations: blocking sockets, every step visible, nothing automatic.

It does not answer heartbeats, does not answer a close, does not acknowledge: a script does these itself. Every
wait has a deadline. Silence is proven by round trips (`Channel.expect_silence`), never by waiting.

Not here: the meaning of bytes (`amqp_values`, `amqp_methods`), starting a node (`node_process`).
"""

import contextlib
import socket
import struct
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.amqp_frames import (
    FRAME_END,
    HEADER,
    HEARTBEAT,
    METHOD,
    PROTOCOL_HEADER,
    Frame,
    content_frames,
    frame,
    plain,
)
from tests.support.amqp_methods import CARRIES_CONTENT, IDS, read_method, write_method
from tests.support.amqp_values import Reader, read_properties

DEADLINE_S = 30.0
CAPABILITIES: Mapping[str, Any] = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


class ServerHungUp(Exception):
    """The server closed the socket."""


@dataclass
class Received:
    """One method from the server, with its content when it carries one."""

    channel: int
    name: str
    fields: dict[str, Any]
    header: bytes = b""
    body: bytes = b""
    properties: dict[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["fields"][name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def headers(self) -> dict[str, Any]:
        headers: dict[str, Any] = self.properties.get("headers", {})
        return headers


class Connection:
    """One socket to a broker. `Connection.opened` goes through the whole handshake, the constructor only connects."""

    def __init__(self, address: tuple[str, int], deadline_s: float = DEADLINE_S) -> None:
        self.deadline_s = deadline_s
        self.socket = socket.create_connection(address, timeout=deadline_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.unread = b""
        self.inbox: dict[int, deque[Received]] = {}
        self.heartbeats_seen = 0
        self.frame_max = 131072
        self.channels_opened = 0
        self._partial: dict[int, tuple[Received, int]] = {}

    @classmethod
    def opened(cls, address: tuple[str, int], virtual_host: str = "/", **settings: Any) -> "Connection":
        connection = cls(address)
        try:
            connection.shake_hands(virtual_host, **settings)
        except BaseException:
            connection.cut()
            raise
        return connection

    def shake_hands(self, virtual_host: str, **settings: Any) -> None:
        who = {name: settings.pop(name) for name in ("user", "password", "capabilities") if name in settings}
        self.tune_ok(self.authenticate(**who), **settings)
        self.send(0, "connection.open", virtual_host=virtual_host)
        self.expect(0, "connection.open-ok")

    def start(self) -> Received:
        self.send_bytes(PROTOCOL_HEADER)
        return self.expect(0, "connection.start")

    def start_ok(self, mechanism: str, response: bytes, capabilities: Mapping[str, Any] | None = None) -> None:
        properties = {"product": "conversation", "capabilities": dict(capabilities)} if capabilities else {}
        said = {"mechanism": mechanism, "response": response, "locale": "en_US"}
        self.send(0, "connection.start-ok", client_properties=properties, **said)

    def authenticate(
        self, user: str = "guest", password: str = "guest", capabilities: Mapping[str, Any] | None = CAPABILITIES
    ) -> Received:
        """Up to and including the server's tune."""
        self.start()
        self.start_ok("PLAIN", plain(user, password), capabilities)
        return self.expect(0, "connection.tune")

    def tune_ok(self, tune: Received, channel_max: int = 2047, frame_max: int = 131072, heartbeat: int = 0) -> None:
        self.frame_max = frame_max or tune.frame_max
        self.send(0, "connection.tune-ok", channel_max=channel_max, frame_max=frame_max, heartbeat=heartbeat)

    def channel(self, number: int | None = None) -> "Channel":
        number = self.channels_opened + 1 if number is None else number
        self.channels_opened = max(number, self.channels_opened)
        channel = Channel(self, number)
        channel.call("channel.open")
        return channel

    def send_bytes(self, octets: bytes) -> None:
        self.socket.settimeout(self.deadline_s)
        self.socket.sendall(octets)

    @contextlib.contextmanager
    def one_write(self) -> Iterator[None]:
        """Frames sent inside leave in one write."""
        said: list[bytes] = []
        self.send_bytes = said.append  # type: ignore[assignment]
        try:
            yield
        finally:
            del self.send_bytes
        self.send_bytes(b"".join(said))

    def send_frame(self, kind: int, channel: int, payload: bytes, end: bytes = FRAME_END) -> None:
        self.send_bytes(frame(kind, channel, payload, end))

    def send(self, channel: int, method: str, **fields: Any) -> None:
        self.send_frame(METHOD, channel, write_method(method, fields))

    def next_frame(self, deadline: float | None = None) -> Frame:
        kind, channel, length = struct.unpack(">BHI", self._octets(7, deadline))
        payload = self._octets(length, deadline)
        end = self._octets(1, deadline)
        assert end == FRAME_END, f"frame ends with {end!r}"
        assert length + 8 <= self.frame_max, f"a frame of {length + 8} octets exceeds frame_max {self.frame_max}"
        return Frame(kind, channel, payload)

    def _octets(self, count: int, deadline: float | None) -> bytes:
        deadline = time.monotonic() + self.deadline_s if deadline is None else deadline
        while len(self.unread) < count:
            self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                chunk = self.socket.recv(262144)
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                raise ServerHungUp(f"the server hung up, leaving {self.unread!r}")
            self.unread += chunk
        taken, self.unread = self.unread[:count], self.unread[count:]
        return taken

    def next_on(self, channel: int, deadline_s: float | None = None) -> Received:
        """The next complete method on a channel; methods for other channels wait for their turn."""
        deadline = time.monotonic() + (self.deadline_s if deadline_s is None else deadline_s)
        waiting = self.inbox.setdefault(channel, deque())
        while not waiting:
            self.take_frame(deadline)
            closing = self.inbox.get(0)
            if channel and closing and closing[-1].name == "connection.close":
                raise AssertionError(f"the server closes the connection: {describe(closing[-1])}")
        return waiting.popleft()

    def take_frame(self, deadline: float | None = None) -> None:
        """Sort the next frame into the inbox of its channel."""
        received = self.next_frame(deadline)
        number = received.channel
        if received.kind == HEARTBEAT:
            assert (number, received.payload) == (0, b"")
            self.heartbeats_seen += 1
        elif received.kind == METHOD:
            assert number not in self._partial, "a method interrupts a content on its channel"
            name, fields = read_method(received.payload)
            method = Received(number, name, fields)
            if name in CARRIES_CONTENT:
                self._partial[number] = (method, -1)
            else:
                self._complete(method)
        elif received.kind == HEADER:
            self._take_header(number, received.payload)
        else:
            method, size = self._partial[number]
            method.body += received.payload
            self._settle(method, size)

    def _take_header(self, number: int, payload: bytes) -> None:
        method, _ = self._partial[number]
        reader = Reader(payload)
        class_id, weight, size = reader.number(">H"), reader.number(">H"), reader.number(">Q")
        assert (class_id, weight) == (60, 0)
        method.header = payload
        method.properties = read_properties(reader)
        assert reader.at == len(payload)
        self._settle(method, size)

    def _settle(self, method: Received, size: int) -> None:
        assert len(method.body) <= size
        if len(method.body) == size:
            self._partial.pop(method.channel, None)
            self._complete(method)
        else:
            self._partial[method.channel] = (method, size)

    def _complete(self, method: Received) -> None:
        self.inbox.setdefault(method.channel, deque()).append(method)

    def expect(self, channel: int, method: str, deadline_s: float | None = None, **fields: Any) -> Received:
        received = self.next_on(channel, deadline_s)
        assert received.name == method, f"expected {method}, got {received.name} {received.fields}"
        seen = {name: received.fields[name] for name in fields}
        assert seen == fields, f"{method}: {seen} is not {fields}"
        return received

    def expect_close(self, code: int, text: str, method: str = "", deadline_s: float | None = None) -> None:
        """The server closes the connection with this, waits for close-ok, and hangs up."""
        close = self.expect(0, "connection.close", deadline_s)
        assert describe(close) == (code, text, *_ids(method))
        with contextlib.suppress(OSError):
            self.send(0, "connection.close-ok")
        self.expect_hang_up()

    def expect_end(self, *courtesy_codes: int) -> None:
        """The server closes the socket; it may send a close with one of these codes first."""
        with contextlib.suppress(ServerHungUp):
            close = self.expect(0, "connection.close")
            assert close.reply_code in courtesy_codes, describe(close)
            with contextlib.suppress(OSError):
                self.send(0, "connection.close-ok")
        self.expect_hang_up()

    def expect_hang_up(self, deadline_s: float | None = None) -> None:
        """Nothing more comes but, perhaps, heartbeats."""
        deadline = time.monotonic() + (self.deadline_s if deadline_s is None else deadline_s)
        try:
            while True:
                unexpected = self.next_frame(deadline)
                assert unexpected.kind == HEARTBEAT, f"expected the server to hang up, got {unexpected}"
        except ServerHungUp:
            self.socket.close()

    def raw_reply(self, count: int) -> bytes:
        return self._octets(count, None)

    def close(self) -> None:
        """Close with connection.close, in any state of the conversation."""
        try:
            self.send(0, "connection.close", reply_code=200, reply_text="done")
            while self.next_on(0).name != "connection.close-ok":
                pass
        except (OSError, ServerHungUp):
            pass
        finally:
            self.socket.close()

    def cut(self) -> None:
        """Close the socket without connection.close."""
        with contextlib.suppress(OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def hang_up(self) -> None:
        """Half-close the socket, and check that the server closes it too."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)
        self.expect_hang_up()


def _ids(method: str) -> tuple[int, int]:
    return IDS[method] if method else (0, 0)


def describe(close: Received) -> tuple[int, str, int, int]:
    return close.reply_code, close.reply_text, close.class_id, close.method_id


class Channel:
    """One channel of a connection."""

    def __init__(self, connection: Connection, number: int) -> None:
        self.connection = connection
        self.number = number

    def send(self, method: str, **fields: Any) -> None:
        self.connection.send(self.number, method, **fields)

    def call(self, method: str, **fields: Any) -> Received:
        self.send(method, **fields)
        return self.expect(f"{method}-ok")

    def expect(self, method: str, deadline_s: float | None = None, **fields: Any) -> Received:
        return self.connection.expect(self.number, method, deadline_s, **fields)

    def next(self, deadline_s: float | None = None) -> Received:
        return self.connection.next_on(self.number, deadline_s)

    def publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes = b"",
        properties: Mapping[str, Any] | None = None,
        mandatory: bool = False,
        immediate: bool = False,
    ) -> None:
        method = write_method(
            "basic.publish",
            {"exchange": exchange, "routing_key": routing_key, "mandatory": mandatory, "immediate": immediate},
        )
        content = content_frames(self.number, body, properties or {}, self.connection.frame_max)
        self.connection.send_bytes(frame(METHOD, self.number, method) + content)

    def consume(self, queue: str, consumer_tag: str = "", **fields: Any) -> str:
        reply = self.call("basic.consume", queue=queue, consumer_tag=consumer_tag, **fields)
        tag: str = reply.consumer_tag
        return tag

    def deliveries(self, count: int, deadline_s: float | None = None) -> list[Received]:
        return [self.expect("basic.deliver", deadline_s) for _ in range(count)]

    def bodies(self, count: int) -> list[bytes]:
        return [delivery.body for delivery in self.deliveries(count)]

    def get(self, queue: str, no_ack: bool = True) -> Received | None:
        self.send("basic.get", queue=queue, no_ack=no_ack)
        reply = self.next()
        assert reply.name in ("basic.get-ok", "basic.get-empty"), f"{reply.name} {reply.fields}"
        return reply if reply.name == "basic.get-ok" else None

    def ack(self, delivery_tag: int, multiple: bool = False) -> None:
        self.send("basic.ack", delivery_tag=delivery_tag, multiple=multiple)

    def confirm(self) -> None:
        self.call("confirm.select")

    def confirms(self, tags: Iterable[int]) -> None:
        """Each of the tags is acked, one by one or several at once."""
        acked, nacked = self.outcomes(tags)
        assert not nacked
        assert acked == set(tags)

    def outcomes(self, tags: Iterable[int]) -> tuple[set[int], set[int]]:
        """Fold acks and nacks, single or multiple, until each of the tags has exactly one outcome."""
        open_tags, acked, nacked = set(tags), set[int](), set[int]()
        while open_tags:
            reply = self.next()
            assert reply.name in ("basic.ack", "basic.nack"), f"{reply.name} {reply.fields}"
            tag = reply.delivery_tag
            covered = {other for other in open_tags if other <= tag} if reply.multiple else open_tags & {tag}
            assert covered, f"{reply.name} {reply.fields} answers nothing that was open"
            open_tags -= covered
            (acked if reply.name == "basic.ack" else nacked).update(covered)
        return acked, nacked

    def counts(self, queue: str) -> tuple[int, int]:
        """(ready messages, consumers) of a queue; RabbitMQ answers ahead of publishes and acks still on their way."""
        reply = self.call("queue.declare", queue=queue, passive=True)
        return reply.message_count, reply.consumer_count

    def await_counts(self, queue: str, ready: int, consumers: int = 0) -> None:
        deadline = time.monotonic() + self.connection.deadline_s
        while (seen := self.counts(queue)) != (ready, consumers):
            assert time.monotonic() < deadline, f"{queue} has {seen} messages and consumers, not {(ready, consumers)}"

    def purged(self, queue: str) -> int:
        """How many messages were ready, after all that this channel did before."""
        count: int = self.call("queue.purge", queue=queue).message_count
        return count

    def expect_silence(self, queue: str) -> None:
        """Nothing is on its way: round trips flush the queue, then the channel, and meet nothing else."""
        for _ in range(3):
            self.counts(queue)

    def expect_close(self, code: int, text: str, method: str = "") -> None:
        close = self.expect("channel.close")
        assert describe(close) == (code, text, *_ids(method))
        self.send("channel.close-ok")

    def close(self) -> None:
        self.call("channel.close", reply_code=200, reply_text="done")
