"""Compaction: mostly dead segments are dropped and living messages survive, whenever the node dies."""

import pytest

from tests.support.core_driver import spoken
from tests.unit.broker.journal.journal_world import DurableCore, Recovered, drain, expected, get, persistent, reject
from tests.unit.broker.journal.plain_disk import PlainDisk
from tests.unit.broker.journal.test_entry_fetch import LateDisk
from warren.broker.journal.journal import Journal
from warren.broker.journal.records import COPY, MOVED, SEGMENT_HEADER_BYTES, RecordScanner
from warren.broker.metadata.store import MetadataChangeLog
from warren.broker.model.effects import AppendRecords, DropSegments, Note, ReadJournal
from warren.broker.model.events import FlushCompleted, JournalRead
from warren.broker.model.message import Entry, Envelope, Message
from warren.broker.model.turn import Turn
from warren.wire.methods import BasicAck, BasicConsume, BasicNack, ExchangeDeclare, QueueBind, QueueDeclare, QueueDelete

SEGMENT_BYTES = 8_000


def core_with(*queues: str, segment_bytes: int = SEGMENT_BYTES) -> DurableCore:
    core = DurableCore(PlainDisk(), segment_bytes)
    client = core.client()
    client.read(spoken(*[QueueDeclare(queue=queue, durable=True) for queue in queues]))
    return core


def records(core: DurableCore, kind: int) -> int:
    """How many records of a kind were ever written."""
    found = 0
    for order in core.orders:
        if isinstance(order, AppendRecords):
            scanner = RecordScanner(order.data, order.segment, order.offset or SEGMENT_HEADER_BYTES, order.offset)
            while scanner.next():
                found += scanner.kind == kind
    return found


def dropped(core: DurableCore) -> list[int]:
    return [number for order in core.orders if isinstance(order, DropSegments) for number in order.segments]


def assert_recoverable(core: DurableCore) -> None:
    recovered = Recovered(core.disk.copy()).start()
    assert recovered.recovery.faults == []
    assert recovered.contents() == expected(core.disk, core.disk.truth.queues, recovered.names)


@pytest.mark.lengthy
def test_hours_of_steady_traffic_take_at_most_twice_the_living_bytes() -> None:
    core = core_with("q")
    client = core.client()
    window = 60
    client.read(b"".join(persistent("q", b"%0100d" % number) for number in range(window)))
    client.heard()
    largest = 0
    for minute in range(300):
        client.read(b"".join(persistent("q", b"%0100d" % number) for number in range(5)))
        client.heard()
        for _ in range(5):
            client.say(BasicAck(get(client, "q")[0]))
        core.pass_ms(60_000)
        if minute > 20:
            largest = max(largest, core.disk.size_bytes())
    record_bytes = 220
    assert largest < 2 * window * record_bytes + 2 * SEGMENT_BYTES
    assert_recoverable(core)


def test_a_slow_queue_beside_a_fast_one_does_not_pin_the_journal() -> None:
    core = core_with("fast", "slow")
    client = core.client()
    for minute in range(200):
        if minute % 10 == 0:
            client.read(persistent("slow", b"slow %d" % minute))
        client.read(persistent("fast", b"x" * 500))
        client.heard()
        client.say(BasicAck(get(client, "fast")[0]))
        core.pass_ms(5_000)
    assert len(dropped(core)) > 10
    assert core.disk.size_bytes() < 3 * SEGMENT_BYTES
    assert_recoverable(core)
    assert drain(client, "slow") == [b"slow %d" % minute for minute in range(0, 200, 10)]


def test_heavy_traffic_with_few_survivors_is_compacted_before_the_timer() -> None:
    core = core_with("fast", "slow")
    client = core.client()
    largest = 0
    for number in range(600):
        if number % 50 == 0:
            client.read(persistent("slow", b"slow %d" % number))
        client.read(persistent("fast", b"x" * 500))
        client.heard()
        client.say(BasicAck(get(client, "fast")[0]))
        largest = max(largest, core.disk.size_bytes())
    # indexes and the checkpoint are as large as anything here
    assert largest < 3 * SEGMENT_BYTES
    assert len(dropped(core)) > 10
    assert_recoverable(core)
    assert drain(client, "slow") == [b"slow %d" % number for number in range(0, 600, 50)]


def test_traffic_without_survivors_is_not_copied() -> None:
    """A few messages are always in flight, and the end of each segment is alive when the next begins."""
    core = core_with("q")
    client = core.client()
    client.read(b"".join(persistent("q", b"x" * 500) for _ in range(4)))
    client.heard()
    for _ in range(300):
        client.read(persistent("q", b"x" * 500))
        client.heard()
        client.say(BasicAck(get(client, "q")[0]))
    assert len(dropped(core)) > 10
    assert records(core, COPY) == 0


