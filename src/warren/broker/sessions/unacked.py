"""The ledger of one channel's unacked deliveries.

Delivery tags grow by one, so the ledger is a list indexed by `tag - first_tag`. A head index moves past settled
deliveries, and the list is compacted when half of it is settled. Recording, finding and settling a delivery cost a few
nanoseconds each, for any backlog. If a few old deliveries stay outstanding while later ones are settled, they move to a
dict (stragglers), so that they do not keep the list long.

Invariants, asserted by `check`: `count` deliveries are outstanding, among the stragglers or at or after `head`;
stragglers have lower tags than the list, in ascending order; `first_tag + len(entries) == next_tag` whenever a delivery
is outstanding.

Not here: basic.ack and the other methods (`broker.sessions.acks`), the encoding of a delivery
(`broker.sessions.output`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.message import Entry
from warren.broker.model.ports import ConsumerPort, QueuePort
from warren.broker.sessions.counters import DeliveryCounter
from warren.errors import InvariantBroken
from warren.wire.field_tables import Table

COMPACT_FROM: Final[i64] = 1024
SPARSE_FROM: Final[i64] = 4096
SPAN_MS: Final[i64] = 250
SPANS_MAX: Final = 2048


@final
class UnackedDelivery:
    """One delivery, taken out of the ledger."""

    def __init__(self, tag: int, entry: Entry, consumer: "AckingConsumer") -> None:
        self.tag: int = tag
        self.entry: Entry = entry
        self.consumer: AckingConsumer = consumer


@final
class UnackedDeliveries:
    """Unacked deliveries by tag."""

    def __init__(self) -> None:
        self.next_tag: i64 = 1
        self.count: i64 = 0
        # deliveries to consumers (not to basic.get) that are not settled; those acked in an open transaction count
        self.consumers_unacked: i64 = 0
        self._head: i64 = 0
        self._first_tag: i64 = 1
        self._entries: list[Entry | None] = []
        self._consumers: list[AckingConsumer | None] = []
        self._stragglers: dict[int, UnackedDelivery] = {}
        # deliveries are grouped into spans of time, so that the age of each is roughly known without storing its time:
        # the first tag of every span, and the time of its last delivery; the latest span is open and has no end yet
        self._span_tags: list[int] = []
        self._span_ends_ms: list[int] = []
        self._span_began_ms: i64 = 0
        self._recorded_ms: i64 = 0

    def record(self, entry: Entry, consumer: "AckingConsumer", now_ms: i64) -> i64:
        """Add a delivery that awaits its ack; its tag."""
        tag = self.next_tag
        if self.count == 0:
            self._restart(tag)
            self._span_tags = []
            self._span_ends_ms = []
            self._span_began_ms = 0
        if now_ms - self._span_began_ms >= SPAN_MS:
            self._begin_span(tag, now_ms)
        self._recorded_ms = now_ms
        self._entries.append(entry)
        self._consumers.append(consumer)
        self.count += 1
        self.next_tag = tag + 1
        return tag

    def skip(self) -> i64:
        """The tag of a delivery that needs no ack."""
        tag = self.next_tag
        self.next_tag = tag + 1
        if self.count != 0:
            self._entries.append(None)
            self._consumers.append(None)
            if len(self._entries) >= SPARSE_FROM:
                self._thin_out()
        return tag

    def has(self, tag: i64) -> bool:
        if tag < self._first_tag:
            return int(tag) in self._stragglers
        index: i64 = tag - self._first_tag
        return index < len(self._entries) and self._entries[index] is not None

    def ack(self, tag: i64) -> bool:
        """Ack one delivery; False if it is not outstanding."""
        index: i64 = tag - self._first_tag
        if tag < self._first_tag or index >= len(self._entries) or self._entries[index] is None:
            straggler = self._stragglers.pop(int(tag), None) if self._stragglers else None
            if straggler is None:
                return False
            self.count -= 1
            straggler.consumer.acked(straggler.entry)
            return True
        self._ack_at(index)
        if index == self._head:
            self._advance()
        return True

    def ack_to(self, tag: i64) -> None:
        """Ack every delivery up to `tag`, oldest first; 0 means all."""
        if self._stragglers:
            for delivery in self._take_out_stragglers(tag):
                delivery.consumer.acked(delivery.entry)
        index: i64 = self._head
        end: i64 = self._end_of(tag)
        while index < end:
            if self._entries[index] is not None:
                self._ack_at(index)
            index += 1
        self._advance()

    def take_out(self, tag: i64) -> UnackedDelivery:
        """Remove one outstanding delivery, to settle it later or put it back."""
        if tag < self._first_tag:
            self.count -= 1
            return self._stragglers.pop(int(tag))
        index: i64 = tag - self._first_tag
        taken = self._take_out_at(index)
        if index == self._head:
            self._advance()
        return taken

    def take_out_to(self, tag: i64) -> list[UnackedDelivery]:
        """Remove every outstanding delivery up to `tag`, oldest first; 0 means all."""
        taken = self._take_out_stragglers(tag)
        index: i64 = self._head
        end: i64 = self._end_of(tag)
        while index < end:
            if self._entries[index] is not None:
                taken.append(self._take_out_at(index))
            index += 1
        self._advance()
        return taken

    def outstanding(self) -> list[tuple[Entry, "AckingConsumer"]]:
        """Every outstanding entry, with its consumer."""
        found = [(one.entry, one.consumer) for one in self._stragglers.values()]
        for place in range(int(self._head), len(self._entries)):
            entry, consumer = self._entries[place], self._consumers[place]
            if entry is not None and consumer is not None:
                found.append((entry, consumer))
        return found

    def put_back(self, deliveries: list[UnackedDelivery]) -> None:
        """Undo `take_out`: the deliveries are outstanding again under their old tags."""
        outstanding = sorted(deliveries + self.take_out_to(0), key=tag_of)
        self._restart(self.next_tag)
        self._stragglers = {delivery.tag: delivery for delivery in outstanding}
        self.count = len(outstanding)

    def overdue_tag(self, before_ms: i64) -> i64:
        """The highest tag certainly delivered before `before_ms` if a delivery that old is outstanding, else 0."""
        last: i64 = 0
        for position in range(len(self._span_tags)):
            following = position + 1
            if following == len(self._span_tags):
                if self._recorded_ms < before_ms:
                    last = self.next_tag - 1
            elif self._span_ends_ms[position] < before_ms:
                last = i64(self._span_tags[following]) - 1
            else:
                break
        return last if self.count and last >= self._oldest_tag() else 0

    def check(self) -> None:
        alive = sum([1 for entry in self._entries if entry is not None]) + len(self._stragglers)
        if alive != self.count:
            raise InvariantBroken(f"ledger counts {self.count} unacked but holds {alive}")
        if self.count and self._first_tag + len(self._entries) != self.next_tag:
            raise InvariantBroken("ledger indexes do not follow its tags")
        stragglers = list(self._stragglers)
        if stragglers != sorted(stragglers) or (stragglers and stragglers[-1] >= self._first_tag):
            raise InvariantBroken("stragglers are out of order")
        if len(self._entries) != len(self._consumers):
            raise InvariantBroken("ledger entries and consumers differ in number")
        head = self._entries[: self._head]
        if any(entry is not None for entry in head):
            raise InvariantBroken("an outstanding delivery is before the ledger's head")

    def _end_of(self, tag: i64) -> i64:
        """The list index after the delivery `tag`; 0 means all."""
        size: i64 = len(self._entries)
        if tag == 0:
            return size
        return min(max(tag - self._first_tag + 1, 0), size)

    def _ack_at(self, index: i64) -> None:
        entry, consumer = self._entries[index], self._consumers[index]
        self._entries[index] = None
        self._consumers[index] = None
        self.count -= 1
        if entry is not None and consumer is not None:
            consumer.acked(entry)

    def _take_out_at(self, index: i64) -> UnackedDelivery:
        entry, consumer = self._entries[index], self._consumers[index]
        if entry is None or consumer is None:
            raise InvariantBroken(f"no delivery at ledger index {index}")
        self._entries[index] = None
        self._consumers[index] = None
        self.count -= 1
        return UnackedDelivery(int(self._first_tag + index), entry, consumer)

    def _take_out_stragglers(self, tag: i64) -> list[UnackedDelivery]:
        if not self._stragglers:
            return []
        taken: list[UnackedDelivery] = []
        for delivery in self._stragglers.values():
            if tag != 0 and delivery.tag > tag:
                break
            taken.append(delivery)
        for delivery in taken:
            del self._stragglers[delivery.tag]
        self.count -= len(taken)
        return taken

    def _oldest_tag(self) -> i64:
        for tag in self._stragglers:
            return tag
        return self._first_tag + self._head

    def _restart(self, first_tag: i64) -> None:
        """Begin the list at `first_tag`; nothing in it is outstanding."""
        self._entries = []
        self._consumers = []
        self._head = 0
        self._first_tag = first_tag

    def _advance(self) -> None:
        """Move the head past settled deliveries; compact the list if half of it is settled."""
        head = self._head
        size: i64 = len(self._entries)
        while head < size and self._entries[head] is None:
            head += 1
        self._head = head
        assert self.count >= 0, "a delivery leaves the ledger once"
        if head >= COMPACT_FROM and head * 2 >= size:
            del self._entries[:head]
            del self._consumers[:head]
            self._first_tag += head
            self._head = 0

    def _begin_span(self, tag: i64, now_ms: i64) -> None:
        if self._span_tags:
            self._span_ends_ms.append(int(self._recorded_ms))
        self._span_tags.append(int(tag))
        self._span_began_ms = now_ms
        oldest = self._oldest_tag()
        while len(self._span_tags) > 1 and self._span_tags[1] <= oldest:
            del self._span_tags[0]
            del self._span_ends_ms[0]
        if len(self._span_tags) > SPANS_MAX:
            # merge spans in pairs: ages become coarser, and a timeout late rather than early
            self._span_tags = self._span_tags[::2]
            self._span_ends_ms = self._span_ends_ms[1::2]
        if len(self._entries) >= SPARSE_FROM:
            self._thin_out()

    def _thin_out(self) -> None:
        """If few deliveries of a long list are outstanding, make them stragglers and begin a new list."""
        if (self.count - len(self._stragglers)) * 8 < len(self._entries):
            stragglers = self._stragglers
            self._stragglers = {}
            self.count -= len(stragglers)
            for delivery in self.take_out_to(0):
                stragglers[delivery.tag] = delivery
            self._stragglers = stragglers
            self.count = len(stragglers)
            self._restart(self.next_tag)


class AckingConsumer(ConsumerPort):
    """The part of a consumer that the ledger calls."""

    def __init__(
        self,
        tag: str,
        no_ack: bool,
        exclusive: bool,
        priority: i64,
        arguments: Table,
        queue: QueuePort,
        counter: DeliveryCounter,
        ledger: UnackedDeliveries,
    ) -> None:
        super().__init__(tag, no_ack, exclusive, priority, arguments)
        self.queue: QueuePort = queue
        self.counter: DeliveryCounter = counter
        self.ledger: UnackedDeliveries = ledger
        self.unacked: i64 = 0
        # deliveries to basic.get do not count for the prefetch limit
        self.subscribed: bool = tag != ""

    @final
    def acked(self, entry: Entry) -> None:
        """Count and settle the ack of one delivery."""
        counter = self.counter
        if not counter.due:
            counter.begin()
        counter.acked += 1
        assert self.unacked > 0, "a delivery is settled once"
        self.unacked -= 1
        if self.subscribed:
            self.ledger.consumers_unacked -= 1
        self.queue.ack(entry)

    @final
    def settled(self) -> None:
        """One delivery is no longer outstanding: rejected or requeued."""
        assert self.unacked > 0, "a delivery is settled once"
        self.unacked -= 1
        if self.subscribed:
            self.ledger.consumers_unacked -= 1


def tag_of(delivery: UnackedDelivery) -> int:
    return delivery.tag


def requeue_all(deliveries: list[UnackedDelivery]) -> None:
    """Requeue deliveries in delivery order, with one call for each queue."""
    by_queue: dict[QueuePort, list[Entry]] = {}
    for delivery in deliveries:
        delivery.consumer.settled()
        by_queue.setdefault(delivery.consumer.queue, []).append(delivery.entry)
    for queue, entries in by_queue.items():
        queue.requeue(entries)
