"""Removals that were read back: kept as few ranges, however they came."""

from tests.unit.store.plain_disk import PlainFiles
from warren.model.turn import Turn
from warren.store.found_rows import FoundRows
from warren.store.journal import Journal
from warren.store.metadata import Metadata
from warren.store.queue_book import QueueBook
from warren.store.recount import RANGES_MAX, Recount


def test_what_consumers_acked_in_turns_takes_no_more_memory_than_what_one_acked() -> None:
    journal = Journal(Turn(), Metadata(1), 1 << 20, 1)
    book = journal.open(1, True, 0)
    assert isinstance(book, QueueBook)
    recount = Recount(journal, FoundRows(journal, PlainFiles({})))
    last = 3 * RANGES_MAX
    for first in range(1, last, 1_000):
        for parity in (0, 1):
            for position in range(first + parity, first + 1_000, 2):
                recount.removed(book, 0, position, position)
    (ranges,) = recount._ranges.values()
    assert len(ranges) <= RANGES_MAX
    assert {first for _, first, _ in ranges} | {one for _, _, one in ranges} >= {1, last}
