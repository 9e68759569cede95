"""One non-blocking connection of a side: the methods sent and received, and the answers still due.

It answers the server's closes, opens the channels that a step needs, merges confirms, and remembers which deliveries
of a channel are unacked.

Not here: when a broker is at rest (`party`), frames (`tests.support.amqp_client`).
"""

import contextlib
import select
import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from bench.differing.steps import Place
from tests.support.amqp_client import Channel, Connection, Received

_SELECT_MAX_S = 0.05


class Line:
    """One connection; closed lines stay, so that a step sees how they ended."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.connection = Connection.opened(address)
        self.alive = True
        self.hung_up_now = False
        self._ended = False
        self.open_channels: set[int] = set()
        self.confirms_seen: dict[int, tuple[list[int], list[int]]] = {}
        self._seen: dict[int, list[Received]] = {}
        self._probes: dict[int, list[str]] = {}
        self._asked: dict[int, list[str]] = {}
        self._unsettled: dict[int, list[int]] = {}
        self._settled: dict[int, list[int]] = {}
        self._no_ack_tags: dict[int, set[str]] = {}
        self._published: dict[int, int] = {}
        self._unconfirmed: dict[int, set[int]] = {}
        self.confirming: set[int] = set()

    # Saying

    def send(self, channel: int, method: str, **fields: Any) -> None:
        with contextlib.suppress(OSError):
            self.connection.send(channel, method, **fields)

    def ask(self, channel: int, method: str, **fields: Any) -> None:
        """Send a method and remember that its answer is due."""
        if method == "confirm.select":
            self.confirming.add(channel)
        if method == "channel.close":
            self.open_channels.discard(channel)
        if method == "basic.consume" and fields.get("no_ack"):
            self._no_ack_tags.setdefault(channel, set()).add(fields["consumer_tag"])
        if not fields.get("nowait") and method != "basic.recover-async":
            self._asked.setdefault(channel, []).append(method)
        self.send(channel, method, **fields)

    def probe(self, channel: int, method: str, **fields: Any) -> None:
        """Send a method; its answer is not part of the conversation."""
        self._probes.setdefault(channel, []).append(method)
        self.send(channel, method, **fields)

    def publish(
        self, channel: int, exchange: str, key: str, body: bytes, properties: Mapping[str, Any], mandatory: bool
    ) -> None:
        if channel in self.confirming:
            self._published[channel] = self._published.get(channel, 0) + 1
            self._unconfirmed.setdefault(channel, set()).add(self._published[channel])
        with contextlib.suppress(OSError):
            Channel(self.connection, channel).publish(exchange, key, body, properties, mandatory)

    def ensure_channel(self, number: int) -> None:
        if self.alive and number not in self.open_channels:
            self.open_channels.add(number)
            for memory in (self._unsettled, self._settled, self._published, self._unconfirmed, self._no_ack_tags):
                memory.pop(number, None)
            self.confirming.discard(number)
            self.probe(number, "channel.open")

    def cut(self) -> None:
        self.connection.cut()
        self._gone()

    def close(self) -> None:
        if self.alive:
            with contextlib.suppress(Exception):
                self.connection.close()
        self._gone()

    # Settling deliveries

    def pick(self, channel: int, how: str, number: int) -> int:
        unsettled, settled = self._unsettled.get(channel, []), self._settled.get(channel, [])
        if how == "open" and unsettled:
            return unsettled[number % len(unsettled)]
        if how == "settled" and settled:
            return settled[number % len(settled)]
        return 0 if how == "zero" else 1000 + number if how == "beyond" else 1

    def note_settled(self, channel: int, tag: int, multiple: bool) -> None:
        unsettled = self._unsettled.setdefault(channel, [])
        done = [one for one in unsettled if one == tag or (multiple and (one <= tag or tag == 0))]
        self._unsettled[channel] = [one for one in unsettled if one not in done]
        self._settled.setdefault(channel, []).extend(done)

    # Receiving

    def receive(self) -> None:
        """Read from the socket, which must be readable."""
        connection = self.connection
        try:
            chunk = connection.socket.recv(262144)
        except OSError:
            chunk = b""
        if not chunk:
            self.hung_up_now = True
            connection.socket.close()
            self._gone()
            return
        connection.unread += chunk
        while len(connection.unread) >= 7 and len(connection.unread) >= _frame_length(connection.unread):
            connection.take_frame()
        for channel, waiting in connection.inbox.items():
            self._sort(channel, waiting)
        if self._ended:
            connection.socket.close()
            self._gone()

    def _sort(self, channel: int, waiting: deque[Received]) -> None:
        while waiting:
            received = waiting.popleft()
            probes = self._probes.get(channel, [])
            asked = self._asked.get(channel, [])
            name = received.name.removesuffix("-ok")
            if received.name == "channel.close":
                self._closed(channel)
                self.send(channel, "channel.close-ok")
            elif received.name == "channel.close-ok":
                self._closed(channel)
            elif received.name == "connection.close":
                self.send(0, "connection.close-ok")
                self._ended = True
            elif received.name == "connection.close-ok":
                self._ended = True
            elif received.name in ("basic.ack", "basic.nack"):
                self._confirmed(channel, received)
                continue
            elif received.name in ("basic.deliver", "basic.get-ok"):
                self._delivered(channel, received)
            if asked and (received.name == f"{asked[0]}-ok" or received.name == "basic.get-empty"):
                asked.pop(0)
            elif name in probes and received.name.endswith("-ok"):
                probes.remove(name)
                if channel < _FIRST_WATCHED:
                    continue
            self._seen.setdefault(channel, []).append(received)

    def _delivered(self, channel: int, received: Received) -> None:
        asked = self._asked.get(channel, [])
        if received.name == "basic.get-ok" and asked and asked[0] == "basic.get":
            asked.pop(0)
        self._unsettled.setdefault(channel, []).append(received.fields["delivery_tag"])

    def _confirmed(self, channel: int, received: Received) -> None:
        tag, unconfirmed = received.fields["delivery_tag"], self._unconfirmed.setdefault(channel, set())
        covered = [one for one in unconfirmed if one == tag or (received.fields["multiple"] and one <= tag)]
        unconfirmed.difference_update(covered)
        folded = self.confirms_seen.setdefault(channel, ([], []))
        folded[received.name == "basic.nack"].extend(covered or [-tag])

    def _closed(self, channel: int) -> None:
        self.open_channels.discard(channel)
        for memory in (self._probes, self._asked, self._unconfirmed):
            memory.pop(channel, None)

    def _gone(self) -> None:
        self.alive = False
        self.open_channels.clear()
        self._probes.clear()
        self._asked.clear()
        self._unconfirmed.clear()

    # What was seen, what is owed

    def all_seen(self) -> Iterator[tuple[int, Received]]:
        for channel, events in self._seen.items():
            for received in events:
                yield channel, received

    def take_seen(self, channel: int) -> list[Received]:
        return self._seen.pop(channel, [])

    def forget_seen(self) -> None:
        self._seen.clear()
        self.confirms_seen.clear()
        self.hung_up_now = False

    def seen_count(self) -> int:
        confirms = sum(len(acked) + len(nacked) for acked, nacked in self.confirms_seen.values())
        return sum(map(len, self._seen.values())) + confirms + self.hung_up_now

    def may_probe(self, channel: int) -> bool:
        """False during a commit: RabbitMQ fails if it gets another method then."""
        return self.alive and "tx.commit" not in self._asked.get(channel, ())

    def probes_open(self) -> bool:
        return any(self._probes.values())

    def owed(self) -> bool:
        return any(self._asked.values()) or any(self._unconfirmed.values())


_FIRST_WATCHED = 10


def _frame_length(octets: bytes) -> int:
    return 8 + int.from_bytes(octets[3:7], "big")


class Lines:
    """The connections of a side, and one more that watches queues and exchanges."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.by_number: dict[int, Line] = {}
        self._watcher: Line | None = None

    def ready(self, place: Place) -> Line:
        """The connection of a place, opened if need be, with its channel."""
        number, channel = place
        line = self.by_number.get(number)
        if line is None or not line.alive:
            line = self.by_number[number] = Line(self.address)
        line.ensure_channel(channel)
        return line

    def watcher(self) -> Line:
        if self._watcher is None or not self._watcher.alive:
            self._watcher = Line(self.address)
        return self._watcher

    def _all(self) -> list[Line]:
        watcher = [self._watcher] if self._watcher else []
        return [line for line in (*self.by_number.values(), *watcher) if line.alive]

    def probe(self) -> None:
        for line in self.by_number.values():
            for channel in sorted(line.open_channels):
                if line.may_probe(channel):
                    line.probe(channel, "channel.flow", active=True)

    def probes_open(self) -> bool:
        return any(line.probes_open() for line in self._all())

    def owed(self) -> bool:
        return any(line.owed() for line in self._all())

    def seen_count(self) -> int:
        return sum(line.seen_count() for line in self.by_number.values())

    def pump(self, deadline: float) -> None:
        """Read from every connection that is readable."""
        lines = {line.connection.socket: line for line in self._all()}
        patience_s = min(max(deadline - time.monotonic(), 0.0), _SELECT_MAX_S)
        readable, _, _ = select.select(list(lines), [], [], patience_s)
        for one in readable:
            lines[one].receive()

    def pump_for(self, duration_s: float) -> None:
        deadline = time.monotonic() + duration_s
        while time.monotonic() < deadline:
            if self._all():
                self.pump(deadline)
            else:
                time.sleep(duration_s)

    def close_all(self) -> None:
        for line in self.by_number.values():
            line.close()
