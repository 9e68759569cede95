"""The delivery watermark of a queue: the highest position that may have been delivered.

After a crash a message that may have been delivered comes back marked as redelivered, and, as nearly as possible, no
other message does. So the watermark is on disk before an entry is delivered. An entry that is delivered in the turn in
which it was stored does not wait: message and watermark are in one batch, and are lost together or not at all. Other
entries wait for a flush. To wait seldom, the watermark is moved ahead by as many positions as were just delivered in
one turn, and is moved again early once that number is large. So a queue that delivers one entry at a time is exact,
and a busy queue does not wait.

A queue with priorities does not deliver in the order of positions. Its watermark goes to the end of all positions with
its first delivery.

Invariant: a delivered position is at or below a watermark that is flushed, or that is in the same batch.

Not here: which entries are delivered (`broker.queues`), marking recovered entries as redelivered
(`broker.journal.queue_index`).
"""

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.broker.journal.records import WATERMARK, write_triple
from warren.broker.journal.tail import JournalLog, JournalTail
from warren.broker.model.turn import FlushWaiter
from warren.errors import InvariantBroken

RESERVE_MAX: Final[i64] = 4096
BUSY_DELIVERIES: Final[i64] = 8
"""From this many deliveries in a turn on, a queue moves its watermark before it has to wait."""

END_OF_POSITIONS: Final[i64] = 1 << 62


@final
class DeliveryWatermark(FlushWaiter):
    """One queue's watermark."""

    def __init__(self, tail: JournalTail, log: JournalLog) -> None:
        # as last written
        self.position: i64 = 0
        # recovered entries up to here may have been delivered before the node started
        self.redelivered_to: i64 = 0
        # the last batch that a message was stored in, and the first position there
        self.batch_no: i64 = 0
        self.batch_first: i64 = 0
        self._tail: JournalTail = tail
        self._log: JournalLog = log
        self._flushed_to: i64 = 0
        self._in_flight: list[int] = []
        # deliveries beyond this position consider moving the watermark
        self._ask_from: i64 = 0
        self._asked_at: i64 = 0
        self._moved: bool = False
        self._refused: bool = False
        self._highest_delivered: i64 = 0
        # the first and the last position of the last turn with a delivery
        self._burst_turn: i64 = 0
        self._burst_first: i64 = 0
        self._burst_last: i64 = 0

    def mark_delivered(self, position: i64) -> bool:
        """Whether an entry may be delivered now; if not, the queue is told when."""
        if position > self._ask_from and not self._may_deliver(position):
            self._refused = True
            return False
        if self._burst_turn != self._tail.turn_no:
            self._burst_turn = self._tail.turn_no
            self._burst_first = position
        self._burst_last = position
        if position > self._highest_delivered:
            self._highest_delivered = position
        return True

    def _may_deliver(self, position: i64) -> bool:
        if self.batch_no == self._tail.batch_no and position >= self.batch_first:
            # the message is in the batch that the watermark will be in
            self._move(position, position)
            return True
        if position <= self._flushed_to:
            burst = self._burst(position)
            if self.position == self._flushed_to and burst >= BUSY_DELIVERIES:
                # at half of the reserve: reserve twice as much, or the reserve never grows
                self._move(self.position + min(4 * burst, RESERVE_MAX), position)
            return True
        if position > self.position:
            self._move(position + min(max(2 * self._burst(position) - 3, 0), RESERVE_MAX), position)
        return False

    def _burst(self, position: i64) -> i64:
        """The number of deliveries in this turn, this one included, or in the last turn with any."""
        if self._burst_turn == self._tail.turn_no:
            return position - self._burst_first + 1
        return self._burst_last - self._burst_first + 1

    def _move(self, to: i64, asked_at: i64) -> None:
        self._asked_at = asked_at
        if self._log.max_priority > 0:
            to = END_OF_POSITIONS
        if to <= self.position:
            return
        self.position = to
        if not self._moved:
            self._moved = True
            self._tail.touch(self._log)

    def follow(self, position: i64) -> bool:
        """The master of a mirrored queue delivers up to here; whether this moves the watermark."""
        self._highest_delivered = max(self._highest_delivered, position)
        if position <= self.position:
            return False
        self._move(position, position)
        return True

    def write(self) -> None:
        """The turn ends."""
        if self._moved:
            self._moved = False
            self._write(self.position)
            self._in_flight.append(int(self.position))
            self._tail.turn.await_flush(self)

    def flushed(self) -> None:
        self._flushed_to = max(self._flushed_to, self._in_flight.pop(0))
        # consider the next move when half of the reserve is used
        self._ask_from = self._flushed_to - (self._flushed_to - min(self._asked_at, self._flushed_to)) // 2
        asker = self._log.asker
        if self._refused and asker is not None:
            self._refused = False
            asker.delivery_allowed()

    def write_last(self) -> None:
        """The node stops: write exactly how far entries were delivered."""
        if self.position != 0 and self._log.max_priority == 0:
            self._write(max(self._highest_delivered, self.redelivered_to))

    def _write(self, position: i64) -> None:
        triple = BytesWriter()
        write_triple(triple, self._log.queue_id, position, 0)
        self._tail.batch.mark(WATERMARK, triple.getvalue())

    def highest(self) -> i64:
        """The watermark for a checkpoint, which also covers recovered entries."""
        return max(self.position, self.redelivered_to)

    def promoted(self, last_position: i64) -> None:
        """This node delivers from here on. New positions begin behind `last_position`."""
        self.position = min(self.position, last_position)
        self.redelivered_to = self.position

    def recovered(self, last_position: i64) -> None:
        """The journal was read. New positions begin behind `last_position`."""
        self.promoted(last_position)
        self._asked_at = self.position
        if self.position != 0:
            # a watermark that can be read may not be flushed yet: the first flush of this process covers it
            self._in_flight.append(int(self.position))
            self._tail.turn.await_flush(self)

    def check(self) -> None:
        if not 0 <= self._ask_from <= self._flushed_to:
            raise InvariantBroken(f"deliveries up to {self._ask_from} pass, and {self._flushed_to} is flushed")
        if self.position < 0 or self.redelivered_to < 0:
            raise InvariantBroken(f"a watermark at {self.position}, recovered at {self.redelivered_to}")
