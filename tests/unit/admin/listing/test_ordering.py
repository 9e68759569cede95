"""The order of values of mixed kinds."""

from warren.admin.listing.ordering import place


def test_numbers_come_first_then_atoms_then_collections_then_texts() -> None:
    mixed = ["b", "a", "", {"a": 1}, [1], True, None, False, 2, 1.5, 0, -1]
    assert sorted(mixed, key=place) == [-1, 0, 1.5, 2, False, None, True, [1], {"a": 1}, "", "a", "b"]


def test_objects_are_compared_field_by_field() -> None:
    assert place({"a": 1}) < place({"a": 2}) < place({"b": 0})
    assert place({"a": "x"}) == place({"a": "x"})
