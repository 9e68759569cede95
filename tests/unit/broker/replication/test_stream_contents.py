"""The messages of a stream that a replica holds, in its journal and its archive."""

from tests.unit.broker.journal.contents_world import JoiningMirror
from tests.unit.broker.replication.world import StreamCopyWorld, body_in, body_of, span_of
from tests.unit.broker.streams.stage import message_of
from warren.broker.model.replica_contents import PositionSpan
from warren.broker.streams.offsets import offset_of, position_of


def test_committed_messages_move_from_the_journal_to_the_archive() -> None:
    world = StreamCopyWorld()
    world.store(range(30))
    world.go_on()
    assert world.catalog.empty()
    world.copy.committed(position_of(1, 24))
    world.go_on()
    archived = int(world.catalog.end())
    assert 11 <= archived <= 25
    assert world.copy.disk.count() == 30 - archived
    assert world.copy.spans() == [span_of(range(30))]
    assert world.bodies() == [body_of(offset) for offset in range(30)]


def test_a_chunk_has_messages_of_one_epoch() -> None:
    world = StreamCopyWorld()
    world.store_committed(range(5), epoch=1)
    world.store_committed(range(5, 40), epoch=2)
    assert world.copy.spans() == [span_of(range(5)), span_of(range(5, 40), epoch=2)]
    kept = world.catalog.with_offset(0)
    assert kept is not None
    assert kept.count == 5
    assert world.bodies() == [body_of(n, 1) for n in range(5)] + [body_of(n, 2) for n in range(5, 40)]


def test_after_a_restart_no_message_is_in_journal_and_archive() -> None:
    world = StreamCopyWorld()
    world.store(range(30))
    world.copy.committed(position_of(1, 29))
    world.disk.go_on()
    # the chunk is written, and the process ends before the journal records that
    segment, at, data, _writer = world.archive.writing[0]
    assert (segment, at) == (1, 0)
    world.archive.segments[1] = data
    again = world.restart()
    assert again.copy.spans() == [span_of(range(30))]
    assert again.copy.disk.count() == 30 - again.catalog.end()
    assert again.bodies() == [body_of(offset) for offset in range(30)]


def test_a_restarted_replica_archives_nothing_before_it_is_compared_with_the_master() -> None:
    world = StreamCopyWorld()
    world.store_committed(range(30))
    world.store(range(30, 60))
    world.go_on()
    again = world.restart()
    before = again.catalog.end()
    again.copy.begin_catching_up()
    # batches arrive during the backfill
    again.store_committed(range(80, 100), epoch=2)
    assert again.catalog.end() == before
    # uncommitted messages are removed, then the backfill arrives
    again.copy.remove_any(position_of(1, 50), position_of(1, 59))
    for offset in range(50, 80):
        again.copy.backfill_stored(again.store(range(offset, offset + 1), epoch=2))
    again.go_on()
    assert 50 < again.catalog.end() <= 80
    again.copy.caught_up()
    again.go_on()
    assert again.catalog.end() > 80
    assert again.copy.spans() == [span_of(range(50)), span_of(range(50, 100), epoch=2)]


def test_a_promoted_replica_continues_after_its_highest_position() -> None:
    world = StreamCopyWorld()
    world.store_committed(range(20))
    world.store(range(20, 25))
    stream = world.promoted()
    assert (stream.first_offset(), stream.end_offset()) == (0, 25)
    stream.begin_epoch(position_of(2, -1))
    entry = stream.reserve(message_of(b"next"))
    assert entry is not None
    assert entry.position == position_of(2, 25)


def test_a_promotion_waits_for_the_chunk_that_is_being_written() -> None:
    world = StreamCopyWorld()
    world.store(range(30))
    world.copy.committed(position_of(1, 29))
    world.disk.go_on()
    assert world.archive.writing
    assert not world.copy.prepare_handover()
    stream = world.promoted()
    assert world.catalog.end() > 0
    assert (stream.first_offset(), stream.end_offset()) == (0, 30)


def test_a_promoted_unsynced_replica_keeps_the_messages_before_its_gap_and_the_later_epoch() -> None:
    world = StreamCopyWorld()
    world.store_committed(range(20))
    world.store(range(20, 25), epoch=1, size=10)
    world.store(range(23, 28), epoch=2, size=10)
    world.store(range(40, 45), epoch=2, size=10)
    assert world.promoted().end_offset() == 28
    assert world.copy.spans() == [span_of(range(23)), span_of(range(23, 28), epoch=2)]


