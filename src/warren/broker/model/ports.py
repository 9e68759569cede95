"""The seams between rooms: what a channel asks of a queue, what a queue asks of a consumer.

A queue may live on another node or be mirrored; a session does not know. It holds a `QueuePort` and is told later
what a queue could not answer at once. A queue in turn sees a `Consumer`, never a channel or a socket.

Not here: the queue itself (`broker.queues.queue`), the consumer's side (`broker.sessions.consumers`), routing
(`routing`).
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

# What a queue says to a publish. These are bits: what several queues said to one publish comes together by `|`.

SETTLED: Final[i64] = 0
"""The queue holds the message as safely as it promises to: it may be confirmed."""

REJECTED: Final[i64] = 1
"""The queue is full and refuses: nack it."""

PENDING: Final[i64] = 2
"""The queue took it, and will hold it safely once this turn's batch is on disk."""

AWAITED: Final[i64] = 4
"""It is on its way to the queue, which lives elsewhere (`broker.model.remote_queue`), or waits because the queue may be
about to go
(`PublishHold`). What says more than this is greater."""

UNREACHABLE: Final[i64] = 8
"""The node where the queue lives is not there, so it is `REJECTED`, too."""

CONGESTED: Final[i64] = 16
"""So much is on its way there that whoever published this is to wait before it publishes more."""


@trait
class PartitionConsumerListener:
    """Whoever has a consumer take part in one of several queues that are one to its client."""

    @abstractmethod
    def partition_delivered(self, message: Message) -> None:
        """It was given this."""

    @abstractmethod
    def partition_cancelled(self) -> None:
        """Its queue is gone, or out of reach."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ConsumerPort:
    """Whoever takes messages from a queue, as the queue sees it."""

    def __init__(self, tag: str, no_ack: bool, exclusive: bool, priority: i64, arguments: Table) -> None:
        self.tag: str = tag
        self.no_ack: bool = no_ack
        self.exclusive: bool = exclusive
        self.priority: i64 = priority
        self.arguments: Table = arguments
        # of the master that delivers, if the queue is mirrored
        self.epoch: i64 = 0
        # it takes nothing more, or nothing yet, though its queue may know it
        self.stopped: bool = False

    @abstractmethod
    def able(self) -> bool:
        """Whether it can take one more message now: prefetch, flow, and room in its connection's output."""

    @abstractmethod
    def deliver(self, entry: Entry) -> None:
        """Take this entry; unless `no_ack`, it comes back by `ack`, `requeue` or `reject`."""

    @abstractmethod
    def cancelled(self) -> None:
        """The queue is gone: tell the client, forget the consumer."""

    def ended(self) -> None:
        """The queue cannot serve it, and goes on without it: tell the client, forget the consumer."""
        self.cancelled()

    def moved(self, queue: "QueuePort") -> None:
        """Another takes its queue's place: whatever it does from here on it does there."""
        return

    def unacked_max(self) -> int:
        """How many unacked it takes at most, whatever others of its client have; 0 for no limit."""
        return 0

    def partition_consumer(
        self, queue: "QueuePort", arguments: Table, keeper: PartitionConsumerListener
    ) -> "ConsumerPort":
        """One that takes a queue's messages in its name."""
        raise InvariantBroken("only a client's consumer has parts")


@trait
class PublishWaiter:
    """Whoever waits for the fate of publishes to a distant queue, one or several, in the order they were sent."""

    @abstractmethod
    def settled(self, count: i64) -> None:
        """The next `count` of them are decided: held as safely as the queue promises, but for those refused before."""

    @abstractmethod
    def refused(self, place: i64) -> None:
        """The one it gave this place was refused; `settled` will pass over it."""

    def doubted(self, place: i64) -> None:
        """Nobody knows what became of the one it gave this place: to a client that is refused as well."""
        self.refused(place)

    @abstractmethod
    def lost(self, reason: str) -> None:
        """Nothing will be known of those that are not settled."""


class PublishHold:
    """What comes to a queue while it is not decided whether the queue goes."""

    def __init__(self) -> None:
        # it is decided
        self.over: bool = False

    @abstractmethod
    def keep(self, message: Message) -> i64:
        """Take a message on behalf of the queue, as `QueuePort.publish` does."""

    @abstractmethod
    def await_settlement(self, waiter: PublishWaiter, place: i64) -> None:
        """Tell the waiter what becomes of what was kept last; `place` is its own number for it."""

    @abstractmethod
    def await_end(self, waiter: "OutputPort") -> bool:
        """Put the waiter on `Turn.inputs` when it is decided, and every node knows; False if that is so."""

    @abstractmethod
    def gone(self) -> None:
        """The queue went."""


