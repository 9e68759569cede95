"""A publisher and a consumer fast enough to fill a node: messages of 1 KiB by the hundred thousand, all numbered.

Everything sent is made ahead; only the number in each body changes. Every delivery of one consumer has the same length,
so a read of many is taken apart by one `struct`. The connection and its channel are opened by the raw client.

Not here: clients that look at each message (`workers`).
"""

import struct
from collections.abc import Iterator

from tests.support.amqp_client import Channel, Connection, ServerHungUp
from tests.support.amqp_frames import METHOD, content_frames, frame
from tests.support.amqp_methods import write_method

BODY_BYTES = 1024
AT_ONCE = 500
WINDOW = 20_000
DEADLINE_S = 120.0
_NUMBER = struct.Struct(">Q")
_FRAME = struct.Struct(">BHI")


def stream(address: tuple[str, int], exchange: str, key: str, numbers: range, persistent: bool = True) -> None:
    """Publish these numbers in order, and have each of them confirmed."""
    connection = Connection(address, DEADLINE_S)
    connection.shake_hands("/")
    channel = connection.channel()
    channel.confirm()
    confirms = _Confirms(connection)
    method = write_method("basic.publish", {"exchange": exchange, "routing_key": key})
    properties = {"delivery_mode": 2 if persistent else 1}
    head = frame(METHOD, channel.number, method) + content_frames(channel.number, b"", properties)
    # the header says how long the body is, 8 bytes before the flags and the delivery mode
    head = head[:-12] + _NUMBER.pack(BODY_BYTES) + head[-4:] + _FRAME.pack(3, channel.number, BODY_BYTES)
    tail = bytes(BODY_BYTES - _NUMBER.size) + b"\xce"
    sent = 0
    for start in range(numbers.start, numbers.stop, AT_ONCE):
        part = range(start, min(start + AT_ONCE, numbers.stop))
        connection.send_bytes(b"".join(head + _NUMBER.pack(number) + tail for number in part))
        sent += len(part)
        confirms.read_up_to(sent - WINDOW)
    confirms.read_up_to(sent)
    connection.close()


class _Confirms:
    """How many publishes were confirmed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._count = 0
        self._highest = 0

    def read_up_to(self, number: int) -> None:
        """Wait until so many are confirmed, each once."""
        while self._count < number:
            received = self._connection.next_on(1, DEADLINE_S)
            assert received.name == "basic.ack", received.name
            tag = received.delivery_tag
            if received.multiple:
                # confirms below came in order: this publisher leaves no gaps
                self._count += tag - self._highest
            else:
                self._count += 1
            self._highest = max(self._highest, tag)


def drain(address: tuple[str, int], queue: str, count: int, prefetch: int = 2000) -> Iterator[tuple[int, bool]]:
    """Take and ack so many messages: the number of each, and whether it was marked as redelivered."""
    connection = Connection(address, DEADLINE_S)
    connection.shake_hands("/")
    channel = connection.channel()
    channel.call("basic.qos", prefetch_count=prefetch)
    channel.consume(queue, "c")
    yield from _deliveries(connection, channel, count, prefetch // 4)
    assert channel.counts(queue)[0] == 0
    connection.close()


def _deliveries(connection: Connection, channel: Channel, count: int, ack_every: int) -> Iterator[tuple[int, bool]]:
    unread = connection.unread
    connection.unread = b""
    layout: struct.Struct | None = None
    received = acked = 0
    while received < count:
        if layout is None and (length := _delivery_bytes(unread)):
            # frame, ids and consumer tag; delivery tag; redelivered; all up to the body; its number; the rest
            before = 7 + 4 + 2
            layout = struct.Struct(f">{before}xQB{length - before - 9 - BODY_BYTES - 1}xQ{BODY_BYTES - 8 + 1}x")
        if layout is not None and (whole := len(unread) // layout.size * layout.size):
            for tag, redelivered, number in layout.iter_unpack(memoryview(unread)[:whole]):
                received += 1
                assert tag == received
                yield number, bool(redelivered)
            unread = unread[whole:]
            if received - acked >= ack_every or received == count:
                channel.ack(received, multiple=True)
                acked = received
            continue
        unread += _more(connection)
    assert not unread


def _delivery_bytes(unread: bytes) -> int:
    """How long the first delivery is; 0 if not all of it is there."""
    length = 0
    for _ in ("method", "header", "body"):
        if len(unread) < length + _FRAME.size:
            return 0
        length += _FRAME.unpack_from(unread, length)[2] + 8
    return length if len(unread) >= length else 0


def _more(connection: Connection) -> bytes:
    connection.socket.settimeout(DEADLINE_S)
    more = connection.socket.recv(1 << 20)
    if not more:
        raise ServerHungUp("the server hung up in the middle of the deliveries")
    return more
