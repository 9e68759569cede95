"""The offsets and blocks of readers."""

from tests.unit.broker.streams.stage import PretendArchive, PretendReader, Stage, numbered
from warren.wire.field_tables import Timestamp


def test_readers_at_different_places_do_not_disturb_each_other() -> None:
    stage = Stage()
    stage.fill(6_000)
    starts = [0, 10, 1_500, 2_999, 4_700, 5_990]
    readers = [stage.reader(credit=5, x_stream_offset=start) for start in starts]
    for _ in range(1_300):
        for reader in readers:
            reader.credit = 5
        stage.stream.wake()
        stage.settle()
    for start, reader in zip(starts, readers, strict=True):
        assert reader.offsets() == list(range(start, 6_000))
        assert reader.bodies() == [numbered(number) for number in range(start, 6_000)]


def test_chunks_that_expire_under_a_reader_are_skipped() -> None:
    stage = Stage(bytes_max=4_000_000, segment_bytes=1_000_000)
    stage.fill(3_000)
    reader = stage.reader(credit=10, x_stream_offset="first")
    stage.fill(17_000)
    first = stage.stream.first_offset()
    reader.credit = 1_000_000
    stage.stream.ack(reader.entries[0])
    stage.settle()
    offsets = reader.offsets()
    # its current chunk is still in memory
    jump = offsets.index(first)
    assert offsets[:jump] == list(range(jump))
    assert offsets[jump:] == list(range(first, 20_000))
    assert 10 < jump < 3_000


def test_a_reader_that_leaves_while_something_is_read_for_it_leaves_nothing_behind() -> None:
    stage = Stage()
    stage.fill(5_000)
    before = stage.turn.held_bytes
    for arguments in ({}, {"x_stream_chunks": True}, {"x_stream_probe": True}):
        reader = PretendReader(x_stream_offset=Timestamp(1), **arguments)
        stage.stream.add_consumer(reader)
        stage.end_turn()
        assert stage.archive.reading
        stage.stream.remove_consumer(reader)
        assert stage.archive.reading == []
        stage.settle()
        assert reader.entries == []
    assert stage.turn.held_bytes == before


def test_the_blocks_of_a_reader_are_counted_and_released() -> None:
    stage = Stage()
    stage.fill(5_000)
    before = stage.turn.held_bytes
    reader = stage.reader(credit=1, x_stream_offset="first")
    assert 1_000_000 < stage.turn.held_bytes - before < 3_000_000
    reader.credit = 1_000_000
    stage.stream.ack(reader.entries[0])
    stage.settle()
    assert len(reader.entries) == 5_000
    assert stage.turn.held_bytes == before


def test_chunks_are_read_ahead_so_that_a_reader_finds_them() -> None:
    stage = Stage()
    stage.fill(8_000)
    reader = PretendReader(credit=1, x_stream_offset="first", x_stream_chunks=True)
    stage.stream.add_consumer(reader)
    stage.end_turn()
    assert len(stage.archive.reading) == 1
    stage.archive.finish_reads()
    stage.end_turn()
    assert (len(reader.entries), len(stage.archive.reading)) == (1, 4)
    stage.archive.finish_reads()
    reader.credit = 2
    stage.stream.ack(reader.entries[0])
    stage.end_turn()
    # two more: it asks for several at once
    assert (len(reader.entries), len(stage.archive.reading)) == (3, 0)
    reader.credit = 1
    stage.stream.ack(reader.entries[1])
    stage.end_turn()
    assert (len(reader.entries), len(stage.archive.reading)) == (4, 3)


def test_reads_may_come_back_in_any_order() -> None:
    stage = Stage()
    stage.fill(8_000)
    reader = PretendReader(x_stream_offset="first", x_stream_chunks=True)
    stage.stream.add_consumer(reader)
    for _ in range(50):
        stage.end_turn()
        stage.archive.reading.reverse()
        stage.archive.finish_reads()
    assert reader.offsets() == sorted(reader.offsets())
    counts = [message.headers()["x-stream-count"] for message in reader.messages]
    assert sum(counts) == 8_000


def test_an_unreadable_chunk_ends_the_reader_with_a_reason() -> None:
    class BrokenArchive(PretendArchive):
        def finish_reads(self) -> None:
            reading, self.reading = self.reading, []
            for *_, asker in reading:
                asker.archive_read(b"", "Input/output error")

    stage = Stage(BrokenArchive())
    stage.fill(3_000)
    reader = stage.reader(x_stream_offset="first")
    assert reader.was_cancelled
    notes = [effect for effect in stage.turn.effects if type(effect).__name__ == "Note"]
    assert "Input/output error: segment 1 of the stream at byte 0" in str(notes[-1].fields)  # type: ignore[attr-defined]