def test_segments_full_of_acks_do_not_stay_for_the_few_messages_among_them() -> None:
    core = core_with("backlog", "slow")
    client = core.client()
    client.read(b"".join(persistent("backlog", b"%d" % number) for number in range(400)))
    client.heard()
    for number in range(400):
        client.say(BasicAck(get(client, "backlog")[0]))
        if number % 40 == 0:
            client.read(persistent("slow", b"slow %d" % number))
            client.heard()
        core.pass_ms(1_000)
    core.pass_ms(10_000)
    assert core.disk.size_bytes() < 2 * SEGMENT_BYTES
    assert drain(client, "slow") == [b"slow %d" % number for number in range(0, 400, 40)]


def test_an_idle_journal_comes_to_rest() -> None:
    """Long names are a large part of small messages: they must not make compacted records look like waste."""
    core = core_with("q" * 250, "x")
    client = core.client()
    for number in range(60):
        client.read(persistent("q" * 250, b"%d" % number))
        client.read(persistent("x", b"x" * 600))
        client.heard()
        client.say(BasicAck(get(client, "x")[0]))
    core.pass_ms(120_000)
    settled = len(core.orders)
    core.pass_ms(3_600_000)
    assert len(core.orders) == settled
    assert records(core, MOVED) > 0
    assert_recoverable(core)


def test_of_a_fan_out_only_the_placements_that_live_are_copied() -> None:
    core = core_with("a", "b", "c")
    client = core.client()
    client.say(ExchangeDeclare(exchange="all", type="fanout", durable=True))
    for queue in "abc":
        client.say(QueueBind(queue=queue, exchange="all"))
    client.heard()
    client.read(b"".join(persistent("", b"%0100d" % number, "all") for number in range(60)))
    client.heard()
    client.say(QueueDelete(queue="b"))
    client.heard()
    for queue, count in (("a", 55), ("c", 50)):
        for _ in range(count):
            client.say(BasicAck(get(client, queue)[0]))
    core.pass_ms(30_000)
    assert records(core, COPY) > 0
    assert_recoverable(core)
    again = DurableCore(core.disk.copy()).client()
    assert drain(again, "a") == [b"%0100d" % number for number in range(55, 60)]
    assert drain(again, "c") == [b"%0100d" % number for number in range(50, 60)]


def test_entries_in_memory_and_unacked_ones_follow_their_segment() -> None:
    core = core_with("q", "filler")
    client = core.client()
    client.read(b"".join(persistent("q", b"%d" % number) for number in range(10)))
    client.heard()
    tags = [get(client, "q")[0] for _ in range(6)]
    for _ in range(40):
        client.read(persistent("filler", b"x" * 500))
        client.heard()
        client.say(BasicAck(get(client, "filler")[0]))
    core.pass_ms(30_000)
    assert records(core, MOVED) > 0
    assert 1 in dropped(core)
    client.say(BasicAck(tags[0]))
    client.say(BasicAck(tags[3]))
    client.say(BasicNack(tags[1]))
    reject(client, tags[2], requeue=False)
    client.heard()
    assert_recoverable(core)
    assert drain(DurableCore(core.disk.copy()).client(), "q") == [b"%d" % number for number in (1, 4, 5, 6, 7, 8, 9)]


@pytest.mark.parametrize("moment", ["before", "during"])
def test_a_message_removed_during_compaction_is_removed_from_both_segments(moment: str) -> None:
    core = LateDisk(PlainDisk(), 2_000)
    client = core.client()
    client.read(spoken(QueueDeclare(queue="q", durable=True), QueueDeclare(queue="filler", durable=True)))
    client.read(b"".join(persistent("q", b"%d" % number) for number in range(6)))
    client.heard()
    tags = [get(client, "q")[0] for _ in range(3)]
    for _ in range(4):
        client.read(persistent("filler", b"x" * 500))
    client.heard()
    assert len(drain(client, "filler")) == 4
    if moment == "before":
        client.say(BasicAck(tags[1]))
    core.late = True
    core.pass_ms(1_500)
    assert [effect for effect in core.waiting if isinstance(effect, ReadJournal)]
    if moment == "during":
        client.say(BasicAck(tags[1]))
    core.answer()
    core.late = False
    core.report()
    client.say(BasicAck(tags[0]))
    core.pass_ms(5_000)
    assert records(core, MOVED) > 0
    assert_recoverable(core)
    assert drain(DurableCore(core.disk.copy()).client(), "q") == [b"%d" % number for number in range(2, 6)]


