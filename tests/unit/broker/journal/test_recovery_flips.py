"""Every bit of a segment flipped: a message is delivered as it was published, or its damage is reported."""

import re

import pytest

from tests.support.core_driver import spoken
from tests.unit.broker.journal.journal_world import DurableCore, Recovered, drain, expected, get, persistent, reject
from tests.unit.broker.journal.plain_disk import PlainDisk, Truth, Written, segment_name
from warren.broker.journal.records import COPY_PAGED, SEGMENT_HEADER_BYTES, RecordScanner
from warren.errors import StoreError
from warren.wire.methods import BasicAck, ExchangeDeclare, QueueBind, QueueDeclare

REFUSAL = re.compile(
    r"segment 1 of the journal is .* at byte (\d+); 'warren journal salvage DIR' saves the readable messages"
)


@pytest.fixture(scope="module")
def disk() -> PlainDisk:
    """One segment: a fan-out, priorities, a deadline, an ack, a message that came back."""
    core = DurableCore(PlainDisk())
    client = core.client()
    client.read(
        spoken(
            QueueDeclare(queue="a", durable=True),
            QueueDeclare(queue="b", durable=True, arguments={"x-max-priority": 2}),
            QueueDeclare(queue="c", durable=True, arguments={"x-delivery-limit": 3}),
            ExchangeDeclare(exchange="x", type="fanout", durable=True),
            QueueBind(queue="a", exchange="x"),
            QueueBind(queue="b", exchange="x"),
        )
    )
    client.read(persistent("", b"both", "x", priority=1) + persistent("c", b"count", expiration="90000"))
    client.heard()
    client.read(persistent("a", b"alone") + persistent("c", b"second"))
    client.heard()
    client.say(BasicAck(get(client, "a")[0]))
    reject(client, get(client, "c")[0], requeue=True)
    client.read(persistent("b", b"last", priority=2))
    client.heard()
    core.disk.files[segment_name(1)] += bytes(24)
    return core.disk


def flipped(disk: PlainDisk, bit: int) -> PlainDisk:
    changed = disk.copy()
    data = bytearray(changed.files[segment_name(1)])
    data[bit // 8] ^= 1 << bit % 8
    changed.files[segment_name(1)] = bytes(data)
    return changed


def batch_of(disk: PlainDisk, byte: int) -> tuple[int, Written] | None:
    """The number of the batch with this byte, if any."""
    for number, batch in enumerate(disk.batches):
        if batch.offset <= byte < batch.end:
            return number, batch
    return None


def queues_damaged_by(disk: PlainDisk, byte: int) -> set[int] | None:
    """The queues that need the message with this byte; None if the byte is part of a header."""
    scanner = RecordScanner(disk.files[segment_name(1)], 1, SEGMENT_HEADER_BYTES)
    while scanner.next() and scanner.end <= byte:
        pass
    if byte < SEGMENT_HEADER_BYTES or byte < scanner.payload_start or scanner.kind > COPY_PAGED:
        return None
    placed = [(int(scanner.a(index)), int(scanner.b(index))) for index in range(int(scanner.count))]
    return {queue_id for queue_id, position in placed if position in disk.truth.queues[queue_id]}


def check(disk: PlainDisk, changed: PlainDisk, truth: Truth, stopped: set[int]) -> None:
    recovered = Recovered(changed).start()
    assert set(recovered.recovery.stopped) == stopped
    wanted = expected(disk, truth.queues, recovered.names)
    for name, queue_id in recovered.names.items():
        if queue_id in stopped:
            assert re.search(r"segment 1 .* damaged at byte \d+", recovered.recovery.stopped[queue_id])
            with pytest.raises(AssertionError, match="is damaged at byte"):
                recovered.living(name)
        else:
            assert recovered.living(name) == wanted[name]


@pytest.mark.lengthy
def test_every_flipped_bit_is_found_and_costs_no_more_than_it_must(disk: PlainDisk) -> None:
    last = len(disk.batches) - 1
    outcomes = {"cut": 0, "stopped": 0, "refused": 0}
    for bit in range(len(disk.files[segment_name(1)]) * 8):
        changed = flipped(disk, bit)
        found = batch_of(disk, bit // 8)
        if found is None:
            check(disk, changed, disk.truth, set())
            continue
        damaged = queues_damaged_by(disk, bit // 8)
        if found[0] == last:
            outcomes["cut"] += 1
            check(disk, changed, disk.batches[last - 1].truth, set())
        elif damaged is None:
            outcomes["refused"] += 1
            with pytest.raises(StoreError, match=REFUSAL) as caught:
                Recovered(changed)
            named = REFUSAL.match(str(caught.value))
            assert named is not None
            assert int(named[1]) <= bit // 8 < found[1].end
        else:
            outcomes["stopped"] += 1
            check(disk, changed, disk.truth, damaged)
    assert min(outcomes.values()) > 500, outcomes


def test_a_node_with_a_damaged_message_serves_every_other_queue(disk: PlainDisk) -> None:
    at = disk.files[segment_name(1)].index(b"both")
    core = DurableCore(flipped(disk, at * 8))
    assert core.note_names().count("queue.stopped") == 1
    assert [note.fields["reason"] for note in core.notes if note.name == "journal.damaged"]
    client = core.client()
    assert drain(client, "c") == [b"count", b"second"]
    assert drain(client, "a") == [b"alone"]
    client.say(QueueDeclare(queue="b", durable=True, passive=True))
    (refusal,) = client.methods()
    assert "queue 'b' in vhost '/' is stopped: segment 1 of the journal is damaged at byte" in str(refusal)


def test_a_damaged_message_in_a_sealed_segment_stops_its_queue_when_it_is_read(disk: PlainDisk) -> None:
    sealed = disk.copy()
    DurableCore(sealed)
    at = sealed.files[segment_name(1)].index(b"alone")
    core = DurableCore(flipped(sealed, at * 8))
    assert "queue.stopped" not in core.note_names()
    client = core.client()
    assert drain(client, "c") == [b"count", b"second"]
    client.consume("a")
    assert "queue.stopped" in core.note_names()
    assert b"alone" not in [heard.body for heard in client.heard()]
