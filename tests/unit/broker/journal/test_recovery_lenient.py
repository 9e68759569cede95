"""Salvage reads on after any damage, invents nothing, and leaves a journal that a node can start with."""

import pytest

from tests.unit.broker.journal.journal_world import DurableCore, Recovered, drain, expected, persistent
from tests.unit.broker.journal.plain_disk import CHECKPOINT, Living, PlainDisk, index_name, segment_name
from tests.unit.broker.journal.sample import rich_sample
from warren.wire.methods import QueueDeclare

SEGMENT_BYTES = 2_500


@pytest.fixture(scope="module")
def sample() -> PlainDisk:
    return rich_sample(SEGMENT_BYTES).disk


@pytest.fixture(scope="module")
def ever(sample: PlainDisk) -> dict[int, dict[int, Living]]:
    """Every message that was ever in a queue."""
    found: dict[int, dict[int, Living]] = {}
    for batch in sample.batches:
        for queue_id, queue in batch.truth.queues.items():
            for position, living in queue.items():
                found.setdefault(queue_id, {})[position] = living._replace(delivery_count=0)
    return found


def salvaged(disk: PlainDisk) -> dict[str, list[Living]]:
    """The messages after salvage, which a strict start finds as well."""
    kept = Recovered(disk, lenient=True).start()
    contents = kept.contents()
    again = Recovered(disk).start()
    assert again.recovery.faults == []
    assert again.contents() == contents
    return contents


def test_of_a_sound_journal_salvage_keeps_everything(sample: PlainDisk) -> None:
    disk = sample.copy()
    kept = Recovered(disk, lenient=True).start()
    assert kept.recovery.faults == []
    assert kept.recovery.left_out == []
    assert kept.contents() == expected(sample, sample.truth.queues, kept.names)


@pytest.mark.lengthy
def test_damage_loses_only_the_damaged_messages(sample: PlainDisk, ever: dict[int, dict[int, Living]]) -> None:
    names = Recovered(sample.copy()).names
    wanted = expected(sample, sample.truth.queues, names)
    for number in sample.segments():
        data = sample.files[segment_name(number)]
        for at in range(0, len(data), 13):
            disk = sample.copy()
            disk.files[segment_name(number)] = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]
            contents = salvaged(disk)
            for name, found in contents.items():
                there = ever.get(names[name], {})
                assert all(there[one.position].body == one.body for one in found)
                missing = {one.position for one in wanted[name]} - {one.position for one in found}
                # at most the messages of one batch
                assert len(missing) <= 5


def test_stretches_of_random_bytes_are_skipped(sample: PlainDisk) -> None:
    names = Recovered(sample.copy()).names
    # the last one may end before the random bytes do
    for number in sample.segments()[:-1]:
        disk = sample.copy()
        data = disk.files[segment_name(number)]
        disk.files[segment_name(number)] = data[:300] + b"\x44\x00\x00" * 100 + data[600:]
        recovered = Recovered(disk, lenient=True).start()
        hit = [(first, end) for segment, first, end in recovered.recovery.left_out if segment == number]
        assert hit
        assert all(first < 700 for first, _end in hit)
        assert set(recovered.contents()) == set(names)


def test_without_a_checkpoint_nothing_is_lost_though_some_may_come_twice(sample: PlainDisk) -> None:
    disk = sample.copy()
    del disk.files[CHECKPOINT]
    names = Recovered(sample.copy()).names
    wanted = expected(sample, sample.truth.queues, names)
    contents = salvaged(disk)
    for name in names:
        positions = [one.position for one in contents[name]]
        assert {one.position for one in wanted[name]} <= set(positions)
        assert len(set(positions)) == len(positions)


def test_without_indexes_nothing_is_lost(sample: PlainDisk) -> None:
    disk = sample.copy()
    for number in disk.segments():
        disk.files.pop(index_name(number), None)
    names = Recovered(sample.copy()).names
    assert salvaged(disk) == expected(sample, sample.truth.queues, names)


def test_messages_of_a_missing_segment_are_counted_as_lost_and_the_rest_is_kept(sample: PlainDisk) -> None:
    whole = Recovered(sample.copy()).journal
    number = next(
        int(extent.segment.number)
        for queue_index in whole.queue_indexes.values()
        for extent in queue_index.segment_extents
        if extent.count
    )
    lost = {
        queue_id: sum(int(one.count) for one in queue_index.segment_extents if one.segment.number == number)
        for queue_id, queue_index in whole.queue_indexes.items()
    }
    disk = sample.copy()
    del disk.files[segment_name(number)]
    recovered = Recovered(disk, lenient=True).start()
    assert f"segment {number} of the journal is missing" in recovered.recovery.faults
    assert recovered.recovery.lost == {queue_id: count for queue_id, count in lost.items() if count}
    again = Recovered(disk).start()
    assert again.recovery.stopped == {}


def test_after_salvage_a_node_goes_on_as_ever(sample: PlainDisk) -> None:
    disk = sample.copy()
    number = sample.segments()[-2]
    data = disk.files[segment_name(number)]
    disk.files[segment_name(number)] = data[:200] + bytes(100) + data[300:]
    Recovered(disk, lenient=True).start()
    core = DurableCore(disk, SEGMENT_BYTES)
    client = core.client()
    client.say(QueueDeclare(queue="plain", durable=True, passive=True))
    client.heard()
    before = drain(client, "plain")
    client.read(persistent("plain", b"after salvage"))
    client.heard()
    core.pass_ms(30_000)
    assert drain(DurableCore(disk, SEGMENT_BYTES).client(), "plain") == [b"after salvage"]
    assert len(before) > 3


def test_a_queue_unknown_to_the_metadata_is_reported_without_messages_too() -> None:
    disk = PlainDisk()
    core = DurableCore(disk, SEGMENT_BYTES)
    client = core.client()
    for queue in ("emptied", "filled"):
        client.say(QueueDeclare(queue=queue, durable=True))
        for number in range(30):
            client.read(persistent(queue, b"%d" % number + bytes(200)))
        client.heard()
        if queue == "emptied":
            assert len(drain(client, queue)) == 30
    core.pass_ms(30_000)
    names = Recovered(disk.copy()).names
    disk.values, disk.revision = {}, 0
    unknown = Recovered(disk, lenient=True).recovery.unknown
    assert unknown == {names["emptied"]: 0, names["filled"]: 30}