def test_a_fetch_under_way_while_its_segment_moves_brings_its_entries() -> None:
    core = LateDisk(PlainDisk(), 2_000)
    client = core.client()
    lazy = {"x-queue-mode": "lazy"}
    client.read(spoken(QueueDeclare(queue="q", durable=True, arguments=lazy), QueueDeclare(queue="f", durable=True)))
    client.read(b"".join(persistent("q", b"%d" % number) for number in range(6)))
    for _ in range(8):
        client.read(persistent("f", b"x" * 500))
    client.heard()
    assert len(drain(client, "f")) == 8
    core.late = True
    client.consume("q")
    core.answer()
    fetch = core.waiting
    core.waiting = []
    assert [type(effect) for effect in fetch] == [ReadJournal]
    core.pass_ms(1_500)
    assert core.waiting
    core.answer()
    core.report()
    assert records(core, MOVED) == 1
    core.pass_ms(3_000)
    old = fetch[0].segment  # type: ignore[attr-defined]
    assert old not in dropped(core)
    core.waiting = fetch
    core.answer()
    core.late = False
    core.report()
    core.pass_ms(1)
    assert [heard.body for heard in client.heard() if heard.header] == [b"%d" % number for number in range(6)]
    client.say(BasicAck(6, multiple=True))
    assert_recoverable(core)


def test_copies_of_an_incomplete_compaction_are_ignored() -> None:
    """For a crash after every effect see `test_recovery_cuts`."""
    core = core_with("q", "filler")
    client = core.client()
    client.read(b"".join(persistent("q", b"%d" % number) for number in range(10)))
    for _ in range(30):
        client.read(persistent("filler", b"x" * 500))
        client.heard()
        client.say(BasicAck(get(client, "filler")[0]))
        core.pass_ms(1_000)
    disk = PlainDisk()
    for order in core.orders:
        disk.carry_out(order)
        recovered = Recovered(disk.copy()).start()
        assert recovered.contents() == expected(disk, disk.truth.queues, recovered.names)


def test_a_damaged_record_leaves_its_segment_where_it_is() -> None:
    core = core_with("q", "filler")
    client = core.client()
    client.read(persistent("q", b"precious"))
    for _ in range(20):
        client.read(persistent("filler", b"x" * 500))
        client.heard()
        client.say(BasicAck(get(client, "filler")[0]))
        core.disk.files["000000000001.seg"] = core.disk.files["000000000001.seg"].replace(b"precious", b"PRECIOUS")
    core.pass_ms(60_000)
    assert core.note_names().count("compaction.failed") == 1
    assert 1 in core.disk.segments()


@pytest.mark.lengthy
def test_a_record_for_very_many_queues_is_copied_like_any_other() -> None:
    turn = Turn()
    journal = Journal(turn, MetadataChangeLog(0), 1 << 20, 1)
    journal.begin([], {})
    logs = [journal.open(number, True, 0) for number in range(1, 50_001)]
    message = Message(Envelope("all", "k"), b"content" * 10, 1, 70, 131_072, persistent=True)
    entries = [Entry(message, 1, -1) for _ in logs]
    for log, entry in zip(logs, entries, strict=True):
        entry.extent = log.store(message, 1, -1, 0)
    journal.end_turn()
    for log, entry in zip(logs[:40_000], entries, strict=False):
        log.forget(entry)
    journal.end_turn()
    disk = PlainDisk()
    for _ in range(10):
        effects, turn.effects = turn.effects, []
        for effect in effects:
            assert not isinstance(effect, Note), effect
            disk.carry_out(effect)
            answer = disk.read(effect)
            if isinstance(effect, AppendRecords):
                journal.stored(FlushCompleted(effect.batch_no, effect.batch_no))
            elif isinstance(answer, JournalRead):
                journal.journal_read(answer)
        turn.now_ms += 1_000
        turn.fire_timers()
        journal.end_turn()
    assert entries[-1].extent is not None
    assert entries[-1].extent.segment.number > 1


def test_a_consumer_beside_hours_of_compaction_gets_everything_once() -> None:
    core = core_with("q", "filler", segment_bytes=3_000)
    publisher, consumer = core.client(), core.client()
    consumer.say(BasicConsume(queue="q", consumer_tag="c"))
    consumer.heard()
    got = []
    for number in range(150):
        publisher.read(persistent("q", b"%d" % number) + persistent("filler", b"x" * 300))
        publisher.heard()
        if number % 7 == 0:
            drain(publisher, "filler")
        if number % 11 == 0:
            heard = [one for one in consumer.heard() if one.header]
            got += [one.body for one in heard]
            for one in reversed(heard):
                consumer.say(BasicAck(one.method.delivery_tag))  # type: ignore[attr-defined]
        core.pass_ms(1_000)
    got += [one.body for one in consumer.heard() if one.header]
    assert got == [b"%d" % number for number in range(150)]
    assert_recoverable(core)
