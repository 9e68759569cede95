"""Messages that carry their number, made and checked many at a time.

Body n of a queue begins with n, from 0, in eight octets; the rest is filling. A batch is 256 publishes in one buffer,
so that the last octet of every number never changes and the others are the same throughout: numbering a batch costs
seven strided slice assignments. Deliveries are checked the same way: the expected bytes are built in a buffer, column
by column, and compared whole with the received ones. Every octet of every delivery is compared, except the redelivered
bits, which are counted.

Not here: the queue's backlog and the faults of its broker (`backlog`).
"""

import struct

from wire import Connection, Refused, ack_up_to, frame, method, publish, short_string

BATCH = 256
NUMBER = struct.Struct(">Q")
CONSUMER_TAG = "numbered"
BUFFER_BYTES = 1_048_576


class NumberedBatch:
    def __init__(self, queue: str, size_bytes: int) -> None:
        one, self._body_at = publish("", queue, size_bytes, persistent=True)
        self._stride = len(one)
        self._buffer = bytearray(one * BATCH)
        self._buffer[self._body_at + 7 :: self._stride] = bytes(range(BATCH))

    def publishes(self, first: int, count: int) -> memoryview:
        """Publishes of the numbers from `first`, a multiple of the batch, on; good until the next call."""
        for position, octet in enumerate(NUMBER.pack(first)[:7], self._body_at):
            self._buffer[position :: self._stride] = bytes([octet]) * BATCH
        return memoryview(self._buffer)[: count * self._stride]


class NumberedConsumer:
    """Consumes a queue's messages from number 0 on, and compares each with the published one."""

    def __init__(self, connection: Connection, queue: str, size_bytes: int, prefetch: int) -> None:
        self.count = 0
        self.redelivered = 0
        self.acked = 0
        self._prefetch = prefetch
        self._connection = connection
        head = struct.pack(">HH", 60, 60) + short_string(CONSUMER_TAG)
        self._tag_at = 7 + len(head)
        self._redelivered_at = self._tag_at + 8
        deliver = frame(1, 1, head + bytes(9) + short_string("") + short_string(queue))
        one, body_at = publish("", queue, size_bytes, persistent=True)
        content = one[len(method(1, 60, 40, b"\0\0" + short_string("") + short_string(queue) + b"\0")) :]
        delivery = deliver + content
        self._length = len(delivery)
        self._number_at = body_at + len(delivery) - len(one)
        self._expected = bytearray(delivery * (BUFFER_BYTES // self._length + 1))
        self._buffer = bytearray(BUFFER_BYTES + self._length)
        connection.set_prefetch(prefetch)
        connection.consume(queue, CONSUMER_TAG, auto_ack=False)
        connection.answer(60, 21)
        self._filled = len(connection.unread)
        self._buffer[: self._filled] = connection.unread
        connection.unread.clear()

    def read(self) -> None:
        """Read once, check the whole deliveries, and ack when half the prefetch is unacked."""
        if self._filled < self._length:
            self._receive()
        whole = self._filled // self._length
        if whole:
            self._check(whole)
            rest = self._buffer[whole * self._length : self._filled]
            self._buffer[: len(rest)] = rest
            self._filled = len(rest)
        if self.count - self.acked >= self._prefetch // 2:
            self.acknowledge()

    def _receive(self) -> None:
        received = self._connection.socket.recv_into(memoryview(self._buffer)[self._filled :])
        if not received:
            raise Refused("the broker closed a consuming connection")
        self._filled += received

    def acknowledge(self) -> None:
        if self.count > self.acked:
            self._connection.socket.sendall(ack_up_to(self.count))
            self.acked = self.count

    def _check(self, whole: int) -> None:
        size = whole * self._length
        came = self._buffer[:size]
        marks = came[self._redelivered_at :: self._length]
        self.redelivered += marks.count(1)
        came[self._redelivered_at :: self._length] = bytes(whole)
        self._expect(self._tag_at, self.count + 1, whole)
        self._expect(self._number_at, self.count, whole)
        if came != self._expected[:size]:
            self._complain(came, whole)
        self.count += whole

    def _expect(self, column: int, first: int, whole: int) -> None:
        octets = struct.pack(f">{whole}Q", *range(first, first + whole))
        size = whole * self._length
        for place in range(8):
            self._expected[column + place : size : self._length] = octets[place::8]

    def _complain(self, came: bytearray, whole: int) -> None:
        for index in range(whole):
            start = index * self._length
            if came[start : start + self._length] != self._expected[start : start + self._length]:
                (number,) = NUMBER.unpack_from(came, start + self._number_at)
                wanted = self.count + index
                what = "is not as it was published" if number == wanted else f"is not there but, it seems, {number}"
                raise Refused(f"delivery {wanted + 1}: message {wanted} {what}")
