"""The index of a segment finds each queue's rows, in memory and in the file."""

import pytest

from warren.broker.journal import segment_index
from warren.broker.journal.segment_index import SegmentIndex
from warren.errors import StoreError

NUMBER = 42


def rows_with(*rows: tuple[int, int]) -> SegmentIndex:
    """Rows of (queue id, position), each with its own fields."""
    kept = SegmentIndex()
    for i, (queue_id, position) in enumerate(rows):
        kept.add(queue_id, position, 64 + i, 100 + i, 10 + i, i, 1)
    return kept


def positions(rows: bytes) -> list[int]:
    return [int(segment_index.row_position(rows, i)) for i in range(len(rows) // int(segment_index.ROW_BYTES))]


SAMPLE = rows_with((12, 1), (-3, 5), (12, 2), (90, 7), (-3, 6))


def test_a_row_has_the_added_fields() -> None:
    kept = SegmentIndex()
    kept.add(1, 1, 64, 100, 16, 0, 1)
    kept.add(1, 1 << 40, 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD, 255, 4)
    rows = kept.rows_of(1)
    read = [
        segment_index.row_position,
        segment_index.row_offset,
        segment_index.row_length,
        segment_index.row_body_bytes,
        segment_index.row_priority,
        segment_index.row_kind,
    ]
    assert [int(fact(rows, 0)) for fact in read] == [1, 64, 100, 16, 0, 1]
    assert [int(fact(rows, 1)) for fact in read] == [1 << 40, 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD, 255, 4]
    assert kept.count == 2


def test_rows_are_kept_apart_by_queue() -> None:
    assert positions(SAMPLE.rows_of(12)) == [1, 2]
    assert positions(SAMPLE.rows_of(-3)) == [5, 6]
    assert SAMPLE.rows_of(13) == b""


def test_rows_added_out_of_order_are_sorted_with_their_facts() -> None:
    kept = rows_with((1, 300), (1, 2), (1, 1 << 33), (1, 299))
    rows = kept.rows_of(1)
    assert positions(rows) == [2, 299, 300, 1 << 33]
    assert [int(segment_index.row_offset(rows, i)) for i in range(4)] == [65, 67, 64, 66]
    assert segment_index.rows_in(kept.encode(NUMBER), 1) == rows


def test_rows_are_sorted_once_however_often_they_are_asked_for() -> None:
    """One compacted record among many rows must not cause a sort at every read."""
    kept = rows_with((1, 5), (1, 6), (1, 2))
    assert positions(kept.rows_of(1)) == [2, 5, 6]
    assert kept._queues[1].in_order
    kept.add(1, 7, 64, 100, 10, 0, 1)
    assert kept._queues[1].in_order
    assert positions(kept.rows_of(1)) == [2, 5, 6, 7]
    kept.add(1, 3, 64, 100, 10, 0, 1)
    assert positions(segment_index.rows_in(kept.encode(NUMBER), 1)) == [2, 3, 5, 6, 7]


def test_the_first_row_from_a_position_is_found() -> None:
    rows = rows_with((1, 3), (1, 4), (1, 9)).rows_of(1)
    assert [int(segment_index.first_row_from(rows, position)) for position in (0, 3, 4, 5, 9, 10)] == [0, 0, 1, 2, 2, 3]
    assert segment_index.first_row_from(b"", 1) == 0


def test_the_file_has_the_rows_that_were_in_memory() -> None:
    data = SAMPLE.encode(NUMBER)
    segment_index.check_index(data, NUMBER)
    assert segment_index.queue_ids(data) == [-3, 12, 90]
    for queue_id in (-3, 12, 90, 13, -4, 1000):
        assert segment_index.rows_in(data, queue_id) == SAMPLE.rows_of(queue_id)


def test_rows_are_found_with_the_header_and_the_directory_alone() -> None:
    data = SAMPLE.encode(NUMBER)
    header = data[: segment_index.INDEX_HEADER_BYTES]
    size = segment_index.INDEX_HEADER_BYTES + segment_index.directory_bytes(header)
    start, length = segment_index.find_rows(data[:size], 12)
    assert data[start : start + length] == SAMPLE.rows_of(12)
    assert segment_index.find_rows(data[:size], 13) == (0, 0)
    with pytest.raises(StoreError):
        segment_index.find_rows(data[: size - 1], 12)


def test_the_index_of_a_segment_without_messages_is_whole() -> None:
    data = SegmentIndex().encode(NUMBER)
    segment_index.check_index(data, NUMBER)
    assert segment_index.queue_ids(data) == []
    assert segment_index.find_rows(data, 1) == (0, 0)


def test_an_index_of_another_segment_is_refused() -> None:
    with pytest.raises(StoreError, match=r"an index of segment 42"):
        segment_index.check_index(SAMPLE.encode(NUMBER), NUMBER + 1)


def test_bytes_that_are_no_index_or_of_another_version_are_refused() -> None:
    data = SAMPLE.encode(NUMBER)
    for bad in (b"", data[:31], b"x" + data[1:]):
        with pytest.raises(StoreError, match=r"not an index"):
            segment_index.directory_bytes(bad)
    with pytest.raises(StoreError, match=r"another version, 2"):
        segment_index.directory_bytes(data[:11] + b"\x02" + data[12:])


def test_every_flipped_bit_and_every_cut_of_an_index_is_refused() -> None:
    data = SAMPLE.encode(NUMBER)
    for bit in range(len(data) * 8):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(StoreError):
            segment_index.check_index(bytes(changed), NUMBER)
    for size in range(len(data)):
        with pytest.raises(StoreError):
            segment_index.check_index(data[:size], NUMBER)
    with pytest.raises(StoreError):
        segment_index.check_index(data + b"\x00", NUMBER)
