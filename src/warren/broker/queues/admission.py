"""Admission: whether a queue accepts a message, and whether it keeps the message in memory or on disk only.

A message of a mirrored queue arrives in two steps. First it is *reserved*: it has its position and its deadline, and
counts against a limit that refuses publishes, but it is not ready. When it is committed it *arrives*, in the order of
reservation.

A message with an identity (`broker.model.deduplication`) that the queue has seen is dropped, and confirmed when the
first one is safe.

Invariant: the bytes of reserved messages are counted in `Turn.held_bytes`.

Not here: dropping heads over a limit (`broker.queues.limits`), the order of entries (`broker.queues.contents`).
"""

from typing import final

from mypy_extensions import i64

from warren.broker.model.deduplication import DeduplicationWindow, identity_at
from warren.broker.model.message import Entry, Message
from warren.broker.model.ports import PENDING, REJECTED, SETTLED
from warren.broker.model.turn import Turn
from warren.broker.queues.consumers import QueueConsumers, QueueDrain
from warren.broker.queues.contents import ENTRY_BYTES, QueueContents
from warren.broker.queues.limits import LimitEnforcer
from warren.broker.queues.paging import Paging


@final
class QueueAdmission:
    """Admits messages to one queue."""

    def __init__(
        self,
        contents: QueueContents,
        consumers: QueueConsumers,
        drain: QueueDrain,
        limits: LimitEnforcer,
        seen: DeduplicationWindow,
        turn: Turn,
    ) -> None:
        self._contents: QueueContents = contents
        self._consumers: QueueConsumers = consumers
        self._drain: QueueDrain = drain
        self._limits: LimitEnforcer = limits
        self._seen: DeduplicationWindow = seen
        self._turn: Turn = turn
        self._reserved_bytes: i64 = 0
        # page no messages, even if memory is short
        self.stays_in_memory: bool = False

    def publish(self, paging: Paging | None, message: Message) -> i64:
        if message.identified and self._seen.is_open():
            return self._publish_once(paging, message)
        if paging is not None:
            return self._publish_with_log(paging, message)
        return self._publish_without_log(message)

    def _publish_once(self, paging: Paging | None, message: Message) -> i64:
        seen, identity = self._seen, identity_at(message.content, 0)
        if seen.has(identity) and (paging is None or not paging.stopped):
            seen.repeated += 1
            # the first one is in this turn's batch or an earlier one
            return SETTLED if paging is None else PENDING
        outcome = self._publish_without_log(message) if paging is None else self._publish_with_log(paging, message)
        if outcome != REJECTED:
            seen.add(identity, outcome == PENDING)
        return outcome

    def _publish_without_log(self, message: Message) -> i64:
        settings = self._limits.settings
        if settings.limited and settings.rejects and self.refuses(message):
            return REJECTED
        self._contents.admit(message, settings.deadline_ms(message.expiration_ms, self._turn.now_ms))
        if settings.limited and not settings.rejects:
            self.drop_over_limit()
        return SETTLED

    def _publish_with_log(self, paging: Paging, message: Message) -> i64:
        if paging.stopped:
            return REJECTED
        settings = self._limits.settings
        if settings.limited and settings.rejects and self.refuses(message):
            return REJECTED
        contents = self._contents
        log = paging.log
        safe = log.durable and message.persistent
        expires_at_ms = settings.deadline_ms(message.expiration_ms, self._turn.now_ms)
        level = contents.level_of(message)
        if self._belongs_on_disk(level):
            contents.page(message, expires_at_ms, level, log)
        else:
            entry = contents.admit(message, expires_at_ms)
            if safe:
                entry.extent = log.store(message, entry.position, expires_at_ms, level)
        if settings.limited and not settings.rejects:
            self.drop_over_limit()
        return PENDING if safe else SETTLED

    def _belongs_on_disk(self, level: i64) -> bool:
        """Whether a new message is kept on disk only: not if it can be delivered at once."""
        contents = self._contents
        if self.stays_in_memory:
            return False
        if contents.paged_count != 0 and contents.has_backlog(level):
            return True
        if not self._turn.memory_low and not self._limits.settings.lazy:
            return False
        if not self._consumers.members:
            return True
        self._drain.deliver_ready()
        return contents.ready_count != 0

    # -- limits

    def drop_over_limit(self) -> None:
        if self._limits.overflows():
            self._drain.deliver_ready()
            self._limits.drop_heads()

    def refuses(self, message: Message) -> bool:
        if not self._limits.overflows_with(message):
            return False
        self._drain.deliver_ready()
        if not self._limits.overflows_with(message):
            return False
        self._limits.refuse(message)
        return True

    # -- the two steps of a mirrored queue

    def reserve(self, message: Message) -> Entry | None:
        limits = self._limits
        settings = limits.settings
        if settings.limited and settings.rejects and self.refuses(message):
            return None
        expires_at_ms = settings.deadline_ms(message.expiration_ms, self._turn.now_ms)
        entry = Entry(message, self._contents.next_position(), expires_at_ms)
        limits.reserved_count += 1
        limits.reserved_bytes += message.body_bytes
        held_bytes: i64 = len(message.content) + ENTRY_BYTES
        self._reserved_bytes += held_bytes
        self._turn.held_bytes += held_bytes
        return entry

    def arrive(self, entries: list[Entry]) -> None:
        limits = self._limits
        limits.reserved_count -= len(entries)
        arrived_bytes: i64 = len(entries) * ENTRY_BYTES
        for entry in entries:
            message = entry.message
            limits.reserved_bytes -= message.body_bytes
            arrived_bytes += len(message.content)
        settings = limits.settings
        drops_heads = settings.limited and not settings.rejects
        may_page = self._contents.paged_count != 0 or self._turn.memory_low or settings.lazy
        if drops_heads or may_page:
            for entry in entries:
                self._admit_or_page(entry)
                if drops_heads:
                    self.drop_over_limit()
        else:
            self._contents.admit_entries(entries)
        self._release(arrived_bytes)

    def _admit_or_page(self, entry: Entry) -> None:
        contents = self._contents
        level = contents.level_of(entry.message)
        # a message that is not on disk is in the memory of all replicas: paging it here would save little
        if entry.extent is not None and self._belongs_on_disk(level):
            contents.page_entry(entry, level)
        else:
            contents.admit_entries([entry])

    def close(self) -> None:
        """Release the reserved messages: none of them will arrive."""
        self._release(self._reserved_bytes)

    def _release(self, held_bytes: i64) -> None:
        self._reserved_bytes -= held_bytes
        self._turn.held_bytes -= held_bytes
