"""A replica on disk: late and repeated messages, early removals, restarts, split extents, promotion, backfill."""

import pytest

from tests.unit.broker.journal.contents_world import ContentsWorld, JoiningMirror, body_of, message_of, spans_of
from tests.unit.broker.journal.plain_disk import index_name
from warren.broker.journal.payloads import message_payload
from warren.broker.journal.replica_contents import DiskContents
from warren.broker.model.deduplication import window_row
from warren.broker.model.message import Entry
from warren.broker.model.replica_set import POSITION_BITS
from warren.broker.queues.settings import QueueSettings
from warren.errors import PeerFault

SMALL = 600
"""A segment with room for a handful of messages."""


def filled(world: ContentsWorld, first: int, last: int, persistent: bool = True) -> None:
    for position in range(first, last + 1):
        world.store(position, f"body of {position}", persistent=persistent)
        world.go_on()


def sums(world: ContentsWorld) -> tuple[int, int]:
    return world.copy.count(), world.copy.body_bytes()


# -- storing and removing


def test_a_stored_message_is_present_until_it_is_removed() -> None:
    world = ContentsWorld()
    filled(world, 1, 9)
    world.copy.remove(0, 3, 4)
    world.copy.remove(0, 9, 9)
    assert world.spans() == spans_of((1, 2), (5, 8))
    assert sums(world) == (6, 6 * len("body of 1"))


def test_only_persistent_messages_must_be_flushed() -> None:
    world = ContentsWorld()
    assert world.store(1, persistent=True)
    assert not world.store(2, persistent=False)
    # a present message may be in a batch that is in flight
    assert world.store(1, persistent=True)
    assert world.spans() == spans_of((1, 2))


def test_a_message_removed_before_it_arrives_is_not_stored() -> None:
    world = ContentsWorld(segment_bytes=SMALL)
    filled(world, 10, 20)
    world.copy.remove(0, 5, 7)
    world.copy.remove(0, 10, 20)
    # a checkpoint was written when nothing was alive, and lists nothing below the next message
    filled(world, 30, 40)
    filled(world, 4, 8)
    assert world.spans() == spans_of((4, 4), (8, 8), (30, 40))


def test_a_removal_takes_present_messages_of_its_level_alone() -> None:
    world = ContentsWorld(max_priority=2)
    for position in range(1, 10):
        world.store(position, "x" * position, priority=position % 3, persistent=position % 2 == 0)
    world.copy.remove(1, 1, 7)
    assert world.spans() == spans_of((2, 3), (5, 6), (8, 9))
    world.copy.remove_any(3, 8)
    assert world.spans() == spans_of((2, 2), (9, 9))
    world.copy.drop(7, 2)
    assert world.spans() == spans_of((9, 9))
    assert sums(world) == (1, 9)


def test_positions_of_another_epoch_are_far_away() -> None:
    world = ContentsWorld()
    later = 3 << POSITION_BITS
    filled(world, 1, 5)
    filled(world, later, later + 5)
    world.copy.remove(0, 1, 5)
    world.copy.caught_up()
    world.copy.remove(0, later, later + 4)
    world.go_on()
    assert world.restart().spans() == spans_of((later + 5, later + 5))
    assert world.queue_index.next_position == later + 6


def test_a_malformed_payload_is_not_stored() -> None:
    world = ContentsWorld()
    payload, crc = message_payload(message_of("body"))
    for cut in (payload[:20], payload[:30], b"\xff" + payload[1:]):
        with pytest.raises(PeerFault):
            world.copy.store(1, 0, 0, True, cut, crc)
    for level, first, last in ((1, 1, 1), (0, 0, 1), (0, 2, 1), (0, 1, 1 << 60)):
        with pytest.raises(PeerFault):
            world.copy.remove(level, first, last)
    assert world.spans() == []


# -- splitting


