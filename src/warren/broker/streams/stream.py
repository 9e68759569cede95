"""One stream on this node: publishes append to its end, and readers go through it at their own offsets.

A published message is in the journal and in the tail. Readers see it once it is committed: flushed or, in a mirrored
stream, committed by the replica set. Committed messages go to the archive a chunk at a time, and leave the journal
when their chunk is on disk. An ack only lets its reader go on.

After a restart the tail is read from the journal first. Messages published meanwhile wait behind it.

A stream whose files and journal lack an offset at the start is *stopped*, as a queue is. Damage that is found later
ends only the readers that need the damaged chunk.

Not here: the position of a reader (`broker.streams.reader`), chunks and retention (`broker.streams.archive_index`,
`broker.streams.archiver`).
"""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.archive import Archive
from warren.broker.model.journal import PositionRange
from warren.broker.model.local_queue import QUEUE_BYTES, STOPPED, LocalQueue, QueueReport
from warren.broker.model.message import Entry, Message
from warren.broker.model.ports import PENDING, REJECTED, ConsumerPort, OutputPort, QueueLog
from warren.broker.model.stats import QueueStats
from warren.broker.model.stream_partitions import partition_index
from warren.broker.model.turn import FlushWaiter, Turn
from warren.broker.streams.archive_index import ArchiveIndex
from warren.broker.streams.archiver import StreamArchiver
from warren.broker.streams.groups import ConsumerGroup
from warren.broker.streams.offsets import OFFSET_MASK, offset_of
from warren.broker.streams.reader import Reader, ReaderSource
from warren.broker.streams.settings import StreamSettings
from warren.broker.streams.stream_readers import StreamReaders
from warren.broker.streams.tail import StreamTail, TailRecovery
from warren.errors import NOT_FOUND, NOT_IMPLEMENTED, ChannelFault, ConnectionFault, InvariantBroken
from warren.wire.field_tables import Table

FIRST_EPOCH_END: Final[i64] = 2 * OFFSET_MASK + 1
"""The last position of the first epoch."""


