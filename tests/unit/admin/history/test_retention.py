"""How many samples are kept for each sampling interval."""

import pytest

from warren.admin.history.series import RetentionLevel, retention_policies


def reach_s(levels: tuple[RetentionLevel, ...], interval_ms: int) -> list[float]:
    return [level.every * (level.size - 1) * interval_ms / 1000 for level in levels]


def test_the_default_interval_keeps_the_samples_of_rabbitmq() -> None:
    shapes = retention_policies(5000)
    assert shapes.whole.levels == (
        RetentionLevel(1, 122),
        RetentionLevel(12, 62),
        RetentionLevel(120, 50),
        RetentionLevel(360, 49),
    )
    assert shapes.counts.levels == shapes.sizes.levels == (RetentionLevel(1, 122), RetentionLevel(12, 61))
    assert reach_s(shapes.whole.levels, 5000) == [605, 3660, 29400, 86400]


@pytest.mark.parametrize("interval_ms", [100, 700, 1000, 5000, 8000, 60_000, 3_600_000])
def test_every_slot_has_a_sample_and_each_level_reaches_further_back(interval_ms: int) -> None:
    for shape in (retention_policies(interval_ms).whole, retention_policies(interval_ms).counts):
        assert shape.levels[0].every == 1
        assert shape.rows == sum(level.size for level in shape.levels)
        reaches = reach_s(shape.levels, interval_ms)
        assert reaches == sorted(reaches)
        steps = [level.every for level in shape.levels]
        assert steps == sorted(set(steps))
        assert min(level.size for level in shape.levels) >= 2


def test_the_longest_reach_is_that_of_the_policy() -> None:
    for interval_ms in (500, 5000, 10_000):
        assert reach_s(retention_policies(interval_ms).whole.levels, interval_ms)[-1] == pytest.approx(86400, rel=0.03)
