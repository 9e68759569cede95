"""The order of publishing, by its own invariants."""

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.client.outbox.rows import row
from warren.client.outbox.publisher import PublishWaves

keys = st.lists(st.sampled_from(["", "a", "b", "c"]), max_size=30)


@given(keys)
def test_every_row_is_dealt_out_once_and_those_of_a_key_one_after_the_other(given_keys: list[str]) -> None:
    rows = [row(number, key) for number, key in enumerate(given_keys)]
    waves = PublishWaves(rows)
    dealt = []
    while wave := waves.next():
        keyed = [each.ordering_key for each in wave if each.ordering_key]
        assert len(keyed) == len(set(keyed))
        dealt += wave
    assert sorted(dealt) == rows
    for key in "abc":
        ids = [each.id for each in dealt if each.ordering_key == key]
        assert ids == sorted(ids)


def test_rows_without_a_key_go_all_at_once() -> None:
    waves = PublishWaves([row(1), row(2), row(3, "a"), row(4, "a")])
    assert [[each.id for each in waves.next()] for _ in range(3)] == [[1, 2, 3], [4], []]


def test_behind_a_row_that_is_held_nothing_of_its_key_comes() -> None:
    waves = PublishWaves([row(1, "a"), row(2, "b"), row(3, "a"), row(4, "b")])
    waves.next()
    waves.hold("a")
    assert [each.id for each in waves.next()] == [4]