class QueuePort:
    """One queue, wherever it lives."""

    def __init__(
        self, vhost: str, name: str, durable: bool, exclusive: bool, auto_delete: bool, arguments: Table, owner_id: int
    ) -> None:
        self.vhost: str = vhost
        self.name: str = name
        self.durable: bool = durable
        self.exclusive: bool = exclusive
        self.auto_delete: bool = auto_delete
        self.arguments: Table = arguments
        # the connection an exclusive queue belongs to; 0 if it is not exclusive
        self.owner_id: int = owner_id
        # the revision that created it; 0 if nobody recorded one
        self.queue_id: int = 0
        self.deleted: bool = False
        # where publishes go while it is not decided whether the queue does
        self.held_publishes: PublishHold | None = None
        # what sessions counted; `figures` has the rest, too
        self.counted: QueueStats = QueueStats()
        # messages that came to it by another way than a channel's publish
        self.uncounted: i64 = 0
        # when something was last taken from it, or acked; 0 for never
        self.taken_at_ms: i64 = 0
        # the policies that count for it, empty for none, and what they say together; shared, so never changed
        self.policy: str = ""
        self.operator_policy: str = ""
        self.effective_policy: Table = {}

    # -- contents

    @abstractmethod
    def publish(self, message: Message) -> i64:
        """Take a message; what came of it, in the bits above."""

    def answers_later(self) -> bool:
        """Whether what was published last was `AWAITED`."""
        return self.held_publishes is not None and not self.held_publishes.over

    def await_settlement(self, waiter: PublishWaiter, place: i64) -> None:
        """Tell the waiter what becomes of what was published last; `place` is its own number for it."""
        assert self.held_publishes is not None, "it said that it answers later"
        self.held_publishes.await_settlement(waiter, place)

    @abstractmethod
    def at_hand(self) -> bool:
        """Whether `get` can answer now; if not, the entry is being read from disk, and `await_entry` tells when."""

    @abstractmethod
    def await_entry(self, waiter: "OutputPort") -> None:
        """Put the waiter on `Turn.inputs` once the first entry is in memory."""

    @abstractmethod
    def get(self, no_ack: bool) -> Entry | None:
        """The first ready entry, or nothing. Unless `no_ack` it counts as unacked from here on."""

    @abstractmethod
    def ack(self, entry: Entry) -> None:
        """An unacked entry was dealt with: it is gone."""

    @abstractmethod
    def requeue(self, entries: list[Entry]) -> None:
        """Unacked entries go back to their places, marked redelivered."""

    @abstractmethod
    def reject(self, entry: Entry) -> None:
        """An unacked entry was refused for good: dead-letter or drop it."""

    @abstractmethod
    def dead_letter_published(self, entry: Entry) -> None:
        """An entry that was dead-lettered has reached its exchange's queues: the disk may forget it."""

    @abstractmethod
    def purge(self) -> int:
        """Drop every ready message; how many."""

    def check_usable(self) -> None:
        """Raise a `ChannelFault` that says why if the queue was stopped, and can only be deleted."""
        return

    # -- consumers

    @abstractmethod
    def add_consumer(self, consumer: ConsumerPort) -> None:
        """Subscribe; a `ChannelFault` if the queue is held exclusively."""

    @abstractmethod
    def remove_consumer(self, consumer: ConsumerPort) -> None:
        """Unsubscribe; may end an auto-delete queue."""

    def begins_at(self, consumer: ConsumerPort) -> i64:
        """The offset with which a reader begins, if this is a stream that knows it by now; -1 otherwise."""
        return -1

    # -- the turn

    @abstractmethod
    def wake(self) -> None:
        """Something changed that may let a consumer take more: look again before the turn ends."""

    @abstractmethod
    def drain(self) -> None:
        """Hand ready entries to able consumers; called by the broker for every queue that was woken."""

    @abstractmethod
    def touch(self) -> None:
        """The queue was used: its idle expiry starts anew."""

    # -- figures

    @property
    def stats(self) -> QueueStats:
        """What it was given and gave."""
        return self.counted

    @abstractmethod
    def ready_count(self) -> int: ...

    @abstractmethod
    def unacked_count(self) -> int: ...

    @abstractmethod
    def consumer_count(self) -> int: ...