@final
class Stream(LocalQueue, FlushWaiter):
    """A stream held by this node."""

    def __init__(
        self,
        vhost: str,
        name: str,
        arguments: Table,
        settings: StreamSettings,
        turn: Turn,
        log: QueueLog,
        archive: Archive,
        catalog: ArchiveIndex,
    ) -> None:
        super().__init__(vhost, name, True, False, False, arguments, 0)
        self.settings: StreamSettings = settings
        self._turn: Turn = turn
        self._log: QueueLog = log
        self._archive: Archive = archive
        self._catalog: ArchiveIndex = catalog
        catalog.segment_bytes = settings.segment_bytes
        log.seen.bound(settings.dedup_window)
        self.uncounted = log.seen.repeated
        self._tail: StreamTail = StreamTail(catalog.end(), partition_index(self))
        self._archiver: StreamArchiver = StreamArchiver(self._tail, catalog, archive, log, settings, turn)
        self._next_position: i64 = catalog.end() + 1
        self._published: i64 = 0
        self._used_at_ms: i64 = 0
        self._readers: StreamReaders = StreamReaders(ReaderSource(self, turn, catalog, archive), log)
        self._drain_due: bool = False
        self._stopped_because: str = ""
        # the damage that was logged
        self._damage: dict[str, None] = {}
        # a message was published in this turn; and the end of the stream with each batch that is not flushed yet
        self._published_in_turn: bool = False
        self._uncommitted: deque[i64] = deque()
        # the end of the committed messages
        self._committed: i64 = catalog.end()
        self._tail_recovery: TailRecovery = TailRecovery(self._tail, catalog, turn)

    # -- publishing

    def publish(self, message: Message) -> i64:
        if self.held_publishes is not None:
            return self.held_publishes.keep(message)
        if self.deleted or self._stopped_because:
            return REJECTED
        if message.identified and self._log.seen.repeats(message.content):
            # the first publish is in this turn's batch or an earlier one, so this turn's flush covers it
            return PENDING
        entry = self._take(message)
        entry.extent = self._log.store(entry.message, entry.position, entry.expires_at_ms, 0)
        if message.identified:
            self._log.seen.note(message.content, True)
        self._published_in_turn = True
        self._drain_later()
        return PENDING

    def _take(self, message: Message) -> Entry:
        """Append an entry that readers do not see yet."""
        persistent = message if message.persistent else _persistent(message)
        entry = Entry(persistent, self._next_position, self._turn.now_ms)
        self._next_position += 1
        self._turn.held_bytes += len(persistent.content)
        self._published += 1
        self._used_at_ms = self._turn.now_ms
        self._tail_recovery.add(entry)
        return entry

    def reserve(self, message: Message) -> Entry | None:
        return None if self.deleted or self._stopped_because else self._take(message)

    def arrive(self, entries: list[Entry]) -> None:
        self._committed = offset_of(entries[-1].position) + 1
        self._show()

    def mirror(self, log: QueueLog, archive: Archive) -> None:
        """The stream is mirrored from here on."""
        self._log = log
        self._archiver.mirror(log, archive)
        self._readers.mirror(log)

    def is_read(self) -> bool:
        """Whether the tail was read from the journal."""
        return not self._tail_recovery.unread()

    def log(self) -> QueueLog:
        return self._log

    def catalog(self) -> ArchiveIndex:
        return self._catalog

    def begin_epoch(self, first_position: i64) -> None:
        self._next_position = first_position | self._next_position & OFFSET_MASK
        if first_position > FIRST_EPOCH_END:
            self._readers.await_rejoin()

    def acked_late(self, positions: list[int]) -> None:
        """Acks remove nothing from a stream."""

    def flushed(self) -> None:
        """The publishes of a turn are flushed."""
        self._committed = self._uncommitted.popleft()
        self._show()

    def _show(self) -> None:
        """Let readers see the committed messages."""
        if not self.deleted and not self._tail_recovery.unread():
            self._tail.commit(self._committed)
            self.wake()
            self._archiver.go_on()

    # -- readers

    def add_consumer(self, consumer: ConsumerPort) -> None:
        self.check_usable()
        # the tail may not be read yet
        self._readers.add(consumer, None if self._tail_recovery.unread() else self._tail)
        self.wake()

    def begins_at(self, consumer: ConsumerPort) -> i64:
        return self._readers.begins_at(consumer)

    def remove_consumer(self, consumer: ConsumerPort) -> None:
        self._readers.remove(consumer)
        # another member of its group may become active
        self.wake()

    def remove_all_consumers(self) -> list[ConsumerPort]:
        return self._readers.remove_all_consumers()

    def wake(self) -> None:
        if len(self._readers):
            self._drain_later()

    def _drain_later(self) -> None:
        if not self._drain_due:
            self._drain_due = True
            self._turn.drains.append(self)

    def drain(self) -> None:
        self._drain_due = False
        if self._published_in_turn:
            self._published_in_turn = False
            self._uncommitted.append(offset_of(self._next_position))
            self._turn.await_flush(self)
        if self.deleted or self._stopped_because:
            return
        if self._tail_recovery.unread():
            self._tail_recovery.read_on(self._log, self)
        else:
            for reader in self._readers.serve(self._tail):
                self._end_damaged(reader)

    def _end_damaged(self, reader: Reader) -> None:
        """End a reader that needs a damaged chunk. Other readers go on."""
        reason = reader.damage
        if reason not in self._damage:
            self._damage[reason] = None
            self._turn.note("error", "stream.damaged", {"vhost": self.vhost, "queue": self.name, "reason": reason})
        self.remove_consumer(reader.consumer)
        reader.consumer.ended()

    def ack(self, entry: Entry) -> None:
        self._readers.acked(entry)
        self.wake()

    def requeue(self, entries: list[Entry]) -> None:
        self._readers.returned(entries)

    def reject(self, entry: Entry) -> None:
        raise self._unsupported("basic.nack and basic.reject")

    def dead_letter_published(self, entry: Entry) -> None:
        return

    # -- operations that streams do not support

    def can_get(self) -> bool:
        return True

    def await_entry(self, waiter: OutputPort) -> None:
        return

    def get(self, no_ack: bool) -> Entry | None:
        raise self._unsupported("basic.get")

    def purge(self) -> int:
        raise self._unsupported("queue.purge")

    def _unsupported(self, what: str) -> ConnectionFault:
        text = f"{what} not supported by stream queues queue '{self.name}' in vhost '{self.vhost}'"
        return ConnectionFault(NOT_IMPLEMENTED, text)

    def touch(self) -> None:
        return

    # -- recovery

    def recover(self, ranges: list[PositionRange], next_position: i64) -> None:
        """The journal's ranges after a restart; called before anything else."""
        if self._stopped_because:
            return
        self._next_position = max(self._next_position, next_position)
        self._committed = offset_of(self._next_position)
        damage = self._tail_recovery.begin(ranges, self._committed, self._log)
        if damage:
            self.stop(damage)
        else:
            self._archiver.expire()
            self._drain_later()

    def paged_in(self, entries: list[Entry]) -> None:
        if self.deleted:
            return
        damage = self._tail_recovery.take(entries, self._log)
        if damage:
            self.stop(damage)
            return
        self._show()
        self._drain_later()

    def take_over(self, entries: list[Entry], next_position: i64) -> None:
        return

    def delivery_allowed(self) -> None:
        """Groups may be served again."""
        self.wake()

    def stop(self, reason: str) -> None:
        if self.deleted or self._stopped_because:
            return
        self._stopped_because = reason
        self._turn.note("error", "queue.stopped", {"vhost": self.vhost, "queue": self.name, "reason": reason})
        self._archiver.stop()
        self._end_service()

    def check_usable(self) -> None:
        if self._stopped_because:
            where = f"queue '{self.name}' in vhost '{self.vhost}'"
            raise ChannelFault(NOT_FOUND, f"{where} is stopped: {self._stopped_because}")

    # -- life

    def apply(self, settings: StreamSettings) -> None:
        """Apply changed settings."""
        self.settings = settings
        self._log.seen.bound(settings.dedup_window)
        self._archiver.apply(settings)

    def close(self) -> None:
        if self.deleted:
            return
        self.deleted = True
        self._log.close()
        self._archiver.close()
        self._turn.held_bytes -= self._tail.held_bytes
        self._end_service()

    def _end_service(self) -> None:
        for consumer in sorted(self.remove_all_consumers(), key=lambda consumer: consumer.tag):
            consumer.cancelled()

    # -- stats

    def stored_offsets(self) -> dict[str, int]:
        """The stored offsets, by reader name."""
        return self._readers.stored_offsets.all_stored()

    def groups(self) -> list[ConsumerGroup]:
        return self._readers.groups.all()

    def first_offset(self) -> int:
        return int(self._tail.first if self._catalog.empty() else self._catalog.first())

    def end_offset(self) -> int:
        """The offset behind the last committed message."""
        return int(self._tail.committed)

    def segment_count(self) -> int:
        return self._catalog.segment_count()

    def disk_bytes(self) -> int:
        """The size of its archive files."""
        return int(self._catalog.size_bytes)

    def ready_count(self) -> int:
        return self.end_offset() - self.first_offset()

    def unacked_count(self) -> int:
        return 0

    def ready_bytes(self) -> int:
        return int(self._catalog.body_bytes + self._tail.committed_body_bytes)

    def unacked_bytes(self) -> int:
        return 0

    def consumer_count(self) -> int:
        return len(self._readers)

    def has_exclusive_consumer(self) -> bool:
        return False

    def consumers(self) -> list[tuple[ConsumerPort, bool]]:
        return self._readers.consumers()

    @property
    def stats(self) -> QueueStats:
        stats = self.counted
        stats.deduplicated = self._log.seen.repeated
        stats.published = self._published + stats.deduplicated - self.uncounted
        stats.disk_writes = self._log.written_count
        return stats

    def report(self) -> QueueReport:
        tail = self._tail
        report = QueueReport()
        report.ready = report.persistent = self.ready_count()
        report.ready_bytes = report.persistent_bytes = self.ready_bytes()
        report.paged = tail.first - self.first_offset()
        report.paged_bytes = self._catalog.body_bytes
        report.memory_bytes = QUEUE_BYTES + tail.held_bytes
        report.used_at_ms = max(self._used_at_ms, self.taken_at_ms)
        if self._stopped_because:
            report.state = STOPPED
        return report

    def check(self) -> None:
        tail, catalog = self._tail, self._catalog
        tail.check()
        self._tail_recovery.check()
        catalog.check()
        self._archiver.check()
        self._readers.check()
        if not self._tail_recovery.unread() and not self._stopped_because and tail.archived != catalog.end():
            raise InvariantBroken(f"'{self.name}' has {tail.archived} in chunks, and files that end at {catalog.end()}")


def _persistent(message: Message) -> Message:
    """All messages of a stream are durable, also those published as transient."""
    persistent = Message(
        message.envelope,
        message.content,
        message.channel,
        message.body_bytes,
        message.frame_bytes_max,
        True,
        message.priority,
        message.expiration_ms,
    )
    persistent.identified = message.identified
    return persistent
