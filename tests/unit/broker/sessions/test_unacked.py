"""The size of a ledger follows the unacked deliveries, not those delivered since.

Not here: the effect of each operation (`tests/property/test_ledger.py`).
"""

from collections.abc import Callable

import pytest

from tests.property.test_ledger import consumer_of_a_deleted_queue
from tests.support.core_driver import START_MS
from tests.unit.broker.queues.world import message_of
from warren.broker.model.message import NEVER, Entry
from warren.broker.sessions.consumers import ChannelConsumer
from warren.broker.sessions.unacked import COMPACT_FROM, SPAN_MS, SPARSE_FROM, UnackedDeliveries
from warren.errors import InvariantBroken

ENTRY = Entry(message_of("x"), 1, NEVER)
DELIVERIES_A_MS = 10
A_SECONDS_WORTH = int(SPAN_MS) * DELIVERIES_A_MS


def consumer_with_deliveries() -> ChannelConsumer:
    """A consumer that has enough deliveries to settle; its own count is not under test."""
    consumer = consumer_of_a_deleted_queue()
    consumer.unacked = 2_000_000
    return consumer


def kept(unacked_deliveries: UnackedDeliveries) -> int:
    """The number of elements in all containers of the ledger."""
    return (
        len(unacked_deliveries._entries)
        + len(unacked_deliveries._consumers)
        + len(unacked_deliveries._stragglers)
        + len(unacked_deliveries._span_tags)
    )


def acked_at_once(unacked_deliveries: UnackedDeliveries, consumer: ChannelConsumer, numbers: range) -> None:
    for number in numbers:
        unacked_deliveries.ack(unacked_deliveries.record(ENTRY, consumer, START_MS + number // DELIVERIES_A_MS))


def needing_no_ack(unacked_deliveries: UnackedDeliveries, consumer: ChannelConsumer, numbers: range) -> None:
    for _ in numbers:
        unacked_deliveries.skip()


@pytest.mark.parametrize("others", [acked_at_once, needing_no_ack])
def test_one_stuck_delivery_does_not_make_a_ledger_keep_the_million_after_it(
    others: Callable[[UnackedDeliveries, ChannelConsumer, range], None],
) -> None:
    unacked_deliveries, consumer = UnackedDeliveries(), consumer_with_deliveries()
    stuck = unacked_deliveries.record(ENTRY, consumer, START_MS)
    for start in range(0, 1_000_000, 12_500):
        others(unacked_deliveries, consumer, range(start, start + 12_500))
        assert kept(unacked_deliveries) <= 2 * (A_SECONDS_WORTH + int(SPARSE_FROM))
    unacked_deliveries.check()
    assert (unacked_deliveries.count, unacked_deliveries.has(stuck)) == (1, True)
    assert unacked_deliveries.ack(stuck)
    assert unacked_deliveries.count == 0


def test_a_ledger_whose_deliveries_are_acked_in_order_stays_small() -> None:
    unacked_deliveries, consumer = UnackedDeliveries(), consumer_with_deliveries()
    for number in range(100_000):
        tag = unacked_deliveries.record(ENTRY, consumer, START_MS + number)
        if number >= 100:
            unacked_deliveries.ack(tag - 100)
    assert unacked_deliveries.count == 100
    assert kept(unacked_deliveries) <= 2 * (2 * int(COMPACT_FROM) + 100)


def test_the_marks_of_time_do_not_pile_up_behind_the_oldest_delivery() -> None:
    unacked_deliveries, consumer = UnackedDeliveries(), consumer_with_deliveries()
    tag = unacked_deliveries.record(ENTRY, consumer, START_MS)
    for second in range(1, 20_000):
        following = unacked_deliveries.record(ENTRY, consumer, START_MS + second * 1000)
        unacked_deliveries.ack(tag)
        tag = following
    assert len(unacked_deliveries._span_tags) <= 3


def test_a_ledger_that_miscounts_is_found_out() -> None:
    unacked_deliveries, consumer = UnackedDeliveries(), consumer_with_deliveries()
    unacked_deliveries.record(ENTRY, consumer, START_MS)
    unacked_deliveries.count = 2
    with pytest.raises(InvariantBroken):
        unacked_deliveries.check()


def test_only_outstanding_tags_are_known() -> None:
    unacked_deliveries, consumer = UnackedDeliveries(), consumer_with_deliveries()
    tag = unacked_deliveries.record(ENTRY, consumer, START_MS)
    skipped = unacked_deliveries.skip()
    asked = (tag - 1, tag, skipped, skipped + 1, -1, 2**63 - 1)
    assert [number for number in asked if unacked_deliveries.has(number)] == [tag]
