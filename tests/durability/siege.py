"""A node under load that is killed again and again, and the check of its promises.

::

    start ── all promised messages are there ── load ── SIGKILL, at a moment of chance ── start again ── ...
          ── at last: everything is drained, in order, and the books are balanced

The load: publishers with confirms through a durable exchange to three queues (plain, lazy, with dead letters), to one
with priorities and to one from which transactions move messages on; pairs of messages in transactions; consumers that
ack, requeue and reject; queues that come and go. Some kills hit the node while it starts.

Not here: the promises (`books`), the clients (`workers`).
"""

import random
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.durability.books import ACKED, REJECTED, Books, Token
from tests.durability.visiting import exists, visit
from tests.durability.workers import DEADLINE_S, Builder, Buildings, Consumer, Mover, PairPublisher, Publisher, Worker
from tests.support.amqp_client import Channel, Connection
from tests.support.node_process import NodeProcess

LOAD_S_MAX = 1.0
START_S_MAX = 0.6
FANOUT, BUILDING_SITE, CEMETERY = "fan", "site", "cemetery"
SPREAD = ("plain", "lazy", "work")
ARGUMENTS = {
    "plain": {},
    "lazy": {"x-queue-mode": "lazy"},
    "work": {"x-dead-letter-exchange": CEMETERY},
    "dead": {},
    "ranked": {"x-max-priority": 4},
    "orders": {},
    "results": {},
    "pairs.a": {},
    "pairs.b": {},
    "receipts": {},
}
UNORDERED = ("dead", "results")
SMALL_SEGMENT_BYTES = 250_000
"""So small that a round fills a few."""

LITTLE_MEMORY = "vm_memory_high_watermark.absolute = 8MB\n"
"""Low enough to keep most of a backlog only on disk."""

NEVER_CONSUMED = ("results", "pairs.a", "pairs.b", "receipts")


class Crowd(Publisher):
    exchange = FANOUT
    queues = SPREAD


class Ranker(Publisher):
    key = "ranked"
    queues = ("ranked",)
    priorities = 5
    window = 100


class Orderer(Publisher):
    key = "orders"
    queues = ("orders",)
    window = 50


class Pairs(PairPublisher):
    queues = ("pairs.a", "pairs.b")


class Plain(Consumer):
    queue = "plain"
    receipts = "receipts"
    requeue_share = 0.05


class Lazy(Consumer):
    queue = "lazy"
    receipts = "receipts"
    at_once = 13


class Work(Consumer):
    queue = "work"
    receipts = "receipts"
    reject_share = 0.2
    dead_letters = "dead"


class Dead(Consumer):
    queue = "dead"
    receipts = "receipts"


class Ranked(Consumer):
    queue = "ranked"
    receipts = "receipts"
    prefetch = 20


class Orders(Mover):
    source = "orders"
    target = "results"


class Site(Builder):
    exchange = BUILDING_SITE


CAST: tuple[tuple[type[Worker], int], ...] = (
    (Crowd, 2), (Ranker, 1), (Orderer, 1), (Pairs, 1), (Plain, 2), (Lazy, 1), (Work, 1), (Dead, 1), (Ranked, 1),
    (Orders, 1), (Site, 1),
)  # fmt: skip


