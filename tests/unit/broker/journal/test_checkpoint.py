"""A checkpoint comes back as it was written, with its living extents, or is refused."""

import zlib

import pytest
from librt.strings import BytesWriter

from warren.broker.journal.checkpoint import CheckpointState, QueueCheckpoint, decode_checkpoint, encode_checkpoint
from warren.broker.journal.removed_positions import RemovedPositions
from warren.broker.model.journal import Segment, SegmentExtent
from warren.errors import StoreError


def segment_of(number: int) -> Segment:
    segment = Segment(number)
    segment.size_bytes = number * 1000
    segment.total_bytes = number * 900
    return segment


def extent_of(queue_id: int, segment: Segment, level: int, *positions: int, durable: bool = True) -> SegmentExtent:
    extent = SegmentExtent(queue_id, segment, level, durable, positions[0])
    for position in positions:
        extent.add(position, 16, 80)
    return extent


def state_of() -> CheckpointState:
    segments = [segment_of(3), segment_of(5), segment_of(6)]
    removed = RemovedPositions()
    removed.add_range(1, 4)
    removed.add(7)
    first = [extent_of(12, segments[0], 0, 5, 6), extent_of(12, segments[2], 9, 8)]
    first[1].deadlines = True
    second = [extent_of(90, segments[2], 0, 1, 2, 3)]
    queues = [
        QueueCheckpoint(12, 9, 6, [removed], first, {5: 2, 6: 1}),
        QueueCheckpoint(90, 4, 0, [RemovedPositions(), removed], second, {}),
    ]
    return CheckpointState(7, 4, segments, queues)


def facts(state: CheckpointState) -> tuple[object, ...]:
    return (
        state.replay_from,
        state.incarnation,
        [(s.number, s.size_bytes, s.total_bytes, s.live_count, s.live_bytes) for s in state.segments],
        [
            (
                q.queue_id,
                q.next_position,
                q.watermark,
                [removed_bytes(removed) for removed in q.removed],
                held(q.segment_extents),
                q.returned,
            )
            for q in state.queues
        ],
    )


def removed_bytes(removed: RemovedPositions) -> bytes:
    out = BytesWriter()
    removed.encode(out)
    return out.getvalue()


def held(segment_extents: list[SegmentExtent]) -> list[tuple[object, ...]]:
    return [
        (
            extent.queue_id,
            extent.segment.number,
            extent.level,
            extent.durable,
            extent.first,
            extent.last,
            extent.count,
            extent.body_bytes,
            extent.cost_bytes,
            extent.deadlines,
        )
        for extent in segment_extents
    ]


def test_a_checkpoint_comes_back_as_it_was_written() -> None:
    assert facts(decode_checkpoint(encode_checkpoint(state_of()))) == facts(state_of())


def test_an_empty_checkpoint_comes_back() -> None:
    state = decode_checkpoint(encode_checkpoint(CheckpointState(1, 1, [], [])))
    assert (state.replay_from, state.incarnation, state.segments, state.queues) == (1, 1, [], [])


def test_extents_of_a_segment_share_it_and_it_counts_them() -> None:
    state = decode_checkpoint(encode_checkpoint(state_of()))
    shared = state.segments[2]
    first, second = state.queues[0].segment_extents[1], state.queues[1].segment_extents[0]
    assert first.segment is shared
    assert second.segment is shared
    assert (shared.live_count, shared.live_bytes) == (4, 320)
    second.remove(3, 48, 240)
    assert (shared.live_count, shared.live_bytes) == (1, 80)


def test_segments_to_be_replayed_are_not_sealed() -> None:
    state = CheckpointState(5, 1, [segment_of(3), segment_of(5)], [])
    assert [segment.sealed for segment in decode_checkpoint(encode_checkpoint(state)).segments] == [True, False]


def test_transient_extents_are_not_written() -> None:
    segment = segment_of(3)
    lasting = extent_of(12, segment, 0, 1)
    queue = QueueCheckpoint(
        12, 9, 0, [RemovedPositions()], [extent_of(12, segment, 0, 2, 4, durable=False), lasting], {}
    )
    state = decode_checkpoint(encode_checkpoint(CheckpointState(4, 1, [segment], [queue])))
    assert held(state.queues[0].segment_extents) == held([lasting])
    assert (state.segments[0].live_count, state.segments[0].live_bytes) == (1, 80)


def test_many_queues_and_segments_come_back() -> None:
    segments = [segment_of(number) for number in range(1, 501)]
    queues = [
        QueueCheckpoint(i, 2, 1, [RemovedPositions()], [extent_of(i, segments[i % 500], 0, 1)], {})
        for i in range(1, 10_001)
    ]
    state = CheckpointState(501, 2, segments, queues)
    again = decode_checkpoint(encode_checkpoint(state))
    assert len(again.queues) == 10_000
    assert {int(segment.live_count) for segment in again.segments} == {20}


def test_every_flipped_bit_and_every_cut_of_a_checkpoint_is_refused() -> None:
    segments = [segment_of(3)]
    queues = [QueueCheckpoint(12, 9, 6, [RemovedPositions()], [extent_of(12, segments[0], 0, 5, 6)], {5: 2})]
    data = encode_checkpoint(CheckpointState(4, 1, segments, queues))
    for bit in range(len(data) * 8):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(StoreError):
            decode_checkpoint(bytes(changed))
    for size in range(len(data)):
        with pytest.raises(StoreError):
            decode_checkpoint(data[:size])
    with pytest.raises(StoreError):
        decode_checkpoint(data + b"\x00")


def test_a_refusal_names_the_damage() -> None:
    data = encode_checkpoint(state_of())
    with pytest.raises(StoreError, match=r"not a checkpoint"):
        decode_checkpoint(b"x" + data[1:])
    with pytest.raises(StoreError, match=r"of version 3"):
        decode_checkpoint(data[:11] + b"\x03" + data[12:])
    with pytest.raises(StoreError, match=r"damaged"):
        decode_checkpoint(data[:-1] + b"\xff")


def test_an_extent_in_an_unlisted_segment_is_refused() -> None:
    state = state_of()
    del state.segments[0]
    with pytest.raises(StoreError, match=r"does not list segment 3"):
        decode_checkpoint(encode_checkpoint(state))


def test_a_checkpoint_whose_counts_are_wrong_is_refused_although_its_checksum_is_right() -> None:
    data = encode_checkpoint(state_of())
    for size in range(24, len(data) - 1):
        body = (size - 24).to_bytes(8, "big") + data[24:size]
        with pytest.raises(StoreError):
            decode_checkpoint(data[:12] + zlib.crc32(body).to_bytes(4, "big") + body)
    body = (len(data) - 23).to_bytes(8, "big") + data[24:] + b"\x00"
    with pytest.raises(StoreError, match=r"left over"):
        decode_checkpoint(data[:12] + zlib.crc32(body).to_bytes(4, "big") + body)


def test_a_checkpoint_of_another_length_than_it_says_is_refused_although_its_checksum_is_right() -> None:
    data = encode_checkpoint(state_of())
    body = (len(data) - 23).to_bytes(8, "big") + data[24:]
    with pytest.raises(StoreError, match=r"damaged"):
        decode_checkpoint(data[:12] + zlib.crc32(body).to_bytes(4, "big") + body)
