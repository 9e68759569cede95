"""The port between a replica set and the contents of its members: one queue's messages, as a mirror has them.

A mirror delivers nothing and decides nothing. It stores the messages that the master stored, at the same positions, and
removes those that the master removed. A position belongs to one message for the life of the queue, across masters,
because each epoch has its own positions. So the contents of two members differ exactly where their positions differ. A
removed message never comes back: no member, the master included, removes a message for good before its removal is
committed.

A message is replicated and stored as a *payload*: its bytes in the journal (`broker.journal.records`), with their
checksum. A mirror copies these bytes unchanged.

Not here: the order of replication (`broker.replication`), the journal (`broker.journal`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, mypyc_attr, trait

from warren.broker.model.journal import PositionRange
from warren.broker.model.message import Entry
from warren.errors import PeerFault

RANGE_MAX: Final[i64] = 1 << 32
"""More positions than any queue has in a segment of a journal."""

ANY_COUNT: Final[i64] = 1 << 62


@final
@mypyc_attr(acyclic=True)
class PositionSpan:
    """Positions from the first to the last, without a gap, of any priority level."""

    def __init__(self, first: i64, last: i64) -> None:
        self.first: i64 = first
        self.last: i64 = last

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositionSpan) and self.first == other.first and self.last == other.last

    def __hash__(self) -> int:
        return hash((self.first, self.last))

    def __repr__(self) -> str:
        return f"PositionSpan({self.first}, {self.last})"


def check_range(level: i64, max_priority: i64, first: i64, last: i64) -> None:
    """Raise a `PeerFault` if this range of positions is invalid."""
    if level < 0 or level > max_priority or first < 1 or last < first or last - first > RANGE_MAX:
        raise PeerFault(f"positions {first} to {last} of level {level} cannot be removed")


@mypyc_attr(allow_interpreted_subclasses=True)
class ReplicaContentsWaiter:
    """Waits for `ReplicaContents.prepare`."""

    @abstractmethod
    def contents_prepared(self) -> None: ...

    @abstractmethod
    def contents_damaged(self, reason: str) -> None:
        """The files cannot be read: the contents can only be deleted."""


@mypyc_attr(allow_interpreted_subclasses=True)
class BackfillReceiver:
    """Takes the messages that a `BackfillReader` reads."""

    @abstractmethod
    def backfill_message(
        self,
        position: i64,
        priority: i64,
        expires_at_ms: i64,
        persistent: bool,
        returned: i64,
        payload: bytes,
        payload_crc: i64,
    ) -> None:
        """One message; `returned` is how often it was requeued."""

    @abstractmethod
    def backfill_slice_done(self) -> None:
        """The requested slice is complete: call `BackfillReader.more`."""

    @abstractmethod
    def backfill_done(self) -> None:
        """All messages were read."""

    @abstractmethod
    def backfill_failed(self, reason: str) -> None:
        """The files cannot be read. No further call follows."""


@mypyc_attr(allow_interpreted_subclasses=True)
class BackfillReader:
    """Reads some of a replica's messages in order; messages that are removed meanwhile are left out."""

    @abstractmethod
    def more(self, size_bytes: i64, count: i64 = ANY_COUNT) -> None:
        """Pass about `size_bytes`, at most `count` messages, to the receiver, then call `backfill_slice_done`, in this
        call or later."""

    @abstractmethod
    def cancel(self) -> None:
        """The receiver is gone: read no more."""


@trait
class ReplicaIdleWaiter:
    """Waits for a replica's contents to have no write in progress."""

    @abstractmethod
    def contents_idle(self) -> None: ...


@trait
class PromotionTarget:
    """The queue that takes over a replica's contents. One of the methods is called once, before any other operation."""

    @abstractmethod
    def recover(self, ranges: list[PositionRange], next_position: i64) -> None:
        """All messages are on disk."""

    @abstractmethod
    def take_over(self, entries: list[Entry], next_position: i64) -> None:
        """All messages are in memory, in order."""


