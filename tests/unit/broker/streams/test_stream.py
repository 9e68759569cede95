"""The messages that a stream shows to readers, and its archive."""

import pytest

from tests.unit.broker.streams.stage import PretendArchive, PretendReader, Stage, message_of, numbered
from warren.broker.model.effects import Note
from warren.broker.model.message import Envelope, Message
from warren.broker.model.ports import REJECTED
from warren.broker.streams.chunk import ChunkHead
from warren.errors import ChannelFault, ConnectionFault
from warren.wire.field_tables import Timestamp
from warren.wire.properties import Properties, encode_header_payload

TEN_YEARS_MS = 10 * 365 * 24 * 3_600_000


def test_readers_see_only_flushed_messages() -> None:
    stage = Stage()
    reader = stage.reader(x_stream_offset="first")
    stage.publish(b"a", b"b")
    stage.end_turn()
    assert reader.entries == []
    stage.flush()
    assert (reader.bodies(), reader.offsets()) == ([b"a", b"b"], [0, 1])


def test_messages_of_the_next_turn_are_not_committed_with_this_one() -> None:
    stage = Stage()
    stage.publish(b"a")
    stage.end_turn()
    first, stage.turn.flush_waiters = stage.turn.flush_waiters, []
    stage.publish(b"b")
    stage.end_turn()
    for waiter in first:
        waiter.flushed()
    assert stage.stream.end_offset() == 1
    stage.flush()
    assert stage.stream.end_offset() == 2


def test_every_reader_gets_everything() -> None:
    stage = Stage()
    stage.fill(20)
    readers = [stage.reader(x_stream_offset="first") for _ in range(3)]
    assert [reader.offsets() for reader in readers] == [list(range(20))] * 3
    assert stage.stream.ready_count() == 20


@pytest.mark.parametrize(
    ("start", "expected"),
    [("first", [0, 1, 2]), ("last", [2]), ("next", []), (None, []), (1, [1, 2]), (-5, [0, 1, 2]), (7, [])],
)
def test_a_reader_begins_where_it_says(start: object, expected: list[int]) -> None:
    stage = Stage()
    stage.fill(3)
    reader = stage.reader(x_stream_offset=start) if start is not None else stage.reader()
    assert reader.offsets() == expected
    stage.fill(6)
    assert reader.offsets() == list(range(expected[0] if expected else 7 if start == 7 else 3, 9))


def test_a_full_chunk_goes_to_the_archive_and_leaves_the_journal() -> None:
    stage = Stage()
    stage.fill(5_000)
    assert sum(map(len, stage.archive.segments.values())) > 3 * 2**20
    assert len(stage.log.stored) < 1_100
    assert stage.stream.ready_count() == 5_000
    reader = stage.reader(x_stream_offset="first")
    assert reader.offsets() == list(range(5_000))
    assert reader.bodies() == [numbered(number) for number in range(5_000)]
    assert stage.turn.held_bytes < 3 * 2**20


def test_a_reader_goes_on_when_it_acks() -> None:
    stage = Stage()
    stage.fill(3_000)
    reader = stage.reader(credit=10, x_stream_offset=500)
    assert reader.offsets() == list(range(500, 510))
    while len(reader.entries) < 2_500:
        reader.credit = 7
        stage.stream.ack(reader.entries[-1])
        stage.settle()
    assert reader.offsets()[:2_500] == list(range(500, 3_000))


def test_a_reader_of_the_archive_reads_a_chunk_once() -> None:
    stage = Stage()
    stage.fill(5_000)
    reads = stage.archive.reads
    stage.reader(x_stream_offset="first")
    assert stage.archive.reads - reads <= 5