def test_messages_that_the_master_expired_are_dropped_by_segments() -> None:
    world = StreamCopyWorld()
    world.store_committed(range(100))
    first = int(world.catalog.first())
    gone = position_of(1, 70)
    world.copy.remove(0, gone, gone)
    assert first < world.catalog.first() <= 71
    assert world.copy.spans() == [span_of(range(71, 100))]
    assert len(world.bodies()) == 29


def test_messages_before_the_archive_are_not_requested() -> None:
    world = StreamCopyWorld()
    assert world.copy.skippable_spans() == []
    world.store(range(90, 95))
    assert world.copy.skippable_spans() == [span_of(range(90, 95))]
    world = StreamCopyWorld()
    world.store_committed(range(20, 50))
    assert world.copy.skippable_spans() == [PositionSpan(1, position_of(1, 49))]


def test_an_archive_whose_messages_are_all_removed_is_replaced_by_the_backfill() -> None:
    world = StreamCopyWorld()
    world.store_committed(range(30))
    end = int(world.catalog.end())
    again = world.restart()
    again.copy.begin_catching_up()
    again.copy.remove_any(1, position_of(1, 60))
    assert not again.copy.diverged
    for offset in range(61, 91):
        again.copy.backfill_stored(again.store(range(offset, offset + 1)))
    again.copy.caught_up()
    again.go_on()
    assert end > 0
    assert again.catalog.first() == 61
    assert again.copy.spans() == [span_of(range(61, 91))]


def test_a_replica_whose_archive_has_messages_that_the_master_lacks_has_diverged() -> None:
    world = StreamCopyWorld()
    world.store_committed(range(30))
    last = int(world.catalog.end()) - 1
    world.copy.remove_any(position_of(1, last), position_of(1, last))
    assert world.copy.diverged


def test_a_message_that_moves_to_the_archive_during_a_read_is_read_there() -> None:
    world = StreamCopyWorld()
    world.store(range(40))
    mirror = JoiningMirror()
    reader = world.copy.read(world.copy.spans(), mirror)
    for _round in range(100):
        if mirror.over:
            break
        reader.more(250_000)
        if len(mirror.taken) == 0:
            # it is requested, and moves before it is read
            world.copy.committed(position_of(1, 39))
        world.go_on()
    assert mirror.damage == ""
    assert [offset_of(message.position) for message in mirror.taken] == list(range(40))
    assert [body_in(message) for message in mirror.taken] == [body_of(offset) for offset in range(40)]


def test_read_messages_can_be_stored_by_another_replica_unchanged() -> None:
    world, other = StreamCopyWorld(), StreamCopyWorld()
    world.store_committed(range(30))
    for message in world.read(world.copy.spans()):
        other.copy.store(
            message.position, message.priority, message.expires_at_ms, True, message.payload, message.payload_crc
        )
    assert other.bodies() == world.bodies()
    assert [message.expires_at_ms for message in other.read(other.copy.spans())] == [1_000 + n for n in range(30)]


def test_messages_dropped_before_they_are_read_for_another_replica_are_skipped() -> None:
    world = StreamCopyWorld()
    world.store_committed(range(120))
    mirror = JoiningMirror()
    reader = world.copy.read(world.copy.spans(), mirror)
    reader.more(300_000)
    # one thread reads and another deletes: the file is gone before it is opened
    dropped = world.catalog.expire(1, 0, 0)
    world.archive.drop(dropped)
    ((segment, _at, _length, asker),) = world.archive.reading
    assert segment in dropped
    world.archive.reading = []
    asker.archive_read(b"", "No such file or directory")
    for _round in range(100):
        if mirror.over:
            break
        world.go_on()
        reader.more(300_000)
    assert mirror.damage == ""
    assert [offset_of(message.position) for message in mirror.taken] == list(range(int(world.catalog.first()), 120))


def test_a_promoted_replica_archives_most_of_its_journal_before_the_handover() -> None:
    world = StreamCopyWorld()
    world.copy.begin_catching_up()
    world.store(range(400))
    world.go_on()
    assert world.catalog.empty()
    assert not world.copy.prepare_handover()
    assert world.promoted().end_offset() == 400
    assert world.catalog.end() > 220
