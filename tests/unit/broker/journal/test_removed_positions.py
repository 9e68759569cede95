"""The set of removed positions: a floor that catches up, and bitmaps that are dropped below it."""

import pytest
from librt.strings import BytesWriter

from warren.broker.journal.removed_positions import RemovedPositions, decode_removed
from warren.errors import StoreError


def encoded(removed: RemovedPositions) -> bytes:
    out = BytesWriter()
    removed.encode(out)
    return out.getvalue()


def test_nothing_is_removed_at_first() -> None:
    removed = RemovedPositions()
    assert removed.floor == 1
    assert not removed.has(1)
    assert removed.has(0)


def test_removals_in_order_raise_the_floor_and_hold_nothing() -> None:
    removed = RemovedPositions()
    for position in range(1, 10_000):
        removed.add(position)
    assert removed.floor == 10_000
    assert removed.bytes_held() == 0


def test_a_gap_holds_the_floor_until_it_is_closed() -> None:
    removed = RemovedPositions()
    for position in (2, 3, 5):
        removed.add(position)
    assert removed.floor == 1
    assert [removed.has(position) for position in range(1, 7)] == [False, True, True, False, True, False]
    removed.add(1)
    assert removed.floor == 4
    assert removed.bytes_held() > 0
    removed.add(4)
    assert removed.floor == 6
    assert removed.bytes_held() == 0


def test_the_floor_passes_many_bitmaps_at_once() -> None:
    removed = RemovedPositions()
    for position in range(2, 20_001):
        removed.add(position)
    assert removed.floor == 1
    removed.add(1)
    assert removed.floor == 20_001
    assert removed.bytes_held() == 0


def test_removing_twice_changes_nothing() -> None:
    removed = RemovedPositions()
    removed.add_range(5, 9)
    before = encoded(removed)
    removed.add(5)
    removed.add_range(6, 9)
    removed.add(0)
    removed.add_range(-3, 0)
    removed.add_range(9, 8)
    assert encoded(removed) == before
    removed.add_range(1, 4)
    assert removed.floor == 10


def test_a_range_from_the_floor_raises_it() -> None:
    removed = RemovedPositions()
    removed.add(20)
    removed.add_range(1, 19)
    assert removed.floor == 21
    assert removed.bytes_held() == 0


def test_a_range_of_millions_costs_an_entry_for_each_4096() -> None:
    removed = RemovedPositions()
    removed.add_range(2, 20_000_000)
    assert removed.bytes_held() < 1 << 20
    assert len(encoded(removed)) < 100_000
    assert not removed.has(1)
    assert all(removed.has(position) for position in (2, 4095, 4096, 10_000_000, 20_000_000))
    assert not removed.has(20_000_001)
    removed.add(1)
    assert removed.floor == 20_000_001
    assert removed.bytes_held() == 0


def test_positions_removed_one_by_one_cost_no_more_than_a_range() -> None:
    singly, at_once = RemovedPositions(), RemovedPositions()
    for position in range(40_959, 4095, -1):
        singly.add(position)
    at_once.add_range(4096, 40_959)
    assert singly.bytes_held() == at_once.bytes_held()
    assert encoded(singly) == encoded(at_once)


def test_sets_do_not_share_state() -> None:
    full, other = RemovedPositions(), RemovedPositions()
    full.add_range(4096, 8191)
    other.add_range(4096, 8191)
    other.add(4096)
    other.add_range(8000, 8200)
    assert not full.has(8192)
    assert encoded(full) == encoded(full_between(4096, 8191))


def full_between(first: int, last: int) -> RemovedPositions:
    removed = RemovedPositions()
    removed.add_range(first, last)
    return removed


def test_a_raised_floor_drops_bitmaps_below_and_passes_removed_positions() -> None:
    removed = RemovedPositions()
    for position in (3, 5000, 9000, 9001, 20_000):
        removed.add(position)
    removed.raise_floor(9000)
    assert removed.floor == 9002
    assert removed.has(4)
    assert removed.has(20_000)
    removed.raise_floor(100)
    assert removed.floor == 9002
    removed.raise_floor(20_000)
    assert removed.floor == 20_001
    assert removed.bytes_held() == 0


def test_a_floor_raised_to_the_start_of_a_bitmap_keeps_it() -> None:
    removed = RemovedPositions()
    removed.add(4098)
    removed.raise_floor(4096)
    assert removed.floor == 4096
    assert [removed.has(position) for position in (4095, 4096, 4097, 4098)] == [True, False, False, True]


def test_a_set_comes_back_from_its_bytes() -> None:
    removed = RemovedPositions()
    removed.add_range(1, 10)
    removed.add_range(12, 30_000)
    removed.add(40_000)
    data = encoded(removed)
    again, after = decode_removed(b"before" + data + b"after", 6)
    assert after == 6 + len(data)
    assert encoded(again) == data
    assert again.floor == 11
    again.add(11)
    assert again.floor == 30_001
    assert again.has(40_000)
    assert removed.floor == 11


def test_a_set_cut_at_any_byte_is_refused() -> None:
    removed = RemovedPositions()
    removed.add(3)
    removed.add_range(4096, 8191)
    data = encoded(removed)
    for size in range(len(data)):
        with pytest.raises(StoreError):
            decode_removed(data[:size], 0)


def test_positions_of_another_epoch_are_far_away() -> None:
    removed = RemovedPositions()
    removed.add_range(1, 10)
    later = 5 << 44
    removed.add_range(later, later + 10_000)
    removed.add(later + 10_001)
    assert removed.has(later)
    assert removed.has(later + 10_001)
    assert not removed.has(later - 1)
    assert not removed.has(11)
    again, _after = decode_removed(encoded(removed), 0)
    assert again.has(later + 4096)
    removed.raise_floor(later)
    assert (removed.floor, removed.bytes_held()) == (later + 10_002, 0)


@pytest.mark.parametrize("position", [1, 2, 5, 4095, 4096, 4097, 8191, 9000, 9001, 12_000, 12_001, 20_000])
def test_a_revived_position_is_not_removed_and_all_others_are_unchanged(position: int) -> None:
    removed = RemovedPositions()
    removed.add_range(1, 9000)
    removed.add_range(9002, 12_000)
    removed.add(12_500)
    everything = range(1, 13_000)
    before = [removed.has(one) for one in everything]
    removed.revive(position)
    after = [removed.has(one) for one in everything]
    assert after == [gone and one != position for one, gone in zip(everything, before, strict=True)]
    for one in everything:
        removed.add(one)
    assert (removed.floor, removed.bytes_held()) == (13_000, 0)


def test_positions_that_the_floor_has_passed_can_be_revived_one_after_another() -> None:
    removed = RemovedPositions()
    removed.add_range(2, 5)
    removed.add(7)
    removed.add(1)
    for position in (3, 2):
        removed.revive(position)
        removed.check()
    assert [one for one in range(1, 9) if removed.has(one)] == [1, 4, 5, 7]
