"""A checkpoint: the living extents of all sealed segments, so that a restart replays only the segments after it.

::

    8 bytes "WARRENCP", u32 version, u32 crc32 of the rest, i64 size of the rest behind this number, then
    i64 replay_from, incarnation
    i64 number of segments, each: i64 number, size_bytes, total_bytes
    i64 number of queues, each:
        i64 queue_id, next_position, watermark
        i64 number of priority levels, each: the set of removed positions
        i64 number of extents, each: i64 segment, level * 2 + deadlines, first, last, count, body_bytes, cost_bytes
        i64 number of returned positions, each: i64 position, delivery count
    i64 number of queues with other state, each: i64 queue_id, size, that many bytes (`broker.journal.queue_state`)

A checkpoint accounts for every removal before it. So a segment can be dropped although its records remove messages of
other segments.

Invariants: only durable extents are written, because transient messages mean nothing after a restart. A decoded extent
points to its decoded segment, and the segment's `live_count` and `live_bytes` are the sums over its extents. Segments
before `replay_from` are sealed.

Not here: when a checkpoint is written (`broker.journal.journal`), the replay (`broker.journal.recovery`).
"""

from typing import Final, final
from zlib import crc32

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from warren.broker.journal.removed_positions import RemovedPositions, decode_removed
from warren.broker.model.journal import Segment, SegmentExtent
from warren.errors import StoreError

CHECKPOINT_MAGIC: Final = b"WARRENCP"
CHECKPOINT_VERSION: Final[i64] = 2
CHECKPOINT_VERSION_MIN: Final[i64] = 1
"""The oldest version that can be read. Version 1 has no other state of queues."""

CHECKPOINT_HEADER_BYTES: Final[i64] = 24
EXTENT_BYTES: Final[i64] = 56

LOW_32: Final[i64] = 0xFFFFFFFF


@final
class QueueCheckpoint:
    """One queue's part of a checkpoint."""

    def __init__(
        self,
        queue_id: i64,
        next_position: i64,
        watermark: i64,
        removed: list[RemovedPositions],
        segment_extents: list[SegmentExtent],
        returned: dict[int, int],
        queue_state: bytes = b"",
    ) -> None:
        self.queue_id: i64 = queue_id
        self.next_position: i64 = next_position
        # entries up to this position may have been delivered
        self.watermark: i64 = watermark
        # by priority level
        self.removed: list[RemovedPositions] = removed
        self.segment_extents: list[SegmentExtent] = segment_extents
        # the delivery counts of returned entries, by position
        self.returned: dict[int, int] = returned
        # publishing ids and offsets
        self.queue_state: bytes = queue_state


@final
class CheckpointState:
    """A decoded checkpoint."""

    def __init__(
        self, replay_from: int, incarnation: int, segments: list[Segment], queues: list[QueueCheckpoint]
    ) -> None:
        # the first segment to replay
        self.replay_from: int = replay_from
        self.incarnation: int = incarnation
        self.segments: list[Segment] = segments
        self.queues: list[QueueCheckpoint] = queues


def encode_checkpoint(state: CheckpointState) -> bytes:
    out = BytesWriter()
    write_i64_be(out, state.replay_from)
    write_i64_be(out, state.incarnation)
    write_i64_be(out, len(state.segments))
    for segment in state.segments:
        write_i64_be(out, segment.number)
        write_i64_be(out, segment.size_bytes)
        write_i64_be(out, segment.total_bytes)
    write_i64_be(out, len(state.queues))
    for queue in state.queues:
        _write_queue(out, queue)
    stateful = [queue for queue in state.queues if queue.queue_state]
    write_i64_be(out, len(stateful))
    for queue in stateful:
        write_i64_be(out, queue.queue_id)
        write_i64_be(out, len(queue.queue_state))
        out.write(queue.queue_state)
    body = out.getvalue()
    length = len(body).to_bytes(8, "big")
    crc: i64 = crc32(body, crc32(length))
    whole = BytesWriter()
    whole.write(CHECKPOINT_MAGIC)
    write_i32_be(whole, i32(CHECKPOINT_VERSION))
    write_i32_be(whole, i32((crc ^ 0x80000000) - 0x80000000))
    whole.write(length)
    whole.write(body)
    return whole.getvalue()


def _write_queue(out: BytesWriter, queue: QueueCheckpoint) -> None:
    write_i64_be(out, queue.queue_id)
    write_i64_be(out, queue.next_position)
    write_i64_be(out, queue.watermark)
    write_i64_be(out, len(queue.removed))
    for removed in queue.removed:
        removed.encode(out)
    durable = [extent for extent in queue.segment_extents if extent.durable]
    write_i64_be(out, len(durable))
    for extent in durable:
        write_i64_be(out, extent.segment.number)
        write_i64_be(out, extent.level * 2 + (1 if extent.deadlines else 0))
        write_i64_be(out, extent.first)
        write_i64_be(out, extent.last)
        write_i64_be(out, extent.count)
        write_i64_be(out, extent.body_bytes)
        write_i64_be(out, extent.cost_bytes)
    write_i64_be(out, len(queue.returned))
    for position, delivery_count in queue.returned.items():
        write_i64_be(out, position)
        write_i64_be(out, delivery_count)


