"""The consumer of a queue, and its staged messages that are not acked.

A staged message is *pending* until its ack is on the broker's disk. On the current connection it has a tag once it was
delivered there; one without a tag is *unclaimed*. A delivery of an unclaimed message is not handed out: the message
claims its tag, and is acked at once if Spark has committed it. After a reconnect every pending message is unclaimed.

A committed message that is unclaimed when the queue is empty will not come again (its ack had arrived, or it expired),
and is forgotten. No other consumer can have it, because this one is exclusive.

Invariant: a pending message is never handed out.

**Identity.** On request the broker sends with each delivery the message's position in its queue (`x-warren-position`),
which is unique in the queue. The identity is a digest of the position and the whole message, so that another queue of
the same name, which counts anew, is not confused with this one. A broker without positions says at least whether a
message was delivered before; only then is a message with the same content as a staged one taken for it.

Not here: files (`spark.queue_staging`), Spark's commits (`spark.queue_source`).
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
"""The delivery count, the one header that differs between deliveries."""

DIGEST_BYTES: Final = 16
BEFORE_FLAGS: Final = 12


@dataclass(frozen=True)
class IdentifiedDelivery:
    """A delivery and its identity; `tail` is its properties from the flags on, without added headers."""

    delivery: Delivery
    identity: bytes
    tail: bytes
    may_be_known: bool


def identify(delivery: Delivery) -> IdentifiedDelivery:
    payload = delivery.header_payload
    if COUNT_HEADER.encode() in payload:
        payload = edit_headers(payload, [COUNT_HEADER], {})
    has_position = POSITION_HEADER.encode() in payload
    digest = blake2b(payload, digest_size=DIGEST_BYTES)
    for text in (delivery.exchange, delivery.routing_key):
        octets = text.encode("utf-8", "surrogateescape")
        digest.update(len(octets).to_bytes(4, "big") + octets)
    digest.update(delivery.body)
    tail = edit_headers(payload, [POSITION_HEADER], {}) if has_position else payload
    return IdentifiedDelivery(delivery, digest.digest(), tail[BEFORE_FLAGS:], has_position or delivery.redelivered)


Result = TypeVar("Result")

RETRY_DELAY_S: Final = 0.2
FLOWING_S: Final = 0.02
"""How long a delivering queue may pause before it counts as empty."""


CONSUME_ARGUMENTS: Final[Table] = {POSITION_HEADER: True, "x-cancel-on-ha-failover": True}
"""After a promotion the new master redelivers unacked messages, which would look new on this connection."""


class IntakeError(RuntimeError):
    """Why a queue cannot be read, in one sentence."""


class QueueConsumer:
    """The exclusive consumer of a queue, attached again when its connection ends."""

    def __init__(self, broker: BrokerOptions, queue: str) -> None:
        self._broker = broker
        self._queue = queue
        self._connection: blocking.Connection | None = None
        # messages with lower offsets are committed
        self._committed = 0
        # by offset: the identity, and the tag on this connection
        self._pending: dict[int, bytes] = {}
        self._tags: dict[int, int] = {}
        self._unclaimed: defaultdict[bytes, list[int]] = defaultdict(list)
        # delivered and not examined, in reverse order; the tags of messages that are taken and not staged
        self._left: list[Delivery] = []
        self._unstaged: list[int] = []

    @property
    def pending(self) -> frozenset[int]:
        """The offsets of staged messages that are not known to be acked."""
        return frozenset(self._pending)

    def add_staged(self, first: int, identities: Iterable[bytes], committed: int) -> None:
        """Add messages staged by an earlier run; those before `committed` are committed."""
        self._committed = committed
        for offset, identity in enumerate(identities, first):
            self._pending[offset] = identity
            self._unclaimed[identity].append(offset)

    def count(self) -> int:
        """How many messages the queue has; asked before the consumer is attached, which gets them all."""
        return self._persist(self._count, attached=False)

    def take(self, count_max: int, bytes_max: int, wait_s: float, deadline_s: float) -> list[IdentifiedDelivery]:
        """Up to `count_max` messages that are not staged; waits for the first, at most until the deadline."""
        return self._persist(lambda: self._take(count_max, bytes_max, wait_s, time.monotonic() + deadline_s))

    def has_more(self) -> bool:
        """Whether the broker reports more messages, or has sent some meanwhile."""
        return self._persist(self._has_more)

    def staged(self, first: int, arrivals: Sequence[IdentifiedDelivery]) -> None:
        """The messages that were taken are on disk, with offsets from `first`."""
        for offset, each in enumerate(arrivals, first):
            self._pending[offset] = each.identity
            self._tags[offset] = int(each.delivery.delivery_tag)
        self._unstaged.clear()

    def commit(self, end: int) -> None:
        """Ack the messages before `end`, which Spark has committed; returns when the acks are on the broker's disk."""
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
        # deliveries before that answer
        self._left = self._left or self._consumer.batch(0.0)[::-1]
        return bool(waiting or self._left)

    def _claim(self, each: IdentifiedDelivery) -> bool:
        """Whether the message is staged already."""
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
        """Whether more than `count` deliveries up to a tag are not acked."""
        tags = (*self._tags.values(), *self._unstaged, *(int(delivery.delivery_tag) for delivery in self._left))
        return sum(tag <= last for tag in tags) > count

    def _forget_lost(self) -> None:
        """Forget committed messages that do not come again although the queue is empty."""
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
        """The result of a step, on a new connection if one ends meanwhile, until the deadline."""
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
    """Whether the error is transient.

    A lost connection; a consumer of the run before that is not gone yet; an ack timeout after a long batch.
    """
    if isinstance(trouble, ChannelClosed):
        in_use = trouble.code == ACCESS_REFUSED and "exclusive" in trouble.text
        return in_use or "timed out" in trouble.text
    return trouble.retriable or isinstance(trouble, CannotConnect)
