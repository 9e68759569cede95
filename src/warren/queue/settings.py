"""What a queue was told about itself: its `x-` arguments as plain numbers.

A `QueueSettings` never changes; a queue is given another one (`Queue.apply`). Queues without such arguments share
`PLAIN`.

Not here: whether the arguments are acceptable (`queue.arguments`), what they do (`queue.queue`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.model.message import NEVER
from warren.wire.values import Table

UNLIMITED: Final[i64] = -1
"""No limit, no deadline."""

DROP_HEAD: Final = "drop-head"
REJECT_PUBLISH: Final = "reject-publish"
REJECT_PUBLISH_DLX: Final = "reject-publish-dlx"


@final
class QueueSettings:
    """One queue's settings; -1 means none, and so does a priority of 0."""

    def __init__(
        self,
        message_ttl_ms: i64 = UNLIMITED,
        expires_ms: i64 = UNLIMITED,
        max_length: i64 = UNLIMITED,
        max_length_bytes: i64 = UNLIMITED,
        overflow: str = DROP_HEAD,
        dead_letter_exchange: str | None = None,
        dead_letter_routing_key: str | None = None,
        max_priority: i64 = 0,
        single_active_consumer: bool = False,
        delivery_limit: i64 = UNLIMITED,
        lazy: bool = False,
    ) -> None:
        self.message_ttl_ms: i64 = message_ttl_ms
        self.expires_ms: i64 = expires_ms
        self.max_length: i64 = max_length
        self.max_length_bytes: i64 = max_length_bytes
        self.overflow: str = overflow
        self.dead_letter_exchange: str | None = dead_letter_exchange
        self.dead_letter_routing_key: str | None = dead_letter_routing_key
        self.max_priority: i64 = max_priority
        self.single_active_consumer: bool = single_active_consumer
        self.delivery_limit: i64 = delivery_limit
        # ready messages are kept on disk only, memory or no memory
        self.lazy: bool = lazy
        # asked for every publish, so answered once
        self.limited: bool = max_length >= 0 or max_length_bytes >= 0
        self.rejects: bool = overflow != DROP_HEAD

    def deadline_ms(self, expiration_ms: i64, now_ms: i64) -> i64:
        """When a message that comes now dies: after its own lifetime or the queue's, the shorter one."""
        queue_ttl_ms = self.message_ttl_ms
        if expiration_ms < 0 and queue_ttl_ms < 0:
            return NEVER
        if expiration_ms < 0 or 0 <= queue_ttl_ms < expiration_ms:
            return now_ms + queue_ttl_ms
        return now_ms + expiration_ms

    def exceeded_by(self, ready_count: i64, ready_bytes: i64) -> bool:
        """Whether a queue with so much ready is beyond its length or size."""
        if self.max_length >= 0 and ready_count > self.max_length:
            return True
        return self.max_length_bytes >= 0 and ready_bytes > self.max_length_bytes


PLAIN: Final = QueueSettings()
"""The settings of a queue that asks for nothing."""


def settings_of(arguments: Table) -> QueueSettings:
    """The settings that arguments ask for; they must have passed `validate_arguments`."""
    if not arguments:
        return PLAIN
    return QueueSettings(
        message_ttl_ms=_number(arguments, "x-message-ttl", -1),
        expires_ms=_number(arguments, "x-expires", -1),
        max_length=_number(arguments, "x-max-length", -1),
        max_length_bytes=_number(arguments, "x-max-length-bytes", -1),
        overflow=_text(arguments, "x-overflow") or DROP_HEAD,
        dead_letter_exchange=_text(arguments, "x-dead-letter-exchange"),
        dead_letter_routing_key=_text(arguments, "x-dead-letter-routing-key"),
        max_priority=_number(arguments, "x-max-priority", 0),
        single_active_consumer=arguments.get("x-single-active-consumer") is True,
        delivery_limit=_number(arguments, "x-delivery-limit", -1),
        lazy=arguments.get("x-queue-mode") == "lazy",
    )


def _number(arguments: Table, name: str, otherwise: int) -> int:
    value = arguments.get(name)
    return value if isinstance(value, int) else otherwise


def _text(arguments: Table, name: str) -> str | None:
    value = arguments.get(name)
    return value if isinstance(value, str) else None
