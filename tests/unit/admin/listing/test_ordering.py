"""The order of values of mixed types."""

from warren.admin.listing.columns import SORTED_MEMBERS_MAX, SORTED_NESTED_MAX, sort_key


def test_numbers_come_first_then_atoms_then_collections_then_texts() -> None:
    mixed = ["b", "a", "", {"a": 1}, [1], True, None, False, 2, 1.5, 0, -1]
    assert sorted(mixed, key=sort_key) == [-1, 0, 1.5, 2, False, None, True, [1], {"a": 1}, "", "a", "b"]


def test_objects_are_compared_field_by_field() -> None:
    assert sort_key({"a": 1}) < sort_key({"a": 2}) < sort_key({"b": 0})
    assert sort_key({"a": "x"}) == sort_key({"a": "x"})


def test_of_large_collections_the_first_members_count() -> None:
    def nested(levels: int) -> object:
        return [nested(levels - 1)] * 2 if levels else 1

    assert sort_key(list(range(100_000))) == sort_key(list(range(SORTED_MEMBERS_MAX)))
    assert sort_key({f"{number:03}": number for number in range(999, -1, -1)}) == sort_key(
        {f"{number:03}": number for number in range(SORTED_MEMBERS_MAX)}
    )
    assert sort_key(nested(SORTED_NESTED_MAX + 1)) == sort_key(nested(SORTED_NESTED_MAX + 5))
