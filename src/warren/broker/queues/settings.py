"""The settings of a queue: its `x-` arguments combined with its policies, as plain values.

A `QueueSettings` never changes; `Queue.apply` replaces it. Queues without arguments and policies share
`DEFAULT_SETTINGS`.

Not here: whether arguments and policies are valid (`broker.queues.arguments`, `broker.policies.keys`), enforcing them
(`broker.queues.limits`, `broker.queues.queue`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.deduplication import WINDOW_LIMIT, window_limit
from warren.broker.model.message import NEVER
from warren.wire.field_tables import Table

UNLIMITED: Final[i64] = -1
"""No limit, no deadline."""

TEN_YEARS_MS: Final = 315_360_000_000
COUNT_MAX: Final = 2**62

DROP_HEAD: Final = "drop-head"
REJECT_PUBLISH: Final = "reject-publish"
REJECT_PUBLISH_DLX: Final = "reject-publish-dlx"


@final
class QueueSettings:
    """The settings of one queue; -1 means no limit, and a `max_priority` of 0 no priorities."""

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
        dedup_window: i64 = WINDOW_LIMIT,
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
        # ready messages are kept on disk only, even if memory is free
        self.lazy: bool = lazy
        # how many publishing ids the queue remembers of each publisher
        self.dedup_window: i64 = dedup_window
        # precomputed: needed for every publish
        self.limited: bool = max_length >= 0 or max_length_bytes >= 0
        self.rejects: bool = overflow != DROP_HEAD

    def deadline_ms(self, expiration_ms: i64, now_ms: i64) -> i64:
        """The deadline of a message that arrives now: the lower of its own TTL and the queue's counts."""
        queue_ttl_ms = self.message_ttl_ms
        if expiration_ms < 0 and queue_ttl_ms < 0:
            return NEVER
        if expiration_ms < 0 or 0 <= queue_ttl_ms < expiration_ms:
            return now_ms + queue_ttl_ms
        return now_ms + expiration_ms

    def exceeded_by(self, ready_count: i64, ready_bytes: i64) -> bool:
        """Whether this many ready messages or bytes exceed the limits."""
        if self.max_length >= 0 and ready_count > self.max_length:
            return True
        return self.max_length_bytes >= 0 and ready_bytes > self.max_length_bytes


DEFAULT_SETTINGS: Final = QueueSettings()
"""The settings of a queue without arguments and policies."""


def queue_settings(arguments: Table, definition: Table | None = None) -> QueueSettings:
    """The settings from valid arguments and the valid definition of a policy.

    If both give a number, the lower one counts; if both give a text, the argument counts.
    """
    policy: Table = {} if definition is None else definition
    if not arguments and not policy:
        return DEFAULT_SETTINGS
    return QueueSettings(
        message_ttl_ms=_lower(arguments, policy, "message-ttl", TEN_YEARS_MS),
        expires_ms=_lower(arguments, policy, "expires", TEN_YEARS_MS),
        max_length=_lower(arguments, policy, "max-length", COUNT_MAX),
        max_length_bytes=_lower(arguments, policy, "max-length-bytes", COUNT_MAX),
        overflow=_either(arguments, policy, "overflow") or DROP_HEAD,
        dead_letter_exchange=_either(arguments, policy, "dead-letter-exchange"),
        dead_letter_routing_key=_either(arguments, policy, "dead-letter-routing-key"),
        max_priority=_number(arguments, "x-max-priority", 0),
        single_active_consumer=arguments.get("x-single-active-consumer") is True,
        delivery_limit=_lower(arguments, policy, "delivery-limit", COUNT_MAX),
        lazy=_either(arguments, policy, "queue-mode") == "lazy",
        dedup_window=window_limit(arguments, policy),
    )


def _lower(arguments: Table, policy: Table, key: str, most: int) -> int:
    """The lower of argument and policy, -1 if both are absent. A policy's number is at most `most`."""
    given = _number(arguments, "x-" + key, -1)
    said = min(_number(policy, key, -1), most)
    return max(given, said) if given < 0 or said < 0 else min(given, said)


def _either(arguments: Table, policy: Table, key: str) -> str | None:
    given = _text(arguments, "x-" + key)
    return _text(policy, key) if given is None else given


def _number(table: Table, name: str, otherwise: int) -> int:
    value = table.get(name)
    return value if isinstance(value, int) else otherwise


def _text(table: Table, name: str) -> str | None:
    value = table.get(name)
    return value if isinstance(value, str) else None
