"""The ports between sessions, queues and the journal.

A session holds a `QueuePort` and does not know whether the queue is local, on another node or mirrored. An operation
that cannot complete at once completes later: the queue calls a waiter, or puts the session on `Turn.inputs`. A queue
sees a `ConsumerPort`, never a channel or a socket, and writes its messages to a `QueueLog`.

Not here: the queue (`broker.queues.queue`), the consumer (`broker.sessions.consumers`), routing (`broker.routing`),
operations of a queue on another node (`broker.model.remote_queue`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, mypyc_attr, trait

from warren.broker.model.deduplication import DeduplicationWindow
from warren.broker.model.journal import PositionRange, SegmentExtent
from warren.broker.model.message import Entry, Message
from warren.broker.model.reader_positions import OffsetTable
from warren.broker.model.stats import QueueStats
from warren.errors import InvariantBroken
from warren.wire.field_tables import Table

# The result of a publish to a queue. Results are bits, so the results of several queues combine by `|`.

SETTLED: Final[i64] = 0
"""The message is as safe as the queue promises: it may be confirmed at once."""

REJECTED: Final[i64] = 1
"""The queue is full and refused the message: the publisher gets a nack."""

PENDING: Final[i64] = 2
"""The queue took the message. It may be confirmed after this turn's batch is flushed."""

AWAITED: Final[i64] = 4
"""The result comes later, by `PublishWaiter`: the queue is on another node (`broker.model.remote_queue`), or may be
about to be deleted (`PublishHold`). The rare results start with this bit: `>= AWAITED` finds them in one comparison."""

UNREACHABLE: Final[i64] = 8
"""The queue's node is down. `REJECTED` is set, too."""

CONGESTED: Final[i64] = 16
"""The link to the queue's node is congested: the publisher must wait before it publishes more."""


@trait
class PartitionConsumerListener:
    """The consumer of a partitioned stream, which has one consumer in each partition."""

    @abstractmethod
    def partition_delivered(self, message: Message) -> None:
        """A partition delivered this message."""

    @abstractmethod
    def partition_cancelled(self) -> None:
        """The partition was deleted, or its node is down."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ConsumerPort:
    """A consumer, as its queue sees it."""

    def __init__(self, tag: str, no_ack: bool, exclusive: bool, priority: i64, arguments: Table) -> None:
        self.tag: str = tag
        self.no_ack: bool = no_ack
        self.exclusive: bool = exclusive
        self.priority: i64 = priority
        self.arguments: Table = arguments
        # of a mirrored queue: the epoch of the master that delivers
        self.epoch: i64 = 0
        # takes no messages: it is about to be cancelled, or the client does not have its consume-ok yet
        self.stopped: bool = False

    @abstractmethod
    def able(self) -> bool:
        """Whether it can take one more message now: prefetch, channel.flow, and space in the connection's output."""

    @abstractmethod
    def deliver(self, entry: Entry) -> None:
        """Take this entry. Unless `no_ack`, the queue gets an `ack`, `requeue` or `reject` for it later."""

    @abstractmethod
    def cancelled(self) -> None:
        """The queue was deleted: send basic.cancel to the client, and remove the consumer."""

    def ended(self) -> None:
        """The queue cannot serve this consumer, but stays: send basic.cancel, and remove the consumer."""
        self.cancelled()

    def client(self) -> "ConsumerPort":
        """The client's own consumer, that this one may represent."""
        return self

    def moved(self, queue: "QueuePort") -> None:
        """Another queue object replaces its queue: acks and rejects go there from here on."""
        return

    def unacked_max(self) -> int:
        """Its own prefetch limit, without that of its channel; 0 for no limit."""
        return 0

    def partition_consumer(
        self, queue: "QueuePort", arguments: Table, listener: PartitionConsumerListener
    ) -> "ConsumerPort":
        """A consumer of one partition, `queue`, that delivers to the same client."""
        raise InvariantBroken("only a client's consumer can consume from partitions")


@trait
class PublishWaiter:
    """Waits for the results of publishes that were `AWAITED`, one or several, in the order they were sent."""

    @abstractmethod
    def settled(self, count: i64) -> None:
        """The next `count` publishes are decided: safe, except those that `refused` reported before."""

    @abstractmethod
    def refused(self, place: i64) -> None:
        """The publish with this `place` was refused. A later `settled` counts it, too."""

    def doubted(self, place: i64) -> None:
        """The outcome of the publish with this `place` is unknown. A client gets a nack, as for a refused one."""
        self.refused(place)

    @abstractmethod
    def lost(self, reason: str) -> None:
        """The outcome of all publishes that are not settled will stay unknown."""