def test_a_late_message_may_lie_within_an_extent_of_another_segment() -> None:
    world = ContentsWorld(segment_bytes=SMALL)
    for position in (*range(1, 5), *range(11, 15)):
        world.store(position, "early")
    world.go_on()
    for position in range(5, 11):
        world.store(position, "late")
    world.go_on()
    assert len([extent for extent in world.queue_index.segment_extents if extent.count > 0]) == 3
    assert world.spans() == spans_of((1, 14))
    found = world.restart()
    assert found.spans() == spans_of((1, 14))
    bodies = [body_of(entry) for entry in found.drain(found.queue())]
    assert bodies == ["early"] * 4 + ["late"] * 6 + ["early"] * 4


def test_the_parts_of_a_split_extent_are_removed_separately() -> None:
    world = ContentsWorld(segment_bytes=SMALL)
    for position in (*range(1, 5), *range(11, 15)):
        world.store(position, "early" * position)
    world.go_on()
    for position in (7, 8):
        world.store(position, "late")
    world.copy.remove(0, 1, 4)
    world.go_on()
    found = world.restart()
    assert sums(found) == (6, 5 * (11 + 12 + 13 + 14) + 8)
    found.copy.remove(0, 11, 14)
    assert found.spans() == spans_of((7, 8))


def test_an_extent_split_during_compaction_is_copied_completely() -> None:
    large = "x" * 100_000
    world = ContentsWorld(segment_bytes=3_000_000)
    for position in (*range(1, 21), *range(30, 41)):
        world.store(position, large)
    world.go_on()
    world.copy.remove(0, 1, 18)
    world.go_on()
    (old,) = [one for one in world.journal.segments.values() if one.live_count > 0]
    assert world.journal.compaction.worthwhile(old)
    world.journal.compaction.begin(old)
    # one slice of several
    world.step()
    assert world.journal.compaction.running()
    world.store(25, "late")
    world.go_on()
    assert old.moved_to is not None
    assert world.spans() == spans_of((19, 20), (25, 25), (30, 40))
    found = world.restart()
    assert found.spans() == spans_of((19, 20), (25, 25), (30, 40))
    assert len(found.read(spans_of((1, 40)))) == 14


# -- restarts


def test_persistent_messages_survive_a_restart() -> None:
    world = ContentsWorld(segment_bytes=SMALL)
    for position in range(1, 30):
        world.store(position, f"{position}", persistent=position % 3 > 0)
        world.go_on()
    world.copy.remove(0, 1, 10)
    world.go_on()
    found = world.restart()
    assert found.spans() == spans_of((11, 11), (13, 14), (16, 17), (19, 20), (22, 23), (25, 26), (28, 29))
    # and lost messages may arrive again, between the others
    for position in range(12, 30, 3):
        found.store(position, f"{position}", persistent=False)
    assert found.spans() == spans_of((11, 29))
    assert [body_of(entry) for entry in found.drain(found.queue())] == [f"{number}" for number in range(11, 30)]


def test_possibly_delivered_messages_are_known_after_a_restart() -> None:
    world = ContentsWorld()
    filled(world, 1, 5)
    assert world.copy.mark_delivered(3)
    assert not world.copy.mark_delivered(2)
    world.copy.returned(2, 4)
    world.go_on()
    found = world.restart()
    assert found.copy.delivered_up_to() == 3
    entries = found.drain(found.queue())
    assert [entry.redelivered for entry in entries] == [True, True, True, False, False]
    assert [int(entry.delivery_count) for entry in entries] == [0, 4, 0, 0, 0]


def test_an_index_without_a_counted_message_is_damage() -> None:
    world = ContentsWorld(segment_bytes=SMALL)
    filled(world, 1, 30)
    found = ContentsWorld(world.disk, SMALL, prepared=False)
    sealed = next(extent.segment for extent in found.queue_index.segment_extents if extent.segment.sealed)
    del found.disk.files[index_name(int(sealed.number))]
    found.copy.prepare(found.asker)
    found.go_on()
    assert (found.asker.times, found.asker.damage != "") == (0, True)


def test_messages_moved_during_a_rebuild_are_found_in_their_segment() -> None:
    world = ContentsWorld(segment_bytes=SMALL)
    filled(world, 1, 40)
    for position in range(1, 38):
        if position % 4:
            world.copy.remove(0, position, position)
    world.go_on()
    found = ContentsWorld(world.disk, SMALL, prepared=False)
    found.copy.prepare(found.asker)
    # the answers come after compaction has moved some messages
    for _second in range(5):
        found.pass_ms(1000)
    assert found.asker.times == 1
    assert found.spans() == spans_of(*[(n, n) for n in range(4, 37, 4)], (38, 40))


