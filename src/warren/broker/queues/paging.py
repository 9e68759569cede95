"""What one queue asks of its log and has not been told yet: entries to read, and leave to hand one out.

Somebody who wants the next entry (an able consumer, a get, a limit that drops heads) asks `at_hand`. When little of
the level that goes next is left in memory, that begins to read on, so that whoever takes entries steadily finds the
next ones there; nobody asks, nothing is read. A deadline at the head of a run on disk is a wish of the same kind.

One fetch is under way at a time, whatever level it is for. The mark below which to read on is half of what the last
fetch brought, so at most a batch and a half is in memory for having been fetched.

A stored entry of a durable queue, and any entry of a mirrored one, goes out only with the log's leave
(`QueueLog.lend`). Once that is refused nothing
goes out until it is given, not even an entry that would not need it: order comes first.

Not here: the entries and runs themselves (`broker.queues.contents`), what is done with them (`broker.queues.queue`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.journal import PositionRange
from warren.broker.model.message import Entry
from warren.broker.model.ports import FetchWaiter, OutputPort, QueueLog
from warren.broker.model.turn import Turn
from warren.broker.queues.contents import QueueContents

FETCH_MAX: Final[i64] = 2048
FETCH_FEW: Final[i64] = 32
"""As many as are read to see which are due: nobody else may want them for a long time."""

FIRST_MARK: Final[i64] = 64
"""How few entries in memory are few, before it is known how many a fetch brings."""


@final
class Paging:
    """One queue's dealings with its log."""

    def __init__(self, log: QueueLog, contents: QueueContents, asker: FetchWaiter, turn: Turn) -> None:
        self.log: QueueLog = log
        log.asker = asker
        # what is in memory may go as it is: none of it is on disk for good, and nobody else has it
        self.passing: bool = not log.durable and not log.mirrored
        # nothing is handed out any more
        self.stopped: bool = False
        self._contents: QueueContents = contents
        self._asker: FetchWaiter = asker
        self._turn: Turn = turn
        self._fetching: PositionRange | None = None
        self._mark: i64 = FIRST_MARK
        self._refused: bool = False
        self._waiters: list[OutputPort] = []
        self._mirrored: bool = log.mirrored
        # positions of what is dealt with, though it is ready
        self._late: set[int] = set()

    def mirror(self, log: QueueLog) -> None:
        """Others hold the queue, too, from here on: its dealings are with this log, which has the one before."""
        self.log = log
        log.asker = self._asker
        self.passing = False
        self._mirrored = True

    # -- what is wanted

    def at_hand(self) -> bool:
        """Whether the entry that goes next is in memory; there must be one."""
        return self._head() is not None

    def may_go(self) -> bool:
        """Whether the entry that goes next is in memory and may be handed out; there must be one."""
        if self._refused:
            return False
        self.pass_over()
        head = self._head()
        if head is None:
            return False
        extent = head.extent
        lasting = self._mirrored or (extent is not None and extent.durable)
        if lasting and not self.log.mark_delivered(head):
            self._refused = True
            return False
        return True

    def fetch(self, run: PositionRange | None, entries_max: i64 = FETCH_MAX) -> bool:
        """Ask for the first entries of a run, unless something is being fetched; whether they came at once."""
        if run is None or not self._idle():
            return False
        self._fetching = run
        self.log.fetch(run, self._asker, entries_max)
        return self._idle()

    def await_entry(self, waiter: OutputPort) -> None:
        self._waiters.append(waiter)

    # -- what leaves

    def take(self, no_ack: bool) -> Entry:
        """The next entry goes out; it must be in memory."""
        entry = self._contents.take(no_ack)
        if no_ack:
            self.forget(entry)
        return entry

    def forget(self, entry: Entry) -> None:
        """An entry left for good, which the disk may have."""
        if entry.extent is not None or self._mirrored:
            self.log.forget(entry)

    def acked_late(self, positions: list[int]) -> None:
        """What stands there goes when its turn comes."""
        self._late.update(positions)

    def pass_over(self) -> None:
        """Heads go that are dealt with."""
        contents = self._contents
        while self._late and contents.ready_count != 0:
            head = self._head()
            if head is None or int(head.position) not in self._late:
                return
            self._late.discard(int(head.position))
            self.forget(contents.take(True))

    def forget_ready(self) -> None:
        """Everything ready is about to go, in memory and on disk."""
        self.cancel()
        for entry in self._contents.ready():
            self.forget(entry)
        for run in self._contents.runs():
            self.log.forget_run(run)

    def write_return(self, entry: Entry) -> None:
        """An entry of a queue with a delivery limit came back."""
        extent = entry.extent
        if self._mirrored or (extent is not None and extent.durable):
            self.log.returned(entry)

    # -- what is told

    def take_in(self, entries: list[Entry]) -> str:
        """The answer to a fetch; why it cannot be true, or nothing."""
        run = self._fetching
        self._fetching = None
        if run is None:
            return "entries were read that nobody asked for"
        if not entries or len(entries) > run.count:
            there = f"{run.count} entries from {run.first} to {run.last}"
            return f"segment {run.segment.number} should have {there} but {len(entries)} were read"
        self._contents.page_in(run, entries)
        self._mark = (i64(len(entries)) + 1) // 2
        if self._contents.paged_count == 0:
            self.log.all_is_read()
        return ""

    def delivery_allowed(self) -> None:
        self._refused = False

    def wake_waiters(self) -> None:
        """Whoever waits for an entry looks again."""
        self._turn.inputs.extend(self._waiters)
        self._waiters.clear()

    def _head(self) -> Entry | None:
        """The entry that goes next, if it is in memory; reads on if little is left there."""
        contents = self._contents
        if contents.paged_count != 0 and self._fetching is None:
            self.fetch(contents.run_to_read(self._mark))
        return None if self.stopped else contents.head()

    def _idle(self) -> bool:
        return self._fetching is None and not self.stopped

    # -- what is wanted no more

    def cancel(self) -> None:
        """Nothing that was asked for is wanted; whoever waits looks again."""
        self._refused = False
        if self._fetching is not None:
            self._fetching = None
            self.log.cancel_fetch()
        self.wake_waiters()

    def close(self) -> None:
        """The queue is deleted, and all its log has with it."""
        self._fetching = None
        self.wake_waiters()
        self.log.close()
