"""Reading entries back: across segments, from the active segment, from one just sealed, of one priority alone."""

import pytest

from tests.support.core_driver import Client, published
from tests.unit.broker.journal.journal_world import DurableCore, drain, get, persistent
from tests.unit.broker.journal.plain_disk import PlainDisk, index_name
from warren.broker.model.effects import Effect, ReadIndex, ReadJournal
from warren.broker.model.events import FlushCompleted, JournalRead, MemoryMeasured
from warren.wire.methods import BasicAck, BasicCancel, BasicGet, QueueDeclare, QueueDelete, QueuePurge


class LateDisk(DurableCore):
    """Reads are answered, and batches reported, only when the test says so."""

    def __init__(self, disk: PlainDisk, segment_bytes: int = 64 * 1024 * 1024) -> None:
        self.late = False
        self.waiting: list[Effect] = []
        self.unreported = 0
        super().__init__(disk, segment_bytes)

    def _carry_out(self, effect: Effect) -> None:
        if self.late and isinstance(effect, ReadIndex | ReadJournal):
            self.waiting.append(effect)
            return
        super()._carry_out(effect)
        if self.late:
            self.unreported = max([self.unreported, *[one.written_no for one in self._reports()]])
            self._answers = [one for one in self._answers if not isinstance(one, FlushCompleted)]

    def _reports(self) -> list[FlushCompleted]:
        return [one for one in self._answers if isinstance(one, FlushCompleted)]

    def answer(self) -> None:
        """Answer every waiting read, and carry out the effects that follow."""
        waiting, self.waiting = self.waiting, []
        for effect in waiting:
            event = self.disk.read(effect)
            assert event is not None
            self.turn(event)

    def report(self) -> None:
        self.turn(FlushCompleted(self.unreported, self.unreported))


def bodies(count: int, start: int = 0) -> list[bytes]:
    return [b"message %d" % number for number in range(start, start + count)]


def lazy(core: DurableCore, **arguments: object) -> None:
    client = core.client()
    client.say(QueueDeclare(queue="q", durable=True, arguments={"x-queue-mode": "lazy", **arguments}))
    client.heard()


def publish(core: DurableCore, messages: list[bytes], priority: int = 0) -> None:
    client = core.client()
    for body in messages:
        client.read(persistent("q", body, priority=priority))


def with_messages_on_disk() -> tuple[LateDisk, Client]:
    """Ten messages of `q` are on a disk that is late from here on."""
    core = LateDisk(PlainDisk(), 1_000)
    lazy(core)
    publish(core, bodies(10))
    client = core.client()
    core.late = True
    return core, client


@pytest.mark.parametrize("segment_bytes", [400, 1_000, 1 << 20])
def test_ranges_are_read_in_order_from_any_segments(segment_bytes: int) -> None:
    core = DurableCore(PlainDisk(), segment_bytes)
    lazy(core)
    publish(core, bodies(30))
    assert core.disk.reads == 0
    assert drain(core.client(), "q") == bodies(30)
    assert core.disk.reads > 0


def test_messages_published_during_a_read_follow_it() -> None:
    core = DurableCore(PlainDisk(), 1_000)
    lazy(core)
    publish(core, bodies(10))
    client = core.client()
    taken = [get(client, "q")[1] for _ in range(3)]
    publish(core, bodies(10, 10))
    assert taken + drain(core.client(), "q") == bodies(20)


def test_one_level_is_read_and_others_stay_where_they_are() -> None:
    core = DurableCore(PlainDisk(), 1_000)
    lazy(core, **{"x-max-priority": 5})
    for number in range(4):
        for priority in (1, 9, 0, 3):
            publish(core, [b"%d of %d" % (number, priority)], priority)
    assert drain(core.client(), "q") == [b"%d of %d" % (n, p) for p in (9, 3, 1, 0) for n in range(4)]


def test_transient_messages_on_disk_are_read_back_among_persistent_ones_and_not_after_a_restart() -> None:
    core = DurableCore(PlainDisk(), 1_000)
    lazy(core)
    client = core.client()
    for number, body in enumerate(bodies(12)):
        if number % 3:
            client.publish("q", body)
        else:
            client.read(persistent("q", body))
    client.heard()
    survivors = bodies(12)[::3]
    disk = core.disk.copy()
    assert drain(client, "q") == bodies(12)
    assert drain(DurableCore(disk).client(), "q") == survivors


def test_a_late_read_leaves_out_removed_messages() -> None:
    core, client = with_messages_on_disk()
    client.consume("q")
    assert core.waiting
    client.say(QueuePurge(queue="q"))
    core.report()
    core.answer()
    core.late = False
    publish(core, [b"after"])
    core.report()
    assert [heard.body for heard in client.heard() if heard.header] == [b"after"]


def test_a_queue_deleted_during_a_read_gets_no_answer() -> None:
    core, client = with_messages_on_disk()
    client.consume("q")
    client.say(QueueDelete(queue="q"))
    core.answer()
    core.report()
    assert [heard.body for heard in client.heard() if heard.header] == []
    core.broker.check()


