"""A journal cut at any byte: batches flushed before the cut survive, and nothing of a torn batch does."""

import pytest

from tests.unit.broker.journal.journal_world import Recovered, expected
from tests.unit.broker.journal.plain_disk import PlainDisk, segment_name
from tests.unit.broker.journal.sample import rich_sample
from warren.broker.model.effects import AppendRecords

SEGMENT_BYTES = 2_500


@pytest.fixture(scope="module")
def disk() -> PlainDisk:
    return rich_sample(SEGMENT_BYTES).disk


def truth_at(disk: PlainDisk, segment: int, size: int) -> dict[int, dict[int, object]]:
    """The truth when the segment had this length."""
    batches = [batch for batch in disk.batches if (batch.segment, batch.end) <= (segment, size)]
    return batches[-1].truth.queues  # type: ignore[return-value]


def check(disk: PlainDisk, cut: PlainDisk, segment: int, size: int) -> None:
    recovered = Recovered(cut).start()
    assert recovered.recovery.faults == []
    assert recovered.recovery.stopped == {}
    assert recovered.contents() == expected(disk, truth_at(disk, segment, size), recovered.names)  # type: ignore[arg-type]


def test_the_sample_rolls_compacts_and_drops(disk: PlainDisk) -> None:
    assert disk.segments()[-1] > 6
    assert len(disk.segments()) < disk.segments()[-1]


def test_a_segment_cut_at_any_byte_keeps_the_batches_before(disk: PlainDisk) -> None:
    last = disk.segments()[-1]
    name = segment_name(last)
    for size in range(len(disk.files[name]) + 1):
        cut = disk.copy()
        cut.files[name] = disk.files[name][:size]
        check(disk, cut, last, size)


@pytest.mark.parametrize("filler", [b"\0", b"\xff", b"D"], ids=repr)
def test_the_bytes_of_a_batch_that_did_not_reach_the_disk_may_be_anything(disk: PlainDisk, filler: bytes) -> None:
    last = disk.segments()[-1]
    name = segment_name(last)
    whole = disk.files[name]
    for batch in [batch for batch in disk.batches if batch.segment == last and batch.offset > 0]:
        for kept in range(batch.offset, batch.end, 7):
            torn = disk.copy()
            torn.files[name] = whole[:kept] + filler * (batch.end - kept) + bytes(500)
            check(disk, torn, last, batch.offset)


def test_old_bytes_of_a_recycled_file_are_no_records(disk: PlainDisk) -> None:
    last = disk.segments()[-1]
    stale = disk.files[segment_name(last - 1)]
    recycled = disk.copy()
    size = len(disk.files[segment_name(last)])
    recycled.files[segment_name(last)] += stale[size:] + stale
    check(disk, recycled, last, size)


def test_recovering_again_gives_the_same(disk: PlainDisk) -> None:
    once = disk.copy()
    Recovered(once).start()
    again = Recovered(once).start()
    assert again.contents() == expected(disk, disk.truth.queues, again.names)


def test_a_stop_leaves_nothing_to_guess() -> None:
    core = rich_sample(SEGMENT_BYTES, rounds=1)
    core.stop()
    recovered = Recovered(core.disk).start()
    assert recovered.recovery.clean
    assert recovered.contents() == expected(core.disk, core.disk.truth.queues, recovered.names)


@pytest.mark.lengthy
def test_a_node_that_dies_after_any_effect_recovers_the_state_of_that_time() -> None:
    orders = rich_sample(SEGMENT_BYTES, rounds=3).orders
    disk = PlainDisk()
    for order in orders:
        if isinstance(order, AppendRecords):
            disk_of_order = disk.copy()
            disk_of_order.change(order)
            sizes = {0, 1, 63, 64, 100, len(order.data) // 2, len(order.data) - 1} if order.offset else set()
            for size in sorted(one for one in sizes if one < len(order.data)):
                torn = disk_of_order.copy()
                torn.write(order, size)
                check_alive(disk, torn)
        disk.carry_out(order)
        check_alive(disk, disk.copy())


def check_alive(disk: PlainDisk, crashed: PlainDisk) -> None:
    """Recover, and again after every effect of recovery."""
    first = Recovered(crashed.copy())
    for done in range(len(first.orders)):
        again = crashed.copy()
        for order in first.orders[:done]:
            again.carry_out(order)
        recovered = Recovered(again).start()
        assert recovered.recovery.faults == []
        assert recovered.contents() == expected(disk, disk.truth.queues, recovered.names)
