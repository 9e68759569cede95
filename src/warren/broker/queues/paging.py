"""The pending requests of a queue to its log: entries to read, and permission to deliver.

A user of the next entry (an able consumer, a get, a limit that drops heads) asks `may_deliver` or `head_in_memory`.
When few entries of the next level are left in memory, this starts a read ahead, so a steady consumer finds the next
entries in memory; without a user, nothing is read. A deadline at the head of a range on disk starts a read, too.

There is one fetch at a time, for any level. The next read ahead starts when half of the last batch is left, so at most
one and a half batches of fetched entries are in memory.

A stored entry of a durable queue, and any entry of a mirrored queue, is delivered only with the log's permission
(`QueueLog.mark_delivered`). After a refusal no entry is delivered until permission is given, not even one that needs no
permission: order comes first.

Not here: the entries and ranges (`broker.queues.contents`), delivery (`broker.queues.consumers`).
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
"""How many entries are read for their deadlines: no consumer may need them for a long time."""

FIRST_MARK: Final[i64] = 64
"""Read ahead below this number of entries in memory, before the first fetch."""


@final
class Paging:
    """The requests of one queue to its log."""

    def __init__(self, log: QueueLog, contents: QueueContents, asker: FetchWaiter, turn: Turn) -> None:
        self.log: QueueLog = log
        log.asker = asker
        # entries in memory need no permission: the queue is neither durable nor mirrored
        self.needs_no_permission: bool = not log.durable and not log.mirrored
        # no entry is delivered any more: the log is damaged
        self.stopped: bool = False
        self._contents: QueueContents = contents
        self._asker: FetchWaiter = asker
        self._turn: Turn = turn
        self._fetching: PositionRange | None = None
        self._mark: i64 = FIRST_MARK
        self._refused: bool = False
        self._waiters: list[OutputPort] = []
        # the log is told of the removal of every entry, on disk or not
        self.mirrored: bool = log.mirrored
        # positions of ready entries that were acked after an earlier master delivered them
        self._acked_late: set[int] = set()

    def mirror(self, log: QueueLog) -> None:
        """The queue becomes mirrored: use this log, which contains the one before."""
        self.log = log
        log.asker = self._asker
        self.needs_no_permission = False
        self.mirrored = True

    # -- requests

    def head_in_memory(self) -> bool:
        """Whether the next entry is in memory; the queue must have one."""
        return self._head() is not None

    def may_deliver(self) -> bool:
        """Whether the next entry is in memory and may be delivered; the queue must have one."""
        if self._refused:
            return False
        if self._acked_late:
            self.remove_acked_heads()
        head = self._head()
        if head is None:
            return False
        extent = head.extent
        lasting = self.mirrored or (extent is not None and extent.durable)
        if lasting and not self.log.mark_delivered(head):
            self._refused = True
            return False
        return True

    def fetch(self, paged: PositionRange | None, entries_max: i64 = FETCH_MAX) -> bool:
        """Fetch the first entries of a range, unless a fetch is pending; whether they came at once."""
        if paged is None or not self._idle():
            return False
        self._fetching = paged
        self.log.fetch(paged, self._asker, entries_max)
        return self._idle()

    def await_entry(self, waiter: OutputPort) -> None:
        self._waiters.append(waiter)

    # -- removals

    def take(self, no_ack: bool) -> Entry:
        """Take the next entry, which must be in memory."""
        entry = self._contents.take(no_ack)
        if no_ack and (entry.extent is not None or self.mirrored):
            self.log.forget(entry)
        return entry

    def forget(self, entry: Entry) -> None:
        """Remove an entry from the log, if it is there."""
        if entry.extent is not None or self.mirrored:
            self.log.forget(entry)

    def acked_late(self, positions: list[int]) -> None:
        """Remove these entries when they reach the head of the queue."""
        self._acked_late.update(positions)

    def remove_acked_heads(self) -> None:
        """Remove heads that were acked late."""
        contents = self._contents
        while self._acked_late and contents.ready_count != 0:
            head = self._head()
            if head is None or int(head.position) not in self._acked_late:
                return
            self._acked_late.discard(int(head.position))
            self.forget(contents.take(True))

    def forget_ready(self) -> None:
        """Remove all ready entries, in memory and on disk, from the log."""
        self.cancel()
        for entry in self._contents.ready():
            self.forget(entry)
        for paged in self._contents.ranges():
            self.log.forget_unread(paged)

    def write_return(self, entry: Entry) -> None:
        """Log the delivery count of a requeued entry."""
        extent = entry.extent
        if self.mirrored or (extent is not None and extent.durable):
            self.log.returned(entry)

    # -- answers

    def take_in(self, entries: list[Entry]) -> str:
        """Take the fetched entries; the reason if they cannot be right, else empty."""
        paged = self._fetching
        self._fetching = None
        if paged is None:
            return "entries were read without a fetch"
        if not entries or len(entries) > paged.count:
            there = f"{paged.count} entries from {paged.first} to {paged.last}"
            return f"segment {paged.segment.number} should have {there} but {len(entries)} were read"
        self._contents.page_in(paged, entries)
        self._mark = (i64(len(entries)) + 1) // 2
        if self._contents.paged_count == 0:
            self.log.all_is_read()
        return ""

    def delivery_allowed(self) -> None:
        self._refused = False

    def wake_waiters(self) -> None:
        """Let the waiters for an entry try again."""
        self._turn.inputs.extend(self._waiters)
        self._waiters.clear()

    def _head(self) -> Entry | None:
        """The next entry, if it is in memory; starts a read ahead if few entries are left."""
        contents = self._contents
        if contents.paged_count != 0 and self._fetching is None:
            self.fetch(contents.range_to_read(self._mark))
        return None if self.stopped else contents.head()

    def _idle(self) -> bool:
        return self._fetching is None and not self.stopped

    # -- the end

    def cancel(self) -> None:
        """Cancel all requests, and let the waiters try again."""
        self._refused = False
        if self._fetching is not None:
            self._fetching = None
            self.log.cancel_fetch()
        self.wake_waiters()

    def close(self) -> None:
        """The queue was deleted: remove its log."""
        self._fetching = None
        self.wake_waiters()
        self.log.close()