def test_only_records_reported_as_written_are_read() -> None:
    core = LateDisk(PlainDisk())
    lazy(core)
    client = core.client()
    core.late = True
    publish(core, bodies(3))
    client.consume("q")
    assert core.waiting == []
    core.report()
    assert [type(effect) for effect in core.waiting] == [ReadJournal]


def test_rows_of_segments_just_sealed_are_in_memory_until_their_indexes_are_written() -> None:
    """Several are sealed before the first is reported as written."""
    core = LateDisk(PlainDisk(), 500)
    lazy(core)
    core.late = True
    publisher = core.client()
    reports = []
    for body in bodies(20):
        publisher.read(persistent("q", body))
        reports.append(core.unreported)
    journal = core.journal()
    assert journal.tail.active.number > 4
    for written_no in reports:
        core.turn(FlushCompleted(written_no, written_no))
        # the first batch of a segment is written after the indexes of all before it
        tail = journal.tail
        may_lack_index = [one for one in journal.segments.values() if one.number >= tail.written.number]
        assert all(tail.rows_at_hand(segment) for segment in may_lack_index)
    core.late = False
    core.report()
    assert drain(core.client(), "q") == bodies(20)


def test_a_damaged_piece_stops_the_queue() -> None:
    core, client = with_messages_on_disk()
    client.consume("q")
    core.answer()
    (read,) = [effect for effect in core.waiting if isinstance(effect, ReadJournal)]
    wrong = [bytes(size) for _offset, size in read.extents]
    core.turn(JournalRead(read.ticket, wrong))
    (stopped,) = [note for note in core.notes if note.name == "queue.stopped"]
    assert "is damaged at byte" in str(stopped.fields["reason"])


def test_the_answer_to_a_cancelled_fetch_is_ignored() -> None:
    core, client = with_messages_on_disk()
    client.consume("q", tag="c")
    client.say(BasicCancel(consumer_tag="c"))
    core.answer()
    core.late = False
    core.report()
    core.answer()
    assert drain(core.client(), "q") == bodies(10)


def test_messages_paged_out_in_tight_memory_are_all_read_back() -> None:
    core = DurableCore(PlainDisk(), 2_000)
    client = core.client()
    client.say(QueueDeclare(queue="q", durable=True))
    publish(core, bodies(5))
    core.turn(MemoryMeasured(900, 1_000))
    publish(core, bodies(20, 5))
    core.turn(MemoryMeasured(100, 1_000_000))
    publish(core, bodies(5, 25))
    client.heard()
    tag, body = get(client, "q")
    client.say(BasicAck(tag))
    assert [body, *drain(core.client(), "q")] == bodies(30)


def test_a_cancelled_fetch_that_waited_for_writing_is_not_read() -> None:
    """A purge between two fetches that wait for the disk: each piece is read once."""
    core = LateDisk(PlainDisk())
    lazy(core)
    publisher = core.client()
    client = core.client()
    core.late = True
    publisher.publish("q", b"purged")
    client.say(BasicGet(queue="q"))
    publisher.say(QueuePurge(queue="q"))
    messages = [body + b"x" * 1_000 for body in bodies(1_000)]
    publisher.read(b"".join(published("q", body) for body in messages))
    client.consume("q")
    core.report()
    assert [type(effect) for effect in core.waiting] == [ReadJournal]
    while core.waiting:
        core.answer()
    assert [heard.body for heard in client.heard() if heard.header] == messages
    assert "queue.stopped" not in core.note_names()


@pytest.mark.lengthy
def test_a_wrong_index_never_delivers_a_message_of_another_queue() -> None:
    """An index is not checked as a whole while the node runs: every record it leads to is checked instead."""
    core = DurableCore(PlainDisk())
    lazy(core)
    publish(core, bodies(6))
    sealed = core.disk
    DurableCore(sealed)
    index = sealed.files[index_name(1)]
    for bit in range(len(index) * 8):
        disk = sealed.copy()
        changed = bytearray(index)
        changed[bit // 8] ^= 1 << bit % 8
        disk.files[index_name(1)] = bytes(changed)
        node = DurableCore(disk)
        client = node.client()
        client.consume("q")
        got = [heard.body for heard in client.heard() if heard.header]
        assert got == [body for body in bodies(6) if body in got]
        assert len(got) == 6 or "queue.stopped" in node.note_names()


def test_rows_found_at_the_start_leave_memory_when_their_indexes_are_written() -> None:
    core = DurableCore(PlainDisk())
    lazy(core)
    publish(core, bodies(10))
    restarted = DurableCore(core.disk.copy())
    journal = restarted.journal()
    assert not any(journal.tail.rows_at_hand(segment) for segment in journal.segments.values() if segment.sealed)
    assert drain(restarted.client(), "q") == bodies(10)
