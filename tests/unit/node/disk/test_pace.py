"""When a disk counts as quick."""

from warren.node.disk.journal_writer import FlushLatency


def after(*flushes_s: float) -> bool:
    pace = FlushLatency()
    for seconds in flushes_s:
        pace.took(seconds)
    return pace.quick()


def test_a_disk_has_to_show_that_it_is_quick() -> None:
    assert not after()
    assert not after(0.0001)
    assert after(*[0.0001] * 20)


def test_a_slow_disk_is_never_quick() -> None:
    assert not after(*[0.008] * 1000)


def test_one_long_flush_among_short_ones_changes_nothing() -> None:
    assert after(*[0.0001] * 100, 0.005)


def test_a_disk_that_stalls_is_not_quick_until_it_has_been_for_a_while() -> None:
    stalled = [*[0.0001] * 100, 0.2]
    assert not after(*stalled)
    assert not after(*stalled, *[0.0001] * 30)
    assert after(*stalled, *[0.0001] * 100)
