"""The seam between a ring and what its members hold: one queue's contents, as a mirror has them.

A mirror hands nothing out and judges nothing. It stores what the master stored, under the same positions, and removes
what the master removed. A position belongs to one message for as long as the queue lives, whoever was master when it
was given out: each epoch has its own. So what two members have differs exactly where their positions do, and what was
removed never comes back: nobody, the master neither, removes anything for good before that is settled.

A message travels and is stored as a *payload*: the bytes the journal has of it (`broker.journal.records`), with their
checksum. A mirror copies them as they are.

Not here: in which order members hear of what (`mirroring`), the journal (`store`).
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
    """Positions from the first to the last, without a gap, whatever their levels."""

    def __init__(self, first: i64, last: i64) -> None:
        self.first: i64 = first
        self.last: i64 = last

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositionSpan) and self.first == other.first and self.last == other.last

    def __hash__(self) -> int:
        return hash((self.first, self.last))

    def __repr__(self) -> str:
        return f"Span({self.first}, {self.last})"


def check_range(level: i64, max_priority: i64, first: i64, last: i64) -> None:
    """Raise a `PeerFault` if no master would remove that at once."""
    if level < 0 or level > max_priority or first < 1 or last < first or last - first > RANGE_MAX:
        raise PeerFault(f"positions {first} to {last} of level {level} cannot be removed")


@mypyc_attr(allow_interpreted_subclasses=True)
class ReplicaContentsWaiter:
    """Whoever waits for a copy to know what it holds."""

    @abstractmethod
    def contents_prepared(self) -> None: ...

    @abstractmethod
    def contents_damaged(self, reason: str) -> None:
        """What is on disk cannot be read: it can only be deleted."""


@mypyc_attr(allow_interpreted_subclasses=True)
class BackfillReceiver:
    """Whoever reads what a copy holds."""

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
        """A message that is held, and came back to its queue so often."""

    @abstractmethod
    def backfill_slice_done(self) -> None:
        """That was all there is for now: ask for more."""

    @abstractmethod
    def backfill_done(self) -> None:
        """There is nothing left."""

    @abstractmethod
    def backfill_failed(self, reason: str) -> None:
        """What is on disk cannot be read. Nothing follows."""


@mypyc_attr(allow_interpreted_subclasses=True)
class BackfillReader:
    """Reads some of what a copy holds, from one end to the other; what goes meanwhile is left out."""

    @abstractmethod
    def more(self, size_bytes: i64, count: i64 = ANY_COUNT) -> None:
        """Give about as many bytes to the taker, and at most so many messages; then tell it so, in this call or
        later."""

    @abstractmethod
    def cancel(self) -> None:
        """Nobody wants it any more."""


@trait
class ReplicaIdleWaiter:
    """Whoever waits for a copy to come to rest."""

    @abstractmethod
    def contents_idle(self) -> None: ...


@trait
class PromotionTarget:
    """The queue that goes on with what a copy holds. It is told once, before anything else happens to it."""

    @abstractmethod
    def recover(self, runs: list[PositionRange], next_position: i64) -> None:
        """All of it is on disk."""

    @abstractmethod
    def take_over(self, entries: list[Entry], next_position: i64) -> None:
        """All of it is in memory, in order."""


@mypyc_attr(allow_interpreted_subclasses=True)
class MirrorContents:
    """What one mirror holds of one queue, as far as its master tells it."""

    # the queue's highest level
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
        """Hold a message, unless it was removed before it came; whether it must be on disk before it is safe."""

    @abstractmethod
    def remove(self, level: i64, first: i64, last: i64) -> None:
        """Hold nothing from the first position to the last, now or later, whatever of it is here."""

    @abstractmethod
    def remove_any(self, first: i64, last: i64) -> None:
        """The same for what is here, whatever its levels."""

    @abstractmethod
    def drop(self, priority: i64, position: i64) -> None:
        """A message that was stored does not count after all."""

    @abstractmethod
    def mark_delivered(self, position: i64) -> bool:
        """Whatever is held up to here may have been handed out; whether this must be on disk before it is safe."""

    @abstractmethod
    def returned(self, position: i64, count: i64) -> None:
        """A message came back to the queue so often."""

    def drop_publishing_id(self, payload: bytes) -> None:
        """A message that was stored does not count after all: nor does its publishing id."""

    def load_publishing_ids(self, rows: bytes, anew: bool) -> bool:
        """Know these publishing ids (`broker.model.deduplication`) and, if `anew`, no others; whether that must be on
        disk first.
        """
        return False

    def remember(self, name: str, offset: i64) -> None:
        """A reader of this name has come so far; `NOWHERE` ends that."""

    def names(self) -> list[str]:
        """Of readers who are remembered."""
        return []

    @abstractmethod
    def spans(self) -> list[PositionSpan]:
        """Everything that is held, in order; spans do not touch."""

    def claims(self) -> list[PositionSpan]:
        """The same, and what else it needs not be sent."""
        return self.spans()

    @abstractmethod
    def begin_catching_up(self) -> None:
        """Messages may come whose removal came before them: remember every removal until `caught_up`."""

    @abstractmethod
    def caught_up(self) -> None: ...

    def committed(self, position: i64) -> None:
        """Whatever steps have stored up to this position is settled, or does not count and was dropped."""

    def backfill_stored(self, position: i64) -> None:
        """While it catches up: whatever is held up to this position, where the past has come to, is settled."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ReplicaContents(MirrorContents):
    """What one member holds of one queue, as its node uses it.

    Before anything else it is prepared: it may have to look at what is on disk.
    """

    @abstractmethod
    def prepare(self, asker: ReplicaContentsWaiter) -> None:
        """Find out what is held; the asker is told, in this call or later."""

    @abstractmethod
    def count(self) -> int:
        """How many messages are held."""

    @abstractmethod
    def body_bytes(self) -> int: ...

    @abstractmethod
    def hold(self, entry: Entry, payload: bytes, payload_crc: i64) -> None:
        """`store` an entry of this node's own queue, which has it, too."""

    def archived(self, first: i64, last: i64) -> None:
        """These are elsewhere in the copy: the journal need not have them."""

    @abstractmethod
    def delivered_up_to(self) -> i64:
        """Up to where anything may have been handed out."""

    @abstractmethod
    def read(self, spans: list[PositionSpan], taker: BackfillReceiver) -> BackfillReader:
        """Begin to read what is held of these spans; nearly in the order of positions."""

    def lack(self) -> str:
        """What is missing in the middle, in words; empty if nothing is, as it must be for one that is in sync."""
        return ""

    def disown(self) -> bool:
        """Nobody counts on it: what it lacks it may lack; whether that is to be on disk before it does anything."""
        return False

    def has_lost(self) -> bool:
        """Whether it lacks something that it cannot be sent: what it was rid of stays away. It can begin anew."""
        return False

    def rests(self) -> bool:
        """Whether `hand_over` may be called, which is what is wanted; if not, `await_rest` tells when."""
        return True

    def await_rest(self, waiter: ReplicaIdleWaiter) -> None:
        """Tell the waiter when to ask again."""

    @abstractmethod
    def hand_over(self, target: PromotionTarget) -> None:
        """This node is the master from here on: tell its queue what there is.

        Whatever may have been handed out comes marked as redelivered. The copy goes on holding it all.
        """

    @abstractmethod
    def left_alone(self) -> None:
        """This node is master no longer, and its queue is gone: what the two shared is the copy's alone."""

    @abstractmethod
    def close(self) -> None:
        """Hold nothing any more, on disk either: the queue is gone, or is not to be held here."""
