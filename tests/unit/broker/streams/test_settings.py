"""The settings of a stream from arguments and policies."""

import pytest

from warren.broker.model.deduplication import IDS_MAX
from warren.broker.streams.archive_index import SEGMENT_BYTES
from warren.broker.streams.settings import COUNT_MAX, UNLIMITED, stream_settings_of
from warren.wire.field_tables import Table


def test_a_stream_without_limits_keeps_everything() -> None:
    settings = stream_settings_of({"x-queue-type": "stream"})
    assert (settings.bytes_max, settings.age_max_ms, settings.segment_bytes) == (UNLIMITED, UNLIMITED, SEGMENT_BYTES)


@pytest.mark.parametrize(
    ("age", "age_ms"),
    [("30s", 30_000), ("5m", 300_000), ("2h", 7_200_000), ("1D", 86_400_000), ("1M", 2_592_000_000), ("0s", UNLIMITED)],
)
def test_an_age_is_a_number_of_milliseconds(age: str, age_ms: int) -> None:
    assert stream_settings_of({"x-max-age": age}).age_max_ms == age_ms


@pytest.mark.parametrize("age", ["0s", "99999999999Y"])
def test_a_policy_with_an_impossible_age_deletes_nothing(age: str) -> None:
    assert stream_settings_of({}, {"max-age": age}).age_max_ms == UNLIMITED


def test_huge_limits_fit_into_64_bits() -> None:
    settings = stream_settings_of({"x-max-age": "999999999Y"}, {"max-length-bytes": 10**30, "dedup-window": 10**30})
    assert 2**59 < settings.age_max_ms < 2**63
    assert (settings.bytes_max, settings.dedup_window) == (COUNT_MAX, IDS_MAX)


def test_of_an_argument_and_a_policy_the_lower_one_counts() -> None:
    arguments: Table = {"x-max-length-bytes": 10, "x-max-age": "1h", "x-stream-max-segment-size-bytes": 3}
    policy: Table = {"max-length-bytes": 9, "max-age": "2h", "stream-max-segment-size-bytes": 4}
    settings = stream_settings_of(arguments, policy)
    assert (settings.bytes_max, settings.age_max_ms, settings.segment_bytes) == (9, 3_600_000, 3)
