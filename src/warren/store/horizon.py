"""Up to where a queue's entries may have been handed out.

After a crash a message that may have been delivered comes back marked as redelivered, and, as nearly as can be, only
such a one. So before an entry goes out, the *horizon*, the highest position that may have gone, is on disk. A message
that goes out in the turn it came in needs no wait: both are in one batch, and are lost together or not at all. Others
wait for a flush. To wait seldom, the horizon is moved ahead by as many positions as were just handed out in one go,
and, once that is many, early enough. So a queue that hands out one at a time is exact, and a busy one does not wait.

A queue with priorities does not hand out in order: its horizon, once anything went, is the end of all numbers.

Not here: what is handed out (`queue`), what recovered entries are marked by (`store.fetching`).
"""

from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.model.turn import FlushWaiter
from warren.store.records import HORIZON, write_triple

if TYPE_CHECKING:
    from warren.store.journal import Journal
    from warren.store.queue_book import QueueBook

RESERVE_MAX: Final[i64] = 4096
BUSY_GO: Final[i64] = 8
"""From here on a queue asks ahead, so that it does not have to wait."""

EVERYTHING: Final[i64] = 1 << 62


@final
class Horizon(FlushWaiter):
    """One queue's horizon."""

    def __init__(self, journal: "Journal", book: "QueueBook") -> None:
        # as last written
        self.position: i64 = 0
        # what was recovered up to here may have been delivered before the node started
        self.redelivered_to: i64 = 0
        # the batch that was last stored in, and the first position there
        self.batch_no: i64 = 0
        self.batch_first: i64 = 0
        self._journal: Journal = journal
        self._book: QueueBook = book
        # known to be on disk
        self._safe: i64 = 0
        self._in_flight: list[int] = []
        # beyond this position it is time to think of moving on
        self._ask_from: i64 = 0
        self._asked_at: i64 = 0
        self._moved: bool = False
        self._refused: bool = False
        self._highest_lent: i64 = 0
        # the first and the last position that went in the last turn in which any did
        self._lent_turn: i64 = 0
        self._lent_first: i64 = 0
        self._lent_last: i64 = 0

    def lend(self, position: i64) -> bool:
        """Whether an entry may go now; if not, the queue is told when."""
        if position > self._ask_from and not self._may_go(position):
            self._refused = True
            return False
        if self._lent_turn != self._journal.turn_no:
            self._lent_turn = self._journal.turn_no
            self._lent_first = position
        self._lent_last = position
        if position > self._highest_lent:
            self._highest_lent = position
        return True

    def _may_go(self, position: i64) -> bool:
        if self.batch_no == self._journal.batch_no and position >= self.batch_first:
            # it is in this very batch, and so will be the horizon
            self._move(position, position)
            return True
        if position <= self._safe:
            go = self._in_one_go(position)
            if self.position == self._safe and go >= BUSY_GO:
                # at half of what was asked for: twice as much again, lest it never grow
                self._move(self.position + min(4 * go, RESERVE_MAX), position)
            return True
        if position > self.position:
            self._move(position + min(max(2 * self._in_one_go(position) - 3, 0), RESERVE_MAX), position)
        return False

    def _in_one_go(self, position: i64) -> i64:
        """How many are wanted at a time: in this turn, this one included, or in the last that had any."""
        if self._lent_turn == self._journal.turn_no:
            return position - self._lent_first + 1
        return self._lent_last - self._lent_first + 1

    def _move(self, to: i64, asked_at: i64) -> None:
        self._asked_at = asked_at
        if self._book.max_priority > 0:
            to = EVERYTHING
        if to <= self.position:
            return
        self.position = to
        if not self._moved:
            self._moved = True
            self._journal.touch(self._book)

    def follow(self, position: i64) -> bool:
        """A queue that several nodes hold hands out up to here; whether that is news."""
        self._highest_lent = max(self._highest_lent, position)
        if position <= self.position:
            return False
        self._move(position, position)
        return True

    def write(self) -> None:
        """The turn ends: write it if it moved."""
        if self._moved:
            self._moved = False
            self._write(self.position)
            self._in_flight.append(int(self.position))
            self._journal.turn.await_flush(self)

    def flushed(self) -> None:
        self._safe = max(self._safe, self._in_flight.pop(0))
        # time to think of more when half of what was asked for is used
        self._ask_from = self._safe - (self._safe - min(self._asked_at, self._safe)) // 2
        asker = self._book.asker
        if self._refused and asker is not None:
            self._refused = False
            asker.lent()

    def write_last(self) -> None:
        """The node stops: what was handed out is known exactly."""
        if self.position != 0 and self._book.max_priority == 0:
            self._write(max(self._highest_lent, self.redelivered_to))

    def _write(self, position: i64) -> None:
        triple = BytesWriter()
        write_triple(triple, self._book.queue_id, position, 0)
        self._journal.batch.mark(HORIZON, triple.getvalue())

    def highest(self) -> i64:
        """What a checkpoint must say: it also speaks of what was recovered."""
        return max(self.position, self.redelivered_to)

    def promoted(self, last_position: i64) -> None:
        """What was another node's to hand out is this one's; new positions begin behind this one."""
        self.position = min(self.position, last_position)
        self.redelivered_to = self.position

    def recovered(self, last_position: i64) -> None:
        """The journal was read; new positions begin behind this one."""
        self.position = min(self.position, last_position)
        self.redelivered_to = self.position
        self._asked_at = self.position
        if self.position != 0:
            # that it could be read does not mean it was flushed: the first flush of this life sees to that
            self._in_flight.append(int(self.position))
            self._journal.turn.await_flush(self)
