"""The ledger of what the clients of a cluster were promised, from their side alone.

An attempt is CONFIRMED if a node said so, WITHDRAWN if its transaction was rolled back. Otherwise it promises nothing:
a message that was rejected, or never answered, may be delivered or not. A confirmed attempt must be delivered from each
queue of its route, unless the loss is *excused* by an event since it was sent:

- The queue was deleted or purged, or had been deleted and the publisher's node did not know that yet.
- The queue's node ended, and the message or the queue is transient. If the queue is mirrored: all nodes ended, or
  seemed to without the store, that were in sync at one moment.

Rules checked with every delivery: only published messages arrive, where their route leads; a second delivery is marked;
the unmarked deliveries of one consumer follow the order of publishing; a message is with one client at a time.
Deliveries to two clients arrive in any order. A message that the client never saw is requeued in place without a mark.
So order and holders can be judged only while nothing was requeued or disrupted.

Not here: attempts (`sim.history`), what clients do (`sim.cluster.clients`), the rules for the end
(`sim.cluster.invariants`).
"""

from collections import Counter
from dataclasses import dataclass, field

from warren.broker.metadata.cluster_definitions import LivenessDefinition
from warren.broker.metadata.definition_kinds import decode_definition
from warren.broker.metadata.topology_definitions import QueueDefinition
from warren.broker.model.replica_set import NodeIncarnation
from warren.sim.cluster.nodes import SimulatedCluster
from warren.sim.history import CONFIRMED, KNOWS_ALL, NUMBER_DIGITS, PromiseBook, PublishAttempt, why_undeliverable
from warren.sim.simulation import SimulatedConnection

CHANNEL = 1
"""The only channel that clients open."""

LOOSE = "loose"
"""The queue with consumers that do not ack: deliveries in transit to a lost one are lost with it."""

UNDER_WAY_MS = 2_000
"""How long a message may be in transit to a node that will return it, or that news to a client."""


@dataclass(eq=False)
class DeliveryRecord:
    """An attempt in one queue, as far as clients know."""

    count: int = 0
    last_ms: int = 0
    # one of them was not marked as redelivered
    unmarked: bool = False
    # a client acked it; a client rejected it without requeueing
    acked: bool = False
    rejected: bool = False
    # the connection that holds it, since when, and the number of disruptions when it came
    holder: SimulatedConnection | None = None
    held_ms: int = 0
    disruptions: int = 0


@dataclass(eq=False)
class QueueRecord:
    """The events of the queues of one name."""

    node: str = ""
    durable: bool = False
    # when it was last deleted and purged; when a message may have been requeued unmarked
    deleted_ms: int = 0
    deleted_revision: int = 0
    purged_ms: int = 0
    purges_open: int = 0
    shaken_ms: list[int] = field(default_factory=list)
    # of a mirrored queue: the in-sync set; and when the last member that had it was lost
    in_sync: list[NodeIncarnation] = field(default_factory=list)
    forsaken_ms: int = 0
    # its epoch, and when another master was last agreed on
    epoch: int = 0
    moved_ms: int | None = None


