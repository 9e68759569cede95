"""How much a ledger keeps: as much as is unacked, not as much as was delivered since.

Not here: what each operation does (`tests/property/test_ledger.py`).
"""

from collections.abc import Callable

import pytest

from tests.property.test_ledger import taker_of_a_deleted_queue
from tests.support.core_driver import START_MS
from tests.unit.queue.world import message_of
from warren.errors import InvariantBroken
from warren.model.message import NEVER, Entry
from warren.session.consumer import ChannelConsumer
from warren.session.ledger import COMPACT_FROM, SPAN_MS, SPARSE_FROM, Ledger

ENTRY = Entry(message_of("x"), 1, NEVER)
DELIVERIES_A_MS = 10
A_SECONDS_WORTH = int(SPAN_MS) * DELIVERIES_A_MS


def kept(ledger: Ledger) -> int:
    """Everything the ledger has room for, however it keeps it."""
    return len(ledger._entries) + len(ledger._takers) + len(ledger._stragglers) + len(ledger._span_tags)


def acked_at_once(ledger: Ledger, taker: ChannelConsumer, numbers: range) -> None:
    for number in numbers:
        ledger.ack(ledger.record(ENTRY, taker, START_MS + number // DELIVERIES_A_MS))


def needing_no_ack(ledger: Ledger, taker: ChannelConsumer, numbers: range) -> None:
    for _ in numbers:
        ledger.skip()


@pytest.mark.parametrize("others", [acked_at_once, needing_no_ack])
def test_one_stuck_delivery_does_not_make_a_ledger_keep_the_million_after_it(
    others: Callable[[Ledger, ChannelConsumer, range], None],
) -> None:
    ledger, taker = Ledger(), taker_of_a_deleted_queue()
    stuck = ledger.record(ENTRY, taker, START_MS)
    for start in range(0, 1_000_000, 12_500):
        others(ledger, taker, range(start, start + 12_500))
        assert kept(ledger) <= 2 * (A_SECONDS_WORTH + int(SPARSE_FROM))
    ledger.check()
    assert (ledger.count, ledger.has(stuck)) == (1, True)
    assert ledger.ack(stuck)
    assert ledger.count == 0


def test_a_ledger_whose_deliveries_are_acked_in_order_stays_small() -> None:
    ledger, taker = Ledger(), taker_of_a_deleted_queue()
    for number in range(100_000):
        tag = ledger.record(ENTRY, taker, START_MS + number)
        if number >= 100:
            ledger.ack(tag - 100)
    assert ledger.count == 100
    assert kept(ledger) <= 2 * (2 * int(COMPACT_FROM) + 100)


def test_the_marks_of_time_do_not_pile_up_behind_the_oldest_delivery() -> None:
    ledger, taker = Ledger(), taker_of_a_deleted_queue()
    tag = ledger.record(ENTRY, taker, START_MS)
    for second in range(1, 20_000):
        following = ledger.record(ENTRY, taker, START_MS + second * 1000)
        ledger.ack(tag)
        tag = following
    assert len(ledger._span_tags) <= 3


def test_a_ledger_that_miscounts_is_found_out() -> None:
    ledger, taker = Ledger(), taker_of_a_deleted_queue()
    ledger.record(ENTRY, taker, START_MS)
    ledger.count = 2
    with pytest.raises(InvariantBroken):
        ledger.check()


def test_only_outstanding_tags_are_known() -> None:
    ledger, taker = Ledger(), taker_of_a_deleted_queue()
    tag = ledger.record(ENTRY, taker, START_MS)
    skipped = ledger.skip()
    asked = (tag - 1, tag, skipped, skipped + 1, -1, 2**63 - 1)
    assert [number for number in asked if ledger.has(number)] == [tag]