class PublishHold:
    """Holds the publishes to a queue while the deletion of the queue is undecided."""

    def __init__(self) -> None:
        # the deletion is decided
        self.over: bool = False

    @abstractmethod
    def keep(self, message: Message) -> i64:
        """Take a message for the queue; the result is that of `QueuePort.publish`."""

    @abstractmethod
    def await_settlement(self, waiter: PublishWaiter, place: i64) -> None:
        """Report the outcome of the last message kept; `place` is the waiter's number for it."""

    @abstractmethod
    def await_end(self, waiter: "OutputPort") -> bool:
        """Put the waiter on `Turn.inputs` when every node knows the decision; False if every node knows it already."""

    @abstractmethod
    def gone(self) -> None:
        """The queue was deleted."""


class QueuePort:
    """A queue or stream: local, on another node, or mirrored."""

    def __init__(
        self, vhost: str, name: str, durable: bool, exclusive: bool, auto_delete: bool, arguments: Table, owner_id: int
    ) -> None:
        self.vhost: str = vhost
        self.name: str = name
        self.durable: bool = durable
        self.exclusive: bool = exclusive
        self.auto_delete: bool = auto_delete
        self.arguments: Table = arguments
        # the connection that owns an exclusive queue; 0 if it is not exclusive
        self.owner_id: int = owner_id
        # the metadata revision that created it; 0 if it has none
        self.queue_id: int = 0
        self.deleted: bool = False
        # holds publishes while the deletion of the queue is undecided
        self.held_publishes: PublishHold | None = None
        # the counters that sessions keep; `stats` adds those of the queue itself
        self.counted: QueueStats = QueueStats()
        # messages that no channel published: dead letters, firehose traces, messages from other nodes
        self.uncounted: i64 = 0
        # the time of the last delivery, get or ack; 0 for never
        self.taken_at_ms: i64 = 0
        # the names of its policies, empty for none, and the merged definition; the table is shared: do not change it
        self.policy: str = ""
        self.operator_policy: str = ""
        self.effective_policy: Table = {}

    # -- contents

    @abstractmethod
    def publish(self, message: Message) -> i64:
        """Take a message; the result is a combination of the bits above."""

    def answers_later(self) -> bool:
        """Whether the result of the last publish was `AWAITED`."""
        return self.held_publishes is not None and not self.held_publishes.over

    def await_settlement(self, waiter: PublishWaiter, place: i64) -> None:
        """Report the outcome of the last publish, which was `AWAITED`; `place` is the waiter's number for it."""
        assert self.held_publishes is not None, "answers_later() was true"
        self.held_publishes.await_settlement(waiter, place)

    @abstractmethod
    def can_get(self) -> bool:
        """Whether `get` can answer now. If not, the entry is being read from disk: use `await_entry`."""

    @abstractmethod
    def await_entry(self, waiter: "OutputPort") -> None:
        """Put the waiter on `Turn.inputs` once the first entry is in memory."""

    @abstractmethod
    def get(self, no_ack: bool) -> Entry | None:
        """The first ready entry, if there is one. Unless `no_ack` it is unacked from here on."""

    @abstractmethod
    def ack(self, entry: Entry) -> None:
        """Remove an unacked entry."""

    @abstractmethod
    def requeue(self, entries: list[Entry]) -> None:
        """Return unacked entries to their positions, marked redelivered."""

    @abstractmethod
    def reject(self, entry: Entry) -> None:
        """Dead-letter or drop an unacked entry that was rejected without requeue."""

    @abstractmethod
    def dead_letter_published(self, entry: Entry) -> None:
        """The queues of the dead-letter exchange hold this entry's message: remove the entry from the log."""

    @abstractmethod
    def purge(self) -> int:
        """Drop every ready message, and return how many."""

    def check_usable(self) -> None:
        """Raise a `ChannelFault` if the queue was stopped by an error, so that it can only be deleted."""
        return

    # -- consumers

    @abstractmethod
    def add_consumer(self, consumer: ConsumerPort) -> None:
        """Subscribe; a `ChannelFault` if the queue has an exclusive consumer."""

    @abstractmethod
    def remove_consumer(self, consumer: ConsumerPort) -> None:
        """Unsubscribe; an auto-delete queue is deleted with its last consumer."""

    def begins_at(self, consumer: ConsumerPort) -> i64:
        """The first offset of this reader, if the queue is a stream that knows it already; else -1."""
        return -1

    # -- the turn

    @abstractmethod
    def wake(self) -> None:
        """A consumer may be able to take more: `drain` the queue before the turn ends."""

    @abstractmethod
    def drain(self) -> None:
        """Deliver ready entries to able consumers. The broker calls it for every queue that `wake` marked."""

    @abstractmethod
    def touch(self) -> None:
        """Restart the idle timer of `x-expires`: the queue was used."""

    # -- stats

    @property
    def stats(self) -> QueueStats:
        """Publish and delivery counters since the queue was created."""
        return self.counted

    @abstractmethod
    def ready_count(self) -> int: ...

    @abstractmethod
    def unacked_count(self) -> int: ...

    @abstractmethod
    def consumer_count(self) -> int: ...


