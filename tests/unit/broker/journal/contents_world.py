"""Replica contents in a journal on a `PlainDisk`, without a broker: turns end, batches are written, reads are answered.

The disk answers when the test says so, so a test can act in between. A restart finds all written files.

Not here: the expected contents of a replica (the tests).
"""

from dataclasses import dataclass

from mypy_extensions import i64

from tests.unit.broker.journal.journal_world import IdleKeeper
from tests.unit.broker.journal.plain_disk import PlainDisk
from warren.broker.journal.journal import Journal
from warren.broker.journal.payloads import message_payload
from warren.broker.journal.queue_index import QueueIndex
from warren.broker.journal.recovery import Recovery
from warren.broker.journal.replica_contents import DiskContents
from warren.broker.metadata.store import MetadataChangeLog
from warren.broker.model.effects import AppendRecords, Effect
from warren.broker.model.events import FlushCompleted, IndexRead, JournalRead
from warren.broker.model.message import NEVER, NO_EXPIRATION, Entry, Envelope, Message
from warren.broker.model.replica_contents import ANY_COUNT, BackfillReceiver, PositionSpan, ReplicaContentsWaiter
from warren.broker.model.turn import Turn
from warren.broker.queues.queue import Queue
from warren.broker.queues.settings import QueueSettings

QUEUE_ID = 5
REVISION = 9
ROUNDS_MAX = 10_000


class Prepared(ReplicaContentsWaiter):
    """Records its calls."""

    def __init__(self) -> None:
        self.times = 0
        self.damage = ""

    def contents_prepared(self) -> None:
        self.times += 1

    def contents_damaged(self, reason: str) -> None:
        self.damage = reason


@dataclass(frozen=True)
class BackfillMessage:
    """A message that was read for a joining mirror."""

    position: int
    priority: int
    expires_at_ms: int
    persistent: bool
    returned: int
    payload: bytes
    payload_crc: int


class JoiningMirror(BackfillReceiver):
    """Collects messages, and asks for more when the test says so."""

    def __init__(self) -> None:
        self.taken: list[BackfillMessage] = []
        self.slices = 0
        self.over = False
        self.damage = ""

    def backfill_message(
        self,
        position: i64,
        priority: i64,
        expires_at_ms: i64,
        persistent: bool,
        returned: i64,
        payload: bytes,
        payload_crc: i64,
    ) -> None:
        priority, expires_at_ms = int(priority), int(expires_at_ms)
        self.taken.append(
            BackfillMessage(
                int(position), priority, expires_at_ms, persistent, int(returned), payload, int(payload_crc)
            )
        )

    def backfill_slice_done(self) -> None:
        self.slices += 1

    def backfill_done(self) -> None:
        self.over = True

    def backfill_failed(self, reason: str) -> None:
        self.damage = reason


def transient_index(turn: Turn, max_priority: int) -> QueueIndex:
    """The index of a transient queue."""
    queue_index = Journal(turn, MetadataChangeLog(REVISION), 1 << 30, 1).open(-1, False, max_priority)
    assert isinstance(queue_index, QueueIndex)
    return queue_index


