"""The log of a queue that is mirrored, as its master sees it: whatever leaves or comes back becomes part of a step.

What is stored goes into the node's own journal at once. What leaves goes from there only when the step that says so is
settled: a position that a member has removed never comes back to it, so none may remove what another could still give
out.

Not here: the journal (`store`), what is stored by whom (`broker.mirrors.mastery`), the horizon
(`broker.mirrors.lending`).
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.broker.mirrors.lending import Lending
from warren.mirroring.steps import StepWriter
from warren.model.journal import Holding, Run
from warren.model.message import Entry, Message
from warren.model.ports import PagedIn, QueueLog
from warren.wire.values import Table

if TYPE_CHECKING:
    from warren.broker.mirrors.mastery import Mastery

Gone = tuple[int, int, int]
"""A priority level, the first position and the last."""


@final
class MirroredLog(QueueLog):
    """Stands between a master's queue and its part of the journal."""

    def __init__(self, book: QueueLog, mastery: "Mastery", max_priority: i64) -> None:
        super().__init__(book.durable)
        self.mirrored = True
        self.lending: Lending = Lending(max_priority == 0)
        # a stream's: what leaves the journal is in the archive, which is every member's own affair
        self.archives: bool = False
        self.seen = book.seen
        self.offsets = book.offsets
        self._book: QueueLog = book
        self._mastery: Mastery = mastery
        self._max_priority: i64 = max_priority
        # what left since the last step, and the range that may still grow; none if its first is 0
        self._gone: list[Gone] = []
        self._level: i64 = 0
        self._first: i64 = 0
        self._last: i64 = 0
        self._returned: list[tuple[int, int]] = []
        self._remembered: list[tuple[str, int]] = []

    def store(self, message: Message, position: i64, expires_at_ms: i64, level: i64) -> Holding:
        holding = self._book.store(message, position, expires_at_ms, level)
        self.written_count = self._book.written_count
        return holding

    def forget(self, entry: Entry) -> None:
        if self.archives:
            self._mastery.copy.archived(entry.position, entry.position)
            return
        self._leave(min(entry.message.priority, self._max_priority), entry.position, entry.position)

    def forget_run(self, run: Run) -> None:
        if self.archives:
            self._mastery.copy.archived(run.first, run.last)
            return
        self._leave(run.level, run.first, run.last)

    def returned(self, entry: Entry) -> None:
        self._returned.append((int(entry.position), int(entry.delivery_count)))
        self._mastery.touch()

    def gone_to(self, position: i64) -> None:
        """A stream keeps nothing up to there."""
        self._leave(0, position, position)

    def lend(self, entry: Entry) -> bool:
        if not self._mastery.serving.allowed():
            self.lending.refused = True
            return False
        if self.lending.may_go(entry.position):
            return True
        self._mastery.touch()
        return False

    def serves(self) -> bool:
        return self._mastery.serving.allowed()

    def remember(self, name: str, offset: i64) -> None:
        # what a reader has done with is settled: whatever becomes of the step, it is true
        self._book.remember(name, offset)
        self._remembered.append((name, int(offset)))
        self._mastery.touch()

    def kept(self) -> tuple[int, int]:
        return self._book.kept()

    def fetch(self, run: Run, asker: PagedIn, entries_max: i64) -> None:
        self._book.fetch(run, asker, entries_max)

    def cancel_fetch(self) -> None:
        self._book.cancel_fetch()

    def all_is_read(self) -> None:
        self._book.all_is_read()

    def close(self) -> None:
        """The queue is over here. What its book holds stays with whoever holds the copy."""
        self._book.cancel_fetch()
        self.asker = None

    def write(self, writer: StepWriter) -> list[Gone]:
        """Put into the step what happened since the last one; what it removes."""
        self._end_range()
        # whoever keeps it must not see what leaves later
        gone, self._gone = self._gone, []
        for level, first, last in gone:
            writer.remove(level, first, last)
        if self._returned:
            for position, count in self._returned:
                writer.returned(position, count)
                # it did come back, whatever becomes of the step
                self._mastery.copy.returned(position, count)
            self._returned = []
        for name, offset in self._remembered:
            writer.remember(name, offset)
        self._remembered = []
        lent = self.lending.take_unwritten()
        if lent:
            writer.lend(lent)
            # this node is a member, too: it may be the only one that comes back
            self._mastery.copy.lend(lent)
        return gone

    def anything_left(self) -> bool:
        """Whether something left that no step speaks of."""
        return self._first != 0 or len(self._gone) > 0

    def only_left(self) -> bool:
        """Whether that is all there is to say."""
        return self.anything_left() and not self._returned and not self._remembered and not self.lending.unwritten

    def _leave(self, level: i64, first: i64, last: i64) -> None:
        if self._first != 0 and self._last + 1 == first and self._level == level:
            self._last = last
            return
        self._end_range()
        self._level = level
        self._first = first
        self._last = last
        self._mastery.touch()

    def _end_range(self) -> None:
        if self._first != 0:
            self._gone.append((int(self._level), int(self._first), int(self._last)))
            self._first = 0


def max_priority_of(arguments: Table) -> int:
    found = arguments.get("x-max-priority")
    return found if isinstance(found, int) else 0