def test_messages_are_found_whose_segment_was_dropped_before_the_rebuild_came_to_it() -> None:
    world = ContentsWorld(segment_bytes=SMALL)
    filled(world, 1, 40)
    for position in range(1, 38):
        if position % 4:
            world.copy.remove(0, position, position)
    world.go_on()
    found = ContentsWorld(world.disk, SMALL, prepared=False)
    segments = [extent.segment for extent in found.queue_index.segment_extents]
    found.copy.prepare(found.asker)
    # the first answer comes after compaction has moved messages and dropped their segments
    held, found.turn.effects = found.turn.effects, []
    found.journal.compaction.begin(segments[0])
    for _second in range(5):
        found.pass_ms(1000)
    assert int(segments[0].number) not in found.disk.segments()
    found.turn.effects = held
    found.go_on()
    assert (found.asker.times, found.asker.damage) == (1, "")
    assert found.spans() == spans_of(*[(n, n) for n in range(4, 37, 4)], (38, 40))


def test_closed_contents_do_not_come_back() -> None:
    world = ContentsWorld()
    filled(world, 1, 5)
    world.copy.close()
    assert [int(segment.live_count) for segment in world.journal.segments.values()] == [0]


# -- promotion


def test_a_promoted_queue_has_all_messages_in_order() -> None:
    world = ContentsWorld(max_priority=1)
    for position in range(1, 9):
        world.store(position, f"{position}", priority=position % 2, persistent=position < 5)
    world.go_on()
    queue = world.queue()
    assert (queue.ready_count(), queue.ready_bytes()) == (8, 8)
    entries = world.drain(queue)
    assert [body_of(entry) for entry in entries] == list("13572468")
    # everything stays on disk, also messages in memory, for the case that the master is demoted
    world.prepare()
    assert world.spans() == spans_of((1, 8))


def test_a_master_stores_the_entries_its_queue_reserves() -> None:
    world = ContentsWorld()
    queue = world.queue()
    queue.begin_epoch(1 << POSITION_BITS)
    entries: list[Entry] = []
    for number in range(4):
        entry = queue.reserve(message_of(f"{number}", persistent=number % 2 == 0))
        assert entry is not None
        world.copy.store_entry(entry, *message_payload(entry.message))
        assert entry.extent is not None
        entries.append(entry)
    assert queue.ready_count() == 0
    queue.arrive(entries)
    queue.check()
    world.go_on()
    assert [body_of(entry) for entry in world.drain(queue)] == list("0123")
    world.copy.remove(0, entries[0].position, entries[2].position)
    first = 1 << POSITION_BITS
    assert world.spans() == spans_of((first + 3, first + 3))


def test_messages_behind_a_backlog_stay_on_disk_alone() -> None:
    world = ContentsWorld(segment_bytes=SMALL)
    filled(world, 1, 3)
    queue = world.queue(QueueSettings())
    queue.begin_epoch(1 << POSITION_BITS)
    held = world.turn.held_bytes
    for number in range(30):
        entry = queue.reserve(message_of(f"{number}"))
        assert entry is not None
        world.copy.store_entry(entry, *message_payload(entry.message))
        world.go_on()
        queue.arrive([entry])
        queue.check()
    assert (queue.ready_count(), world.turn.held_bytes) == (33, held)
    assert [body_of(entry) for entry in world.drain(queue)][3:] == [f"{number}" for number in range(30)]


def test_alternating_segments_are_read_without_reading_their_indexes_again() -> None:
    world = ContentsWorld(segment_bytes=20_000)
    for position in range(1, 200, 2):
        world.store(position, "lasts" + "x" * 150)
    world.go_on()
    for position in range(2, 201, 2):
        world.store(position, "does not" + "x" * 150, persistent=False)
    world.go_on()
    world.store(300, "in a third")
    world.go_on()
    reads = world.disk.reads
    queue = world.queue()
    entries = world.drain(queue)
    assert [int(entry.position) for entry in entries] == [*range(1, 201), 300]
    # two indexes, and one record at a time
    assert world.disk.reads - reads <= 2 + 201
    assert world.turn.held_bytes < 201 * 1000


