"""The little of AMQP 0-9-1 that a load generator speaks: frames built ahead, and one blocking connection for set-up.

Everything sent in a hot loop is made here once as bytes. Reading is by length alone: a delivery has a fixed length
when its keys and consumer tags have, so a consumer may count bytes instead of parsing.

Not here: the loops (`publisher.py`, `subscriber.py`). This is not the project's codec, on purpose: a broker measured
with its own codec could be wrong twice and agree with itself.
"""

import socket
import struct
from typing import NoReturn

FRAME_END = 0xCE
FRAME_MAX = 131_072
PREAMBLE = struct.Struct(">BHI")
ACK = struct.Struct(">BHIHHQBB")
"""A whole basic.ack frame: type, channel, size, class, method, tag, multiple, end."""


class Refused(Exception):
    """The broker closed the channel or the connection, or sent an unexpected answer."""


def short_string(text: str) -> bytes:
    encoded = text.encode()
    return bytes([len(encoded)]) + encoded


def long_string(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return PREAMBLE.pack(kind, channel, len(payload)) + payload + bytes([FRAME_END])


def method(channel: int, class_id: int, method_id: int, arguments: bytes = b"") -> bytes:
    return frame(1, channel, struct.pack(">HH", class_id, method_id) + arguments)


def publish(exchange: str, routing_key: str, body_bytes: int, *, persistent: bool) -> tuple[bytes, int]:
    """One publish on channel 1, its body filled with `x`; and where in it the body begins."""
    properties = b"\x10\x00\x02" if persistent else b"\x00\x00"
    head = (
        method(1, 60, 40, b"\0\0" + short_string(exchange) + short_string(routing_key) + b"\0")
        + frame(2, 1, struct.pack(">HHQ", 60, 0, body_bytes) + properties)
        + PREAMBLE.pack(3, 1, body_bytes)
    )
    return head + b"x" * body_bytes + bytes([FRAME_END]), len(head)


def ack_up_to(tag: int) -> bytes:
    return ACK.pack(1, 1, 13, 60, 80, tag, 1, FRAME_END)


def declare_queue(name: str, *, durable: bool = False) -> bytes:
    return method(1, 50, 10, b"\0\0" + short_string(name) + bytes([durable << 1]) + b"\0\0\0\0")


def delete_queue(name: str) -> bytes:
    return method(1, 50, 40, b"\0\0" + short_string(name) + b"\0")


PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
START_OK = method(
    0, 10, 11, long_string(b"") + short_string("PLAIN") + long_string(b"\0guest\0guest") + short_string("en_US")
)
TUNE_OK_AND_OPEN = method(0, 10, 31, struct.pack(">HIH", 2047, FRAME_MAX, 0)) + method(
    0, 10, 40, short_string("/") + b"\0\0"
)


class Connection:
    """A connection with channel 1 open. `unread` holds bytes that arrived behind the last answer."""

    def __init__(self, address: tuple[str, int], timeout_s: float = 60) -> None:
        self.socket = socket.create_connection(address, timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.unread = bytearray()
        self.call(PROTOCOL_HEADER, 10, 10)
        self.call(START_OK, 10, 30)
        self.call(TUNE_OK_AND_OPEN, 10, 41)
        self.call(method(1, 20, 10, b"\0"), 20, 11)

    def call(self, request: bytes, class_id: int, method_id: int) -> bytes:
        """Send a method and return the arguments of its answer, which must be the given method."""
        self.socket.sendall(request)
        return self.answer(class_id, method_id)

    def answer(self, class_id: int, method_id: int) -> bytes:
        kind, payload = self.read_frame()
        found = struct.unpack_from(">HH", payload) if kind == 1 else (0, 0)
        if found != (class_id, method_id):
            _refuse(kind, payload)
        return payload[4:]

    def read_frame(self) -> tuple[int, bytes]:
        while True:
            if len(self.unread) >= PREAMBLE.size:
                kind, _, size = PREAMBLE.unpack_from(self.unread)
                if len(self.unread) >= size + 8:
                    payload = bytes(self.unread[7 : 7 + size])
                    del self.unread[: size + 8]
                    return kind, payload
            chunk = self.socket.recv(262_144)
            if not chunk:
                raise Refused("the broker closed the connection")
            self.unread += chunk

    def declare_exchange(self, name: str, kind: str) -> None:
        self.call(method(1, 40, 10, b"\0\0" + short_string(name) + short_string(kind) + b"\0\0\0\0\0"), 40, 11)

    def delete_exchange(self, name: str) -> None:
        self.call(method(1, 40, 20, b"\0\0" + short_string(name) + b"\0"), 40, 21)

    def bind(self, queue: str, exchange: str, key: str) -> None:
        names = short_string(queue) + short_string(exchange) + short_string(key)
        self.call(method(1, 50, 20, b"\0\0" + names + b"\0\0\0\0\0"), 50, 21)

    def each(self, requests: list[bytes], class_id: int, method_id: int, in_flight: int = 256) -> None:
        """Send all requests with at most `in_flight` unanswered."""
        answered = 0
        at_once = max(in_flight // 2, 1)
        for start in range(0, len(requests), at_once):
            self.socket.sendall(b"".join(requests[start : start + at_once]))
            while answered < start + (in_flight == 1):
                self.answer(class_id, method_id)
                answered += 1
        while answered < len(requests):
            self.answer(class_id, method_id)
            answered += 1

    def delete_queue(self, name: str) -> None:
        self.call(delete_queue(name), 50, 41)

    def ready_count(self, queue: str) -> int:
        """The message count of an existing queue."""
        declared = self.call(method(1, 50, 10, b"\0\0" + short_string(queue) + b"\1\0\0\0\0"), 50, 11)
        return int.from_bytes(declared[1 + declared[0] :][:4], "big")

    def look(self, queue: str) -> bytes:
        """The body of a queue's first message; the message is requeued."""
        got = self.call(method(1, 60, 70, b"\0\0" + short_string(queue) + b"\0"), 60, 71)
        self.read_frame()
        kind, body = self.read_frame()
        if kind != 3:
            raise Refused(f"a message got from {queue} has no body")
        self.socket.sendall(method(1, 60, 90, got[:8] + b"\1"))
        return body

    def select_confirms(self) -> None:
        self.call(method(1, 85, 10, b"\0"), 85, 11)

    def set_prefetch(self, count: int) -> None:
        self.call(method(1, 60, 10, struct.pack(">IHB", 0, count, 0)), 60, 11)

    def consume(self, queue: str, tag: str, *, auto_ack: bool) -> None:
        arguments = b"\0\0" + short_string(queue) + short_string(tag) + bytes([auto_ack << 1]) + b"\0\0\0\0"
        self.socket.sendall(method(1, 60, 20, arguments))

    def close_channel(self) -> None:
        """Return when the broker has processed everything sent before."""
        self.call(method(1, 20, 40, struct.pack(">H", 200) + b"\0\0\0\0\0"), 20, 41)

    def close(self) -> None:
        self.socket.close()


def _refuse(kind: int, payload: bytes) -> NoReturn:
    class_and_method = struct.unpack_from(">HH", payload) if kind == 1 else (0, 0)
    if class_and_method in ((10, 50), (20, 40)):
        (code,) = struct.unpack_from(">H", payload, 4)
        raise Refused(f"the broker closed with {code} {payload[7 : 7 + payload[6]].decode(errors='replace')}")
    raise Refused(f"unexpected frame: type {kind}, method {class_and_method}")
