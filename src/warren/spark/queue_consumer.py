"""The consumer of a queue, and what it knows of messages that are staged and not acked.

A staged message is *pending* until its ack is on the broker's disk. On the connection of the moment it has a tag, once
it was delivered there; one without a tag is *unclaimed*. A delivery that is an unclaimed message is not handed out: it
claims its tag, and is acked at once if Spark has committed it. After a reconnect everything pending is unclaimed.

What is committed and still unclaimed when the queue is seen to be empty will not come again (its ack had arrived after
all, or it expired), and is forgotten. No other consumer can have it, because this one is exclusive.

Invariant: a message that is pending is never handed out.

Not here: files (`spark.queue_staging`), when Spark has committed what (`spark.queue_source`).

By what a message is known when it is delivered again.

A consumer that asks for it is told with each delivery where in its queue the message stands (`x-warren-position`),
which no other message of the queue ever does. That and all else the message says is digested, so that another queue of
the same name, which counts anew, is not taken for this one.

A broker that does not tell positions says at least whether a message was delivered before; then, and only then, one
that looks the same as a staged one is taken for it.

Not here: what is done about it (`spark.queue_consumer`).
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, TypeVar

from warren.client import CannotConnect, ChannelClosed, ClientError, Delivery, blocking
from warren.errors import ACCESS_REFUSED
from warren.spark.options import BrokerOptions
from warren.wire.field_tables import Table
from warren.wire.properties import edit_headers

POSITION_HEADER: Final = "x-warren-position"
COUNT_HEADER: Final = "x-delivery-count"
"""How often a message was delivered: the one thing that differs from time to time."""

DIGEST_BYTES: Final = 16
BEFORE_FLAGS: Final = 12


@dataclass(frozen=True)
class IdentifiedDelivery:
    """A delivery, by what identifies it; `tail` is its properties from the flags on, without what was added to them."""

    delivery: Delivery
    identity: bytes
    tail: bytes
    may_be_known: bool


def identify(delivery: Delivery) -> IdentifiedDelivery:
    payload = delivery.header_payload
    if COUNT_HEADER.encode() in payload:
        payload = edit_headers(payload, [COUNT_HEADER], {})
    told = POSITION_HEADER.encode() in payload
    digest = blake2b(payload, digest_size=DIGEST_BYTES)
    for text in (delivery.exchange, delivery.routing_key):
        octets = text.encode("utf-8", "surrogateescape")
        digest.update(len(octets).to_bytes(4, "big") + octets)
    digest.update(delivery.body)
    tail = edit_headers(payload, [POSITION_HEADER], {}) if told else payload
    return IdentifiedDelivery(delivery, digest.digest(), tail[BEFORE_FLAGS:], told or delivery.redelivered)


Result = TypeVar("Result")

RETRY_DELAY_S: Final = 0.2
FLOWING_S: Final = 0.02
"""How long a queue that delivers may pause before it is taken for empty."""


CONSUME_ARGUMENTS: Final[Table] = {POSITION_HEADER: True, "x-cancel-on-ha-failover": True}
"""Another master of a mirrored queue delivers again what was not acked. On this connection that would look new."""


class IntakeError(RuntimeError):
    """Why a queue cannot be read, in one sentence."""


class QueueConsumer:
    """A queue's only consumer, which is attached again when its connection ends."""

    def __init__(self, broker: BrokerOptions, queue: str) -> None:
        self._broker = broker
        self._queue = queue
        self._connection: blocking.Connection | None = None
        # which messages are committed: those before it
        self._committed = 0
        # by offset: what identifies it, and its tag on this connection
        self._pending: dict[int, bytes] = {}
        self._tags: dict[int, int] = {}
        self._unclaimed: defaultdict[bytes, list[int]] = defaultdict(list)
        # delivered, and not looked at yet, last first; tags of what was taken and is not staged yet
        self._left: list[Delivery] = []
        self._unstaged: list[int] = []

    @property
    def pending(self) -> frozenset[int]:
        """Offsets of what is staged and not known to be acked."""
        return frozenset(self._pending)

    def know(self, first: int, identities: Iterable[bytes], committed: int) -> None:
        """These are staged, by an earlier run, and Spark has done with what is before `committed`."""
        self._committed = committed
        for offset, identity in enumerate(identities, first):
            self._pending[offset] = identity
            self._unclaimed[identity].append(offset)

    def count(self) -> int:
        """How many messages wait in the queue; asked before the consumer is attached, which gets them all."""
        return self._persist(self._count, attached=False)

    def take(self, count_max: int, bytes_max: int, wait_s: float, deadline_s: float) -> list[IdentifiedDelivery]:
        """Messages that are not staged: at most so many, waiting for the first, and for no longer than the deadline."""
        return self._persist(lambda: self._take(count_max, bytes_max, wait_s, time.monotonic() + deadline_s))

    def has_more(self) -> bool:
        """Whether the broker says that something is still to come, or has sent it meanwhile."""
        return self._persist(self._has_more)

    def staged(self, first: int, arrivals: Sequence[IdentifiedDelivery]) -> None:
        """What was taken is on disk, numbered from `first` on."""
        for offset, each in enumerate(arrivals, first):
            self._pending[offset] = each.identity
            self._tags[offset] = int(each.delivery.delivery_tag)
        self._unstaged.clear()

    def commit(self, end: int) -> None:
        """Spark has done with what is before this: ack it, and return when the broker has that on disk."""
        self._committed = max(self._committed, end)
        self._persist(self._ack_committed)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _take(self, count_max: int, bytes_max: int, wait_s: float, deadline: float) -> list[IdentifiedDelivery]:
        taken: list[IdentifiedDelivery] = []
        size = 0
        while len(taken) < count_max and size < bytes_max:
            if not self._left:
                if time.monotonic() > deadline:
                    break
                self._left = self._consumer.batch(FLOWING_S if taken else wait_s)[::-1]
                if not self._left and not taken:
                    self._forget_lost()
                if not self._left:
                    break
            each = identify(self._left.pop())
            if not self._claim(each):
                taken.append(each)
                self._unstaged.append(int(each.delivery.delivery_tag))
                size += len(each.delivery.body)
        self._ack_committed()
        return taken

    def _has_more(self) -> bool:
        waiting = self._channel.declare_queue(self._queue, passive=True).messages
        # what came before that answer
        self._left = self._left or self._consumer.batch(0.0)[::-1]
        return bool(waiting or self._left)

    def _claim(self, each: IdentifiedDelivery) -> bool:
        """Whether it is a message that is staged already."""
        offsets = self._unclaimed.get(each.identity) if each.may_be_known else None
        if not offsets:
            return False
        offset = offsets.pop(0)
        if not offsets:
            del self._unclaimed[each.identity]
        self._tags[offset] = int(each.delivery.delivery_tag)
        return True

    def _ack_committed(self) -> None:
        offsets = [offset for offset in self._tags if offset < self._committed]
        if not offsets:
            return
        tags = sorted(self._tags[offset] for offset in offsets)
        if self._holds_others_before(tags[-1], len(tags)):
            for tag in tags:
                self._channel.ack(tag)
        else:
            self._channel.ack(tags[-1], multiple=True)
        self._channel.commit()
        for offset in offsets:
            del self._tags[offset]
            del self._pending[offset]

    def _holds_others_before(self, last: int, count: int) -> bool:
        """Whether more than so many of what was delivered, up to a tag, are not acked."""
        tags = (*self._tags.values(), *self._unstaged, *(int(delivery.delivery_tag) for delivery in self._left))
        return sum(tag <= last for tag in tags) > count

    def _forget_lost(self) -> None:
        """What is committed and does not come again, though the queue is empty and has delivered everything."""
        lost = [offset for offsets in self._unclaimed.values() for offset in offsets if offset < self._committed]
        if not lost or self._channel.declare_queue(self._queue, passive=True).messages:
            return
        self._left = self._consumer.batch(0.0)[::-1]
        if self._left:
            return
        for offset in lost:
            identity = self._pending.pop(offset)
            self._unclaimed[identity].remove(offset)
            if not self._unclaimed[identity]:
                del self._unclaimed[identity]

    # the connection

    def _persist(self, step: Callable[[], Result], attached: bool = True) -> Result:
        """What a step comes to, on another connection if one ends meanwhile, until the deadline."""
        deadline = time.monotonic() + self._broker.timeout_s
        while True:
            try:
                if attached and self._connection is None:
                    self._attach()
                return step()
            except ClientError as trouble:
                self.close()
                if time.monotonic() > deadline or not _may_retry(trouble):
                    raise IntakeError(f"queue {self._queue!r} cannot be read: {trouble}") from None
                time.sleep(RETRY_DELAY_S)

    def _count(self) -> int:
        with self._connect() as connection, connection.channel() as channel:
            return channel.declare_queue(self._queue, passive=True).messages

    def _attach(self) -> None:
        self._connection = self._connect()
        self._left = []
        self._unstaged = []
        self._tags = {}
        self._unclaimed.clear()
        for offset, identity in self._pending.items():
            self._unclaimed[identity].append(offset)
        self._channel = self._connection.channel()
        self._channel.select_transactions()
        self._consumer = self._channel.consume(self._queue, exclusive=True, arguments=CONSUME_ARGUMENTS)

    def _connect(self) -> blocking.Connection:
        return blocking.connect(self._broker.url, name=f"spark source {self._queue}")


def _may_retry(trouble: ClientError) -> bool:
    """Whether it may be better in a moment: a lost connection; a consumer of the run before that is not gone yet; a
    batch that took so long that the broker gave up waiting for acks."""
    if isinstance(trouble, ChannelClosed):
        in_use = trouble.code == ACCESS_REFUSED and "exclusive" in trouble.text
        return in_use or "timed out" in trouble.text
    return trouble.retriable or isinstance(trouble, CannotConnect)
