"""Files of a journal that are missing, empty, damaged, or left over."""

from zlib import crc32

import pytest

from tests.unit.broker.journal.journal_world import DurableCore, Recovered, drain, expected, get, persistent
from tests.unit.broker.journal.plain_disk import CHECKPOINT, PlainDisk, index_name, segment_name
from tests.unit.broker.journal.sample import rich_sample
from warren.broker.journal.checkpoint import decode_checkpoint
from warren.broker.journal.records import SEGMENT_HEADER_BYTES
from warren.broker.model.effects import AppendRecords, DropSegments, WriteCheckpoint
from warren.errors import ConfigError, StoreError
from warren.wire.methods import BasicAck, QueueDeclare

SEGMENT_BYTES = 2_500


@pytest.fixture(scope="module")
def sample() -> PlainDisk:
    return rich_sample(SEGMENT_BYTES).disk


@pytest.fixture
def disk(sample: PlainDisk) -> PlainDisk:
    return sample.copy()


def sealed_with_messages(disk: PlainDisk) -> list[int]:
    state = decode_checkpoint(disk.files[CHECKPOINT])
    return [int(segment.number) for segment in state.segments if segment.live_count > 0]


def assert_all_there(sample: PlainDisk, recovered: Recovered) -> None:
    assert recovered.recovery.stopped == {}
    assert recovered.contents() == expected(sample, sample.truth.queues, recovered.names)


# -- segments


def test_without_its_last_segment_a_journal_is_as_the_checkpoint_has_it(sample: PlainDisk, disk: PlainDisk) -> None:
    last = disk.segments()[-1]
    del disk.files[segment_name(last)]
    before = [batch for batch in sample.batches if batch.segment < last][-1]
    recovered = Recovered(disk).start()
    assert recovered.contents() == expected(sample, before.truth.queues, recovered.names)
    assert disk.segments()[-1] == last


@pytest.mark.parametrize("content", [b"", b"\0" * 40, b"\0" * 5000])
def test_a_last_segment_without_a_batch_says_nothing(sample: PlainDisk, disk: PlainDisk, content: bytes) -> None:
    last = disk.segments()[-1]
    disk.files[segment_name(last)] = content
    before = [batch for batch in sample.batches if batch.segment < last][-1]
    recovered = Recovered(disk).start()
    assert recovered.contents() == expected(sample, before.truth.queues, recovered.names)
    assert disk.segments()[-1] == last + 1


def test_queues_with_messages_in_a_missing_segment_are_stopped_and_no_others(
    sample: PlainDisk, disk: PlainDisk
) -> None:
    whole = Recovered(disk.copy()).journal
    counted: dict[int, set[int]] = {}
    for mark in decode_checkpoint(disk.files[CHECKPOINT]).queues:
        for extent in mark.segment_extents:
            counted.setdefault(int(extent.segment.number), set()).add(int(mark.queue_id))
    for number in sealed_with_messages(disk):
        holed = disk.copy()
        del holed.files[segment_name(number)]
        touched = {
            queue_id
            for queue_id, queue_index in whole.queue_indexes.items()
            if any(extent.segment.number == number and extent.count for extent in queue_index.segment_extents)
        }
        recovered = Recovered(holed).start()
        stopped = set(recovered.recovery.stopped)
        # only the missing segment could tell which of its messages were removed since
        assert touched <= stopped <= counted[number]
        missing = [f"segment {number} of the journal is missing"]
        assert recovered.recovery.faults == (missing if stopped else [])
        wanted = expected(sample, sample.truth.queues, recovered.names)
        for name, queue_id in recovered.names.items():
            if queue_id not in stopped:
                assert recovered.living(name) == wanted[name]


def test_a_segment_missing_among_those_to_be_read_is_refused() -> None:
    core = DurableCore(PlainDisk())
    core.disk.files[segment_name(3)] = b""
    with pytest.raises(StoreError, match="segment 2 of the journal is missing"):
        Recovered(core.disk)


def test_a_segment_under_another_ones_name_is_refused(disk: PlainDisk) -> None:
    numbers = disk.segments()
    disk.files[segment_name(numbers[-1])] = disk.files[segment_name(numbers[-2])]
    with pytest.raises(
        StoreError, match=rf"segment {numbers[-1]} of the journal is of segment {numbers[-2]}, at byte 0"
    ):
        Recovered(disk)


def test_segments_that_were_to_be_dropped_are_dropped_at_the_next_start() -> None:
    core = rich_sample(SEGMENT_BYTES)
    disk = PlainDisk()
    drops = [order for order in core.orders if isinstance(order, DropSegments)]
    assert drops
    for order in core.orders:
        if order is drops[-1]:
            break
        disk.carry_out(order)
    left_over = set(drops[-1].segments)
    assert left_over <= set(disk.segments())
    recovered = Recovered(disk).start()
    assert recovered.contents() == expected(disk, disk.truth.queues, recovered.names)
    assert not left_over & set(disk.segments())


def test_segments_are_never_numbered_anew() -> None:
    """All segments were dropped, and the node died before it began the next."""
    core = DurableCore(PlainDisk(), segment_bytes=1_000)
    client = core.client()
    client.say(QueueDeclare(queue="q", durable=True))
    client.heard()
    for size in range(100):
        client.read(persistent("q", b"x" * size))
        client.heard()
        drain(client, "q")
    disk = PlainDisk()
    for order in core.orders:
        disk.carry_out(order)
        if isinstance(order, DropSegments) and not disk.segments():
            break
    assert disk.segments() == []
    again = DurableCore(disk)
    publisher = again.client()
    publisher.read(persistent("q", b"must not be lost"))
    assert drain(DurableCore(disk).client(), "q") == [b"must not be lost"]


# -- indexes


