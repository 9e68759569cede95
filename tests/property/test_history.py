"""The samples of an object, kept in ring buffers that leave out unchanged values, against a full list."""

from hypothesis import given, settings
from hypothesis import strategies as st

from warren.admin.history.series import COUNTS, SIZES, Retention, RetentionLevel, SampleSeries
from warren.admin.history.stats_history import details, moments_ms
from warren.admin.ports import SampleSpan

FIGURES = 3
# how many slots pass, and the figures from then on; None: nothing moved
steps = st.lists(
    st.tuples(
        st.integers(1, 40),
        st.none() | st.lists(st.integers(0, 2**31 - 1), min_size=FIGURES, max_size=FIGURES),
    ),
    max_size=40,
)
shapes = st.builds(
    lambda fine, every, coarse, type_code: Retention(
        (RetentionLevel(1, fine), RetentionLevel(every, coarse)), type_code
    ),
    st.integers(2, 12),
    st.integers(2, 7),
    st.integers(2, 9),
    st.sampled_from([COUNTS, SIZES]),
)


class Remembered:
    """Every slot's figures, for ever."""

    def __init__(self, born: int, stats: list[int]) -> None:
        self.born = born
        self.changes = [(born, stats)]

    def at(self, slot: int, figure: int) -> int:
        return next((stats[figure] for since, stats in reversed(self.changes) if since <= slot), 0)


def lived(
    shape: Retention, born: int, start: list[int], taken: list[tuple[int, list[int] | None]]
) -> tuple[SampleSeries, Remembered, int]:
    series, remembered, slot = SampleSeries(shape, born, start), Remembered(born, start), born
    for passed, stats in taken:
        slot += passed
        if stats is None or stats == series.last:
            continue
        columns = series.changed_columns(stats)
        if columns is not series.columns:
            series.widen(columns, shape)
        series.record(slot, 5000, stats)
        remembered.changes.append((slot, stats))
    return series, remembered, slot


@given(shapes, st.integers(0, 1000), st.lists(st.integers(0, 2**31 - 1), min_size=3, max_size=3), steps)
def test_kept_samples_are_the_original_values(
    shape: Retention, born: int, start: list[int], taken: list[tuple[int, list[int] | None]]
) -> None:
    series, remembered, now = lived(shape, born, start, taken)
    (_, fine), (every, coarse) = shape.levels
    for figure in range(FIGURES):
        for slot in range(max(0, now - every * (coarse - 1)), now + 3):
            exact = remembered.at(slot, figure)
            rounded = remembered.at((slot + 1) // every * every - 1, figure)
            if slot > now - fine:
                assert series.at(slot, figure) == exact
            else:
                assert series.at(slot, figure) in (exact, rounded)


@given(shapes, st.integers(0, 1000), steps)
def test_every_sample_is_zero_or_an_earlier_value(
    shape: Retention, born: int, taken: list[tuple[int, list[int] | None]]
) -> None:
    series, remembered, now = lived(shape, born, [0] * FIGURES, taken)
    ever = [{stats[figure] for _, stats in remembered.changes} | {0} for figure in range(FIGURES)]
    for figure in range(FIGURES):
        assert all(series.at(slot, figure) in ever[figure] for slot in range(max(0, born - 5), now + 1))


@given(st.integers(2**33, 2**40), st.lists(st.integers(0, 2**25), min_size=1, max_size=30))
def test_counters_beyond_32_bits_are_exact(start: int, growths: list[int]) -> None:
    shape = Retention((RetentionLevel(1, 40),), COUNTS)
    series, values = SampleSeries(shape, 0, [start]), [start]
    for growth in growths:
        values.append(values[-1] + growth)
        if growth:
            if not series.columns:
                series.widen((0,), shape)
            series.record(len(values) - 1, 5000, [values[-1]])
    assert [series.at(slot, 0) for slot in range(len(values))] == values


@settings(max_examples=200)
@given(
    steps,
    st.integers(5, 120),
    st.integers(1, 30),
    st.integers(0, 4999),
)
def test_samples_of_a_span_are_the_last_ones_taken_before_their_moments(
    taken: list[tuple[int, list[int] | None]], age_s: int, step_s: int, late_ms: int
) -> None:
    shape = Retention((RetentionLevel(1, 2000),), SIZES)
    series, remembered, slot = lived(shape, 1000, [7] * FIGURES, taken)
    span, now_ms = SampleSpan(age_s, step_s), (slot + 1) * 5000 + late_ms
    told = details(series, (0, 2), span, now_ms, 5000)
    moments = moments_ms(span, now_ms)
    expected = []
    for moment in moments:
        # passes are in the middle of their slots
        known = [since for since in range(slot + 1) if since * 5000 + 2500 <= moment]
        expected.append(sum(remembered.at(known[-1], figure) for figure in (0, 2)) if known else 0)
    samples = told["samples"]
    assert isinstance(samples, list)
    assert [one["sample"] for one in samples] == expected
    assert [one["timestamp"] for one in samples] == moments
    assert moments[0] <= now_ms < moments[0] + step_s * 1000
    if len(moments) > 1:
        assert told["rate"] == (expected[0] - expected[1]) / step_s
        assert told["avg_rate"] == (expected[0] - expected[-1]) / (step_s * (len(moments) - 1))
    assert told["avg"] == sum(expected) / len(expected)
