"""One queue: messages in, in order; entries out to whoever is able to take them.

Theory. Nothing is handed out when a message arrives: the queue puts itself on the turn's list of drains, once, and
gives everything out in one go at the end of the turn. Whoever must decide earlier (a full queue, a get, a purge)
hands out first, so that the decision is the same as if each message had been delivered on arrival.

A queue with a log has its persistent messages on disk, if it is durable, and when memory is short others, too. What
goes next may then be on disk only, and whatever wants it waits: consumers, a get, a limit, a deadline. An answer from
disk never works on its own; it wakes the queue, whose drain then does what was waiting. What leaves for good is
forgotten on disk at once, but for a dead letter: that is forgotten when it has arrived (`buried`).

A queue whose `close` was called is over: it ignores everything, and what was lent out may come back without effect.
One that was *stopped* because its part of the disk is damaged keeps what it has for whoever mends it: it hands out
and takes in nothing, and says why. It can only be deleted.

Not here: what is let in (`queue.admission`), what is held (`queue.contents`), what is read from disk (`queue.paging`),
whose turn it is (`queue.consumers`), what dies (`queue.losses`), deletion (`queue.keeper`).
"""

from typing import final

from mypy_extensions import i64

from warren.errors import ACCESS_REFUSED, NOT_FOUND, ChannelFault
from warren.model.figures import QueueFigures
from warren.model.journal import Run
from warren.model.message import Entry, Message
from warren.model.own_queue import OwnQueue, QueueReport
from warren.model.ports import REJECTED, SETTLED, Consumer, OutputPort, QueueLog
from warren.model.turn import Turn
from warren.model.window import Window
from warren.queue.admission import Admission
from warren.queue.consumers import Consumers
from warren.queue.contents import Contents
from warren.queue.handing import Handing
from warren.queue.idle import IdleClock
from warren.queue.keeper import QueueKeeper
from warren.queue.losses import Losses
from warren.queue.paging import Paging
from warren.queue.report import report_of
from warren.queue.settings import QueueSettings
from warren.wire.values import Table


