"""The samples of an object, kept in rings that leave out what did not move, against a list of everything."""

from hypothesis import given, settings
from hypothesis import strategies as st

from warren.admin.history.details import details, moments_ms
from warren.admin.history.shapes import COUNTS, SIZES, Level, Shape
from warren.admin.history.track import Track
from warren.admin.history_port import Span

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
    lambda fine, every, coarse, type_code: Shape((Level(1, fine), Level(every, coarse)), type_code),
    st.integers(2, 12),
    st.integers(2, 7),
    st.integers(2, 9),
    st.sampled_from([COUNTS, SIZES]),
)


class Remembered:
    """Every slot's figures, for ever."""

    def __init__(self, born: int, figures: list[int]) -> None:
        self.born = born
        self.changes = [(born, figures)]

    def at(self, slot: int, figure: int) -> int:
        return next((figures[figure] for since, figures in reversed(self.changes) if since <= slot), 0)


def lived(
    shape: Shape, born: int, start: list[int], taken: list[tuple[int, list[int] | None]]
) -> tuple[Track, Remembered, int]:
    track, remembered, slot = Track(shape, born, start), Remembered(born, start), born
    for passed, figures in taken:
        slot += passed
        if figures is None or figures == track.last:
            continue
        columns = track.stirred_columns(figures)
        if columns is not track.columns:
            track.widen(columns, shape)
        track.record(slot, 5000, figures)
        remembered.changes.append((slot, figures))
    return track, remembered, slot


@given(shapes, st.integers(0, 1000), st.lists(st.integers(0, 2**31 - 1), min_size=3, max_size=3), steps)
def test_what_is_kept_is_what_was(
    shape: Shape, born: int, start: list[int], taken: list[tuple[int, list[int] | None]]
) -> None:
    track, remembered, now = lived(shape, born, start, taken)
    (_, fine), (every, coarse) = shape.levels
    for figure in range(FIGURES):
        for slot in range(max(0, now - every * (coarse - 1)), now + 3):
            exact = remembered.at(slot, figure)
            rounded = remembered.at((slot + 1) // every * every - 1, figure)
            if slot > now - fine:
                assert track.at(slot, figure) == exact
            else:
                assert track.at(slot, figure) in (exact, rounded)


@given(shapes, st.integers(0, 1000), steps)
def test_what_is_older_than_all_that_is_kept_is_something_that_was(
    shape: Shape, born: int, taken: list[tuple[int, list[int] | None]]
) -> None:
    track, remembered, now = lived(shape, born, [0] * FIGURES, taken)
    ever = [{figures[figure] for _, figures in remembered.changes} | {0} for figure in range(FIGURES)]
    for figure in range(FIGURES):
        assert all(track.at(slot, figure) in ever[figure] for slot in range(max(0, born - 5), now + 1))


@given(st.integers(2**33, 2**40), st.lists(st.integers(0, 2**25), min_size=1, max_size=30))
def test_counters_beyond_32_bits_are_told_exactly(start: int, growths: list[int]) -> None:
    shape = Shape((Level(1, 40),), COUNTS)
    track, values = Track(shape, 0, [start]), [start]
    for growth in growths:
        values.append(values[-1] + growth)
        if growth:
            if not track.columns:
                track.widen((0,), shape)
            track.record(len(values) - 1, 5000, [values[-1]])
    assert [track.at(slot, 0) for slot in range(len(values))] == values


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
    shape = Shape((Level(1, 2000),), SIZES)
    track, remembered, slot = lived(shape, 1000, [7] * FIGURES, taken)
    span, now_ms = Span(age_s, step_s), (slot + 1) * 5000 + late_ms
    told = details(track, (0, 2), span, now_ms, 5000)
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
