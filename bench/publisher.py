"""The publishing process: batches made once, stamped in place, sent in one call each.

Every body begins with the time its batch was sent (monotonic, nanoseconds). Stamping a batch costs eight strided
slice assignments, not a loop over messages. With `verify`, each body also carries its producer and its number, which
needs the loop.

Not here: the contents of the batches and their keys (`plan.py`).
"""

import select
import struct
import time
from collections import deque
from dataclasses import dataclass, field

from plan import Count, Plan
from wire import ACK, Connection, Refused, publish

IDENTITY = struct.Struct(">QQ")


@dataclass
class Published:
    sent: int = 0
    began_ns: int = 0
    ended_ns: int = 0
    confirm_samples: list[tuple[int, int]] = field(default_factory=list)


class Batch:
    """Some publishes, back to back, in one buffer."""

    def __init__(self, plan: Plan, keys: list[str]) -> None:
        publishes = [publish(plan.exchange_name, key, plan.size_bytes, persistent=plan.persistent) for key in keys]
        self.buffer = bytearray(b"".join(content for content, _ in publishes))
        self.count = len(keys)
        self._stride = len(publishes[0][0])
        self._body_at = publishes[0][1]

    def stamp(self) -> None:
        now = time.monotonic_ns().to_bytes(8, "big")
        for position, octet in enumerate(now, self._body_at):
            self.buffer[position :: self._stride] = bytes([octet]) * self.count

    def number(self, producer: int, first: int) -> None:
        now = time.monotonic_ns()
        position = self._body_at
        for number in range(first, first + self.count):
            IDENTITY.pack_into(self.buffer, position, now, producer << 48 | number)
            position += self._stride


class Producer:
    """One connection: its batches, how many it has sent, and how many of those the broker has confirmed."""

    def __init__(self, plan: Plan, address: tuple[str, int], number: int) -> None:
        self.connection = Connection(address)
        self.sent = 0
        self._number = number
        self._plan = plan
        keys = plan.keys(number)
        stride = len(publish(plan.exchange_name, keys[0], plan.size_bytes, persistent=plan.persistent)[0])
        batch = plan.batch_of(stride, len(keys))
        cycle = keys * max(1, batch // len(keys))
        self._batches = [Batch(plan, cycle[start : start + batch]) for start in range(0, len(cycle), batch)]
        self._next = 0
        self.confirms = Confirms(self.connection) if plan.confirm_window else None

    def send_batch(self) -> int:
        batch = self._batches[self._next]
        self._next = (self._next + 1) % len(self._batches)
        if self.confirms:
            self.confirms.wait_until(self.sent + batch.count - self._plan.confirm_window)
        if self._plan.verify:
            batch.number(self._number, self.sent)
        else:
            batch.stamp()
        self.sent += batch.count
        if self.confirms:
            self.confirms.expect(self.sent, batch.count)
        self.connection.socket.sendall(batch.buffer)
        return batch.count

    def pause_until(self, due_s: float) -> None:
        if self.confirms:
            self.confirms.read_until(due_s)
        else:
            time.sleep(max(0.0, due_s - time.monotonic()))

    def finish(self) -> None:
        """Returns when the broker has everything."""
        if self.confirms:
            self.confirms.wait_until(self.sent)
        self.connection.close_channel()
        self.connection.close()


class Confirms:
    """What the broker has confirmed: everything up to `low`, and some single ones above it."""

    def __init__(self, connection: Connection) -> None:
        connection.select_confirms()
        self._connection = connection
        self._low = 0
        self._single: set[int] = set()
        self._pending: deque[tuple[int, int, int]] = deque()
        self.samples: list[tuple[int, int]] = []

    def expect(self, last: int, count: int) -> None:
        self._pending.append((last, count, time.monotonic_ns()))

    def wait_until(self, low: int) -> None:
        while self._low < low:
            self._read()

    def read_until(self, due_s: float) -> None:
        """Read confirms as soon as they come, so that their latency is not overstated."""
        while (left_s := due_s - time.monotonic()) > 0:
            if select.select([self._connection.socket], [], [], left_s)[0]:
                self._read()

    def _read(self) -> None:
        unread = self._connection.unread
        chunk = self._connection.socket.recv(65_536)
        came_ns = time.monotonic_ns()
        if not chunk:
            raise Refused("the broker closed a publishing connection")
        unread += chunk
        whole = len(unread) // ACK.size * ACK.size
        for kind, _, size, class_id, method_id, tag, multiple, _ in ACK.iter_unpack(bytes(unread[:whole])):
            if (kind, size, class_id, method_id) != (1, 13, 60, 80):
                raise Refused(f"expected basic.ack, got frame type {kind}, method {class_id}.{method_id}")
            self._take(tag, multiple & 1)
        del unread[:whole]
        self._sample(came_ns)

    def _take(self, tag: int, multiple: int) -> None:
        if multiple:
            if tag > self._low:
                self._low = tag
                self._single = {single for single in self._single if single > tag}
        else:
            self._single.add(tag)
        while self._low + 1 in self._single:
            self._low += 1
            self._single.remove(self._low)

    def _sample(self, came_ns: int) -> None:
        while self._pending and self._pending[0][0] <= self._low:
            _, count, sent_ns = self._pending.popleft()
            self.samples.append((came_ns - sent_ns, count))


def publish_all(plan: Plan, producers: list[Producer], delivered: Count) -> Published:
    """Publishes until the plan's time or count is reached, round the producers."""
    result = Published(began_ns=time.monotonic_ns())
    ends_ns = result.began_ns + int(plan.seconds * 1e9)
    turn = 0
    while not (result.sent >= plan.count if plan.count else time.monotonic_ns() >= ends_ns):
        if plan.rate:
            producers[turn].pause_until(result.began_ns / 1e9 + result.sent / plan.rate)
        while result.sent * plan.copies - delivered.value > plan.backlog_max:
            time.sleep(0.0005)
        result.sent += producers[turn].send_batch()
        turn = (turn + 1) % len(producers)
    for producer in producers:
        producer.finish()
        if producer.confirms:
            result.confirm_samples += producer.confirms.samples
    result.ended_ns = time.monotonic_ns()
    return result