def test_a_time_or_an_interval_is_found_in_the_chunk_that_has_it() -> None:
    stage = Stage()
    begun_s = stage.turn.now_ms // 1000
    stage.fill(6_000, each_ms=10)
    for second in (0, 3, 11, 20, 31, 45, 59):
        for arguments in ({}, {"x_stream_bodies": True}):
            reader = stage.reader(x_stream_offset=Timestamp(begun_s + second), **arguments)
            assert reader.offsets()[0] == second * 100
    assert stage.reader(x_stream_offset="30s").offsets()[0] == 3_000
    assert stage.reader(x_stream_offset="10m").offsets()[0] == 0


def test_chunks_that_expire_during_a_search_by_time_are_skipped() -> None:
    stage = Stage(bytes_max=4_000_000, segment_bytes=1_000_000)
    stage.fill(3_000)
    reader = PretendReader(x_stream_offset=Timestamp(1))
    stage.stream.add_consumer(reader)
    assert len(stage.archive.reading) == 1
    kept, stage.archive.reading = stage.archive.reading, []
    old = dict(stage.archive.segments)
    stage.fill(17_000)
    for segment, at, length, asker in kept:
        asker.archive_read(old[segment][at : at + length], "")
    stage.settle()
    assert reader.offsets()[-1] == 19_999
    assert stage.stream.first_offset() in reader.offsets()


def test_a_chunk_dropped_before_it_was_read_is_no_damage() -> None:
    stage = Stage(bytes_max=4_000_000, segment_bytes=1_000_000)
    stage.fill(3_000)
    for arguments in ({}, {"x_stream_chunks": True}):
        reader = PretendReader(x_stream_offset="first", **arguments)
        stage.stream.add_consumer(reader)
        stage.end_turn()
        kept, stage.archive.reading = stage.archive.reading, []
        stage.fill(17_000)
        for *_, asker in kept:
            asker.archive_read(b"", "No such file or directory")
        stage.settle()
        assert reader.offsets()[0] == stage.stream.first_offset()
        assert not reader.was_cancelled


def test_unacked_messages_of_a_stream_are_not_kept_in_memory() -> None:
    stage = Stage()
    stage.fill(3_000)
    for arguments in ({}, {"x_stream_chunks": True}):
        reader = stage.reader(x_stream_offset="first", **arguments)
        assert reader.entries
        assert all(not entry.message.content for entry in reader.entries)


def test_little_is_read_ahead_when_memory_is_tight() -> None:
    stage = Stage()
    stage.fill(8_000)

    def read_ahead() -> int:
        before = stage.turn.held_bytes
        stage.reader(credit=1, x_stream_offset="first", x_stream_chunks=True)
        return int(stage.turn.held_bytes - before)

    assert read_ahead() > 4_000_000
    stage.turn.memory_low = True
    assert 1_000_000 < read_ahead() < 2_500_000


def pass_time(stage: Stage, looks: int) -> None:
    for _ in range(looks):
        stage.turn.now_ms += 2_000
        stage.turn.fire_timers()
        stage.settle()


def test_idle_readers_release_their_blocks_when_memory_is_tight() -> None:
    stage = Stage()
    stage.fill(5_000)
    before = stage.turn.held_bytes
    readers = [stage.reader(credit=1, x_stream_offset=start) for start in range(0, 100, 10)]
    readers += [stage.reader(credit=1, x_stream_offset=0, x_stream_chunks=True)]
    assert stage.turn.held_bytes - before > 10_000_000
    pass_time(stage, 3)
    assert stage.turn.held_bytes - before > 10_000_000, "there is room"
    stage.turn.memory_low = True
    pass_time(stage, 2)
    assert stage.turn.held_bytes <= before
    for reader in readers:
        reader.credit = 50
    stage.stream.wake()
    stage.settle()
    assert [reader.offsets() for reader in readers[:10]] == [
        list(range(start, start + 51)) for start in range(0, 100, 10)
    ]
    assert len(readers[10].entries) > 1


def test_a_reader_whose_client_is_slow_reads_no_chunk_twice() -> None:
    stage = Stage()
    stage.fill(5_000)
    stage.turn.memory_low = True
    reader = stage.reader(credit=1, x_stream_offset=0)
    reads = stage.archive.reads
    for _ in range(20):
        pass_time(stage, 1)
        reader.credit = 1
        stage.stream.wake()
        stage.settle()
    assert (len(reader.entries), stage.archive.reads) == (21, reads)
