"""Lost files of a stream: a replica detects them, and does not miss messages that it should not have."""

import pytest

from tests.unit.broker.journal.contents_world import ContentsWorld
from tests.unit.broker.replication.world import StreamCopyWorld, body_of, span_of
from warren.broker.streams.offsets import position_of


def archived_world(disk: ContentsWorld | None = None) -> StreamCopyWorld:
    """A replica that has everything in several files, and nothing in its journal."""
    world = StreamCopyWorld(disk)
    world.store_committed(range(66))
    end = int(world.catalog.end())
    world.copy.remove_any(position_of(1, end), position_of(1, 65))
    world.go_on()
    assert len(world.archive.segments) > 1
    return world


def cleared_world() -> StreamCopyWorld:
    """A replica all of whose messages are removed."""
    world = StreamCopyWorld()
    world.store_committed(range(60))
    world.copy.remove_any(position_of(1, 0), world.copy.spans()[-1].last)
    return world


@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize("in_journal", [0, 3])
def test_an_archive_without_its_end_is_reported_with_any_journal(kept: int, in_journal: int) -> None:
    world = archived_world()
    end = int(world.catalog.end())
    world.store(range(end, end + in_journal))
    world = world.restart()
    assert world.copy.describe_gap() == ""
    for segment in sorted(world.archive.segments)[kept:]:
        del world.archive.segments[segment]
    lost = world.restart()
    left = f"end with offset {lost.catalog.end() - 1}" if kept else "are missing"
    assert lost.copy.describe_gap() == f"the files of the stream {left}, and had everything up to offset {end - 1}"


def test_lost_files_are_detected_after_a_checkpoint_of_the_journal() -> None:
    world = archived_world(ContentsWorld(segment_bytes=300_000, prepared=False))
    for _life in range(2):
        world = world.restart()
        assert world.copy.describe_gap() == ""
    world.archive.segments.clear()
    assert world.restart().copy.describe_gap() != ""


def test_removed_messages_are_not_missed() -> None:
    world = StreamCopyWorld()
    world.store(range(5))
    world.copy.remove_any(position_of(1, 0), position_of(1, 4))
    world.go_on()
    again = world.restart()
    assert (again.copy.spans(), again.copy.describe_gap()) == ([], "")


def test_an_archive_is_deleted_when_the_journal_has_recorded_that() -> None:
    world = cleared_world()
    files = dict(world.archive.segments)
    assert files
    assert not world.copy.prepare_handover()
    world.disk.go_on()
    assert world.copy.prepare_handover()
    assert world.archive.segments == {}


@pytest.mark.parametrize("follows", [0, 5, 30])
def test_a_cleared_archive_is_not_missed(follows: int) -> None:
    world = cleared_world()
    world.store_committed(range(5_000, 5_000 + follows))
    assert bool(world.archive.segments) == (follows == 30)
    again = world.restart()
    assert again.copy.describe_gap() == ""
    assert again.promoted().end_offset() == (5_000 + follows if follows else 0)


def test_a_crash_while_an_archive_is_cleared_leaves_no_damage() -> None:
    world = cleared_world()
    files = dict(world.archive.segments)
    world.store_committed(range(5_000, 5_005))
    assert world.archive.segments == {}
    # a crash before the deletion
    world.archive.segments.update(files)
    again = world.restart()
    assert again.copy.describe_gap() == ""
    assert again.archive.segments == {}
    assert again.promoted().first_offset() == 5_000


def test_a_crash_before_a_chunk_is_known_to_be_in_the_archive_costs_nothing() -> None:
    world = cleared_world()
    world.disk.go_on()
    world.copy.committed(world.store(range(5_000, 5_011)))
    world.disk.go_on()
    [(segment, at, data, _writer)] = world.archive.writing
    world.archive.segments[segment] = world.archive.segments.get(segment, b"")[:at] + data
    again = world.restart()
    assert again.copy.describe_gap() == ""
    assert again.bodies() == [body_of(offset) for offset in range(5_000, 5_011)]


def test_messages_read_for_a_chunk_while_the_archive_is_cleared_are_archived_later() -> None:
    world = StreamCopyWorld()
    world.store_committed(range(20))
    world.store(range(20, 60))
    world.copy.committed(position_of(1, 59))
    assert not world.archive.writing
    world.copy.remove(0, position_of(1, 19), position_of(1, 19))
    world.go_on()
    assert world.archive.segments
    stream = world.restart().promoted()
    assert stream.end_offset() == 60


def test_an_accepted_gap_is_remembered_over_restarts() -> None:
    world = archived_world()
    assert not world.copy.accept_gap()
    del world.archive.segments[max(world.archive.segments)]
    lost = world.restart()
    assert not lost.copy.has_accepted_gap()
    assert lost.copy.accept_gap()
    assert not lost.copy.accept_gap()
    lost.go_on()
    again = lost.restart()
    assert (again.copy.has_accepted_gap(), again.copy.describe_gap(), again.copy.accept_gap()) == (True, "", False)


def test_a_promotion_with_an_accepted_gap_ends_the_gap() -> None:
    world = archived_world()
    del world.archive.segments[max(world.archive.segments)]
    lost = world.restart()
    end = int(lost.catalog.end())
    lost.copy.accept_gap()
    lost.go_on()
    lost = lost.restart()
    stream = lost.promoted()
    assert stream.end_offset() == end
    again = lost.restart()
    assert (again.copy.has_accepted_gap(), again.copy.describe_gap()) == (False, "")
    again.store_committed(range(end, 66), epoch=2)
    assert again.copy.spans() == [span_of(range(end)), span_of(range(end, 66), 2)]
    again.archive.segments.clear()
    assert again.restart().copy.describe_gap() != ""