class Siege:
    """One node, its clients' records, and random kills."""

    def __init__(self, node: NodeProcess, seed: int) -> None:
        self.node = node
        self.books = Books()
        self.chance = random.Random(seed)
        self.kills = 0
        self._seed = seed
        self._buildings = Buildings()
        for name in ARGUMENTS:
            self.books.queue(name, ordered=name not in UNORDERED)
        with visit(self.node) as channel:
            _declare(channel)

    def round(self) -> None:
        """One life: load, a kill, and a check after the restart."""
        dying = threading.Event()
        site = Connection.opened(self.node.amqp)
        _declare_transient_queues(site.channel())
        workers = list(self._workers(dying))
        for worker in workers:
            worker.start()
        time.sleep(self.chance.uniform(0.05, LOAD_S_MAX))
        dying.set()
        self.kill()
        site.cut()
        for worker in workers:
            worker.join(DEADLINE_S)
            if worker.is_alive():
                self.books.complain(f"{worker.name} does not notice that the node is dead")
        self.start_again()
        self.look()

    def kill(self) -> None:
        if not self.node.alive:
            self.books.complain(f"the node ended by itself: {self.node.log()[-2000:]}")
        self.node.kill()
        self.kills += 1

    def start_again(self) -> None:
        """At times the node is killed again before it is ready."""
        self.books.begin_life()
        while self.chance.random() < 0.2:
            self.node.spawn()
            time.sleep(self.chance.uniform(0.0, START_S_MAX))
            self.kill()
        self.node.start()

    def proves_something(self) -> bool:
        """Whether promises of every kind were made: a busy machine lets clients do little before the node dies."""
        books = self.books
        rejected = any(copy.settled == REJECTED and copy.confirmed for copy in books.queues["work"].copies.values())
        kept = [any(copy.confirmed for copy in books.queues[name].copies.values()) for name in ("pairs.a", "results")]
        return rejected and all(kept) and all(books.tally[what] for what in ("confirmed", "certain", "redelivered"))

    def look(self) -> None:
        """Checks that need no consumer."""
        with visit(self.node) as channel:
            for queue in ARGUMENTS:
                self.books.check_count(queue, channel.counts(queue)[0])
            self._check_buildings(channel)
        for kind, name in (("queue", "mayfly"), ("queue", "private"), ("exchange", "mayfly")):
            if exists(self.node, kind, name):
                self.books.complain(f"the {kind} {name} survived a restart")

    def finish(self) -> None:
        """Drain everything, balance the books, and see that nothing comes back."""
        drained: dict[str, list[Token]] = {}
        for queue in ARGUMENTS:
            with visit(self.node) as channel:
                drained[queue] = self._drain(channel, queue)
        self.books.check_drained()
        self.books.check_dead_letters("work", "dead")
        self.books.check_whole("pairs.a", "pairs.b")
        self.books.check_moved("orders", "results", set(drained["orders"]))
        # close-ok promises nothing about acks that the drain sent before it; a restart in good order does
        self.node.restart()
        with visit(self.node) as channel:
            for queue in ARGUMENTS:
                left = channel.counts(queue)[0]
                if left:
                    self.books.complain(f"{queue} has {left} messages that were acked before a stop in good order")

    def _drain(self, channel: Channel, queue: str) -> list[Token]:
        """Everything a queue has; it must come in the order it was published, redelivered or not."""
        count = channel.counts(queue)[0]
        channel.call("basic.qos", prefetch_count=200)
        channel.consume(queue)
        tokens: list[Token] = []
        heads: dict[tuple[str, int], int] = {}
        priority = 255
        for received in range(1, count + 1):
            delivery = channel.expect("basic.deliver", DEADLINE_S)
            token = self.books.delivered(queue, "drain", delivery.body, delivery.redelivered)
            stream = (token.publisher, token.priority)
            if queue not in UNORDERED and token.number <= heads.get(stream, 0):
                self.books.complain(f"{queue} drained {token} after number {heads[stream]}")
            if queue == "ranked" and token.priority > priority:
                self.books.complain(f"{queue} drained {token} after a message of priority {priority}")
            if queue in NEVER_CONSUMED and delivery.redelivered:
                self.books.complain(f"{queue} marks {token} as redelivered, but it was never consumed from")
            heads[stream] = token.number
            priority = min(token.priority, 4)
            tokens.append(token)
            self.books.settling(queue, token, ACKED)
            if received % 50 == 0 or received == count:
                channel.ack(delivery.delivery_tag, multiple=True)
        channel.expect_silence(queue)
        return tokens

    def _workers(self, dying: threading.Event) -> Iterator[Worker]:
        for kind, count in CAST:
            for number in range(count):
                name = f"{kind.__name__.lower()}{number}"
                worker = kind(name, self.books, self.node.amqp, dying, self.chance.randrange(1 << 30))
                if isinstance(worker, Builder):
                    worker.buildings = self._buildings
                yield worker

    def _check_buildings(self, channel: Channel) -> None:
        """Of the queues before the kill, existing ones are bound and deleted ones are gone."""
        channel.confirm()
        for number, queue in enumerate(sorted(self._buildings.standing), start=1):
            channel.publish(BUILDING_SITE, queue, b"is it there?", mandatory=True)
            if channel.next().name == "basic.return":
                self.books.complain(f"the durable {queue} or its binding is gone")
                channel.confirms([number])
        for queue in sorted(self._buildings.standing):
            channel.call("queue.delete", queue=queue)
        for queue in sorted(self._buildings.gone)[-10:]:
            if exists(self.node, "queue", queue):
                self.books.complain(f"the deleted {queue} is back")
        self._buildings.standing.clear()
        self._buildings.gone.clear()


def altered_node(directory: Path, segment_bytes: int, haste_s: float = 0.0, configuration: str = "") -> NodeProcess:
    """A node with another segment size; with haste, one that confirms before it writes."""
    script = Path(__file__).with_name("serve_altered.py")
    command = [sys.executable, str(script), str(segment_bytes), str(haste_s)]
    return NodeProcess(directory, configuration=configuration, command=command)


def _declare(channel: Channel) -> None:
    channel.call("exchange.declare", exchange=FANOUT, type="fanout", durable=True)
    channel.call("exchange.declare", exchange=CEMETERY, type="fanout", durable=True)
    channel.call("exchange.declare", exchange=BUILDING_SITE, type="direct", durable=True)
    for queue, arguments in ARGUMENTS.items():
        channel.call("queue.declare", queue=queue, durable=True, arguments=arguments)
    for queue in SPREAD:
        channel.call("queue.bind", queue=queue, exchange=FANOUT)
    channel.call("queue.bind", queue="dead", exchange=CEMETERY)


def _declare_transient_queues(channel: Channel) -> None:
    channel.call("exchange.declare", exchange="mayfly", type="direct")
    channel.call("queue.declare", queue="mayfly")
    channel.call("queue.declare", queue="private", durable=True, exclusive=True)
