"""The book of promises: every attempt to publish, and its answer. For a node that is observed also the fate of each
copy, and the undo log of what the node forgets.

A publish is an *attempt* with its own number, which its body carries; a client that tries the same message again makes
another attempt. An attempt goes SENT -> ACCEPTED -> CONFIRMED, or ends as REFUSED or WITHDRAWN. An attempt that is SENT
without an answer is *uncertain*: it may be delivered or not, and a client that lost its connection publishes it again.
A node that dies before it stored an attempt has FORGOTTEN it.

An accepted attempt has a *copy* in every queue its route leads to. A copy is READY, OUT (with a consumer that may still
requeue it) or GONE, with the reason. A copy is *durable* if both its message and its queue are: only durable copies
survive the node, as far as their changes were stored.

The undo log has one entry for each change a node must remember, by batch. A turn's changes are in the turn's batch.
When a node dies, the disk says which batches are left; the others never happened, so their changes are undone, newest
first. Metadata has its own mark, because it is durable before its batch is.

Invariants: an attempt has at most one copy in a queue; `live` and `out` count a queue's copies that are not GONE and
those that are OUT.

Not here: who observes the copies (`sim.observer`), the rules (`sim.invariants`), which batches are left (`sim.disk`),
the clients of a cluster (`sim.cluster.ledger`).
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from warren.wire.field_tables import Table


class UndoLog:
    """Changes that may have to be undone, oldest first."""

    def __init__(self) -> None:
        # the batch of the current turn
        self.batch_no = 0
        # the batches of this turn's unbinds: a deletion begins another batch, if records stand before it
        self.unbinds: deque[int] = deque()
        self._done: deque[tuple[int, bool, Callable[[], object]]] = deque()

    def did(self, undo: Callable[[], object], metadata: bool = False) -> None:
        self._done.append((self.batch_no, metadata, undo))

    def begin_unbind(self) -> None:
        """The next change is an unbind of durable objects; what follows is in its batch, or in a later one."""
        if self.unbinds:
            self.batch_no = max(self.batch_no, self.unbinds.popleft())

    def certain(self, flushed_no: int) -> None:
        """Everything up to this batch stays."""
        while self._done and self._done[0][0] <= flushed_no:
            self._done.popleft()

    def roll_back(self, survived_no: int, changed_no: int) -> None:
        """The node died: the journal's batches up to the first number are left, the metadata's up to the second."""
        kept: deque[tuple[int, bool, Callable[[], object]]] = deque()
        while self._done:
            batch_no, metadata, undo = self._done.pop()
            if batch_no > (changed_no if metadata else survived_no):
                undo()
            elif not metadata:
                # the process was killed; a later power loss may still take its writes
                kept.appendleft((batch_no, metadata, undo))
        self._done = kept
        self.batch_no = survived_no


SENT = "sent"
ACCEPTED = "accepted"
CONFIRMED = "confirmed"
REFUSED = "refused"
WITHDRAWN = "withdrawn"
FORGOTTEN = "forgotten"

READY = "ready"
OUT = "out"
GONE = "gone"

UNWRITTEN = "never written down"
"""The ending of a copy that was not stored when the node died."""

NUMBER_DIGITS = 10

KNOWS_ALL = 1 << 62


@dataclass(eq=False)
class QueueSpec:
    """A queue of the workload, and what it may do with a message."""

    name: str
    arguments: Table = field(default_factory=dict)
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    # how long its messages may wait, how many may wait; None: no limit
    ttl_ms: int | None = None
    length_max: int | None = None
    # a publish beyond `length_max` is rejected, rather than the head dropped
    refuses: bool = False
    priority_max: int = 0
    # how often a message may be requeued
    delivery_limit: int | None = None
    dead_letter_exchange: str = ""
    dead_letter_key: str = ""
    # it gets dead letters that cannot be predicted from outside
    surprising: bool = False

    @property
    def fleeting(self) -> bool:
        """Whether it may go, with all its messages, while the node runs."""
        return self.exclusive or self.auto_delete

    @property
    def drops(self) -> bool:
        """Whether it may drop messages by its own limits."""
        return (self.ttl_ms, self.length_max, self.delivery_limit) != (None, None, None)

    @property
    def exact(self) -> bool:
        """Whether its contents are known from outside after every turn."""
        return not (self.fleeting or self.drops or self.surprising)


@dataclass(eq=False, slots=True)
class PublishAttempt:
    """One publish."""

    number: int
    # the publishing channel: a new connection is another publisher
    publisher: str
    body: bytes
    exchange: str = ""
    routing_key: str = ""
    # the queues that its route leads to, as far as its publisher knows
    queues: tuple[str, ...] = ()
    priority: int = 0
    expiration_ms: int | None = None
    # how long its exchange delays it
    delay_ms: int = 0
    mandatory: bool = False
    persistent: bool = False
    state: str = SENT
    returned: bool = False
    sent_ms: int = 0
    # the store revision that the publisher's node had applied; a node alone knows everything
    known_revision: int = KNOWS_ALL
    # its place among all accepted attempts
    accepted_no: int = 0
    accepted_at_ms: int = 0
    # the journal batch it was accepted with
    stored_no: int = 0
    copies: dict[str, "QueuedCopy"] = field(default_factory=dict)

    def due_ms(self) -> int:
        """When its exchange routes it."""
        return self.accepted_at_ms + self.delay_ms

    def lasts(self) -> bool:
        """Whether a queue holds it that must still hold it after a restart.

        A message that was routed to queues without durability is not promised, though its dead letter may last.
        """
        kept = any(copy.durable and not copy.spec.fleeting and copy.state != GONE for copy in self.copies.values())
        return kept and any(copy.durable and not copy.dead_letter for copy in self.copies.values())


def why_undeliverable(
    attempt: PublishAttempt | None, body: bytes, undeliverable: tuple[str, ...] = (WITHDRAWN,)
) -> str:
    """Why this body, of this attempt, should not have been delivered; "" if it may be."""
    if attempt is None:
        return "it was never published"
    if attempt.state in undeliverable:
        return f"it was {attempt.state}"
    return "" if attempt.body == body else "its body was changed"


class QueuedCopy:
    """An attempt in one queue."""

    __slots__ = ("attempt", "dead_letter", "deliveries", "ending", "may_have_died", "returns", "spec", "state")

    def __init__(self, attempt: PublishAttempt, spec: QueueSpec, dead_letter: bool) -> None:
        self.attempt = attempt
        self.spec = spec
        # it came from another queue, without its expiration
        self.dead_letter = dead_letter
        self.state = READY
        self.ending = ""
        self.deliveries = 0
        # how often it was requeued, at least
        self.returns = 0
        # its end is not visible from outside: it may have gone to a dead-letter queue, or nowhere
        self.may_have_died = False

    @property
    def durable(self) -> bool:
        """Whether it survives a restart."""
        return self.spec.durable and self.attempt.persistent

    def may_be_dropped(self) -> bool:
        """Whether a limit of the workload lets its queue drop it."""
        return self.spec.fleeting or self.spec.drops or self._expiration_ms() is not None

    def deadline_ms(self) -> int | None:
        """The last moment it may be delivered at; None if it never expires."""
        limits = [limit for limit in (self.spec.ttl_ms, self._expiration_ms()) if limit is not None]
        return self.attempt.accepted_at_ms + min(limits) if limits else None

    def _expiration_ms(self) -> int | None:
        return None if self.dead_letter else self.attempt.expiration_ms


class PromiseBook:
    """What the clients of a world published, and what they were answered."""

    def __init__(self) -> None:
        self.attempts: dict[int, PublishAttempt] = {}

    def attempt(self, publisher: str, filler_bytes: int) -> PublishAttempt:
        number = len(self.attempts) + 1
        stem = f"{number:0{NUMBER_DIGITS}d}".encode()
        body = (stem * (filler_bytes // NUMBER_DIGITS + 2))[: NUMBER_DIGITS + filler_bytes]
        made = PublishAttempt(number, publisher, body)
        self.attempts[number] = made
        return made

    def attempt_of(self, body: bytes) -> PublishAttempt | None:
        """The attempt of a delivered body, if its number is readable and known."""
        stem = body[:NUMBER_DIGITS]
        return self.attempts.get(int(stem)) if stem.isdigit() else None

    def counts(self) -> tuple[int, int]:
        """How many were published, and how many of them confirmed."""
        return len(self.attempts), sum(1 for attempt in self.attempts.values() if attempt.state == CONFIRMED)


class MessageHistory(PromiseBook):
    """Every attempt and every copy of a run."""

    def __init__(self, undo: UndoLog) -> None:
        super().__init__()
        self.undo = undo
        self.live: dict[str, int] = {}
        self.out: dict[str, int] = {}
        # copies that are not GONE, so that the end of a run need not check all others
        self.living: dict[QueuedCopy, None] = {}
        # how often each kind of event happened: the coverage of a run
        self.seen: Counter[str] = Counter()
        # delivered in this turn to a channel that ended in it, in an invisible order; whether for good
        self.in_passing: list[tuple[QueuedCopy, bool]] = []
        # queues with a consumer; queues whose messages may have been requeued
        self.wanted: dict[str, None] = {}
        self.requeued: dict[str, None] = {}
        self._accepted_count = 0

    def accept(self, attempt: PublishAttempt, specs: list[QueueSpec], now_ms: int) -> None:
        """The node accepted the attempt: each of these queues has a copy."""
        self._accepted_count += 1
        attempt.state = ACCEPTED
        attempt.accepted_no = self._accepted_count
        attempt.accepted_at_ms = now_ms
        attempt.stored_no = self.undo.batch_no
        self.undo.did(lambda: self._forget(attempt))
        for spec in specs:
            self.copy_into(attempt, spec)

    def copy_into(self, attempt: PublishAttempt, spec: QueueSpec, dead_letter: bool = False) -> QueuedCopy:
        copy = QueuedCopy(attempt, spec, dead_letter)
        attempt.copies[spec.name] = copy
        self.live[spec.name] = self.live.get(spec.name, 0) + 1
        self.living[copy] = None
        self.undo.did(lambda: self._unmake(copy))
        return copy

    def take_out(self, copy: QueuedCopy) -> None:
        copy.state = OUT
        self.out[copy.spec.name] = self.out.get(copy.spec.name, 0) + 1

    def count_delivery(self, copy: QueuedCopy) -> None:
        copy.deliveries += 1
        if copy.attempt.delay_ms:
            # a node that forgets that it routed a delayed message routes it again, as if for the first time
            self.undo.did(lambda: self._uncount_delivery(copy))

    def record_passing(self) -> None:
        """Requeue what was delivered in passing, unless it needed no ack."""
        for copy, for_good in self.in_passing:
            self.count_delivery(copy)
            if for_good:
                self.end(copy, "auto-acked")
        self.in_passing.clear()

    def give_back(self, copy: QueuedCopy) -> None:
        self._put_back(copy)
        copy.returns += 1
        self.undo.did(lambda: self._uncount_return(copy))

    def end(self, copy: QueuedCopy, ending: str) -> None:
        if copy.state == GONE:
            return
        self._leave(copy, ending)
        self.undo.did(lambda: self._revive(copy))

    def dead_letter(self, copy: QueuedCopy) -> None:
        """A dead letter was delivered: this is the copy that died."""
        self.end(copy, "dropped by a rule, and dead-lettered")
        if copy.may_have_died:
            copy.may_have_died = False
            self.undo.did(lambda: self._doubt(copy))

    def node_restarted(self) -> None:
        """After the undo: durable copies are ready again, all others are gone."""
        for copy in list(self.living):
            if copy.state == OUT:
                self._put_back(copy)
            if not copy.durable:
                self._leave(copy, "the node restarted")
                # what a limit dropped was not visible, and its dead letter may be durable
                copy.may_have_died = copy.attempt.persistent and copy.may_be_dropped()

    # -- undo

    def _forget(self, attempt: PublishAttempt) -> None:
        if attempt.state == ACCEPTED:
            attempt.state = FORGOTTEN

    def _unmake(self, copy: QueuedCopy) -> None:
        """It was never there, unless the node confirmed it."""
        promised = copy.attempt.state == CONFIRMED and not copy.dead_letter
        if copy.state != GONE and not promised:
            self._leave(copy, UNWRITTEN)

    def _doubt(self, copy: QueuedCopy) -> None:
        copy.may_have_died = True

    def _uncount_delivery(self, copy: QueuedCopy) -> None:
        copy.deliveries -= 1

    def _uncount_return(self, copy: QueuedCopy) -> None:
        copy.returns -= 1

    def _revive(self, copy: QueuedCopy) -> None:
        if copy.state == GONE:
            copy.state = READY
            copy.ending = ""
            self.live[copy.spec.name] += 1
            self.living[copy] = None

    # -- counters

    def _put_back(self, copy: QueuedCopy) -> None:
        copy.state = READY
        self.out[copy.spec.name] -= 1

    def _leave(self, copy: QueuedCopy, ending: str) -> None:
        if copy.state == OUT:
            self.out[copy.spec.name] -= 1
        copy.state = GONE
        copy.ending = ending
        self.seen[f"copy {ending}"] += 1
        self.live[copy.spec.name] -= 1
        del self.living[copy]
