"""One classic queue: messages in, in order; entries out to able consumers.

Theory. A queue delivers nothing when a message arrives: it puts itself on the turn's list of drains, once, and delivers
everything at the end of the turn. An operation that must decide earlier (a publish to a full queue, a get, a purge)
drains first, so its result is the same as if each message had been delivered on arrival.

A queue with a log has its persistent messages on disk, if it is durable, and others, too, when memory is short. The
next entry may then be on disk only, and its users wait: consumers, a get, a limit, a deadline. An answer from disk does
no work itself: it wakes the queue, and the drain does the waiting work. A removed entry is removed from the log at
once, except a dead letter, which is removed after it was published (`dead_letter_published`).

A closed queue is deleted: it ignores every call, and acks of its unacked entries have no effect. A queue that was
*stopped*, because its files are damaged, keeps its contents for a repair: it delivers and accepts nothing, and reports
the reason. It can only be deleted.

A queue never deletes itself, because bindings, names and exclusive owners are not its business. It calls its
`QueueOwner`, which calls `Queue.close` at once or later; until then the queue works on.

`IdleExpiry` implements `x-expires`. A use of the queue only stores the time; the timer compares, and sets itself again
for the rest. A queue with consumers is in use: its timer lapses, and the removal of the last consumer, which is a use,
sets it again. Invariant: while the queue has no consumers a timer is set, no later than the expiry.

`report_queue` counts entries exactly, in memory and on disk; only the bytes of a range that was cut short without being
read are an estimate of the journal.

Not here: admission (`broker.queues.admission`), the entries (`broker.queues.contents`), reading from disk
(`broker.queues.paging`), the choice of consumers (`broker.queues.consumers`), limits and expiry
(`broker.queues.limits`), deletion (`broker.vhost`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from warren.broker.model.deduplication import DeduplicationWindow
from warren.broker.model.journal import PositionRange
from warren.broker.model.local_queue import QUEUE_BYTES, STOPPED, LocalQueue, QueueReport
from warren.broker.model.message import NEVER, Entry, Message
from warren.broker.model.ports import REJECTED, SETTLED, ConsumerPort, OutputPort, QueueLog, QueuePort
from warren.broker.model.stats import QueueStats
from warren.broker.model.turn import Timer, TimerTarget, Turn
from warren.broker.queues.admission import QueueAdmission
from warren.broker.queues.consumers import QueueConsumers, QueueDrain
from warren.broker.queues.contents import QueueContents
from warren.broker.queues.limits import LimitEnforcer
from warren.broker.queues.paging import Paging
from warren.broker.queues.settings import QueueSettings
from warren.errors import ACCESS_REFUSED, NOT_FOUND, ChannelFault
from warren.wire.field_tables import Table


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueOwner:
    """Deletes expired and unused queues."""

    @abstractmethod
    def queue_expired(self, queue: QueuePort) -> None:
        """The queue was unused for its `x-expires`."""

    @abstractmethod
    def queue_unused(self, queue: QueuePort) -> None:
        """An auto-delete queue lost its last consumer."""


@final
class IdleExpiry(TimerTarget):
    """The `x-expires` timer of one queue."""

    def __init__(self, queue: QueuePort, expires_ms: i64, turn: Turn, owner: QueueOwner) -> None:
        self._queue: QueuePort = queue
        self._expires_ms: i64 = expires_ms
        self._turn: Turn = turn
        self._owner: QueueOwner = owner
        self._last_used_ms: i64 = turn.now_ms
        self._timer: Timer | None = None

    def touch(self) -> None:
        self._last_used_ms = self._turn.now_ms
        if self._timer is None and self._queue.consumer_count() == 0:
            self._timer = self._turn.set_timer(self._last_used_ms + self._expires_ms, self)

    def stop(self) -> None:
        if self._timer is not None:
            self._turn.cancel_timer(self._timer)
            self._timer = None

    def resume(self) -> None:
        """The expired queue could not be deleted: report it again, unless it was used meanwhile."""
        if self._timer is None:
            self.timer_fired()

    def timer_fired(self) -> None:
        self._timer = None
        if self._queue.consumer_count() != 0:
            return
        deadline_ms = self._last_used_ms + self._expires_ms
        if self._turn.now_ms < deadline_ms:
            self._timer = self._turn.set_timer(deadline_ms, self)
        else:
            self._owner.queue_expired(self._queue)


RANGE_BYTES: Final[i64] = 128


def report_queue(contents: QueueContents, paging: Paging | None, capacity: float, taken_at_ms: i64) -> QueueReport:
    ranges = contents.ranges()
    report = QueueReport()
    for paged in ranges:
        report.paged_bytes += paged.body_bytes
    report.ready = contents.ready_count
    report.ready_bytes = contents.ready_bytes
    report.unacked = contents.unacked_count
    report.unacked_bytes = contents.unacked_bytes
    report.paged = contents.paged_count
    report.memory_bytes = QUEUE_BYTES + contents.held_bytes + RANGE_BYTES * len(ranges)
    report.capacity = capacity
    report.used_at_ms = max(contents.arrived_at_ms, taken_at_ms)
    if paging is not None:
        report.persistent, report.persistent_bytes = paging.log.kept()
        if paging.stopped:
            report.state = STOPPED
    if contents.ready_count != 0:
        head = contents.head()
        report.head = None if head is None else head.message
    return report


@final
class Queue(LocalQueue):
    """A classic queue on this node, in memory and, if it has a log, on disk."""

    def __init__(
        self,
        vhost: str,
        name: str,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        arguments: Table,
        owner_id: int,
        settings: QueueSettings,
        turn: Turn,
        owner: QueueOwner,
        log: QueueLog | None = None,
    ) -> None:
        super().__init__(vhost, name, durable, exclusive, auto_delete, arguments, owner_id)
        self.settings: QueueSettings = settings
        self._turn: Turn = turn
        self._owner: QueueOwner = owner
        self._contents: QueueContents = QueueContents(turn, settings.max_priority)
        self._consumers: QueueConsumers = QueueConsumers(settings.single_active_consumer)
        # on the turn's list of drains
        self._woken: bool = False
        # None for a queue without a log
        self._paging: Paging | None = None if log is None else Paging(log, self._contents, self, turn)
        self._limits: LimitEnforcer = LimitEnforcer(self, settings, self._contents, self._paging, turn)
        self._drain: QueueDrain = QueueDrain(self._contents, self._consumers, self._limits, self._paging, turn)
        # the publishing ids that it has seen
        self.seen: DeduplicationWindow = DeduplicationWindow() if log is None else log.seen
        self.seen.bound(settings.dedup_window)
        self.uncounted = self.seen.repeated
        self._admission: QueueAdmission = QueueAdmission(
            self._contents, self._consumers, self._drain, self._limits, self.seen, turn
        )
        self._stopped_because: str = ""
        self._idle: IdleExpiry | None = None
        self._start_idle_clock()

    # -- contents

    def publish(self, message: Message) -> i64:
        if self.held_publishes is not None:
            return self.held_publishes.keep(message)
        if self.deleted:
            return SETTLED
        outcome = self._admission.publish(self._paging, message)
        if outcome != REJECTED and not self._woken:
            self.wake()
        return outcome

    def mirror(self, log: QueueLog) -> None:
        """The queue becomes mirrored: use this log."""
        assert self._paging is not None, "the queue has a log"
        self._paging.mirror(log)

    def log(self) -> QueueLog | None:
        return None if self._paging is None else self._paging.log

    def in_memory(self) -> list[Entry]:
        """The ready entries in memory."""
        return self._contents.ready()

    def stay_in_memory(self) -> None:
        """Page no more messages: a replica is to be made from the entries in memory."""
        self._admission.stays_in_memory = True

    def on_disk_alone(self) -> int:
        return int(self._contents.paged_count)

    def reserve(self, message: Message) -> Entry | None:
        if self.deleted or self._stopped_because:
            return None
        return self._admission.reserve(message)

    def arrive(self, entries: list[Entry]) -> None:
        if self.deleted or self._stopped_because:
            return
        self._admission.arrive(entries)
        self.wake()

    def can_get(self) -> bool:
        paging = self._paging
        if self.deleted or (paging is None and not self._contents.deadlines):
            return True
        self.check_usable()
        self._drain.deliver_ready()
        if self._contents.next_expires_by(self._turn.now_ms):
            return False
        return paging is None or paging.may_deliver() or self._contents.ready_count == 0

    def await_entry(self, waiter: OutputPort) -> None:
        if self._contents.next_expires_by(self._turn.now_ms):
            # many messages expire, and the rest does so in the next turn
            self._turn.inputs.append(waiter)
        elif self._paging is not None:
            self._paging.await_entry(waiter)

    def get(self, no_ack: bool) -> Entry | None:
        if self.deleted:
            return None
        self.check_usable()
        self.touch()
        self._drain.deliver_ready()
        if self._contents.ready_count == 0:
            return None
        entry = self._contents.take(no_ack)
        if no_ack and self._paging is not None:
            self._paging.forget(entry)
        if self._contents.deadlines:
            self._limits.expire_due()
        return entry

    def ack(self, entry: Entry) -> None:
        if self.deleted:
            return
        self._contents.gone(entry)
        paging = self._paging
        if paging is not None and (entry.extent is not None or paging.mirrored):
            paging.log.forget(entry)
        if not self._woken:
            self.wake()

    def acked_late(self, positions: list[int]) -> None:
        if self._paging is not None and not self.deleted:
            self._paging.acked_late(positions)
            self._drain.deliver_ready()

    def reject(self, entry: Entry) -> None:
        if self.deleted:
            return
        self._contents.gone(entry)
        self._limits.dead_letter(entry, "rejected")
        self.wake()

    def requeue(self, entries: list[Entry]) -> None:
        if self.deleted:
            return
        limit = self.settings.delivery_limit
        for entry in entries:
            entry.redelivered = True
            entry.delivery_count += 1
            if limit >= 0 and i64(entry.delivery_count) > limit:
                self._contents.gone(entry)
                self._limits.dead_letter(entry, "delivery_limit")
            else:
                self._contents.give_back(entry)
                if limit >= 0 and self._paging is not None:
                    self._paging.write_return(entry)
        if self._stopped_because:
            return
        # unlike a published message, a requeued one meets the limit before it meets a consumer
        if self.settings.limited and not self.settings.rejects:
            self._limits.drop_heads()
        self._limits.expire_returned()
        self.wake()

    def dead_letter_published(self, entry: Entry) -> None:
        if self._paging is not None and not self.deleted:
            self._paging.forget(entry)

    def purge(self) -> int:
        self.check_usable()
        self._drain.deliver_ready()
        purged = self._contents.ready_count
        if self._paging is not None:
            self._paging.forget_ready()
        self._contents.drop_ready()
        return purged

    # -- consumers

    def add_consumer(self, consumer: ConsumerPort) -> None:
        self.check_usable()
        if not self._consumers.accepts(consumer.exclusive):
            raise ChannelFault(ACCESS_REFUSED, f"queue '{self.name}' in vhost '{self.vhost}' in exclusive use")
        # messages that are ready already go to the consumers that were there before
        self._drain.deliver_ready()
        self._consumers.add(consumer)
        self.wake()

    def remove_consumer(self, consumer: ConsumerPort) -> None:
        self._drain.deliver_ready()
        if not self._consumers.remove(consumer):
            return
        if self._consumers.members:
            # with a single active consumer, another one may have become active
            self.wake()
            return
        self.touch()
        if self.auto_delete:
            self._owner.queue_unused(self)

    def remove_all_consumers(self) -> list[ConsumerPort]:
        return self._consumers.clear()

    # -- the turn

    def wake(self) -> None:
        contents = self._contents
        if contents.ready_count != 0 and not self._woken and (self._consumers.members or contents.deadlines):
            self._woken = True
            self._turn.drains.append(self)

    def drain(self) -> None:
        self._woken = False
        self._drain.deliver_ready()
        if self._paging is not None and self.settings.limited and not self.settings.rejects:
            # heads over the limit may have been on disk
            self._limits.drop_heads()

    def touch(self) -> None:
        if self._idle is not None:
            self._idle.touch()

    def expire_again(self) -> None:
        if self._idle is not None:
            self._idle.resume()

    # -- recovery and answers from disk

    def recover(self, ranges: list[PositionRange], next_position: i64) -> None:
        self._contents.recover(ranges, next_position)
        self.wake()

    def take_over(self, entries: list[Entry], next_position: i64) -> None:
        self._contents.recover([], next_position)
        self._bound_deadlines(entries)
        if entries:
            self._contents.admit_entries(entries)
        self.wake()

    def begin_epoch(self, first_position: i64) -> None:
        self._contents.begin_epoch(first_position)

    def paged_in(self, entries: list[Entry]) -> None:
        paging = self._paging
        if self.deleted or paging is None:
            return
        self._bound_deadlines(entries)
        damage = paging.take_in(entries)
        if damage:
            self.stop(damage)
            return
        paging.wake_waiters()
        # even without consumers: a limit or a deadline may wait for these entries
        if not self._woken:
            self._woken = True
            self._turn.drains.append(self)

    def _bound_deadlines(self, entries: list[Entry]) -> None:
        """A message expires no later than if it arrived now: the clock may have been set back since it arrived, or be
        behind that of the former master."""
        settings, now_ms = self.settings, self._turn.now_ms
        for entry in entries:
            if entry.expires_at_ms != NEVER:
                latest_ms = settings.deadline_ms(entry.message.expiration_ms, now_ms)
                if latest_ms != NEVER:
                    entry.expires_at_ms = min(entry.expires_at_ms, latest_ms)

    def delivery_allowed(self) -> None:
        if self._paging is not None:
            self._paging.delivery_allowed()
            self._paging.wake_waiters()
            self.wake()

    def stop(self, reason: str) -> None:
        paging = self._paging
        if self.deleted or paging is None or self._stopped_because:
            return
        self._stopped_because = reason
        self._turn.note("error", "queue.stopped", {"vhost": self.vhost, "queue": self.name, "reason": reason})
        paging.stopped = True
        paging.cancel()
        self._end_service()

    def check_usable(self) -> None:
        if self._stopped_because:
            where = f"queue '{self.name}' in vhost '{self.vhost}'"
            raise ChannelFault(NOT_FOUND, f"{where} is stopped: {self._stopped_because}")

    # -- life

    def apply(self, settings: QueueSettings) -> None:
        """Replace the settings. `max_priority` and `single_active_consumer` cannot change."""
        if self.deleted or self._stopped_because:
            return
        self.settings = settings
        self._limits.settings = settings
        self.seen.bound(settings.dedup_window)
        if self._idle is not None:
            self._idle.stop()
        self._start_idle_clock()
        if settings.limited and not settings.rejects:
            self._admission.drop_over_limit()

    def close(self) -> None:
        """The queue was deleted: cancel its consumers, and drop its messages without dead-lettering."""
        if self.deleted:
            return
        self.deleted = True
        if self._paging is not None:
            self._paging.close()
        self._contents.drop_all()
        self._admission.close()
        self._end_service()

    def _end_service(self) -> None:
        """Cancel all timers and consumers."""
        if self._idle is not None:
            self._idle.stop()
            self._idle = None
        self._limits.timer.cancel()
        # RabbitMQ cancels the consumers of a channel in the order of their tags
        for consumer in sorted(self._consumers.clear(), key=lambda consumer: consumer.tag):
            consumer.cancelled()

    # -- stats

    @property
    def stats(self) -> QueueStats:
        stats, contents = self.counted, self._contents
        stats.published = contents.arrived_count() + self._limits.refused_count + self.seen.repeated - self.uncounted
        stats.deduplicated = self.seen.repeated
        stats.disk_reads = contents.read_count
        stats.disk_writes = 0 if self._paging is None else self._paging.log.written_count
        return stats

    def report(self) -> QueueReport:
        return report_queue(self._contents, self._paging, self._drain.capacity_share(), self.taken_at_ms)

    def ready_count(self) -> int:
        return self._contents.ready_count

    def unacked_count(self) -> int:
        return self._contents.unacked_count

    def consumer_count(self) -> int:
        return len(self._consumers.members)

    def ready_bytes(self) -> int:
        return self._contents.ready_bytes

    def unacked_bytes(self) -> int:
        return self._contents.unacked_bytes

    def has_exclusive_consumer(self) -> bool:
        return self._consumers.held_exclusively()

    def consumers(self) -> list[tuple[ConsumerPort, bool]]:
        return [(consumer, self._consumers.is_active(consumer)) for consumer in self._consumers.members]

    def check(self) -> None:
        self._contents.check()
        self._consumers.check()

    def _start_idle_clock(self) -> None:
        self._idle = None
        if self.settings.expires_ms >= 0:
            self._idle = IdleExpiry(self, self.settings.expires_ms, self._turn, self._owner)
            self._idle.touch()
