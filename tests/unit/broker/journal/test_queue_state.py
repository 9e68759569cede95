"""Publishing ids and offsets of a queue come back from the journal, also if the messages are gone."""

from zlib import crc32

import pytest

from tests.unit.broker.journal.journal_world import DurableCore, Recovered, drain, persistent
from tests.unit.broker.journal.plain_disk import CHECKPOINT, PlainDisk, segment_name
from warren.broker.journal.checkpoint import (
    CHECKPOINT_HEADER_BYTES,
    CheckpointState,
    decode_checkpoint,
    encode_checkpoint,
)
from warren.broker.journal.queue_index import QueueIndex
from warren.broker.journal.queue_state import (
    IDS_ADDED,
    IDS_REMOVED,
    IDS_REPLACED,
    load_queue_state,
    write_publishing_ids,
)
from warren.broker.journal.records import PUBLISHING_IDS, RecordScanner, segment_header, segment_header_fault
from warren.broker.journal.segment_report import KINDS
from warren.broker.model.deduplication import window_row
from warren.broker.model.reader_positions import NAMES_MAX, NO_OFFSET, OffsetTable
from warren.errors import StoreError
from warren.wire.methods import QueueDeclare, QueueDelete


def identified(number: int) -> dict[str, object]:
    return {"x-warren-publisher": "p", "x-warren-publishing-id": number}


def index_of(core: DurableCore) -> QueueIndex:
    (queue_index,) = core.journal().queue_indexes.values()
    return queue_index


def known(queue_index: QueueIndex, count: int = 40) -> list[int]:
    return [number for number in range(count) if queue_index.seen.has((b"p", b"%d" % number))]


class World:
    """A node with one durable queue."""

    def __init__(self, segment_bytes: int = 1 << 20) -> None:
        self.disk = PlainDisk()
        self.core = DurableCore(self.disk, segment_bytes)
        self.client = self.core.client()
        self.client.say(QueueDeclare("q", durable=True))
        self.client.heard()

    def publish(self, *numbers: int) -> None:
        self.client.read(b"".join(persistent("q", b"%d" % number, headers=identified(number)) for number in numbers))

    def restarted(self) -> QueueIndex:
        """The world after a kill and a restart."""
        return index_of(DurableCore(self.disk.copy()))


def test_ids_are_found_in_messages_that_are_replayed_though_they_are_gone() -> None:
    world = World()
    world.publish(1, 2, 3, 2)
    assert drain(world.client, "q") == [b"1", b"2", b"3"]
    assert known(world.restarted()) == [1, 2, 3]


def test_ids_and_offsets_stay_when_their_segments_are_deleted() -> None:
    world = World(segment_bytes=700)
    index_of(world.core).store_offset("reader", 7)
    world.publish(1)
    drain(world.client, "q")
    for number in range(2, 30):
        world.publish(number)
        drain(world.client, "q")
    assert world.disk.segments()[0] > 1
    found = world.restarted()
    assert known(found) == list(range(1, 30))
    assert found.stored_offsets() == {"reader": 7}


def test_a_queue_that_is_declared_again_knows_nothing() -> None:
    world = World()
    world.publish(1, 2)
    index_of(world.core).store_offset("reader", 7)
    world.client.say(QueueDelete("q"))
    world.client.say(QueueDeclare("q", durable=True))
    found = world.restarted()
    assert (known(found), found.stored_offsets()) == ([], {})


def test_records_of_ids_and_messages_count_in_the_order_they_came() -> None:
    world = World()
    world.publish(1, 2, 3)
    queue_index = index_of(world.core)
    batch = world.core.journal().tail.batch
    write_publishing_ids(batch, queue_index.queue_id, IDS_REPLACED, window_row((b"p", b"20"), True))
    write_publishing_ids(
        batch, queue_index.queue_id, IDS_ADDED, window_row((b"p", b"21"), True) + window_row((b"p", b"22"), False)
    )
    # within the batch, behind the removed id
    write_publishing_ids(batch, queue_index.queue_id, IDS_REMOVED, window_row((b"p", b"20"), True))
    world.publish(20, 4)
    assert known(world.restarted()) == [4, 20, 21]


