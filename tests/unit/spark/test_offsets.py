"""Offsets in options, and how offsets are divided among tasks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.spark.options import OptionError
from warren.spark.stream_offsets import (
    ExactOffset,
    NamedOffset,
    OffsetRange,
    OffsetSpec,
    TimestampOffset,
    parse_offset_specs,
    ranges_between,
    share_limit,
    split_ranges,
)

COUNTS = st.dictionaries(st.integers(0, 20), st.integers(0, 1000), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", NamedOffset("earliest")),
        (" Latest ", NamedOffset("latest")),
        ("0", ExactOffset(0)),
        ("17", ExactOffset(17)),
        ("timestamp:1700000000123", TimestampOffset(1_700_000_000_123)),
        ("2023-11-14T22:13:20.123Z", TimestampOffset(1_700_000_000_123)),
        ("2023-11-14T22:13:20", TimestampOffset(1_700_000_000_000)),
        ("2023-11-15T00:13:20+02:00", TimestampOffset(1_700_000_000_000)),
        ("2023-11-14", TimestampOffset(1_699_920_000_000)),
    ],
)
def test_a_place_is_a_name_an_offset_or_a_time(text: str, place: OffsetSpec) -> None:
    places = parse_offset_specs("startingOffsets", text)
    assert places.of(0) == places.of(5) == place


def test_each_partition_may_have_a_place_of_its_own() -> None:
    places = parse_offset_specs("startingOffsets", '{"0": 5, "1": "earliest", "2": "2023-11-14T22:13:20Z"}')
    places.check_partitions("startingOffsets", 3)
    assert [places.of(partition) for partition in range(3)] == [
        ExactOffset(5),
        NamedOffset("earliest"),
        TimestampOffset(1_700_000_000_000),
    ]


@pytest.mark.parametrize(
    "text", ["", "first", "-1", "1.5", "5 ms", "timestamp:", "timestamp:now", "{", '{"a": 1}', '{"0": true}', "9" * 19]
)
def test_anything_else_is_a_mistake_that_names_the_option(text: str) -> None:
    with pytest.raises(OptionError, match="startingOffsets"):
        parse_offset_specs("startingOffsets", text)


@pytest.mark.parametrize(("text", "blamed"), [('{"0": 1}', "partition 1"), ('{"0": 1, "1": 2, "7": 3}', "partition 7")])
def test_a_partition_too_few_or_too_many_is_named(text: str, blamed: str) -> None:
    with pytest.raises(OptionError, match=blamed):
        parse_offset_specs("endingOffsets", text).check_partitions("endingOffsets", 2)


@given(COUNTS, st.integers(1, 5000))
def test_exactly_the_limit_is_admitted_if_there_is_that_much(backlogs: dict[int, int], limit: int) -> None:
    taken = share_limit(backlogs, limit)
    assert sum(taken.values()) == min(limit, sum(backlogs.values()))
    assert all(0 <= taken[partition] <= backlogs[partition] for partition in backlogs)


def test_who_has_little_gives_the_rest_to_the_others() -> None:
    assert share_limit({0: 1000, 1: 3, 2: 1000}, 103) == {0: 50, 1: 3, 2: 50}


@given(COUNTS, st.integers(1, 40))
def test_pieces_cover_every_offset_once(backlogs: dict[int, int], pieces: int) -> None:
    ranges = [OffsetRange(partition, 7, 7 + count) for partition, count in sorted(backlogs.items())]
    cut = split_ranges(ranges, pieces)
    offsets = [(each.partition, offset) for each in cut for offset in range(each.start, each.end)]
    assert offsets == [(each.partition, offset) for each in ranges for offset in range(each.start, each.end)]
    assert len(cut) >= min(pieces, sum(backlogs.values()))
    assert all(each.count for each in cut)


def test_the_larger_range_is_cut_more_often() -> None:
    assert split_ranges([OffsetRange(0, 0, 300), OffsetRange(1, 0, 100)], 4) == [
        OffsetRange(0, 0, 100),
        OffsetRange(0, 100, 200),
        OffsetRange(0, 200, 300),
        OffsetRange(1, 0, 100),
    ]


def test_ranges_between_two_offsets_cover_the_unread_messages() -> None:
    ranges = ranges_between({"0": 5, "10": 2, "9": 4}, {"0": 8, "9": 4, "10": 3})
    assert ranges == [OffsetRange(0, 5, 8), OffsetRange(9, 4, 4), OffsetRange(10, 2, 3)]


def test_a_stream_that_was_made_anew_is_read_from_its_beginning() -> None:
    assert ranges_between({"0": 500}, {"0": 20}) == [OffsetRange(0, 0, 20)]
