"""Readers of whole chunks."""

from typing import Any

import pytest

from tests.unit.broker.streams.stage import PretendReader, Stage, message_of, numbered
from warren.broker.model.message import Entry
from warren.broker.streams.chunk import Chunk, ChunkHead
from warren.broker.streams.reader import BuiltChunk
from warren.broker.streams.tail import CHUNK_BYTES, StreamTail
from warren.errors import StoreError


def chunks_of(reader: PretendReader) -> list[Chunk]:
    return [Chunk(body) for body in reader.bodies()]


def bodies_in(chunks: list[Chunk]) -> list[bytes]:
    return [chunk.body(index) for chunk in chunks for index in range(int(chunk.head.count))]


def chunk_reader(stage: Stage, credit: int = 1_000_000, **arguments: Any) -> PretendReader:
    return stage.reader(credit, x_stream_chunks=True, **arguments)


def test_messages_come_in_whole_chunks_up_to_the_committed_end() -> None:
    stage = Stage()
    stage.fill(5_000)
    reader = chunk_reader(stage, x_stream_offset="first")
    chunks = chunks_of(reader)
    assert len(chunks) == 6
    assert bodies_in(chunks) == [numbered(number) for number in range(5_000)]


def test_headers_say_where_a_chunk_begins_and_how_much_it_has() -> None:
    stage = Stage()
    stage.fill(3_000)
    reader = chunk_reader(stage, x_stream_offset="first")
    told = [message.headers() for message in reader.messages]
    heads = [chunk.head for chunk in chunks_of(reader)]
    assert told == [{"x-stream-offset": head.first_offset(), "x-stream-count": head.count} for head in heads]
    assert told[0]["x-stream-offset"] == 0


def test_it_begins_with_the_chunk_that_has_the_wanted_offset() -> None:
    stage = Stage()
    stage.fill(3_000)
    whole = chunk_reader(stage, x_stream_offset="first").offsets()
    wanted = whole[1] + 5
    assert chunk_reader(stage, x_stream_offset=wanted).offsets() == whole[1:]


def test_unarchived_messages_are_built_into_a_chunk_from_the_wanted_offset_on() -> None:
    stage = Stage()
    stage.fill(20)
    reader = chunk_reader(stage, x_stream_offset=7)
    assert bodies_in(chunks_of(reader)) == [numbered(number) for number in range(7, 20)]
    assert stage.archive.segments == {}


def test_readers_at_the_same_offset_share_a_built_chunk() -> None:
    tail, made = StreamTail(0), BuiltChunk()
    for number in range(5):
        tail.add(Entry(message_of(numbered(number)), number + 1, 0))
    tail.commit(3)
    first = made.of(tail, 1)
    assert made.of(tail, 1) is first
    assert bodies_in([Chunk(first)]) == [numbered(1), numbered(2)]
    tail.commit(4)
    assert bodies_in([Chunk(made.of(tail, 1))]) == [numbered(1), numbered(2), numbered(3)]
    assert bodies_in([Chunk(made.of(tail, 3))]) == [numbered(3)]


def test_at_the_end_a_reader_waits_for_the_next_committed_messages() -> None:
    stage = Stage()
    stage.fill(3)
    reader = chunk_reader(stage, x_stream_offset="next")
    assert reader.entries == []
    stage.publish(b"a", b"b")
    stage.end_turn()
    assert reader.entries == []
    stage.flush()
    stage.publish(b"c")
    stage.flush()
    assert [bodies_in([chunk]) for chunk in chunks_of(reader)] == [[b"a", b"b"], [b"c"]]
    assert reader.offsets() == [3, 5]


def test_a_built_chunk_is_no_larger_than_an_archived_one() -> None:
    stage = Stage()
    reader = chunk_reader(stage, credit=0)
    stage.publish(*[numbered(number) for number in range(4_000)])
    stage.end_turn()
    waiters, stage.turn.flush_waiters = stage.turn.flush_waiters, []
    for waiter in waiters:
        waiter.flushed()
    # nothing has reached the archive
    reader.credit = 1
    stage.stream.wake()
    stage.end_turn()
    assert 0.9 * CHUNK_BYTES < len(reader.bodies()[0]) <= CHUNK_BYTES
    reader.credit = 100
    stage.stream.wake()
    stage.settle()
    assert bodies_in(chunks_of(reader)) == [numbered(number) for number in range(4_000)]


def test_credit_counts_chunks() -> None:
    stage = Stage()
    stage.fill(5_000)
    reader = chunk_reader(stage, credit=2, x_stream_offset="first")
    assert len(reader.entries) == 2
    reader.credit = 1
    stage.stream.ack(reader.entries[0])
    stage.settle()
    assert len(reader.entries) == 3


