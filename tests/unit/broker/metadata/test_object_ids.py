"""Ids of objects: determined by revision and key alone, and never assigned twice."""

from hypothesis import given
from hypothesis import strategies as st

from warren.broker.metadata.store import IDS_PER_REVISION, id_slot, object_id

MULTIPLES = st.integers(1, 1 << 40).map(lambda number: number * IDS_PER_REVISION)


@given(MULTIPLES, st.text())
def test_an_id_is_above_the_revision_before_and_not_above_its_own(revision: int, key: str) -> None:
    assert revision - IDS_PER_REVISION < object_id(revision, key) <= revision


def test_the_slot_of_a_key_never_changes() -> None:
    # journals on disk have ids with these slots
    assert [id_slot(key) for key in ("queues/%2F/orders", "exchanges/%2F/logs", "queues/%2F/\udcff")] == [
        776,
        782,
        2477,
    ]


@given(MULTIPLES, st.text(), st.text())
def test_keys_of_different_slots_have_different_ids(revision: int, one: str, other: str) -> None:
    assert (object_id(revision, one) == object_id(revision, other)) == (id_slot(one) == id_slot(other))
