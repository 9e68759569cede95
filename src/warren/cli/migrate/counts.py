"""Proof that everything arrived: for each queue, how much RabbitMQ had and delivered, and how much Warren received.

Each of three counts can prove that nothing is missing:

    arrived = had             no publishes and no other consumers meanwhile
    arrived = left > had      publishes continued at RabbitMQ; no other consumer acked there
    grown = had               no clients used the queue at Warren, which was restarted and counts from 0

`had` is the length at RabbitMQ at the start, `left` the messages acked there since, `arrived` the messages that the
shovel brought to Warren since, `grown` the growth of Warren's queue. RabbitMQ reports acks with a delay and forgets
them at a restart, so `left` may be too small; but if it is larger than `arrived`, messages are missing.

Not here: reading the counts (`cli.migrate.brokers`).
"""

from dataclasses import dataclass, field
from typing import Final

from warren.cli.migrate.queues import QueueName

MATCHES: Final = "matches"


@dataclass(frozen=True)
class QueueCounts:
    """One broker's queue at one moment. `brought` (by shovels) and `acked` count since the broker knows the queue."""

    messages: int = 0
    brought: int = 0
    acked: int = 0
    consumers: int = 0


@dataclass
class QueueAudit:
    """One queue's counts at the start and the end of a move."""

    queue: QueueName
    source_before: QueueCounts
    destination_before: QueueCounts
    source_after: QueueCounts = field(default_factory=QueueCounts)
    destination_after: QueueCounts = field(default_factory=QueueCounts)
    consumed_at_source: bool = False
    """Whether other consumers than the shovel were seen at RabbitMQ."""

    is_stream: bool = False
    consumed_at_warren: bool = False
    """Whether consumers were seen at Warren; then the length of its queue proves nothing."""

    is_gone_at_warren: bool = False
    was_gone_at_source: bool = False
    """Whether the queue was deleted at RabbitMQ during the move."""

    def see_destination(self, side: QueueCounts) -> None:
        self.destination_after = side
        self.consumed_at_warren |= bool(side.consumers or self.destination_before.consumers)

    @property
    def had(self) -> int:
        return self.source_before.messages

    @property
    def left(self) -> int:
        return self.source_after.acked - self.source_before.acked

    @property
    def arrived(self) -> int:
        return self.destination_after.brought - self.destination_before.brought

    @property
    def grown(self) -> int:
        return self.destination_after.messages - self.destination_before.messages

    @property
    def remaining(self) -> int:
        """What RabbitMQ still has; a stream keeps its messages."""
        return 0 if self.is_stream else self.source_after.messages

    @property
    def is_lost(self) -> bool:
        """Whether it had messages and no longer exists at Warren."""
        return self.is_gone_at_warren and (self.had > 0 or self.left > 0)

    @property
    def matches(self) -> bool:
        if self.remaining or self.is_lost:
            return False
        if self.is_stream:
            return self.destination_after.messages == self.source_after.messages
        return self._is_proven_by_shovel or self._is_proven_by_growth

    @property
    def is_settled(self) -> bool:
        """Whether all counts match, so that another look would change nothing."""
        return self.is_lost or (self.matches and (self.is_stream or self.arrived == self.left))

    @property
    def is_explained(self) -> bool:
        """Whether other consumers at RabbitMQ may have received what did not arrive. This is no proof."""
        return not self.remaining and not self.is_lost and self.consumed_at_source and self.arrived <= self.left

    @property
    def _is_proven_by_shovel(self) -> bool:
        return self.arrived == self.had >= self.left or self.arrived == self.left > self.had

    @property
    def _is_proven_by_growth(self) -> bool:
        return self.arrived < self.had == self.grown >= self.left and not self.consumed_at_warren

    def verdict(self) -> str:
        """A few words, or a sentence that says what is wrong and where to look."""
        if self.matches:
            return MATCHES
        if self.is_lost:
            left = self.source_after.messages
            rest = f"; {left} are still at RabbitMQ, and are moved if the command is run again" if left else ""
            return f"it was deleted at Warren, with the messages that had arrived{rest}"
        if self.remaining:
            return f"{self.remaining} are still at RabbitMQ"
        if self.is_stream:
            return (
                f"the stream has {self.source_after.messages} at RabbitMQ and {self.destination_after.messages} "
                "at Warren; delete it at Warren and run this again"
            )
        missing = max(self.had, self.left) - self.arrived
        if self.is_explained:
            return f"{missing} did not arrive: other consumers at RabbitMQ may have received them"
        if missing > 0 and self.was_gone_at_source:
            return f"{missing} have not arrived: the queue was deleted at RabbitMQ while it moved"
        if missing > 0:
            return (
                f"{missing} have not arrived; they may have expired or been dropped by a limit, at either side, "
                "or Warren was restarted and lost its counters"
            )
        return (
            f"{-missing} more than RabbitMQ had: others publish to it there, or the shovel's connection broke and "
            "it sent unconfirmed messages again; Warren's log names those"
        )