@mypyc_attr(allow_interpreted_subclasses=True)
class MirrorContents:
    """A mirror's contents of one queue, as the master writes them."""

    # the queue's highest priority level
    max_priority: i64 = 255

    @abstractmethod
    def store(
        self,
        position: i64,
        priority: i64,
        expires_at_ms: i64,
        persistent: bool,
        payload: bytes,
        payload_crc: i64,
    ) -> bool:
        """Store a message, unless its removal came first; whether it is safe only after the next flush."""

    @abstractmethod
    def remove(self, level: i64, first: i64, last: i64) -> None:
        """Remove the messages of one level from `first` to `last`, and ignore those that arrive later."""

    @abstractmethod
    def remove_any(self, first: i64, last: i64) -> None:
        """Remove the messages from `first` to `last` that are here, of any level."""

    @abstractmethod
    def drop(self, priority: i64, position: i64) -> None:
        """Remove a stored message that was not committed."""

    @abstractmethod
    def mark_delivered(self, position: i64) -> bool:
        """Set the delivery watermark: messages up to this position may have been delivered. Whether it is safe only
        after the next flush.
        """

    @abstractmethod
    def returned(self, position: i64, count: i64) -> None:
        """Store how often a message was requeued."""

    def drop_publishing_id(self, payload: bytes) -> None:
        """Forget the publishing id of a stored message that was not committed."""

    def load_publishing_ids(self, rows: bytes, anew: bool) -> bool:
        """Add publishing ids (`broker.model.deduplication`), or replace all ids if `anew`; whether they are safe only
        after the next flush.
        """
        return False

    def store_offset(self, name: str, offset: i64) -> None:
        """Store the offset of a named reader; `NO_OFFSET` removes the name."""

    def offset_names(self) -> list[str]:
        """The names of readers with a stored offset."""
        return []

    @abstractmethod
    def spans(self) -> list[PositionSpan]:
        """The positions of all messages, in order; no two spans are adjacent."""

    def skippable_spans(self) -> list[PositionSpan]:
        """The positions that a backfill can skip: `spans`, and more for some contents."""
        return self.spans()

    @abstractmethod
    def begin_catching_up(self) -> None:
        """A backfill starts: messages may arrive after their removal, so remember every removal until `caught_up`."""

    @abstractmethod
    def caught_up(self) -> None: ...

    def committed(self, position: i64) -> None:
        """The messages of replication batches up to this position are committed, or were dropped."""

    def backfill_stored(self, position: i64) -> None:
        """During a backfill: the messages up to this position, which the backfill has reached, are committed."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ReplicaContents(MirrorContents):
    """A member's contents of one queue, as its node uses them.

    `prepare` comes before all other calls, because the contents may have to be read from disk.
    """

    @abstractmethod
    def prepare(self, waiter: ReplicaContentsWaiter) -> None:
        """Find the contents on disk; the waiter is called, in this call or later."""

    @abstractmethod
    def count(self) -> int:
        """The number of messages."""

    @abstractmethod
    def body_bytes(self) -> int: ...

    @abstractmethod
    def store_entry(self, entry: Entry, payload: bytes, payload_crc: i64) -> None:
        """`store` an entry of the master's queue on this node, which also has the entry."""

    def archived(self, first: i64, last: i64) -> None:
        """These positions are in archive files: remove them from the journal."""

    @abstractmethod
    def delivered_up_to(self) -> i64:
        """The delivery watermark: messages up to here may have been delivered."""

    @abstractmethod
    def read(self, spans: list[PositionSpan], receiver: BackfillReceiver) -> BackfillReader:
        """A reader of the messages in these spans, in nearly the order of positions."""

    def describe_gap(self) -> str:
        """A description of a gap in the contents; empty if there is none. A replica in sync must not have one."""
        return ""

    def accept_gap(self) -> bool:
        """This replica is not in sync: accept its gap. Whether that must be flushed before anything else."""
        return False

    def has_accepted_gap(self) -> bool:
        """Whether it lacks messages that a backfill cannot bring back, so that it must start with empty contents."""
        return False

    def prepare_handover(self) -> bool:
        """Get ready for `hand_over`; False while a write is in progress: use `await_idle`, and try again."""
        return True

    def await_idle(self, waiter: ReplicaIdleWaiter) -> None:
        """Call the waiter when `prepare_handover` may succeed."""

    @abstractmethod
    def hand_over(self, target: PromotionTarget) -> None:
        """This node is promoted: pass the contents to the master's queue.

        Messages up to the delivery watermark are marked redelivered. This object keeps all of them.
        """

    @abstractmethod
    def queue_closed(self) -> None:
        """This node is no longer master, and the master's queue is gone: shared entries belong to this object alone."""

    @abstractmethod
    def close(self) -> None:
        """Remove everything, also from disk: the queue was deleted, or this node is no longer a member."""

    def check(self) -> None:
        """Raise `InvariantBroken` if the contents contradict themselves."""
        return