class ContentsWorld:
    """One incarnation of a node with a replica."""

    def __init__(
        self, disk: PlainDisk | None = None, segment_bytes: int = 1 << 30, max_priority: int = 0, prepared: bool = True
    ) -> None:
        self.disk = disk or PlainDisk()
        self.segment_bytes = segment_bytes
        self.max_priority = max_priority
        self.turn = Turn()
        self.asker = Prepared()
        found = self.disk.found()
        self.journal = Journal(self.turn, MetadataChangeLog(REVISION), segment_bytes, found.incarnation)
        queue_index = self.journal.open(QUEUE_ID, True, max_priority)
        assert isinstance(queue_index, QueueIndex)
        self.queue_index = queue_index
        self.copy = DiskContents(queue_index)
        Recovery(self.journal, found.files, REVISION).run()
        self.go_on()
        if prepared:
            self.prepare()

    def prepare(self) -> None:
        times = self.asker.times
        self.copy.prepare(self.asker)
        self.go_on()
        assert (self.asker.times, self.asker.damage) == (times + 1, "")

    def restart(self) -> "ContentsWorld":
        """Start again after a kill."""
        return ContentsWorld(self.disk, self.segment_bytes, self.max_priority)

    # -- turns

    def go_on(self) -> None:
        """End turns until the disk has answered everything."""
        for _round in range(ROUNDS_MAX):
            if not self.step():
                return
        raise AssertionError("the journal does not come to rest")

    def step(self) -> bool:
        """End the turn, and let the disk answer; whether there was anything to do."""
        self.journal.end_turn()
        orders, self.turn.effects = self.turn.effects, []
        for order in orders:
            self.disk.carry_out(order)
        for order in orders:
            self._answer(order)
        return len(orders) > 0

    def _answer(self, order: Effect) -> None:
        answer = self.disk.read(order)
        if isinstance(order, AppendRecords):
            self.journal.stored(FlushCompleted(order.batch_no, order.batch_no))
        elif isinstance(answer, IndexRead):
            self.journal.index_read(answer)
        elif isinstance(answer, JournalRead):
            self.journal.journal_read(answer)

    def pass_ms(self, milliseconds: int) -> None:
        """Let time pass for compaction."""
        self.turn.now_ms += milliseconds
        self.turn.fire_timers()
        self.go_on()

    # -- operations on the replica

    def store(
        self, position: int, body: str = "", priority: int = 0, expires_at_ms: int = NEVER, persistent: bool = True
    ) -> bool:
        message = message_of(body, priority, persistent)
        payload, crc = message_payload(message)
        return self.copy.store(position, priority, expires_at_ms, persistent, payload, crc)

    def spans(self) -> list[PositionSpan]:
        self.check()
        return self.copy.spans()

    def check(self) -> None:
        self.copy.check()
        for segment in self.journal.segments.values():
            segment_extents = [one for one in self.queue_index.segment_extents if one.segment is segment]
            assert segment.live_count == sum(one.count for one in segment_extents)
            assert segment.live_bytes == sum(one.cost_bytes for one in segment_extents)

    def read(self, spans: list[PositionSpan], size_bytes: int = 1000, count: int = ANY_COUNT) -> list[BackfillMessage]:
        mirror = JoiningMirror()
        reader = self.copy.read(spans, mirror)
        for _round in range(ROUNDS_MAX):
            if mirror.over:
                return mirror.taken
            before = len(mirror.taken)
            reader.more(size_bytes, count)
            self.go_on()
            assert len(mirror.taken) <= before + count
            assert mirror.damage == ""
        raise AssertionError("the backfill never ends")

    def queue(self, settings: QueueSettings | None = None) -> Queue:
        """A queue promoted from the replica."""
        settings = settings or QueueSettings(max_priority=self.max_priority)
        queue = Queue("/", "q", True, False, False, {}, 0, settings, self.turn, IdleKeeper(), self.queue_index)
        self.copy.hand_over(queue)
        queue.check()
        return queue

    def drain(self, queue: Queue) -> list[Entry]:
        """All deliveries of a queue, in order, unacked."""
        entries: list[Entry] = []
        for _round in range(ROUNDS_MAX):
            if queue.ready_count() == 0:
                return entries
            if queue.can_get():
                entry = queue.get(no_ack=False)
                assert entry is not None
                entries.append(entry)
            else:
                self.go_on()
        raise AssertionError("the queue is never empty")


def message_of(body: str, priority: int = 0, persistent: bool = True) -> Message:
    content = body.encode()
    return Message(Envelope("", "key"), content, 1, len(content), 4096, persistent, priority, NO_EXPIRATION)


def spans_of(*pairs: tuple[int, int]) -> list[PositionSpan]:
    return [PositionSpan(first, last) for first, last in pairs]


def body_of(entry: Entry) -> str:
    return entry.message.content.decode()