def decode_checkpoint(data: bytes) -> CheckpointState:
    if len(data) < CHECKPOINT_HEADER_BYTES or data[:8] != CHECKPOINT_MAGIC:
        raise StoreError("not a checkpoint")
    version: i64 = i64(read_i32_be(data, 8)) & LOW_32
    if version < CHECKPOINT_VERSION_MIN or version > CHECKPOINT_VERSION:
        raise StoreError(f"a checkpoint of version {version}")
    stored_crc: i64 = i64(read_i32_be(data, 12)) & LOW_32
    crc: i64 = crc32(data[16:])
    if crc != stored_crc or read_i64_be(data, 16) != len(data) - CHECKPOINT_HEADER_BYTES:
        raise StoreError("a damaged checkpoint")
    return _CheckpointReader(data).state(version)


@final
class _CheckpointReader:
    """Reads a checkpoint from front to back. A read beyond its end is damage."""

    def __init__(self, data: bytes) -> None:
        self.data: bytes = data
        self.at: i64 = CHECKPOINT_HEADER_BYTES
        self.segments: dict[int, Segment] = {}

    def state(self, version: i64) -> CheckpointState:
        replay_from = int(self.number())
        incarnation = int(self.number())
        left: i64 = self.number()
        while left > 0:
            segment = self.segment()
            segment.sealed = segment.number < replay_from
            self.segments[int(segment.number)] = segment
            left -= 1
        queues: list[QueueCheckpoint] = []
        left = self.number()
        while left > 0:
            queues.append(self.queue())
            left -= 1
        if version > 1:
            self.queue_states({int(queue.queue_id): queue for queue in queues})
        if self.at != len(self.data):
            raise StoreError("a checkpoint that contradicts itself: bytes are left over")
        return CheckpointState(replay_from, incarnation, list(self.segments.values()), queues)

    def number(self) -> i64:
        at: i64 = self.at
        self.at = at + 8
        if self.at > len(self.data):
            raise StoreError("a checkpoint that contradicts itself: it ends too soon")
        return read_i64_be(self.data, at)

    def queue_states(self, queues: dict[int, QueueCheckpoint]) -> None:
        left: i64 = self.number()
        while left > 0:
            queue = queues.get(int(self.number()))
            length: i64 = self.number()
            at: i64 = self.at
            self.at = at + length
            if queue is None or length < 0 or self.at > len(self.data):
                raise StoreError("a checkpoint that contradicts itself: what a queue remembers is of no queue, or cut")
            queue.queue_state = self.data[at : self.at]
            left -= 1

    def segment(self) -> Segment:
        segment = Segment(self.number())
        segment.size_bytes = self.number()
        segment.total_bytes = self.number()
        return segment

    def queue(self) -> QueueCheckpoint:
        queue_id: i64 = self.number()
        next_position: i64 = self.number()
        watermark: i64 = self.number()
        levels: list[RemovedPositions] = []
        left: i64 = self.number()
        while left > 0:
            removed, after = decode_removed(self.data, self.at)
            self.at = after
            levels.append(removed)
            left -= 1
        segment_extents: list[SegmentExtent] = []
        left = self.number()
        while left > 0:
            segment_extents.append(self.extent(queue_id))
            left -= 1
        returned: dict[int, int] = {}
        left = self.number()
        while left > 0:
            position = int(self.number())
            returned[position] = int(self.number())
            left -= 1
        return QueueCheckpoint(queue_id, next_position, watermark, levels, segment_extents, returned)

    def extent(self, queue_id: i64) -> SegmentExtent:
        data = self.data
        at: i64 = self.at
        self.at = at + EXTENT_BYTES
        if self.at > len(data):
            raise StoreError("a checkpoint that contradicts itself: it ends too soon")
        number: i64 = read_i64_be(data, at)
        segment = self.segments.get(int(number))
        if segment is None:
            raise StoreError(f"a checkpoint that contradicts itself: it does not list segment {number}")
        level_and_deadlines: i64 = read_i64_be(data, at + 8)
        extent = SegmentExtent(queue_id, segment, level_and_deadlines >> 1, True, read_i64_be(data, at + 16))
        extent.deadlines = level_and_deadlines & 1 != 0
        extent.last = read_i64_be(data, at + 24)
        extent.count = read_i64_be(data, at + 32)
        extent.body_bytes = read_i64_be(data, at + 40)
        extent.cost_bytes = read_i64_be(data, at + 48)
        segment.live_count += extent.count
        segment.live_bytes += extent.cost_bytes
        return extent
