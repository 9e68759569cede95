"""A deduplication window remembers the last ids of each publisher, evicts in order, and survives its binary form."""

import pytest

from warren.broker.model.deduplication import IDS_MAX, PUBLISHERS_MAX, DeduplicationWindow, window_limit, window_row
from warren.errors import StoreError


def ids(window: DeduplicationWindow, publisher: bytes, count: int) -> list[int]:
    return [number for number in range(count) if window.has((publisher, b"%d" % number))]


def filled(publisher: bytes, count: int, limit: int = 1_000) -> DeduplicationWindow:
    window = DeduplicationWindow()
    window.bound(limit)
    for number in range(count):
        window.add((publisher, b"%d" % number), True)
    window.check()
    return window


def test_the_last_ids_of_a_publisher_are_remembered() -> None:
    window = filled(b"p", 10, limit=3)
    assert ids(window, b"p", 10) == [7, 8, 9]
    assert not window.has((b"q", b"9"))


def test_a_repeated_id_keeps_its_order() -> None:
    window = filled(b"p", 3, limit=3)
    window.add((b"p", b"0"), True)
    window.add((b"p", b"3"), True)
    assert ids(window, b"p", 4) == [1, 2, 3]
    window.check()


def test_a_window_of_size_zero_remembers_nothing() -> None:
    window = filled(b"p", 5)
    window.bound(0)
    window.add((b"p", b"1"), True)
    assert (window.count, window.is_open(), ids(window, b"p", 5)) == (0, False, [])
    window.check()


def test_a_lower_limit_evicts_the_oldest_ids() -> None:
    window = filled(b"p", 10)
    window.bound(2)
    assert ids(window, b"p", 10) == [8, 9]
    window.check()


def test_too_many_publishers_evict_the_one_that_was_idle_longest() -> None:
    window = DeduplicationWindow()
    names = [b"%d" % number for number in range(PUBLISHERS_MAX)]
    last: dict[bytes, bytes] = {}
    for name in [*names, names[0], b"last"]:
        last[name] = b"%d" % window.count
        window.add((name, last[name]), True)
    window.check()
    assert [name for name in [*names, b"last"] if not window.has((name, last[name]))] == [names[1]]


def test_too_many_ids_evict_the_oldest_of_the_publisher_that_was_idle_longest() -> None:
    window = DeduplicationWindow()
    each = int(IDS_MAX) // 4
    window.bound(each)
    for name in (b"a", b"b", b"c", b"d", b"e"):
        for number in range(each if name != b"e" else 3):
            window.add((name, b"%d" % number), True)
    window.check()
    assert ids(window, b"a", 5) == [3, 4]
    assert [window.has((name, b"0")) for name in (b"b", b"c", b"d", b"e")] == [True] * 4
    assert window.count == IDS_MAX


def test_active_publishers_share_the_window_equally() -> None:
    window = DeduplicationWindow()
    rounds = int(IDS_MAX) // 11 + 1_000
    for number in range(rounds):
        for name in range(11):
            window.add((b"%d" % name, b"%d" % number), True)
    window.check()
    oldest = rounds - int(IDS_MAX) // 11
    for name in range(11):
        known = ids(window, b"%d" % name, rounds)
        assert known[-1] == rounds - 1
        assert oldest - 1 <= known[0] <= oldest


def test_a_discarded_identity_is_forgotten() -> None:
    window = filled(b"p", 4)
    for number in (3, 1):
        window.discard((b"p", b"%d" % number))
        window.check()
    window.discard((b"p", b"7"))
    window.discard((b"q", b"1"))
    assert ids(window, b"p", 4) == [0, 2]
    window.discard((b"p", b"0"))
    window.discard((b"p", b"2"))
    window.check()
    window.add((b"p", b"5"), True)
    assert window.count == 1


def test_rows_are_loaded_in_order_with_lasting_ids_only_or_all() -> None:
    window = filled(b"p", 5_000)
    window.bound(5_000)
    window.add((b"q", b"x" * 16), False)
    window.add((b"p", b"5000"), False)
    lasting, all_of_it = DeduplicationWindow(), DeduplicationWindow()
    lasting.load(b"".join(window.rows(True)), True)
    all_of_it.load(b"".join(window.rows(False)), False)
    assert (lasting.count, all_of_it.count) == (window.count - 2, window.count)
    assert all_of_it.has((b"q", b"x" * 16))
    assert not lasting.has((b"p", b"5000"))
    assert all_of_it.rows(True) == window.rows(True)
    lasting.bound(1)
    assert lasting.has((b"p", b"4999"))
    lasting.check()


def test_an_id_becomes_lasting_when_it_is_added_as_lasting() -> None:
    window = DeduplicationWindow()
    window.add((b"p", b"1"), False)
    assert window.rows(True) == []
    window.add((b"p", b"1"), True)
    assert window.rows(True) == [window_row((b"p", b"1"), True)]
    window.check()


def test_unloading_rows_discards_their_identities() -> None:
    window = filled(b"p", 3)
    window.unload(window_row((b"p", b"1"), True) + window_row((b"p", b"2"), False))
    assert ids(window, b"p", 3) == [0]


def test_truncated_rows_are_refused() -> None:
    rows = window_row((b"publisher", b"12"), True)
    for size in range(1, len(rows)):
        with pytest.raises(StoreError):
            DeduplicationWindow().load(rows[:size], False)


@pytest.mark.parametrize(
    ("arguments", "policy", "limit"),
    [
        ({}, {}, 100_000),
        ({"x-warren-dedup-window": 5}, {}, 5),
        ({}, {"dedup-window": 0}, 0),
        ({"x-warren-dedup-window": 5}, {"dedup-window": 7}, 5),
        ({}, {"dedup-window": 10**30}, 1_000_000),
    ],
)
def test_the_lower_of_argument_and_policy_counts(
    arguments: dict[str, object], policy: dict[str, object], limit: int
) -> None:
    assert window_limit(arguments, policy) == limit