@trait
class FetchWaiter:
    """A queue that waits for its log."""

    @abstractmethod
    def paged_in(self, entries: list[Entry]) -> None:
        """The first entries of the requested range. If they are fewer than its count, fetch the rest again."""

    @abstractmethod
    def delivery_allowed(self) -> None:
        """Deliveries that `QueueLog.mark_delivered` or `QueueLog.serves` refused are allowed now."""

    @abstractmethod
    def stop(self, reason: str) -> None:
        """The files are damaged: deliver no more messages, and take no more."""


UNKNOWN_POSITION: Final[i64] = -1
LOST_POSITION: Final[i64] = -2
"""Instead of a position: not known yet; or files are missing, so the rest does not match the other replicas."""


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueLog:
    """The part of the journal that belongs to one queue.

    `durable`: the queue, and so its persistent messages, survive a restart of the node.
    """

    def __init__(self, durable: bool) -> None:
        self.durable: bool = durable
        # replicated to mirrors: the log must see every entry that is delivered, returned or removed
        self.mirrored: bool = False
        # messages written since the queue was created
        self.written_count: i64 = 0
        # the queue, to be told when a delivery that was refused is allowed
        self.asker: FetchWaiter | None = None
        # the publishing ids of its messages, and the stored offsets of its readers
        self.seen: DeduplicationWindow = DeduplicationWindow()
        self.offsets: OffsetTable = OffsetTable()
        # of a mirrored stream: this replica's archive files hold everything up to this position
        self.archived_to: i64 = UNKNOWN_POSITION

    @abstractmethod
    def store(self, message: Message, position: i64, expires_at_ms: i64, level: i64) -> SegmentExtent:
        """Write a message, and return the extent that counts it. Consecutive calls with one message share a record."""

    @abstractmethod
    def forget(self, entry: Entry) -> None:
        """Remove an entry that has an extent."""

    @abstractmethod
    def forget_unread(self, positions: PositionRange) -> None:
        """Remove all entries of a range without reading them."""

    @abstractmethod
    def returned(self, entry: Entry) -> None:
        """Write the delivery count of a requeued entry, for a queue with a delivery limit."""

    @abstractmethod
    def mark_delivered(self, entry: Entry) -> bool:
        """Whether an entry with a durable extent may be delivered now; if not, `FetchWaiter.delivery_allowed` follows.

        After a crash such an entry must be marked redelivered, so the log writes the delivery watermark first.
        """

    def serves(self) -> bool:
        """Whether no other node can be delivering this queue's messages; if not, `FetchWaiter.delivery_allowed`
        follows.
        """
        return True

    def kept(self) -> tuple[int, int]:
        """How many of its messages survive a restart, and the bytes of their bodies."""
        return 0, 0

    def store_offset(self, name: str, offset: i64) -> None:
        """Store the offset of a named reader; `NO_OFFSET` removes the name."""
        self.offsets.keep(name, offset)

    def stored_offsets(self) -> dict[str, int]:
        return self.offsets.by_name

    @abstractmethod
    def fetch(self, positions: PositionRange, asker: FetchWaiter, entries_max: i64) -> None:
        """Read some of the first entries of a range; `FetchWaiter.paged_in` follows, in this turn or later."""

    @abstractmethod
    def cancel_fetch(self) -> None:
        """The queue no longer needs the entries that it fetches."""

    def all_is_read(self) -> None:
        """The queue has no entries on disk only: drop the index that finds them."""

    @abstractmethod
    def close(self) -> None:
        """The queue was deleted: remove all its messages."""


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueLogs:
    """The journal, as the code that creates queues sees it."""

    @abstractmethod
    def open(self, queue_id: int, durable: bool, max_priority: int) -> QueueLog:
        """The log of a new queue, or of a queue that was recovered when the node started."""

    def forget_past(self, queue_id: int) -> None:
        """A closed log's queue may be opened here again: make sure that its old messages do not come back."""
        return

    def may_open(self, queue_id: int) -> bool:
        """Whether the old messages of this queue are certain not to come back."""
        return True


@mypyc_attr(allow_interpreted_subclasses=True)
class OutputPort:
    """A connection, or another object, that has output to write, or waits for input, in a turn."""

    @abstractmethod
    def flush(self) -> None: ...

    def go_on(self) -> None:
        """The object was on `Turn.inputs`: what it waits for is there. (The broker resumes connections itself.)"""
        return


@final
class DeadLetter:
    """A message on its way from a queue to that queue's dead-letter exchange."""

    def __init__(self, queue: QueuePort, entry: Entry, reason: str, exchange: str, routing_key: str | None) -> None:
        self.queue = queue
        self.entry = entry
        # rejected, expired, maxlen or delivery_limit
        self.reason = reason
        self.exchange = exchange
        # None: the routing keys of the publish
        self.routing_key = routing_key