@pytest.fixture(scope="module")
def indexed() -> PlainDisk:
    """Ten messages in a sealed segment, two of which were removed since."""
    core = DurableCore(PlainDisk(), segment_bytes=1_000)
    client = core.client()
    client.say(QueueDeclare(queue="q", durable=True))
    client.read(b"".join(persistent("q", b"message %d" % number) for number in range(10)))
    client.heard()
    tags = [get(client, "q")[0] for _ in range(5)]
    client.say(BasicAck(tags[1]))
    client.say(BasicAck(tags[4]))
    assert core.disk.segments() == [1, 2]
    return core.disk


def test_a_missing_index_is_rebuilt_from_its_segment(sample: PlainDisk, disk: PlainDisk) -> None:
    for number in sealed_with_messages(disk):
        assert disk.files.pop(index_name(number))
    assert_all_there(sample, Recovered(disk).start())
    assert all(index_name(number) in disk.files for number in disk.segments()[:-1])
    assert_all_there(sample, Recovered(disk).start())


@pytest.mark.parametrize("content", [b"", b"WARRENIX", b"nonsense" * 100])
def test_a_damaged_index_is_rebuilt(indexed: PlainDisk, content: bytes) -> None:
    disk = indexed.copy()
    disk.files[index_name(1)] = content
    assert_all_there(indexed, Recovered(disk).start())
    assert disk.files[index_name(1)] == indexed.files[index_name(1)]


@pytest.mark.lengthy
def test_every_flipped_bit_of_an_index_is_noticed_when_it_is_counted_with(indexed: PlainDisk) -> None:
    for bit in range(len(indexed.files[index_name(1)]) * 8):
        disk = indexed.copy()
        data = bytearray(disk.files[index_name(1)])
        data[bit // 8] ^= 1 << bit % 8
        disk.files[index_name(1)] = bytes(data)
        assert_all_there(indexed, Recovered(disk).start())


def test_a_segment_that_is_damaged_and_has_no_index_is_refused(indexed: PlainDisk) -> None:
    disk = indexed.copy()
    del disk.files[index_name(1)]
    data = disk.files[segment_name(1)]
    disk.files[segment_name(1)] = data[:200] + b"\xff" * 20 + data[220:]
    with pytest.raises(StoreError, match=r"segment 1 of the journal is damaged at byte \d+, and has no index; 'warren"):
        Recovered(disk)


def test_an_index_that_vanishes_while_the_node_runs_stops_the_queues_that_need_it(indexed: PlainDisk) -> None:
    core = DurableCore(indexed.copy(), segment_bytes=200)
    client = core.client()
    # the journal rolls, and the rows in memory are dropped
    client.say(QueueDeclare(queue="another", durable=True))
    del core.disk.files[index_name(1)]
    client.consume("q")
    assert "queue.stopped" in core.note_names()


# -- the checkpoint


@pytest.mark.parametrize("damage", ["missing", "flipped", "cut", "of another kind"])
def test_a_journal_with_a_damaged_checkpoint_is_refused(disk: PlainDisk, damage: str) -> None:
    data = disk.files.pop(CHECKPOINT)
    if damage != "missing":
        changed = {"flipped": data[:50] + b"\x99" + data[51:], "cut": data[:-9], "of another kind": b"no" + data}
        disk.files[CHECKPOINT] = changed[damage]
    with pytest.raises(StoreError, match=r"checkpoint.*'warren journal salvage DIR' saves the readable messages"):
        Recovered(disk)


def test_as_long_as_nothing_was_dropped_no_checkpoint_is_needed() -> None:
    core = rich_sample(SEGMENT_BYTES)
    disk = PlainDisk()
    for order in core.orders:
        if isinstance(order, DropSegments):
            break
        if not isinstance(order, WriteCheckpoint):
            disk.carry_out(order)
    assert len(disk.segments()) > 2
    assert_all_there(disk, Recovered(disk.copy()).start())


@pytest.mark.lengthy
def test_every_flipped_bit_of_the_checkpoint_is_noticed(disk: PlainDisk) -> None:
    data = disk.files[CHECKPOINT]
    for bit in range(0, len(data) * 8, 5):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        disk.files[CHECKPOINT] = bytes(changed)
        with pytest.raises(StoreError, match="checkpoint"):
            Recovered(disk)


# -- others


def test_a_journal_of_another_version_is_refused_as_wrong_usage(disk: PlainDisk) -> None:
    name = segment_name(disk.segments()[-1])
    header = disk.files[name][:11] + b"\x03" + disk.files[name][12:60]
    disk.files[name] = header + crc32(header).to_bytes(4, "big") + disk.files[name][SEGMENT_HEADER_BYTES:]
    with pytest.raises(ConfigError, match="of another version, 3; this version reads versions 1 and 2"):
        Recovered(disk)


def test_metadata_older_than_the_journal_is_refused() -> None:
    core = DurableCore(PlainDisk())
    client = core.client()
    client.say(QueueDeclare(queue="q", durable=True))
    client.read(persistent("q", b"x"))
    older = core.disk
    older.revision = 0
    older.values = {}
    with pytest.raises(StoreError, match=r"queue number \d+, but the metadata ends at 0: it is older than the journal"):
        Recovered(older)


def test_records_of_a_queue_are_never_written_before_its_metadata() -> None:
    """Also when the journal rolls in the middle of a turn."""
    core = rich_sample(SEGMENT_BYTES)
    known = 0
    for order in core.orders:
        if isinstance(order, AppendRecords):
            known = max([known, *[change.revision for change in order.changes]])
            taken = PlainDisk()
            taken.truth.take(order.segment, order.data, order.offset)
            held = [queue_id for queue_id, queue in taken.truth.queues.items() if queue]
            assert max(held, default=0) <= known
