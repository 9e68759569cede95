"""Removals that are replayed are kept as few ranges, in any order."""

from tests.unit.broker.journal.plain_disk import PlainFiles
from warren.broker.journal.journal import Journal
from warren.broker.journal.queue_index import QueueIndex
from warren.broker.journal.recovery import RANGES_MAX, ExtentRecount, RecoveredRows
from warren.broker.metadata.store import MetadataChangeLog
from warren.broker.model.turn import Turn


def test_alternating_acks_of_consumers_take_no_more_memory_than_acks_of_one() -> None:
    journal = Journal(Turn(), MetadataChangeLog(1), 1 << 20, 1)
    queue_index = journal.open(1, True, 0)
    assert isinstance(queue_index, QueueIndex)
    recount = ExtentRecount(journal, RecoveredRows(journal, PlainFiles({})))
    last = 3 * RANGES_MAX
    for first in range(1, last, 1_000):
        for parity in (0, 1):
            for position in range(first + parity, first + 1_000, 2):
                recount.removed(queue_index, 0, position, position)
    (ranges,) = recount._ranges.values()
    assert len(ranges) <= RANGES_MAX
    assert {first for _, first, _ in ranges} | {one for _, _, one in ranges} >= {1, last}
