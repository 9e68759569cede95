"""The records of a node's clients over all its restarts, and the promises that follow from them.

A *life* is one run of the process. A client records an action before it begins, and an answer after it arrived. So at
the moment of a kill the books know which messages are promised and which are uncertain.

    published     sent; nothing is promised
    confirmed     a persistent message that was confirmed is delivered until a consumer settles it
    settling      an ack or a reject is on its way; the message may come back, or not
    certain       a later publish of the same channel was confirmed: batches are flushed in order, so the ack is on
                  disk, and the message never comes back

Each broken promise is a sentence in `complaints`.

Not here: the clients (`workers`), the kills (`siege`).
"""

import threading
from collections import Counter
from dataclasses import dataclass, field

ACKED, REJECTED = "acked", "rejected"
COMPLAINTS_MAX = 5000


@dataclass(frozen=True)
class Token:
    """The identity of a message: everything about it follows."""

    publisher: str
    number: int
    persistent: bool = True
    priority: int = 0

    def body(self) -> bytes:
        name = f"{self.publisher}:{self.number}:{'P' if self.persistent else 'T'}:{self.priority}|".encode()
        size = 40_000 if self.number % 101 == 100 else self.number * 37 % 900
        return name + bytes([65 + self.number % 26]) * size

    @classmethod
    def read(cls, body: bytes) -> "Token":
        publisher, number, mode, priority = body.partition(b"|")[0].decode().split(":")
        return cls(publisher, int(number), mode == "P", int(priority))


@dataclass
class Copy:
    """One message in one queue."""

    life: int
    confirmed: bool = False
    deliveries: int = 0
    unmarked_deliveries: int = 0
    delivered_in: int = 0
    settled: str = ""
    certain: bool = False
    # how often it was sent there; only dead letters are more than once
    chances: int = 1


@dataclass
class QueueBook:
    """The messages published to one durable queue, and those it delivered."""

    name: str
    ordered: bool = True
    copies: dict[Token, Copy] = field(default_factory=dict)
    # the highest number that came unmarked: in earlier lives, and in this one to each consumer
    floors: dict[tuple[str, int], int] = field(default_factory=dict)
    heads: dict[tuple[str, str, int], int] = field(default_factory=dict)

    def begin_life(self) -> None:
        for (_, publisher, priority), number in self.heads.items():
            stream = (publisher, priority)
            self.floors[stream] = max(self.floors.get(stream, 0), number)
        self.heads.clear()

    def owed(self) -> set[Token]:
        """The messages that must be there after a crash."""
        return {
            token for token, copy in self.copies.items() if token.persistent and copy.confirmed and not copy.settled
        }

    def conceivable(self) -> set[Token]:
        """The messages that may be there after a crash."""
        return {token for token, copy in self.copies.items() if token.persistent and not copy.certain}


