"""The messages of a stream that a promoted replica gives up, and those it must keep."""

import pytest

from tests.unit.broker.replication.world import StreamCopyWorld, span_of
from warren.broker.model.deduplication import window_row
from warren.broker.streams.offsets import position_of


@pytest.mark.parametrize("restarts", [True, False])
def test_a_replica_whose_old_contents_were_all_removed_keeps_its_backfill(restarts: bool) -> None:
    world = StreamCopyWorld()
    world.store_committed(range(30))
    world = world.restart()
    world.copy.begin_catching_up()
    world.copy.remove_any(position_of(1, 0), position_of(1, 29))
    # less than a chunk's worth
    for offset in range(5_000, 5_005):
        world.copy.backfill_stored(world.store(range(offset, offset + 1)))
    world.copy.caught_up()
    world.go_on()
    if restarts:
        world = world.restart()
    stream = world.promoted()
    assert (stream.first_offset(), stream.end_offset()) == (5_000, 5_005)
    assert world.copy.spans() == [span_of(range(5_000, 5_005))]


def test_a_chunk_being_written_is_kept_when_everything_before_it_is_removed() -> None:
    world = StreamCopyWorld()
    world.store_committed(range(20))
    world.store(range(20, 60))
    world.copy.committed(position_of(1, 59))
    world.disk.go_on()
    assert world.archive.writing
    world.copy.remove(0, position_of(1, 19), position_of(1, 19))
    world.go_on()
    stream = world.promoted()
    assert stream.end_offset() == 60
    assert world.copy.spans()[-1].last == position_of(1, 59)


@pytest.mark.parametrize(("end", "known"), [(40, True), (45, False)])
def test_messages_that_are_given_up_may_be_published_again(end: int, known: bool) -> None:
    world = StreamCopyWorld()
    world.store_committed(range(20))
    world.store(range(40, end), size=10)
    world.copy.load_publishing_ids(window_row((b"publisher", b"41"), True), False)
    world.promoted()
    assert world.copy.disk.queue_index.seen.has((b"publisher", b"41")) == known
    assert world.restart().copy.disk.queue_index.seen.has((b"publisher", b"41")) == known


def test_a_gap_between_the_archive_and_the_journal_is_reported() -> None:
    world = StreamCopyWorld()
    world.store_committed(range(60))
    world.store(range(60, 63))
    assert world.copy.describe_gap() == ""
    again = world.restart()
    assert again.copy.describe_gap() == ""
    end = int(again.catalog.end())
    segment, at = again.catalog.place()
    again.copy.remove_any(position_of(1, end), position_of(1, end))
    again.go_on()
    lost = again.restart()
    assert (
        lost.copy.describe_gap() == f"offset {end} is missing: segment {segment} of the stream is damaged at byte {at}"
    )
