"""Clients of a cluster that record every promise of the nodes, each a thread with a connection of its own.

    confirmed     a persistent message that was confirmed is delivered until a consumer acks it
    refused       nacked: nothing is promised
    acked         an ack was sent; it may be lost with a node or a link, and the message comes back as redelivered
    sealed        acked, and its home confirmed a later publish: it never comes back
    marked        all deliveries of a message but the first are marked as redelivered; another consumer may read the
                  second delivery before the first consumer reads the first
    in order      the only consumer of a queue gets messages of one channel in order, redelivered ones excepted; with
                  other consumers, which may return unread messages, there is no such promise

A publisher goes on while the home of its queue is down and nacks; a cancelled consumer subscribes again until it
succeeds. Both end with their connection, and complain, unless they may lose it.

Not here: disturbing the nodes (`trio`).
"""

import contextlib
import socket
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter

from tests.cluster.trio import closed_by_node_as_hang_up
from tests.support.amqp_client import Channel, Connection, Received, ServerHungUp
from tests.support.deadlines import DEADLINE_S, eventually
from tests.support.node_process import NodeProcess

WINDOW = 40
BACKLOG_MAX = 300
PAUSE_S = 0.02
IDLE_S_MAX = 2 * DEADLINE_S
PERSISTENT = {"delivery_mode": 2}


