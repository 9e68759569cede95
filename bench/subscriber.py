"""The consuming process: counts deliveries by their bytes, samples latencies, acknowledges.

Deliveries of a plan all have one length, learnt from the first; from then on a read of many messages costs a
division. One message of each read is parsed: its frames must be at the computed offsets, and its timestamp gives the
latency of all messages in the read.

    AckTable            acks for 65,536 consecutive tags, sent as a slice: acking each message costs no loop
    Consumer            one connection, counting
    CheckingConsumer    the same, parsing every delivery (`verify`)

Not here: which number must come next (`plan.py` defines it; `CheckingConsumer` compares it).
"""

import select
import struct
import time
from dataclasses import dataclass, field

from plan import Count, Plan
from publisher import IDENTITY
from wire import ACK, FRAME_END, PREAMBLE, Connection, Refused, ack_up_to

BUFFER_BYTES = 524_288
TAGS = 65_536
IDLE_LIMIT_S = 15.0


@dataclass
class Consumed:
    received: int = 0
    last_ns: int = 0
    samples: list[tuple[int, int]] = field(default_factory=list)
    milestones_ns: list[int] = field(default_factory=list)
    """When each tenth of the expected count was reached."""
    faults: list[str] = field(default_factory=list)


class AckTable:
    """Single acks for consecutive tags, as slices of a table of all values of a tag's low 16 bits."""

    def __init__(self) -> None:
        self._table = bytearray(b"".join(ACK.pack(1, 1, 13, 60, 80, low, 0, FRAME_END) for low in range(TAGS)))
        self._high = 0

    def acks(self, first: int, last: int) -> list[bytes]:
        """Frames that acknowledge every tag from first to last."""
        slices = []
        while first <= last:
            self._turn_to(first // TAGS)
            upper = min(last, first // TAGS * TAGS + TAGS - 1)
            slices.append(bytes(self._table[first % TAGS * ACK.size : (upper % TAGS + 1) * ACK.size]))
            first = upper + 1
        return slices

    def _turn_to(self, high: int) -> None:
        if high != self._high:
            for position, octet in enumerate(high.to_bytes(6, "big"), 11):
                self._table[position :: ACK.size] = bytes([octet]) * TAGS
            self._high = high


class Consumer:
    """One connection on some queues. `count` is how many whole deliveries have arrived."""

    def __init__(self, plan: Plan, address: tuple[str, int], number: int) -> None:
        self.connection = Connection(address)
        self.count = 0
        self.samples: list[tuple[int, int]] = []
        self.faults: list[str] = []
        self._plan = plan
        self._acked = 0
        self._table = AckTable() if plan.ack_each else None
        self._bytes = 0
        self._length = 0
        self._body_at = 0
        self._begin(number)
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)

    def _begin(self, number: int) -> None:
        if not self._plan.auto_ack:
            self.connection.set_prefetch(self._plan.prefetch)
        queues = self._plan.consumed_by(number)
        for queue in queues:
            self.connection.consume(self._plan.queue_name(queue), f"c{queue:05}", auto_ack=self._plan.auto_ack)
        self.early = bytearray()
        answered = 0
        while answered < len(queues):
            # Deliveries of the first queue may overtake the answer for the last.
            kind, payload = self.connection.read_frame()
            if kind == 1 and struct.unpack_from(">HH", payload) == (60, 21):
                answered += 1
            else:
                self.early += PREAMBLE.pack(kind, 1, len(payload)) + payload + bytes([FRAME_END])
        self.early += self.connection.unread
        self.connection.unread.clear()

    def read(self) -> int:
        """How many deliveries one read completed."""
        if self.early:
            chunk = memoryview(bytes(self.early))
            self.early = bytearray()
        else:
            received = self.connection.socket.recv_into(self._view)
            if not received:
                raise Refused("the broker closed a consuming connection")
            chunk = self._view[:received]
        before = self.count
        self._take(chunk)
        return self.count - before

    def _take(self, chunk: memoryview) -> None:
        if not self._length:
            self._learn(chunk)
            return
        first = -self._bytes % self._length
        self._bytes += len(chunk)
        count = self._bytes // self._length
        if first + self._length <= len(chunk):
            if chunk[first] != 1 or chunk[first + self._length - 1] != FRAME_END:
                raise Refused("a delivery is not where it should be: something else came between")
            sent_ns = int.from_bytes(chunk[first + self._body_at : first + self._body_at + 8], "big")
            self.samples.append((time.monotonic_ns() - sent_ns, count - self.count))
        self.count = count

    def _learn(self, chunk: memoryview) -> None:
        """Finds the length of a delivery in the first one, reading on until that one is whole."""
        content = bytearray(chunk)
        position = 0
        for expected in (1, 2, 3):
            self._fill(content, position + PREAMBLE.size)
            kind, _, size = PREAMBLE.unpack_from(content, position)
            if kind != expected:
                raise Refused(f"the first delivery has frame type {kind} where {expected} belongs")
            self._body_at = position + PREAMBLE.size
            position += size + 8
            self._fill(content, position)
        self._length = position
        self._take(memoryview(bytes(content)))

    def _fill(self, content: bytearray, wanted: int) -> None:
        while len(content) < wanted:
            more = self.connection.socket.recv(65_536)
            if not more:
                raise Refused("the broker closed a consuming connection")
            content += more

    def acknowledge(self, *, all_of_it: bool) -> None:
        due = self.count - self._acked
        if self._plan.auto_ack or not due:
            return
        if self._table:
            for frames in self._table.acks(self._acked + 1, self.count):
                self.connection.socket.sendall(frames)
        elif all_of_it or due >= self._plan.prefetch // 2:
            self.connection.socket.sendall(ack_up_to(self.count))
        else:
            return
        self._acked = self.count

    def finish(self) -> None:
        self.acknowledge(all_of_it=True)
        if self._bytes and self._bytes == self.count * self._length:
            self.connection.close_channel()
        self.connection.close()


class CheckingConsumer(Consumer):
    """Compares every delivery with the plan: its tag, its redelivered bit, its number, its filling."""

    def __init__(self, plan: Plan, address: tuple[str, int], number: int) -> None:
        super().__init__(plan, address, number)
        self._rest = b""
        self._expected: dict[tuple[int, bytes, bytes], int] = {}
        self._step = [len(plan.keys(producer)) for producer in range(plan.producers)]
        self._filling = b"x" * (plan.size_bytes - IDENTITY.size)

    def _take(self, chunk: memoryview) -> None:
        content = self._rest + bytes(chunk)
        position = 0
        while (end := self._delivery_end(content, position)) >= 0:
            self.count += 1
            self._check(content, position)
            position = end
        self._rest = content[position:]

    @staticmethod
    def _delivery_end(content: bytes, position: int) -> int:
        for expected in (1, 2, 3):
            if len(content) < position + PREAMBLE.size:
                return -1
            kind, channel, size = PREAMBLE.unpack_from(content, position)
            if (kind, channel) != (expected, 1):
                raise Refused(f"frame type {kind} on channel {channel} where type {expected} belongs")
            position += size + 8
            if len(content) < position:
                return -1
            if content[position - 1] != FRAME_END:
                raise Refused("a frame does not end where it says")
        return position

    def _check(self, content: bytes, position: int) -> None:
        if struct.unpack_from(">HH", content, position + 7) != (60, 60):
            raise Refused("a content came with another method than basic.deliver")
        tag_end = position + 12 + content[position + 11]
        consumer_tag = content[position + 12 : tag_end]
        (delivery_tag,) = struct.unpack_from(">Q", content, tag_end)
        exchange_end = tag_end + 10 + content[tag_end + 9]
        key = content[exchange_end + 1 : exchange_end + 1 + content[exchange_end]]
        for _ in range(2):
            position += PREAMBLE.unpack_from(content, position)[2] + 8
        size = PREAMBLE.unpack_from(content, position)[2]
        sent_ns, identity = IDENTITY.unpack_from(content, position + 7)
        self.samples.append((time.monotonic_ns() - sent_ns, 1))
        if delivery_tag != self.count:
            self._fault(f"delivery tag {delivery_tag} where {self.count} belongs")
        if content[tag_end + 8]:
            self._fault(f"delivery {delivery_tag} is marked redelivered")
        if (
            size != self._plan.size_bytes
            or content[position + 7 + IDENTITY.size : position + 7 + size] != self._filling
        ):
            self._fault(f"the body of delivery {delivery_tag} is not what was sent")
        self._check_number(identity >> 48, identity & (1 << 48) - 1, consumer_tag, key)

    def _check_number(self, producer: int, number: int, consumer_tag: bytes, key: bytes) -> None:
        step = self._step[producer]
        line = (producer, consumer_tag, key)
        expected = self._expected.get(line)
        if expected is None:
            expected = self._plan.keys(producer).index(key.decode()) if key else 0
        if number != expected:
            self._fault(f"producer {producer}, key {key.decode()}: number {number} where {expected} belongs")
        self._expected[line] = number + step

    def _fault(self, sentence: str) -> None:
        if len(self.faults) < 100:
            self.faults.append(sentence)

    def finish(self) -> None:
        self.acknowledge(all_of_it=True)
        self.connection.close_channel()
        self.connection.close()


def consume_all(consumers: list[Consumer], delivered: Count, expected: Count) -> Consumed:
    """Consume until all expected deliveries have come, or none has come for a while."""
    result = Consumed()
    poll = select.epoll()
    by_descriptor = {consumer.connection.socket.fileno(): consumer for consumer in consumers}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.EPOLLIN)
    idle_since = time.monotonic()
    ready = [consumer for consumer in consumers if consumer.early]
    while expected.value < 0 or result.received < expected.value:
        ready = ready or [by_descriptor[descriptor] for descriptor, _ in poll.poll(0.05)]
        for consumer in ready:
            result.received += consumer.read()
            consumer.acknowledge(all_of_it=False)
        if ready:
            idle_since = time.monotonic()
            result.last_ns = time.monotonic_ns()
            delivered.value = result.received
            while expected.value > 0 and result.received >= expected.value * (len(result.milestones_ns) + 1) / 10:
                result.milestones_ns.append(result.last_ns)
            ready = []
        else:
            for consumer in consumers:
                consumer.acknowledge(all_of_it=True)
            if expected.value >= 0 and time.monotonic() - idle_since > IDLE_LIMIT_S:
                break
    for consumer in consumers:
        consumer.finish()
        result.samples += consumer.samples
        result.faults += consumer.faults
    return result