class ClientLedger(PromiseBook):
    """The promises of one world."""

    def __init__(self, world: SimulatedCluster) -> None:
        super().__init__()
        # by the number of an attempt, and the queue
        self.deliveries: dict[tuple[int, str], DeliveryRecord] = {}
        self.queues: dict[str, QueueRecord] = {}
        # messages rejected in the key arrive in the value
        self.dead_letter_queues: dict[str, str] = {}
        self._world = world
        self._node_ended_ms: Counter[str] = Counter()
        # the incarnation of each live node, as the store has it
        self._lives: dict[str, int] = {}
        # by consumer and publisher
        self._last: dict[tuple[str, str], int] = {}

    # -- publishing

    def publish(
        self,
        publisher: str,
        link: SimulatedConnection | None,
        queues: tuple[str, ...],
        persistent: bool,
        mandatory: bool,
        filler_bytes: int,
    ) -> PublishAttempt:
        made = self.attempt(publisher, filler_bytes)
        made.queues, made.persistent, made.mandatory = queues, persistent, mandatory
        made.sent_ms = self._world.now_ms
        if link is not None:
            cluster = self._world.member(link.node.name).broker.cluster
            made.known_revision = KNOWS_ALL if cluster is None else cluster.shared.applied
        return made

    def returned(self, body: bytes) -> None:
        attempt = self.attempt_of(body)
        if attempt is None or not attempt.mandatory:
            self._complain("returns are due", f"{_shown(body)} came back, which was not mandatory")
        else:
            attempt.returned = True

    # -- queues

    def record(self, queue: str) -> QueueRecord:
        return self.queues.setdefault(queue, QueueRecord())

    def definition_changed(self, key: str, value: bytes | None) -> None:
        """The store is about to change."""
        if key.startswith("alive/"):
            self._note_life(key, value)
        if not key.startswith("queues/"):
            return
        name = key.split("/")[2]
        record = self.record(name)
        if value is None:
            self.deleted(name)
            record.deleted_revision = self._world.store.revision + 1
            record.epoch = 0
            return
        definition = decode_definition(key, value)
        assert isinstance(definition, QueueDefinition), "its key says so"
        if not record.in_sync:
            # it was not mirrored before
            record.forsaken_ms = max(record.forsaken_ms, self._node_ended_ms[definition.node])
        record.node, record.durable = definition.node, definition.durable
        replica_set = definition.replica_set
        record.in_sync = [] if replica_set is None else replica_set.in_sync
        epoch = 0 if replica_set is None else replica_set.epoch
        if record.epoch not in (0, epoch):
            record.moved_ms = self._world.now_ms
        record.epoch = epoch
        self._look_for_members(record)

    def process_ended(self, node: str) -> None:
        self._node_ended_ms[node] = self._world.now_ms
        for record in self.queues.values():
            self._look_for_members(record)

    def _note_life(self, key: str, value: bytes | None) -> None:
        name = key.split("/")[1]
        self._lives.pop(name, None)
        definition = None if value is None else decode_definition(key, value)
        if isinstance(definition, LivenessDefinition):
            self._lives[name] = definition.incarnation
        for record in self.queues.values():
            self._look_for_members(record)

    def _look_for_members(self, record: QueueRecord) -> None:
        up = [member.name for member in self._world.members if member.up]
        if record.in_sync and not any(
            name in up and self._lives.get(name) == incarnation for name, incarnation in record.in_sync
        ):
            record.forsaken_ms = self._world.now_ms

    def ended_ms(self, node: str) -> int:
        """When the node's process last ended; 0 if it never did."""
        return self._node_ended_ms[node]

    def deleted(self, queue: str) -> None:
        """It is deleted, or a client has asked for that."""
        self.record(queue).deleted_ms = self._world.now_ms

    def purging(self, queue: str) -> None:
        self.record(queue).purges_open += 1

    def purged(self, queue: str) -> None:
        record = self.record(queue)
        record.purges_open -= 1
        record.purged_ms = self._world.now_ms

    def shaken(self, queue: str) -> None:
        """Messages may be requeued in place."""
        self.record(queue).shaken_ms.append(self._world.now_ms)

    # -- deliveries

    def delivered(
        self, consumer: str, link: SimulatedConnection, queue: str, body: bytes, redelivered: bool, kept: bool = True
    ) -> PublishAttempt | None:
        """A client got a message, and holds it unless it was requeued before it came; returns the attempt, if it is
        known."""
        what = f"{_shown(body)} from '{queue}' to {consumer}"
        attempt = self.attempt_of(body)
        wrong = why_undeliverable(attempt, body)
        if wrong or attempt is None:
            self._complain("only published messages are delivered", f"{what}: {wrong}")
            return None
        if queue not in attempt.queues and queue not in [self.dead_letter_queues.get(one) for one in attempt.queues]:
            self._complain("only published messages are delivered", f"{what}: it was routed to {attempt.queues}")
        copy = self.deliveries.setdefault((attempt.number, queue), DeliveryRecord())
        now_ms = self._world.now_ms
        if queue not in attempt.queues and self._world.disrupted_ms >= attempt.sent_ms:
            # a node that does not know whether a dead letter has arrived sends it again
            copy.count += 1
            return attempt
        if not redelivered and copy.count and (copy.unmarked or now_ms - copy.last_ms > UNDER_WAY_MS):
            self._complain("a second delivery is marked", f"{what}: delivered {copy.count} times before")
        self._look_at_order(attempt, consumer, queue, redelivered, what)
        copy.count += 1
        copy.last_ms = now_ms
        copy.unmarked = copy.unmarked or not redelivered
        if kept:
            self._hand_over(copy, link, self.record(queue), what)
        return attempt

    def _hand_over(self, copy: DeliveryRecord, link: SimulatedConnection, record: QueueRecord, what: str) -> None:
        if not self._world.is_open(link, CHANNEL):
            # it was requeued before it arrived
            return
        if copy.holder is not None and copy.holder is not link and self._still_holds(copy, record):
            self._complain("one holder at a time", f"{what}: #{copy.holder.number} has not given it back")
        copy.holder, copy.disruptions, copy.held_ms = link, self._world.disruptions, self._world.now_ms

    def settled(self, attempt: PublishAttempt, queue: str, acked: bool, requeued: bool) -> None:
        """A client settled a message."""
        copy = self.deliveries[attempt.number, queue]
        copy.holder = None
        copy.acked = copy.acked or acked
        copy.rejected = copy.rejected or not (acked or requeued)

    def given_back(self, attempt: PublishAttempt, queue: str) -> None:
        self.deliveries[attempt.number, queue].holder = None
        self.shaken(queue)

    def _still_holds(self, copy: DeliveryRecord, record: QueueRecord) -> bool:
        """Another master delivers again what its predecessor had delivered, perhaps to others."""
        link = copy.holder
        if record.moved_ms is not None and record.moved_ms + UNDER_WAY_MS >= copy.held_ms:
            return False
        return link is not None and self._world.is_open(link, CHANNEL) and copy.disruptions == self._world.disruptions

    def _look_at_order(self, attempt: PublishAttempt, consumer: str, queue: str, redelivered: bool, what: str) -> None:
        if redelivered or queue not in attempt.queues:
            return
        key = (f"{consumer}/{queue}", attempt.publisher)
        last = self._last.get(key, 0)
        if attempt.number < last:
            text = f"{what}: message {last} of its publisher went first"
            self._world.schedule(UNDER_WAY_MS + 1, lambda: self._judge_order(attempt, queue, text))
        self._last[key] = max(last, attempt.number)

    def _judge_order(self, attempt: PublishAttempt, queue: str, text: str) -> None:
        """It came out of order a while ago; that was wrong if nothing was requeued since it was published."""
        times_ms = [*self.record(queue).shaken_ms, *self._world.disruptions_ms]
        if not any(time_ms + UNDER_WAY_MS >= attempt.sent_ms for time_ms in times_ms):
            self._complain("order kept", text)

    # -- at the end

    def lost(self) -> str:
        """A promised message that never came; "" if all came."""
        for attempt in self.attempts.values():
            if attempt.state != CONFIRMED or attempt.returned:
                continue
            for queue in attempt.queues:
                copy = self.deliveries.get((attempt.number, queue))
                what = f"message {attempt.number}, confirmed for '{queue}' on {self.record(queue).node},"
                if (copy is None or copy.count == 0) and not self._excused(attempt, queue):
                    return f"{what} never came"
                target = self.dead_letter_queues.get(queue)
                if copy is not None and copy.rejected and not copy.acked and target is not None:
                    kept = self._excused(attempt, queue) or self._excused(attempt, target)
                    if (attempt.number, target) not in self.deliveries and not kept:
                        return f"{what} was rejected and never came to '{target}'"
        return ""

    def _excused(self, attempt: PublishAttempt, queue: str) -> bool:
        record = self.record(queue)
        if queue == LOOSE or record.purges_open or max(record.deleted_ms, record.purged_ms) >= attempt.sent_ms:
            return True
        if record.deleted_revision > attempt.known_revision:
            return True
        lasts = attempt.persistent and record.durable
        alone_ms = 0 if record.in_sync else self._node_ended_ms[record.node]
        if not lasts and max(record.forsaken_ms, alone_ms) >= attempt.sent_ms:
            return True
        # a transient queue may have been gone at the publish: only a mandatory message tells
        return not record.durable and not (attempt.mandatory and attempt.queues == (queue,))

    def _complain(self, rule: str, text: str) -> None:
        self._world.checkers.complain(rule, text)


def _shown(body: bytes) -> str:
    return f"message {body[:NUMBER_DIGITS].decode(errors='replace').lstrip('0')}"