def test_without_bodies_a_chunk_ends_before_them_and_no_more_is_read() -> None:
    stage = Stage()
    stage.fill(3_000)
    whole = chunk_reader(stage, x_stream_offset="first")
    lengths: list[int] = []
    read = stage.archive.read

    def noted(segment: int, at: int, length: int, asker: Any) -> None:
        lengths.append(int(length))
        read(segment, at, length, asker)

    stage.archive.read = noted  # type: ignore[method-assign]
    bare = chunk_reader(stage, x_stream_offset="first", x_stream_bodies=False)
    assert bare.offsets() == whole.offsets()
    assert max(lengths) < 150_000
    for cut, body in zip(bare.bodies(), whole.bodies(), strict=True):
        head = ChunkHead(body)
        assert cut == body[: head.bodies_at()]
        bodies = Chunk(body)
        assert body[head.bodies_at() :].find(bodies.body(0)) == (4 * (int(head.count) + 1) + 7) // 8 * 8
        with pytest.raises(StoreError):
            Chunk(cut)


def test_a_chunk_is_sent_as_frames_of_the_usual_size() -> None:
    stage = Stage()
    stage.fill(1_500)
    message = chunk_reader(stage, x_stream_offset="first").messages[0]
    assert message.frame_bytes_max == 131_072
    content, at, sizes = message.content, 0, []
    while at < len(content):
        sizes.append(int.from_bytes(content[at + 3 : at + 7], "big"))
        at += sizes[-1] + 8
        assert content[at - 1] == 0xCE
    assert sum(sizes[1:]) == message.body_bytes
    assert set(sizes[1:-1]) == {131_064}


def test_expired_chunks_are_skipped_as_the_offset_shows() -> None:
    stage = Stage(bytes_max=4_000_000, segment_bytes=1_000_000)
    stage.fill(3_000)
    reader = chunk_reader(stage, credit=1, x_stream_offset="first")
    stage.fill(17_000)
    first = stage.stream.first_offset()
    assert first > 10_000
    reader.credit = 1_000
    stage.stream.ack(reader.entries[0])
    stage.settle()
    offsets = reader.offsets()
    # blocks that were read in time are delivered; then it continues with the first chunk left
    assert first in offsets
    assert offsets == sorted(offsets)
    assert all(offset < 4_000 or offset >= first for offset in offsets)
    assert chunks_of(reader)[-1].body(0) == numbered(offsets[-1])


def test_a_damaged_head_is_the_end_of_its_reader_and_a_damaged_body_is_for_the_client_to_find() -> None:
    stage = Stage()
    stage.fill(3_000)
    data = stage.archive.segments[1]
    stage.archive.segments[1] = data[:500_000] + bytes([data[500_000] ^ 1]) + data[500_001:]
    reader = chunk_reader(stage, x_stream_offset="first")
    with pytest.raises(StoreError, match="a chunk is damaged"):
        Chunk(reader.bodies()[0])
    stage.archive.segments[1] = data[:12] + bytes([data[12] ^ 1]) + data[13:]
    other = chunk_reader(stage, x_stream_offset="first")
    assert (other.entries, other.was_cancelled, reader.was_cancelled) == ([], True, False)
    stage.stream.check_usable()


def test_a_chunk_has_messages_of_one_epoch() -> None:
    stage = Stage()
    stage.fill(5)
    stage.stream._next_position += 1 << 44
    stage.publish(*[numbered(number) for number in range(5, 9)])
    stage.flush()
    reader = chunk_reader(stage, x_stream_offset="first")
    assert reader.offsets() == [0, 5]
    assert [chunk.head.first_position >> 44 for chunk in chunks_of(reader)] == [0, 1]
    stage.fill(3_000)
    again = chunk_reader(stage, x_stream_offset="first")
    assert again.offsets()[:2] == [0, 5]
    assert bodies_in(chunks_of(again)) == [numbered(number) for number in range(3_009)]
    assert stage.reader(x_stream_offset="first").offsets() == list(range(3_009))


def test_chunks_have_all_published_messages() -> None:
    stage = Stage()
    stage.stream.publish(message_of(b"", {"a": 1}, "one", "here"))
    stage.stream.publish(message_of(bytes(300_000), None, "two", "there"))
    stage.flush()
    chunk = chunks_of(chunk_reader(stage, x_stream_offset="first"))[0]
    assert [chunk.exchange(0), chunk.exchange(1)] == [b"here", b"there"]
    assert [chunk.routing_key(0), chunk.routing_key(1)] == [b"one", b"two"]
    assert [chunk.body(0), chunk.body(1)] == [b"", bytes(300_000)]
