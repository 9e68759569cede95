"""The extent that counts a message, for messages in any order."""

from warren.broker.journal.extents import ExtentList
from warren.broker.model.journal import Segment, SegmentExtent
from warren.broker.model.replica_set import POSITION_BITS

ONE, TWO = Segment(1), Segment(2)


def row_of(*segment_extents: tuple[Segment, int, int]) -> ExtentList:
    made = []
    for segment, first, last in segment_extents:
        extent = SegmentExtent(7, segment, 0, True, first)
        extent.last = last
        extent.count = last - first + 1
        made.append(extent)
    return ExtentList(7, 0, True, made)


def put(row: ExtentList, position: int, segment: Segment) -> SegmentExtent:
    extent = row.open_at(position, segment)
    if extent is None:
        over = row.across(position)
        if over is not None:
            above = row.divide(over, position)
            if above is not None:
                above.count = 1
        extent = row.open_at(position, segment) or row.begin(position, segment)
    extent.add(position, 0, 0)
    return extent


def ranges(row: ExtentList) -> list[tuple[int, int, int]]:
    return [(int(one.segment.number), int(one.first), int(one.last)) for one in row.segment_extents]


def test_messages_in_order_are_one_extent() -> None:
    row = row_of()
    for position in (1, 2, 5, 90):
        put(row, position, ONE)
    assert ranges(row) == [(1, 1, 90)]
    put(row, 91, TWO)
    assert ranges(row) == [(1, 1, 90), (2, 91, 91)]


def test_a_late_message_is_an_extent_between_others() -> None:
    row = row_of((ONE, 10, 20), (ONE, 40, 50))
    for position in (1, 2, 30, 31, 60):
        put(row, position, TWO)
    assert ranges(row) == [(2, 1, 2), (1, 10, 20), (2, 30, 31), (1, 40, 50), (2, 60, 60)]


def test_a_message_within_an_extent_of_its_segment_is_counted_there() -> None:
    row = row_of((ONE, 10, 20))
    assert put(row, 15, ONE) is row.segment_extents[0]
    assert ranges(row) == [(1, 10, 20)]


def test_an_extent_of_another_segment_is_split() -> None:
    row = row_of((ONE, 10, 20))
    for position in (14, 15, 16):
        put(row, position, TWO)
    assert ranges(row) == [(1, 10, 13), (2, 14, 16), (1, 17, 20)]


def test_an_extent_is_shortened_at_its_ends() -> None:
    row = row_of((ONE, 10, 20))
    put(row, 10, TWO)
    put(row, 20, TWO)
    assert ranges(row) == [(2, 10, 10), (1, 11, 19), (2, 20, 20)]


def test_no_extent_reaches_from_one_epoch_to_another() -> None:
    row = row_of()
    later = 1 << POSITION_BITS
    for position in (1, 2, later, later + 1, 3, 2 * later):
        put(row, position, ONE)
    assert ranges(row) == [(1, 1, 3), (1, later, later + 1), (1, 2 * later, 2 * later)]


def test_an_empty_extent_is_reused_and_dropped_when_another_is_used() -> None:
    row = row_of()
    extent = put(row, 5, ONE)
    extent.count = 0
    row.emptied(extent)
    assert put(row, 9, ONE) is extent
    assert ranges(row) == [(1, 9, 9)]
    extent.count = 0
    row.emptied(extent)
    put(row, 10, TWO)
    assert ranges(row) == [(2, 10, 10)]


def test_extents_between_two_positions_are_found() -> None:
    row = row_of((ONE, 10, 20), (TWO, 25, 29), (ONE, 40, 50))
    assert [int(one.first) for one in row.between(1, 9)] == []
    assert [int(one.first) for one in row.between(20, 25)] == [10, 25]
    assert [int(one.first) for one in row.between(30, 100)] == [40]
    assert [int(one.first) for one in row.between(1, 100)] == [10, 25, 40]