class Books:
    """The records of all clients."""

    def __init__(self) -> None:
        self.life = 1
        self.complaints: list[str] = []
        self.queues: dict[str, QueueBook] = {}
        self.tally: Counter[str] = Counter()
        # how many messages each queue has about
        self.waiting: Counter[str] = Counter()
        self._numbers: Counter[str] = Counter()
        self._lock = threading.Lock()

    def queue(self, name: str, ordered: bool = True) -> QueueBook:
        return self.queues.setdefault(name, QueueBook(name, ordered))

    def begin_life(self) -> None:
        self.life += 1
        for book in self.queues.values():
            book.begin_life()

    def complain(self, sentence: str) -> None:
        if len(self.complaints) < COMPLAINTS_MAX:
            self.complaints.append(f"life {self.life}: {sentence}")

    def next_number(self, publisher: str) -> int:
        with self._lock:
            self._numbers[publisher] += 1
            return self._numbers[publisher]

    # -- actions and answers

    def publishing(self, token: Token, queues: list[str]) -> None:
        with self._lock:
            for name in queues:
                copy = self.queues[name].copies.get(token)
                if copy is None:
                    self.queues[name].copies[token] = Copy(self.life)
                else:
                    copy.chances += 1
                self.waiting[name] += 1

    def confirmed(self, token: Token, queues: list[str]) -> None:
        with self._lock:
            self.tally["confirmed"] += 1
            for name in queues:
                self.queues[name].copies[token].confirmed = True

    def settling(self, queue: str, token: Token, how: str) -> None:
        with self._lock:
            self.queues[queue].copies[token].settled = how
            self.waiting[queue] -= 1
            self.tally["settled"] += 1

    def certain(self, queue: str, tokens: list[Token]) -> None:
        """These messages were acked or rejected, and a later batch is on disk."""
        with self._lock:
            for token in tokens:
                self.queues[queue].copies[token].certain = True
                self.tally["certain"] += 1

    def delivered(self, queue: str, consumer: str, body: bytes, marked: bool) -> Token:
        """A delivery, which may be a redelivery, marked or not as one."""
        token = Token.read(body)
        with self._lock:
            book = self.queues[queue]
            copy = book.copies.get(token)
            self.tally["delivered"] += 1
            if copy is None:
                self.complain(f"{queue} invented {token}")
                copy = book.copies[token] = Copy(self.life)
            elif body != token.body():
                self.complain(f"{queue} changed the body of {token}")
            self._check_return(queue, token, copy, marked)
            if not marked and book.ordered:
                self._check_order(book, consumer, token)
            copy.deliveries += 1
            copy.unmarked_deliveries += not marked
            copy.delivered_in = self.life
            copy.settled = ""
        return token

    def _check_return(self, queue: str, token: Token, copy: Copy, marked: bool) -> None:
        if not token.persistent and copy.life < self.life:
            self.complain(f"{queue} kept the transient {token} over a restart")
        if copy.chances > 1:
            # a dead letter may have died twice
            if not marked and copy.unmarked_deliveries >= copy.chances:
                self.complain(f"{queue} delivered {token} unmarked more often than it died")
            return
        if copy.certain:
            self.complain(f"{queue} brought back {token}, which was {copy.settled or 'settled'} for certain")
        elif copy.settled and copy.delivered_in == self.life:
            self.complain(f"{queue} brought back {token}, which was {copy.settled} in the same life")
        if copy.deliveries and not marked:
            self.complain(f"{queue} delivered {token} again and did not say so")
        if marked:
            self.tally["redelivered"] += 1

    def _check_order(self, book: QueueBook, consumer: str, token: Token) -> None:
        head = (consumer, token.publisher, token.priority)
        before = max(book.heads.get(head, 0), book.floors.get((token.publisher, token.priority), 0))
        if token.number <= before:
            self.complain(f"{book.name} delivered {token} to {consumer} after number {before}")
        book.heads[head] = token.number

    # -- promises after a crash

    def check_count(self, queue: str, ready: int) -> None:
        """How many messages a queue says it has, right after a restart."""
        self.waiting[queue] = ready
        book = self.queues[queue]
        owed, conceivable = len(book.owed()), len(book.conceivable())
        surplus = sum(copy.chances - 1 for copy in book.copies.values())
        self.tally["missing"] += max(owed - ready, 0)
        if not owed <= ready <= conceivable + surplus:
            self.complain(f"{queue} has {ready} messages, not {owed} to {conceivable + surplus}")

    def check_drained(self) -> None:
        """Everything was drained: nothing that was confirmed may be left unsettled."""
        for book in self.queues.values():
            lost = sorted(book.owed(), key=lambda token: (token.publisher, token.number))
            self.tally["lost"] += len(lost)
            if lost:
                self.complain(f"{book.name} lost {len(lost)} confirmed messages, the first is {lost[0]}")

    def check_dead_letters(self, source: str, target: str) -> None:
        """A message that was rejected last is dead-lettered; an unconfirmed one may be in neither queue."""
        rejected = {
            token
            for token, copy in self.queues[source].copies.items()
            if copy.settled == REJECTED and copy.confirmed and token.persistent
        }
        found = {token for token, copy in self.queues[target].copies.items() if copy.deliveries}
        self._check_empty(f"{target} lacks dead letters", rejected - found)
        self.tally["dead letters"] += len(rejected)

    def check_whole(self, first: str, second: str) -> None:
        """A transaction put one message into each of two queues: both are there, or none is."""
        found = [
            {token for token, copy in self.queues[name].copies.items() if copy.deliveries} for name in (first, second)
        ]
        self._check_empty(f"transactions are halved between {first} and {second}", found[0] ^ found[1])
        self.tally["whole transactions"] += len(found[0] & found[1])

    def check_moved(self, source: str, target: str, rest: set[Token]) -> None:
        """Each was moved from one queue to the other in a transaction, once; `rest` was never moved."""
        copies = self.queues[target].copies
        moved = {token for token, copy in copies.items() if copy.deliveries}
        self._check_empty(f"more than once in {target}", {token for token in moved if copies[token].deliveries > 1})
        self._check_empty(f"both in {source} and in {target}", moved & rest)
        owed = {token for token, copy in self.queues[source].copies.items() if copy.confirmed and token.persistent}
        self._check_empty(f"neither in {source} nor in {target}", owed - moved - rest)
        self.tally["moved"] += len(moved)

    def _check_empty(self, sentence: str, broken: set[Token]) -> None:
        if broken:
            first = min(broken, key=lambda token: (token.publisher, token.number))
            self.complain(f"{sentence}: {len(broken)}, the first is {first}")