class Ledger:
    """The records of all clients."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self.confirmed: set[bytes] = set()
        self.refused: set[bytes] = set()
        self.acked: set[bytes] = set()
        self.redelivered = 0
        # how many in each queue are confirmed and not acked
        self.waiting: Counter[str] = Counter()
        self._published: set[bytes] = set()
        # the consumer that got a message last, and the messages that were delivered unmarked
        self._seen: dict[bytes, str] = {}
        self._unmarked: set[bytes] = set()
        self._consumers: Counter[str] = Counter()
        # by consumer and channel of a publisher: the last that came for the first time
        self._newest: dict[tuple[str, bytes], int] = {}
        self._sealed: set[bytes] = set()
        self._lock = threading.Lock()

    def complain(self, sentence: str) -> None:
        self.complaints.append(sentence)

    def owed(self) -> set[bytes]:
        """Confirmed, and not acked by a consumer."""
        with self._lock:
            return self.confirmed - self.acked

    def publishing(self, body: bytes) -> None:
        with self._lock:
            self._published.add(body)

    def told(self, queue: str, body: bytes, confirmed: bool) -> None:
        with self._lock:
            (self.confirmed if confirmed else self.refused).add(body)
            self.waiting[queue] += confirmed and body not in self.acked

    def subscribing(self, queue: str) -> None:
        """Note that a queue has more than one consumer from now on."""
        with self._lock:
            self._consumers[queue] += 1

    def delivered(self, queue: str, body: bytes, marked: bool, consumer: str = "") -> None:
        with self._lock:
            again = body in self._unmarked or self._seen.get(body) == consumer
            self._seen[body] = consumer
            self.redelivered += marked
            if body not in self._published:
                self.complain(f"{body!r} was never published")
            if body in self._sealed:
                self.complain(f"{body!r} was acked for certain and came back")
            if not marked:
                self._unmarked.add(body)
                if self._consumers[queue] == 1:
                    self._see_order(body, consumer)
            if again and not marked:
                self.complain(f"{body!r} came again and did not say so")

    def _see_order(self, body: bytes, consumer: str) -> None:
        number, _, channel = body.partition(b" of ")
        newest = self._newest.get((consumer, channel), -1)
        self._newest[consumer, channel] = int(number)
        if int(number) <= newest:
            self.complain(f"{consumer} got {body!r} after number {newest}")

    def acking(self, queue: str, body: bytes) -> None:
        with self._lock:
            self.waiting[queue] -= body in self.confirmed and body not in self.acked
            self.acked.add(body)

    def seal(self) -> None:
        """Messages acked up to now do not come back."""
        with self._lock:
            self._sealed |= self.acked


class Client(ABC, threading.Thread):
    """Uses one queue through one node, until it is ended."""

    def __init__(self, ledger: Ledger, node: NodeProcess, queue: str, may_be_cut: bool = False) -> None:
        super().__init__(name=f"{type(self).__name__} of {queue} at {node.name}", daemon=True)
        self.ledger = ledger
        self.queue = queue
        self.over = threading.Event()
        self._node = node
        self._may_be_cut = may_be_cut
        self._connection: Connection | None = None
        self.start()

    def run(self) -> None:
        while not self.over.is_set():
            try:
                self._meet()
                return
            except (OSError, ServerHungUp) as error:
                if self.over.is_set():
                    return
                if not self._may_be_cut:
                    self.ledger.complain(f"{self.name} lost its connection: {error!r:.300}")
                    return
                time.sleep(PAUSE_S)
            except Exception:
                self.ledger.complain(f"{self.name} failed: {traceback.format_exc(limit=-3)}")
                return

    def _meet(self) -> None:
        self._connection = connection = Connection(self._node.amqp, DEADLINE_S)
        try:
            with closed_by_node_as_hang_up(connection):
                connection.shake_hands("/")
                self.work(connection.channel())
        finally:
            connection.socket.close()

    def dismiss(self) -> None:
        """Close the socket so that the node still reads the bytes that were sent."""
        self.over.set()
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.socket.shutdown(socket.SHUT_RDWR)
        self.join(DEADLINE_S)

    @abstractmethod
    def work(self, channel: Channel) -> None: ...


class Publisher(Client):
    """A window of confirms; it keeps a backlog in the queue."""

    confirmed = 0
    _number = 0
    _meetings = 0

    def work(self, channel: Channel) -> None:
        channel.confirm()
        self._meetings += 1
        awaited: dict[int, bytes] = {}
        sent = 0
        while True:
            while not self.over.is_set() and len(awaited) < WINDOW and self.ledger.waiting[self.queue] < BACKLOG_MAX:
                sent += 1
                self._number += 1
                awaited[sent] = f"{self._number} of {self.name}, {self._meetings}".encode()
                self.ledger.publishing(awaited[sent])
                channel.publish("", self.queue, awaited[sent], PERSISTENT)
            if awaited:
                self._told(channel.next(DEADLINE_S), awaited)
            elif self.over.wait(PAUSE_S):
                return

    def _told(self, answer: Received, awaited: dict[int, bytes]) -> None:
        assert answer.name in ("basic.ack", "basic.nack"), f"{answer.name} {answer.fields}"
        tag = answer.delivery_tag
        for number in [number for number in awaited if number == tag or (answer.multiple and number < tag)]:
            self.confirmed += answer.name == "basic.ack"
            self.ledger.told(self.queue, awaited.pop(number), answer.name == "basic.ack")
        if answer.name == "basic.nack":
            time.sleep(PAUSE_S)

    def finish(self) -> None:
        """Stop publishing, and wait for all confirms."""
        self.over.set()
        self.join(DEADLINE_S)


class Consumer(Client):
    """Acks its deliveries one by one."""

    def __init__(self, ledger: Ledger, node: NodeProcess, queue: str, may_be_cut: bool = False) -> None:
        self.cancelled = threading.Event()
        self.consuming = threading.Event()
        ledger.subscribing(queue)
        super().__init__(ledger, node, queue, may_be_cut)

    def work(self, channel: Channel) -> None:
        while not self.over.is_set():
            if self._consume(channel):
                self._take(channel)
            else:
                channel = channel.connection.channel()
                self.over.wait(5 * PAUSE_S)

    def _consume(self, channel: Channel) -> bool:
        channel.call("basic.qos", prefetch_count=20)
        channel.send("basic.consume", queue=self.queue, consumer_tag="c")
        answer = channel.next(DEADLINE_S)
        if answer.name == "basic.consume-ok":
            return True
        assert answer.name == "channel.close", f"{answer.name} {answer.fields}"
        assert answer.reply_code == 404, answer.fields
        assert answer.reply_text.endswith("is down or inaccessible"), answer.fields
        channel.send("channel.close-ok")
        return False

    def _take(self, channel: Channel) -> None:
        self.consuming.set()
        while True:
            received = channel.next(IDLE_S_MAX)
            if received.name == "basic.cancel":
                self.consuming.clear()
                self.cancelled.set()
                return
            assert received.name == "basic.deliver", f"{received.name} {received.fields}"
            self.ledger.delivered(self.queue, received.body, received.redelivered, self.name)
            self.ledger.acking(self.queue, received.body)
            channel.ack(received.delivery_tag)


class Load:
    """Publishers and consumers, and their common ledger."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.publishers: list[Publisher] = []
        self.consumers: list[Consumer] = []

    def on(self, queue: str, publishing: NodeProcess, consuming: NodeProcess, may_be_cut: bool = False) -> None:
        self.publish(queue, publishing, may_be_cut)
        self.consume(queue, consuming, may_be_cut)

    def publish(self, queue: str, node: NodeProcess, may_be_cut: bool = False) -> None:
        self.publishers.append(Publisher(self.ledger, node, queue, may_be_cut))

    def consume(self, queue: str, node: NodeProcess, may_be_cut: bool = False) -> None:
        self.consumers.append(Consumer(self.ledger, node, queue, may_be_cut))

    def await_progress(self, count: int = 300) -> None:
        """Wait until so many more messages are confirmed, and acked."""
        for done in (self.ledger.confirmed, self.ledger.acked):
            goal = len(done) + count
            eventually(
                lambda done=done, goal=goal: len(done) >= goal or bool(self.ledger.complaints),  # type: ignore[misc]
                f"{count} more messages got through",
            )
        self._see_no_complaints()

    def await_everybody(self) -> None:
        """Wait until every publisher gets another confirm."""
        for publisher in self.publishers:
            heard = publisher.confirmed
            eventually(
                lambda publisher=publisher, heard=heard: publisher.confirmed > heard or bool(self.ledger.complaints),  # type: ignore[misc]
                f"{publisher.name} is served",
            )
        self._see_no_complaints()

    def settle(self) -> None:
        """Check that every promise is kept."""
        for publisher in self.publishers:
            publisher.finish()
        with contextlib.suppress(AssertionError):
            eventually(lambda: not self.ledger.owed(), "everything confirmed was delivered")
        self.dismiss()
        self._see_no_complaints()
        lost = self.ledger.owed()
        assert not lost, f"{len(lost)} confirmed messages are lost: {sorted(lost)[:5]}"

    def _see_no_complaints(self) -> None:
        assert not self.ledger.complaints, "\n".join(self.ledger.complaints[:5])

    def dismiss(self) -> None:
        for client in (*self.publishers, *self.consumers):
            client.dismiss()


def take_for_certain(ledger: Ledger, channel: Channel, queue: str, count: int) -> None:
    """Publish and ack so many messages; a later confirm of the same home makes the acks certain."""
    bodies = [f"{number} of the certain ones in {queue}".encode() for number in range(count)]
    channel.confirm()
    for body in bodies:
        ledger.publishing(body)
        channel.publish("", queue, body, PERSISTENT)
    channel.confirms(range(1, count + 1))
    channel.consume(queue)
    for delivery in channel.deliveries(count):
        ledger.told(queue, delivery.body, confirmed=True)
        ledger.delivered(queue, delivery.body, delivery.redelivered)
        ledger.acking(queue, delivery.body)
        channel.ack(delivery.delivery_tag)
    channel.call("channel.close", reply_code=200, reply_text="done")
    # until the home knows that this consumer is gone, it may deliver other messages to it, which come back later
    channel.connection.channel().await_counts(queue, 0)
    ledger.seal()
