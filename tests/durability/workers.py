"""Clients that work until the node is killed, each a thread with a connection of its own.

    Publisher         a window of publishes with confirms
    PairPublisher     transactions of two messages, one for each of two queues
    Consumer          acks, requeues or rejects; a *receipt*, a confirmed publish on the same channel, shows that its
                      earlier acks are on disk
    Mover             takes from one queue and publishes to another, in transactions
    Builder           declares, binds and deletes queues

A worker ends when its connection does. A worker that fails while the node is not being killed complains.

Not here: their records (`books`), declaring and killing (`siege`).
"""

import random
import threading
import traceback
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field

from tests.durability.books import ACKED, REJECTED, Books, Token
from tests.support.amqp_client import Channel, Connection, Received, ServerHungUp

DEADLINE_S = 60.0
PAUSE_S = 0.002
BACKLOG_MAX = 1500
Address = tuple[str, int]


def properties_of(token: Token) -> dict[str, int]:
    return {"delivery_mode": 2 if token.persistent else 1, "priority": token.priority}


class Worker(ABC, threading.Thread):
    """One connection's thread."""

    def __init__(self, name: str, books: Books, address: Address, dying: threading.Event, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self.books = books
        self.chance = random.Random(f"{name} {seed}")
        self._address = address
        # set before the node is killed
        self.dying = dying

    def run(self) -> None:
        connection: Connection | None = None
        try:
            connection = Connection(self._address, DEADLINE_S)
            connection.shake_hands("/")
            self.work(connection.channel())
        except (OSError, ServerHungUp) as error:
            if not self.dying.is_set():
                self.books.complain(f"{self.name} lost its connection: {error!r:.300}")
        except Exception:
            self.books.complain(f"{self.name} failed: {traceback.format_exc(limit=-3)}")
        finally:
            if connection is not None:
                connection.socket.close()

    @abstractmethod
    def work(self, channel: Channel) -> None: ...


class Confirming:
    """A channel in confirm mode, and its unconfirmed publishes."""

    def __init__(self, books: Books, channel: Channel) -> None:
        self.open: deque[tuple[int, Token, list[str]]] = deque()
        self._books = books
        self._channel = channel
        self._last_no = 0
        channel.confirm()

    def publish(self, token: Token, exchange: str, key: str, queues: list[str]) -> int:
        self._books.publishing(token, queues)
        self._last_no += 1
        self.open.append((self._last_no, token, queues))
        self._channel.publish(exchange, key, token.body(), properties_of(token))
        return self._last_no

    def confirmed(self, confirm: Received) -> None:
        assert confirm.name == "basic.ack", f"{confirm.name} {confirm.fields}"
        tag = confirm.delivery_tag
        kept = [entry for entry in self.open if not (entry[0] == tag or (confirm.multiple and entry[0] < tag))]
        for number, token, queues in self.open:
            if number == tag or (confirm.multiple and number < tag):
                self._books.confirmed(token, queues)
        self.open = deque(kept)


class Publisher(Worker):
    """Publishes with confirms; some messages are transient, some have priorities."""

    exchange = ""
    key = ""
    queues: tuple[str, ...] = ()
    window = 300
    priorities = 1

    def work(self, channel: Channel) -> None:
        confirming = Confirming(self.books, channel)
        queues = list(self.queues)
        while not self.dying.is_set():
            room = self.window - len(confirming.open)
            if max(self.books.waiting[queue] for queue in queues) < BACKLOG_MAX:
                for _ in range(min(room, self.chance.randrange(1, 60))):
                    confirming.publish(self._next_token(), self.exchange, self.key, queues)
            if confirming.open:
                confirming.confirmed(channel.next(DEADLINE_S))
            else:
                self.dying.wait(PAUSE_S)
        while True:
            confirming.confirmed(channel.next(DEADLINE_S))

    def _next_token(self) -> Token:
        number = self.books.next_number(self.name)
        return Token(self.name, number, self.chance.random() < 0.85, self.chance.randrange(self.priorities))


class PairPublisher(Worker):
    """Each transaction puts one message into each of two queues, and now and then one is rolled back."""

    queues: tuple[str, str] = ("", "")

    def work(self, channel: Channel) -> None:
        channel.call("tx.select")
        while not self.dying.is_set():
            if self.chance.random() < 0.05:
                self._roll_back(channel)
            tokens = [Token(self.name, self.books.next_number(self.name)) for _ in range(self.chance.randrange(1, 5))]
            for token in tokens:
                self.books.publishing(token, list(self.queues))
                for queue in self.queues:
                    channel.publish("", queue, token.body(), properties_of(token))
            channel.send("tx.commit")
            channel.expect("tx.commit-ok", DEADLINE_S)
            for token in tokens:
                self.books.confirmed(token, list(self.queues))
            self.dying.wait(PAUSE_S)

    def _roll_back(self, channel: Channel) -> None:
        """A message that is not recorded: it must never be delivered."""
        token = Token(f"{self.name} undone", self.books.next_number(self.name))
        channel.publish("", self.queues[0], token.body(), properties_of(token))
        channel.call("tx.rollback")


class Consumer(Worker):
    """Settles its deliveries: it acks most, singly or many at once, requeues some and rejects some."""

    queue = ""
    prefetch = 100
    at_once = 1
    requeue_share = 0.0
    reject_share = 0.0
    dead_letters = ""
    receipts = ""
    receipt_every = 16

    def work(self, channel: Channel) -> None:
        self._channel = channel
        self._receipts = Confirming(self.books, channel)
        # settled and not certain, with the receipt that makes it certain
        self._settled: list[Token] = []
        self._awaited: deque[tuple[int, list[Token]]] = deque()
        unacked: list[tuple[int, Token]] = []
        channel.call("basic.qos", prefetch_count=self.prefetch)
        channel.consume(self.queue)
        while True:
            received = channel.next(DEADLINE_S)
            if received.name != "basic.deliver":
                self._receipt_told(received)
                continue
            token = self.books.delivered(self.queue, self.name, received.body, received.redelivered)
            self._decide(received.delivery_tag, token, unacked)
            if len(self._settled) >= self.receipt_every:
                self._send_receipt()

    def _decide(self, tag: int, token: Token, unacked: list[tuple[int, Token]]) -> None:
        draw = self.chance.random()
        if draw < self.requeue_share:
            self._channel.send("basic.nack", delivery_tag=tag, requeue=True)
        elif draw < self.requeue_share + self.reject_share:
            self.books.publishing(token, [self.dead_letters])
            self.books.settling(self.queue, token, REJECTED)
            self._channel.send("basic.reject", delivery_tag=tag, requeue=False)
            self._settled.append(token)
        else:
            unacked.append((tag, token))
        if len(unacked) >= self.at_once:
            for _, acked in unacked:
                self.books.settling(self.queue, acked, ACKED)
                self._settled.append(acked)
            # a multiple ack passes nothing that was left open: this manner requeues and rejects nothing
            self._channel.ack(unacked[-1][0], multiple=len(unacked) > 1)
            unacked.clear()

    def _send_receipt(self) -> None:
        token = Token(f"receipt {self.name}", self.books.next_number(f"receipt {self.name}"))
        number = self._receipts.publish(token, "", self.receipts, [self.receipts])
        self._awaited.append((number, self._settled))
        self._settled = []

    def _receipt_told(self, confirm: Received) -> None:
        self._receipts.confirmed(confirm)
        first_open = self._receipts.open[0][0] if self._receipts.open else 1 << 62
        while self._awaited and self._awaited[0][0] < first_open:
            self.books.certain(self.queue, self._awaited.popleft()[1])


class Mover(Worker):
    """Takes a few messages, publishes each under its own name to another queue, acks them, and commits it all."""

    source = ""
    target = ""

    def work(self, channel: Channel) -> None:
        channel.call("tx.select")
        channel.call("basic.qos", prefetch_count=20)
        channel.consume(self.source)
        while True:
            moved = [channel.expect("basic.deliver", DEADLINE_S) for _ in range(self.chance.randrange(1, 6))]
            tokens = [
                self.books.delivered(self.source, self.name, delivery.body, delivery.redelivered) for delivery in moved
            ]
            for delivery, token in zip(moved, tokens, strict=True):
                self.books.publishing(token, [self.target])
                channel.publish("", self.target, token.body(), properties_of(token))
                self.books.settling(self.source, token, ACKED)
                channel.ack(delivery.delivery_tag)
            channel.send("tx.commit")
            self._await_commit(channel)
            for token in tokens:
                self.books.confirmed(token, [self.target])
            self.books.certain(self.source, tokens)

    def _await_commit(self, channel: Channel) -> None:
        """Deliveries that come first wait for their turn."""
        inbox = channel.connection.inbox[channel.number]
        while not any(received.name == "tx.commit-ok" for received in inbox):
            channel.connection.take_frame()
        [committed] = [received for received in inbox if received.name == "tx.commit-ok"]
        inbox.remove(committed)


@dataclass
class Buildings:
    """The queues that a builder declared and bound, as the node answered."""

    standing: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)


class Builder(Worker):
    """Declares durable queues, binds them, and deletes most of them after a while."""

    exchange = ""
    buildings: Buildings

    def work(self, channel: Channel) -> None:
        mine: deque[str] = deque()
        while not self.dying.is_set():
            queue = f"building {self.books.next_number(self.name)}"
            channel.call("queue.declare", queue=queue, durable=True)
            channel.call("queue.bind", queue=queue, exchange=self.exchange, routing_key=queue)
            self.buildings.standing.add(queue)
            mine.append(queue)
            if len(mine) > 5:
                condemned = mine.popleft()
                self.buildings.standing.discard(condemned)
                channel.call("queue.delete", queue=condemned)
                self.buildings.gone.add(condemned)
            self.dying.wait(10 * PAUSE_S)