@trait
class FetchWaiter:
    """Whoever asked for entries that are on disk."""

    @abstractmethod
    def paged_in(self, entries: list[Entry]) -> None:
        """The first entries of the run that was asked for; fewer than it counts, unless they are all."""

    @abstractmethod
    def delivery_allowed(self) -> None:
        """What `QueueLog.lend` refused may go now."""

    @abstractmethod
    def stop(self, reason: str) -> None:
        """What is on disk is damaged: hand out nothing more, take nothing more."""


UNKNOWN_POSITION: Final[i64] = -1
LOST_POSITION: Final[i64] = -2
"""Instead of a position: nobody has said one; or files are missing, and what is left is no part of what others hold."""


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueLog:
    """What a queue asks of the journal; each queue has its own.

    `durable`: whether the queue outlives the node, so that its persistent messages do.
    """

    def __init__(self, durable: bool) -> None:
        self.durable: bool = durable
        # others hear of what the queue does: it is told of every entry that goes out, comes back or leaves for good
        self.mirrored: bool = False
        # how many messages were ever written
        self.written_count: i64 = 0
        # the queue: whom to tell that what could not be lent may go now
        self.asker: FetchWaiter | None = None
        # the publishing ids of its messages, and how far its readers have come
        self.seen: DeduplicationWindow = DeduplicationWindow()
        self.offsets: OffsetTable = OffsetTable()
        # of a stream that several nodes hold: up to this position it is in this one's files
        self.archived_to: i64 = UNKNOWN_POSITION

    @abstractmethod
    def store(self, message: Message, position: i64, expires_at_ms: i64, level: i64) -> SegmentExtent:
        """Write a message; where it is counted. Queues that store one message one after another share its record."""

    @abstractmethod
    def forget(self, entry: Entry) -> None:
        """An entry with a holding left its queue for good."""

    @abstractmethod
    def forget_run(self, run: PositionRange) -> None:
        """All entries of a run left their queue unread."""

    @abstractmethod
    def returned(self, entry: Entry) -> None:
        """Remember how often an entry came back, for a queue with a delivery limit."""

    @abstractmethod
    def mark_delivered(self, entry: Entry) -> bool:
        """Whether an entry with a durable holding may be handed out now; if not, `FetchWaiter.lent` follows.

        After a crash an entry that may have been handed out must be known, so that is written down first.
        """

    def serves(self) -> bool:
        """Whether nobody else can be handing out what this one has; if not, `FetchWaiter.lent` follows when that is
        so.
        """
        return True

    def kept(self) -> tuple[int, int]:
        """How many of its messages are still there after a restart, and the bytes of their bodies."""
        return 0, 0

    def remember(self, name: str, offset: i64) -> None:
        """Keep an offset for a reader while the queue lives; the last of a name counts, and `NOWHERE` ends it."""
        self.offsets.keep(name, offset)

    def remembered(self) -> dict[str, int]:
        return self.offsets.by_name

    @abstractmethod
    def fetch(self, run: PositionRange, asker: FetchWaiter, entries_max: i64) -> None:
        """Read some of the first entries of a run; `FetchWaiter.paged_in` answers, in this turn or later."""

    @abstractmethod
    def cancel_fetch(self) -> None:
        """What was asked for is wanted no more."""

    def all_is_read(self) -> None:
        """Nothing is left to fetch: what was remembered to find it is of no use."""

    @abstractmethod
    def close(self) -> None:
        """The queue is gone, with all it had."""


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueLogs:
    """The journal, as whoever makes queues sees it."""

    @abstractmethod
    def open(self, queue_id: int, durable: bool, max_priority: int) -> QueueLog:
        """The log of a new queue, or of one that was there before the node started."""

    def forget_past(self, queue_id: int) -> None:
        """A log was closed whose queue may be opened here again: what it had must not come back with that."""
        return

    def may_open(self, queue_id: int) -> bool:
        """Whether that is certain by now."""
        return True


@mypyc_attr(allow_interpreted_subclasses=True)
class OutputPort:
    """A connection with bytes (or confirms) to write before the turn ends."""

    @abstractmethod
    def flush(self) -> None: ...

    def go_on(self) -> None:
        """What it waited for on `Turn.inputs` is there; a connection's input is gone on with at the door instead."""
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
        # None: the keys it was published with
        self.routing_key = routing_key