def test_a_damaged_record_of_ids_stops_its_queue_and_salvage_goes_on_without() -> None:
    world = World()
    world.publish(1)
    queue_index = index_of(world.core)
    write_publishing_ids(
        world.core.journal().tail.batch, queue_index.queue_id, IDS_ADDED, window_row((b"p", b"20"), True)
    )
    world.publish(2)
    # the next batch says that this one was flushed
    world.publish(3)
    number = world.disk.segments()[-1]
    data = bytearray(world.disk.files[segment_name(number)])
    scanner = RecordScanner(bytes(data), number, 64)
    while scanner.kind != PUBLISHING_IDS:
        assert scanner.next()
    data[scanner.payload_start + 2] ^= 0xFF
    world.disk.files[segment_name(number)] = bytes(data)
    strict = Recovered(world.disk.copy())
    assert list(strict.recovery.stopped) == [queue_index.queue_id]
    lenient = Recovered(world.disk.copy(), lenient=True)
    assert lenient.recovery.stopped == {}
    assert known(lenient.journal.queue_indexes[int(queue_index.queue_id)]) == [1, 2, 3]


@pytest.mark.parametrize("checkpoint", ["whole", "missing", "damaged"])
def test_salvage_takes_no_id_from_a_message_that_was_rolled_back(checkpoint: str) -> None:
    world = World(segment_bytes=700)
    world.publish(1, 2)
    queue_index = index_of(world.core)
    queue_index.seen.discard((b"p", b"1"))
    write_publishing_ids(
        world.core.journal().tail.batch, queue_index.queue_id, IDS_REMOVED, window_row((b"p", b"1"), True)
    )
    queue_index.store_offset("reader", 7)
    for number in range(3, 30):
        world.publish(number)
    assert world.disk.segments()[0] == 1
    disk = world.disk.copy()
    if checkpoint == "missing":
        del disk.files[CHECKPOINT]
    elif checkpoint == "damaged":
        disk.files[CHECKPOINT] = b"x" + disk.files[CHECKPOINT][1:]
    lenient = Recovered(disk, lenient=True).journal.queue_indexes[int(queue_index.queue_id)]
    assert known(lenient) == list(range(2, 30))
    assert lenient.stored_offsets() == {"reader": 7}


def test_an_offset_is_kept_until_it_is_forgotten() -> None:
    offsets = OffsetTable()
    for number in range(NAMES_MAX + 1):
        offsets.keep(f"r{number}", number)
    offsets.keep("r0", 5)
    offsets.keep("r1", NO_OFFSET)
    offsets.keep("nobody", NO_OFFSET)
    assert len(offsets.by_name) == NAMES_MAX
    assert (offsets.by_name["r0"], "r1" in offsets.by_name) == (5, False)


def test_a_name_that_was_forgotten_does_not_come_back() -> None:
    world = World()
    index_of(world.core).store_offset("reader", 7)
    index_of(world.core).store_offset("another", 8)
    world.publish(1)
    index_of(world.core).store_offset("reader", NO_OFFSET)
    world.publish(2)
    assert world.restarted().stored_offsets() == {"another": 8}


def test_a_queue_state_cut_short_is_refused() -> None:
    world = World()
    world.publish(1)
    index_of(world.core).store_offset("reader", 7)
    whole = index_of(world.core).mark().queue_state
    for size in range(1, len(whole)):
        # cut behind the ids it is valid, without names
        if size != len(whole) - 22:
            with pytest.raises(StoreError):
                load_queue_state(index_of(world.core), whole[:size])


def test_files_of_the_version_before_are_read() -> None:
    state = encode_checkpoint(CheckpointState(3, 1, [], []))
    body = state[int(CHECKPOINT_HEADER_BYTES) : -8]
    length = len(body).to_bytes(8, "big")
    old = state[:8] + (1).to_bytes(4, "big") + crc32(body, crc32(length)).to_bytes(4, "big") + length + body
    assert decode_checkpoint(old).replay_from == 3
    header = segment_header(5, 1)
    before = header[:11] + b"\x01" + header[12:60]
    assert segment_header_fault(before + crc32(before).to_bytes(4, "big"), 5) == ""


def test_a_journal_of_the_version_before_starts() -> None:
    world = World()
    world.client.read(persistent("q", b"old"))
    disk = world.disk.copy()
    disk.files.pop(CHECKPOINT, None)
    for number in disk.segments():
        data = disk.files[segment_name(number)]
        before = data[:11] + b"\x01" + data[12:60]
        disk.files[segment_name(number)] = before + crc32(before).to_bytes(4, "big") + data[64:]
    core = DurableCore(disk)
    assert drain(core.client(), "q") == [b"old"]


def test_every_kind_of_record_has_a_name() -> None:
    assert len(KINDS) == PUBLISHING_IDS + 1