def test_a_time_is_found_in_the_archive_and_in_the_tail() -> None:
    stage = Stage()
    begun_ms = stage.turn.now_ms
    stage.fill(3_000, each_ms=10)
    assert stage.reader(x_stream_offset=Timestamp(begun_ms // 1000 + 5)).offsets()[0] == 500
    assert stage.reader(x_stream_offset=Timestamp(begun_ms // 1000 + 29)).offsets()[0] == 2_900
    assert stage.reader(x_stream_offset=Timestamp(begun_ms // 1000 + 500)).offsets() == []
    assert stage.reader(x_stream_offset=Timestamp(1)).offsets()[0] == 0
    assert stage.reader(x_stream_offset="1s").offsets()[0] == 2_900


@pytest.mark.parametrize(
    ("start", "expected"),
    [("100Y", [0, 1, 2]), ("999999999Y", [0, 1, 2]), (Timestamp(0), [0, 1, 2]), (Timestamp(2**64 - 1), [])],
)
def test_a_time_beyond_all_times_is_before_or_behind_everything(start: object, expected: list[int]) -> None:
    stage = Stage()
    stage.fill(3)
    assert stage.reader(x_stream_offset=start).offsets() == expected


def test_retention_by_size_drops_whole_segments() -> None:
    stage = Stage(bytes_max=4_000_000, segment_bytes=1_000_000)
    stage.fill(20_000)
    assert len(stage.archive.segments) <= 5
    first = stage.stream.first_offset()
    assert 13_000 < first < 17_000
    assert stage.stream.ready_count() == 20_000 - first
    assert stage.reader(x_stream_offset="first").offsets() == list(range(first, 20_000))
    assert stage.reader(x_stream_offset=3).offsets()[0] == first


def test_retention_by_age_works_without_publishes() -> None:
    stage = Stage(age_max_ms=60_000, segment_bytes=1_000_000)
    stage.fill(10_000, each_ms=1)
    assert stage.stream.first_offset() == 0
    for _ in range(10):
        stage.turn.now_ms += 10_000
        stage.turn.fire_timers()
        stage.settle()
    assert stage.stream.first_offset() > 7_000
    assert len(stage.archive.segments) == 1


def test_retention_by_age_goes_on_after_the_clock_was_set_back() -> None:
    """Files with times years ahead would stay, and keep all later files."""
    stage = Stage(age_max_ms=60_000, segment_bytes=1_000_000)
    stage.turn.now_ms += TEN_YEARS_MS
    stage.fill(5_000, each_ms=1)
    again = stage.restarted(age_max_ms=60_000, segment_bytes=1_000_000)
    again.fill(5_000, each_ms=1)
    assert again.stream.first_offset() == 0
    for _ in range(10):
        again.turn.now_ms += 10_000
        again.turn.fire_timers()
        again.settle()
    assert again.stream.first_offset() > 7_000
    assert len(again.archive.segments) == 1


def test_after_a_restart_everything_is_there() -> None:
    stage = Stage()
    stage.fill(3_500)
    again = stage.restarted()
    assert again.stream.ready_count() == 3_500
    again.fill(100)
    assert again.reader(x_stream_offset="first").bodies() == [numbered(number) for number in range(3_600)]


def test_messages_in_journal_and_archive_count_once() -> None:
    stage = Stage()
    stage.fill(1_500)
    again = stage.restarted()
    # the journal did not drop the messages of this chunk
    kept = stage.log.restart()
    for position in range(1, min(kept.stored)):
        message = message_of(numbered(position - 1))
        message.persistent = True
        again.log.store(message, position, 0, 0)
    both = Stage(again.archive, again.log)
    assert both.reader(x_stream_offset="first").offsets() == list(range(1_500))
    assert min(both.log.stored) == min(kept.stored)


def test_only_messages_that_pass_the_filter_are_delivered() -> None:
    stage = Stage()
    for number in range(2_000):
        value = ["red", "blue", None][number % 3]
        stage.publish(numbered(number), headers={"x-stream-filter-value": value} if value else None)
    stage.flush()
    assert stage.reader(x_stream_offset="first", x_stream_filter="red").offsets() == list(range(0, 2_000, 3))
    both = stage.reader(x_stream_offset="first", x_stream_filter=["blue"], x_stream_match_unfiltered=True)
    assert both.offsets() == [number for number in range(2_000) if number % 3]


def test_unsupported_operations_are_refused() -> None:
    stage = Stage()
    stage.fill(1)
    reader = stage.reader(x_stream_offset="first")
    with pytest.raises(ConnectionFault, match=r"basic\.get not supported by stream queues queue 's' in vhost '/'"):
        stage.stream.get(False)
    with pytest.raises(ConnectionFault, match=r"queue\.purge not supported"):
        stage.stream.purge()
    with pytest.raises(ConnectionFault, match=r"basic\.nack and basic\.reject not supported"):
        stage.stream.reject(reader.entries[0])
    with pytest.raises(ChannelFault, match="invalid_stream_offset_arg"):
        stage.stream.add_consumer(PretendReader(x_stream_offset="soon"))


def test_a_damaged_chunk_ends_only_the_readers_that_need_it() -> None:
    stage = Stage()
    stage.fill(3_000)
    data = stage.archive.segments[1]
    end = int(ChunkHead(data, 0).count)
    stage.archive.segments[1] = data[:5_000] + bytes([data[5_000] ^ 1]) + data[5_001:]
    readers = [stage.reader(x_stream_offset="first"), stage.reader(x_stream_offset=7)]
    assert [reader.was_cancelled for reader in readers] == [True, True]
    assert [reader.offsets() for reader in readers] == [[], []]
    told = [
        one.fields["reason"] for one in stage.turn.effects if isinstance(one, Note) and one.name == "stream.damaged"
    ]
    assert told == ["a chunk is damaged: segment 1 of the stream at byte 0"]
    behind = stage.reader(x_stream_offset=end)
    stage.fill(5)
    assert behind.offsets() == list(range(end, 3_005))
    assert not behind.was_cancelled


def test_a_group_ends_with_the_chunk_that_none_of_its_members_can_read() -> None:
    stage = Stage()
    stage.fill(3_000)
    data = stage.archive.segments[1]
    stage.archive.segments[1] = data[:5_000] + bytes([data[5_000] ^ 1]) + data[5_001:]
    members = [stage.reader(x_stream_group="g", x_stream_member=name, x_stream_offset="first") for name in "ab"]
    assert [member.was_cancelled for member in members] == [True, True]
    assert (stage.stream.groups(), stage.stream.consumer_count()) == ([], 0)


def test_a_deleted_stream_is_gone_with_its_readers_and_files() -> None:
    stage = Stage()
    stage.fill(1_500)
    reader = stage.reader(credit=1, x_stream_offset="first")
    stage.stream.close()
    assert (reader.was_cancelled, stage.log.closed, stage.turn.held_bytes) == (True, True, 0)
    # a crash before the flush would bring it back, so its files stay until then
    assert not stage.archive.closed
    stage.flush()
    assert stage.archive.closed


def chunk_starts(segment: bytes) -> list[int]:
    starts, at = [], 0
    while at < len(segment):
        starts.append(at)
        at += int(ChunkHead(segment, at).length)
    return starts


def test_an_offset_that_neither_the_files_nor_the_journal_have_stops_the_stream() -> None:
    stage = Stage()
    stage.fill(3_000)
    last = max(stage.archive.segments)
    stage.archive.segments[last] = stage.archive.segments[last][: chunk_starts(stage.archive.segments[last])[-1]]
    again = stage.restarted()
    with pytest.raises(ChannelFault, match=r"is stopped: offset \d+ is missing: segment 1 of the stream is damaged at"):
        again.stream.check_usable()
    assert again.stream.publish(message_of(b"x")) == REJECTED


def test_a_stream_that_has_nothing_in_the_journal_notices_as_well() -> None:
    stage = Stage()
    stage.turn.memory_low = True
    stage.fill(3_000)
    assert stage.log.positions() == []
    again = Stage(PretendArchive({}))
    again.stream.recover([], 3_001)
    with pytest.raises(ChannelFault, match="offset 0 is missing"):
        again.stream.check_usable()


def test_nothing_waits_for_a_whole_chunk_when_memory_is_tight() -> None:
    stage = Stage()
    stage.fill(10)
    assert stage.archive.segments == {}
    held = stage.turn.held_bytes
    stage.turn.memory_low = True
    stage.turn.now_ms += 10_000
    stage.turn.fire_timers()
    stage.settle()
    assert stage.stream.disk_bytes() > 10_000
    assert (held > 10_000, stage.turn.held_bytes, stage.log.positions()) == (True, 0, [])
    assert stage.reader(x_stream_offset="first").offsets() == list(range(10))


def test_chunks_are_small_when_memory_is_tight_and_not_one_for_each_message() -> None:
    stage = Stage()
    stage.turn.memory_low = True
    for number in range(200):
        stage.publish(numbered(number))
        stage.flush()
    data = b"".join(stage.archive.segments.values())
    counts, at = [], 0
    while at < len(data):
        head = ChunkHead(data, at)
        counts.append(head.count)
        at += int(head.length)
    assert counts == [63, 63, 63]
    assert stage.turn.held_bytes < 20_000


def in_tiny_frames(size: int) -> Message:
    """A message that takes nine times as much memory as in a chunk."""
    payload = encode_header_payload(Properties(), size)
    header = b"\x02\x00\x01" + len(payload).to_bytes(4, "big") + payload + b"\xce"
    return Message(Envelope("", "s"), header + b"\x03\x00\x01\x00\x00\x00\x01x\xce" * size, 1, size, 9, True)


def test_a_body_in_tiny_frames_is_a_chunk_and_the_stream_goes_on() -> None:
    stage = Stage()
    stage.stream.publish(in_tiny_frames(200_000))
    stage.flush()
    assert stage.stream.disk_bytes() > 200_000
    assert stage.restarted().stream.end_offset() == 1


def test_uncommitted_messages_stay_out_of_chunks() -> None:
    stage = Stage()
    stage.stream.publish(in_tiny_frames(200_000))
    stage.end_turn()
    first, stage.turn.flush_waiters = stage.turn.flush_waiters, []
    stage.publish(*[b"u" * 1_000] * 1_500)
    stage.end_turn()
    for waiter in first:
        waiter.flushed()
    assert [ChunkHead(data).count for _, _, data, _ in stage.archive.writing] == [1]
    assert stage.stream.end_offset() == 1


def test_a_stream_reports_its_messages() -> None:
    stage = Stage()
    stage.fill(2_500)
    stage.reader(x_stream_offset="first")
    report = stage.stream.report()
    assert (report.ready, report.ready_bytes, report.persistent, report.unacked) == (2_500, 2_500_000, 2_500, 0)
    assert (stage.stream.first_offset(), stage.stream.end_offset(), stage.stream.segment_count()) == (0, 2_500, 1)
    assert report.state == "running"
    assert report.memory_bytes < 2_500_000
    assert stage.stream.stats.published == 2_500
    assert len(stage.stream.consumers()) == 1
    stage.stream.check()