def test_a_queue_that_becomes_mirrored_is_adopted_completely() -> None:
    world = ContentsWorld(segment_bytes=SMALL)
    # a queue that is not mirrored: a transient message that was read back is not on disk any more
    world.queue_index.mirrored_on_disk = False
    world.queue_index.catching_up = False
    queue = world.queue(QueueSettings(lazy=True))
    for number in range(1, 21):
        queue.publish(message_of(f"{number}", persistent=number % 2 == 0))
        world.go_on()
    entries = world.drain(queue)
    for entry in entries[:3]:
        queue.ack(entry)
    world.go_on()
    world.copy = DiskContents(world.queue_index)
    world.prepare()
    for entry in entries[3:]:
        world.copy.adopt(entry, *message_payload(entry.message))
    world.go_on()
    assert world.spans() == spans_of((4, 20))
    assert [past.position for past in sorted(world.read(world.spans()), key=lambda past: past.position)] == [
        *range(4, 21)
    ]
    heir = world.queue()
    assert [body_of(entry) for entry in world.drain(heir)] == [f"{number}" for number in range(4, 21)]


# -- backfill


def test_a_backfill_is_read_in_slices() -> None:
    world = ContentsWorld(segment_bytes=SMALL)
    filled(world, 1, 20)
    world.copy.returned(3, 2)
    world.copy.remove(0, 4, 4)
    world.go_on()
    taken = world.read(spans_of((2, 5), (18, 19)), size_bytes=1)
    assert [past.position for past in taken] == [2, 3, 5, 18, 19]
    assert [past.returned for past in taken] == [0, 2, 0, 0, 0]
    payload, crc = message_payload(message_of("body of 5"))
    assert (taken[2].payload, taken[2].payload_crc, taken[2].persistent) == (payload, crc, True)
    assert world.turn.held_bytes == 0
    # the payload is stored unchanged
    other = ContentsWorld()
    for past in taken:
        other.copy.store(past.position, past.priority, past.expires_at_ms, True, past.payload, past.payload_crc)
    assert other.spans() == spans_of((2, 3), (5, 5), (18, 19))


def test_messages_removed_during_a_backfill_are_left_out() -> None:
    world = ContentsWorld()
    filled(world, 1, 6)
    newcomer = JoiningMirror()
    reader = world.copy.read(spans_of((1, 6)), newcomer)
    reader.more(10_000)
    world.copy.remove(0, 2, 5)
    world.go_on()
    assert [past.position for past in newcomer.taken] == [1, 6]
    reader.more(10_000)
    assert newcomer.over


def test_a_slice_has_no_more_messages_than_are_wanted() -> None:
    world = ContentsWorld(segment_bytes=SMALL)
    filled(world, 1, 20)
    taken = world.read(spans_of((1, 20)), size_bytes=10_000, count=3)
    assert [past.position for past in taken] == list(range(1, 21))


def test_a_backfill_waits_for_unwritten_messages() -> None:
    world = ContentsWorld()
    world.store(1, "unwritten")
    taken = world.read(spans_of((1, 1)))
    assert [past.position for past in taken] == [1]


def test_damage_ends_a_backfill() -> None:
    world = ContentsWorld()
    filled(world, 1, 3)
    name = next(iter(world.disk.files))
    data = world.disk.files[name]
    world.disk.files[name] = data.replace(b"body of 2", b"body of X")
    newcomer = JoiningMirror()
    world.copy.read(spans_of((1, 3)), newcomer).more(10_000)
    world.go_on()
    assert "damaged" in newcomer.damage


def test_publishing_ids_from_a_master_outlive_their_segment() -> None:
    world = ContentsWorld()
    assert world.copy.load_publishing_ids(window_row((b"publisher", b"1"), True), True)
    world.go_on()
    # the checkpoint of the next incarnation drops the segment with the record
    again = world.restart().restart()
    assert again.queue_index.seen.has((b"publisher", b"1"))