@final
class Queue(OwnQueue):
    """A queue held by this node, in memory and, if it has a log, on disk."""

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
        keeper: QueueKeeper,
        log: QueueLog | None = None,
    ) -> None:
        super().__init__(vhost, name, durable, exclusive, auto_delete, arguments, owner_id)
        self.settings: QueueSettings = settings
        self._turn: Turn = turn
        self._keeper: QueueKeeper = keeper
        self._contents: Contents = Contents(turn, settings.max_priority)
        self._consumers: Consumers = Consumers(settings.single_active_consumer)
        # on the turn's list of drains
        self._woken: bool = False
        # None for a queue in memory alone
        self._paging: Paging | None = None if log is None else Paging(log, self._contents, self, turn)
        self._losses: Losses = Losses(self, settings, self._contents, self._paging, turn)
        self._handing: Handing = Handing(self._contents, self._consumers, self._losses, self._paging, turn)
        # which publishing ids its messages had
        self.seen: Window = Window() if log is None else log.seen
        self.seen.bound(settings.dedup_window)
        self.uncounted = self.seen.repeated
        self._admission: Admission = Admission(
            self._contents, self._consumers, self._handing, self._losses, self.seen, turn
        )
        self._stopped_because: str = ""
        self._idle: IdleClock | None = None
        self._start_idle_clock()

    # -- contents

    def publish(self, message: Message) -> i64:
        if self.withheld is not None:
            return self.withheld.keep(message)
        if self.deleted:
            return SETTLED
        outcome = self._admission.publish(self._paging, message)
        if outcome != REJECTED and not self._woken:
            self.wake()
        return outcome

    def mirror(self, log: QueueLog) -> None:
        """Others hold it, too, from here on."""
        assert self._paging is not None, "it has a log already"
        self._paging.mirror(log)

    def log(self) -> QueueLog | None:
        return None if self._paging is None else self._paging.log

    def in_memory(self) -> list[Entry]:
        """What is ready and can be seen without reading."""
        return self._contents.ready()

    def stay_in_memory(self) -> None:
        """Page nothing from here on: a copy of it is to be made of what is in memory."""
        self._admission.stays_in_memory = True

    def on_disk_alone(self) -> int:
        return int(self._contents.paged_count)

    def reserve(self, message: Message) -> Entry | None:
        """Take a message that comes in later, by `arrive`; None if a limit refuses it."""
        if self.deleted or self._stopped_because:
            return None
        return self._admission.reserve(message)

    def arrive(self, entries: list[Entry]) -> None:
        """These come in, in the order in which they were reserved. One that is on disk may stay there alone."""
        if self.deleted or self._stopped_because:
            return
        self._admission.arrive(entries)
        self.wake()

    def at_hand(self) -> bool:
        paging = self._paging
        if self.deleted or paging is None:
            return True
        self.check_usable()
        self._handing.hand_out()
        return paging.may_go() or self._contents.ready_count == 0

    def await_entry(self, waiter: OutputPort) -> None:
        if self._paging is not None:
            self._paging.await_entry(waiter)

    def get(self, no_ack: bool) -> Entry | None:
        if self.deleted:
            return None
        self.check_usable()
        self.touch()
        self._handing.hand_out()
        if self._contents.ready_count == 0:
            return None
        entry = self._contents.take(no_ack)
        if no_ack and self._paging is not None:
            self._paging.forget(entry)
        if self._contents.deadlines:
            self._losses.expire_due()
        return entry

    def ack(self, entry: Entry) -> None:
        if self.deleted:
            return
        self._contents.gone(entry)
        if self._paging is not None:
            self._paging.forget(entry)
        if not self._woken:
            self.wake()

    def acked_late(self, positions: list[int]) -> None:
        """Of what another had handed out who held this queue before, this is dealt with."""
        if self._paging is not None and not self.deleted:
            self._paging.acked_late(positions)
            self._handing.hand_out()

    def reject(self, entry: Entry) -> None:
        if self.deleted:
            return
        self._contents.gone(entry)
        self._losses.bury(entry, "rejected")
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
                self._losses.bury(entry, "delivery_limit")
            else:
                self._contents.give_back(entry)
                if limit >= 0 and self._paging is not None:
                    self._paging.write_return(entry)
        if self._stopped_because:
            return
        # what comes back meets the limit before any consumer, unlike what is published
        if self.settings.limited and not self.settings.rejects:
            self._losses.drop_heads()
        self._losses.expire_returned()
        self.wake()

    def buried(self, entry: Entry) -> None:
        if self._paging is not None and not self.deleted:
            self._paging.forget(entry)

    def purge(self) -> int:
        self.check_usable()
        self._handing.hand_out()
        purged = self._contents.ready_count
        if self._paging is not None:
            self._paging.forget_ready()
        self._contents.drop_ready()
        return purged

    # -- consumers

    def add_consumer(self, consumer: Consumer) -> None:
        self.check_usable()
        if not self._consumers.accepts(consumer.exclusive):
            raise ChannelFault(ACCESS_REFUSED, f"queue '{self.name}' in vhost '{self.vhost}' in exclusive use")
        # what came before this consumer goes to those who were there
        self._handing.hand_out()
        self._consumers.add(consumer)
        self.wake()

    def remove_consumer(self, consumer: Consumer) -> None:
        self._handing.hand_out()
        if not self._consumers.remove(consumer):
            return
        if self._consumers.members:
            # with a single active consumer, another may be the active one from here on
            self.wake()
            return
        self.touch()
        if self.auto_delete:
            self._keeper.queue_unused(self)

    def dismiss(self) -> list[Consumer]:
        """Nobody consumes any more; who did, to be told by whoever asks."""
        return self._consumers.clear()

    # -- the turn

    def wake(self) -> None:
        contents = self._contents
        if contents.ready_count != 0 and not self._woken and (self._consumers.members or contents.deadlines):
            self._woken = True
            self._turn.drains.append(self)

    def drain(self) -> None:
        self._woken = False
        self._handing.hand_out()
        if self._paging is not None and self.settings.limited and not self.settings.rejects:
            # heads beyond the limit that were on disk
            self._losses.drop_heads()

    def touch(self) -> None:
        if self._idle is not None:
            self._idle.touch()

    # -- what the disk tells

    def recover(self, runs: list[Run], next_position: i64) -> None:
        """What the disk has of this queue after a restart; told before anything else."""
        self._contents.recover(runs, next_position)
        self.wake()

    def take_over(self, entries: list[Entry], next_position: i64) -> None:
        """What another has held of this queue in memory, in order; told before anything else."""
        self._contents.recover([], next_position)
        for entry in entries:
            self._contents.admit_entry(entry)
        self.wake()

    def begin_epoch(self, first_position: i64) -> None:
        """Positions go on from this one."""
        self._contents.begin_epoch(first_position)

    def paged_in(self, entries: list[Entry]) -> None:
        paging = self._paging
        if self.deleted or paging is None:
            return
        damage = paging.take_in(entries)
        if damage:
            self.stop(damage)
            return
        paging.wake_waiters()
        # not only for consumers: a limit or a deadline may have waited
        if not self._woken:
            self._woken = True
            self._turn.drains.append(self)

    def lent(self) -> None:
        if self._paging is not None:
            self._paging.lent()
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
        """Work by other settings from here on. Priorities and the single active consumer are for life."""
        if self.deleted or self._stopped_because:
            return
        self.settings = settings
        self._losses.settings = settings
        self.seen.bound(settings.dedup_window)
        if self._idle is not None:
            self._idle.stop()
        self._start_idle_clock()
        if settings.limited and not settings.rejects:
            self._admission.drop_over_limit()

    def close(self) -> None:
        """The queue was deleted: consumers are told, contents dropped without dead-lettering."""
        if self.deleted:
            return
        self.deleted = True
        if self._paging is not None:
            self._paging.close()
        self._contents.drop_all()
        self._admission.close()
        self._end_service()

    def _end_service(self) -> None:
        """No more timers, no more consumers."""
        if self._idle is not None:
            self._idle.stop()
            self._idle = None
        self._losses.timer.cancel()
        # RabbitMQ tells a channel of its consumers in the order of their tags
        for consumer in sorted(self._consumers.clear(), key=lambda consumer: consumer.tag):
            consumer.cancelled()

    # -- figures

    @property
    def figures(self) -> QueueFigures:
        figures, contents = self.counted, self._contents
        figures.published = contents.arrived_count() + self._losses.refused_count + self.seen.repeated - self.uncounted
        figures.deduplicated = self.seen.repeated
        figures.disk_reads = contents.read_count
        figures.disk_writes = 0 if self._paging is None else self._paging.log.written_count
        return figures

    def report(self) -> QueueReport:
        """What there is to know of it at this moment."""
        return report_of(self._contents, self._paging, self._handing.capacity_share(), self.taken_at_ms)

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

    def consumers(self) -> list[tuple[Consumer, bool]]:
        """Each consumer in the order they came, and whether messages may go to it."""
        return [(consumer, self._consumers.is_active(consumer)) for consumer in self._consumers.members]

    def check(self) -> None:
        """Raise `InvariantBroken` if this queue contradicts itself."""
        self._contents.check()
        self._consumers.check()

    def _start_idle_clock(self) -> None:
        self._idle = None
        if self.settings.expires_ms >= 0:
            self._idle = IdleClock(self, self.settings.expires_ms, self._turn, self._keeper)
            self._idle.touch()
