"""One queue of the memory broker: its messages in order, who gets them, and which of them it gives up.

A message has a *position*, which it keeps: whoever puts it back puts it where it was. As in RabbitMQ, only the first
message expires, so that one with a longer life holds up those behind it; and what is in consumers' hands neither
expires nor counts for the queue's length.

Invariants: `ready` is in the order of positions; an entry is in `ready` or in one consumer's `unacked`, never in both.

Not here: where dead letters go (`testing.broker`).
"""

import bisect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from warren.client.testing.messages import StoredMessage
from warren.client.transport import QueueLayout
from warren.wire.values import Table

WITHOUT_EFFECT = frozenset({"x-queue-mode", "x-queue-version", "x-queue-master-locator"})
"""They say how a queue is kept, not what it does."""


@dataclass(slots=True, eq=False)
class Entry:
    """A message and its place in a queue."""

    position: int
    message: StoredMessage
    expires_at: float | None
    redelivered: bool = False


@dataclass(slots=True, eq=False)
class Consumer:
    """Whoever takes messages of a queue; `hand` is called with each, `gone` when the queue is deleted."""

    queue: "MemoryQueue"
    prefetch: int = 0
    no_ack: bool = False
    exclusive: bool = False
    priority: int = 0
    hand: Callable[[Entry], None] = lambda _: None
    gone: Callable[[], None] = lambda: None
    unacked: dict[int, Entry] = field(default_factory=dict)

    @property
    def is_able(self) -> bool:
        return self.no_ack or not self.prefetch or len(self.unacked) < self.prefetch


class MemoryQueue:
    def __init__(self, layout: QueueLayout, owner: object, now: float) -> None:
        """`owner` is the connection that alone may use it, if it is exclusive."""
        self.layout = layout
        self.name = layout.name
        self.owner = owner if layout.exclusive else None
        self.limits = Limits.of(layout.arguments)
        self.ready: list[Entry] = []
        # whose turn it is, first
        self.consumers: list[Consumer] = []
        self.unacked: dict[int, Entry] = {}
        self._last_position = 0
        self._used_at = now

    def is_full_for(self, message: StoredMessage) -> bool:
        """Whether a queue that refuses what is too much refuses this."""
        limits = self.limits
        too_many = limits.length is not None and len(self.ready) >= limits.length
        too_large = limits.length_bytes is not None and self._ready_bytes() + len(message.body) > limits.length_bytes
        return limits.refuses and (too_many or too_large)

    def append(self, message: StoredMessage, now: float) -> None:
        self._last_position += 1
        lives_s = [each for each in (self.limits.ttl_s, _expiration_s(message)) if each is not None]
        self.ready.append(Entry(self._last_position, message, now + min(lives_s) if lives_s else None))

    def deliver(self) -> None:
        """Hand out what there is to whoever takes it."""
        while self.ready and (consumer := self._next_consumer()):
            entry = self._take(consumer)
            consumer.hand(entry)

    def take(self, consumer: Consumer, now: float) -> Entry | None:
        """The first message, for one that asks for it."""
        self.use(now)
        return self._take(consumer) if self.ready else None

    def settle(self, consumer: Consumer, entry: Entry) -> None:
        del consumer.unacked[entry.position], self.unacked[entry.position]

    def requeue(self, entries: Iterable[Entry]) -> None:
        """What is in nobody's hands any more goes back to where it was, and was delivered before."""
        for entry in entries:
            entry.redelivered = True
            bisect.insort(self.ready, entry, key=_position)

    def add_consumer(self, consumer: Consumer) -> None:
        self.consumers.append(consumer)

    def remove_consumer(self, consumer: Consumer, now: float) -> None:
        """If it is one: who fetched a message once is none."""
        if consumer in self.consumers:
            self.consumers.remove(consumer)
            self.use(now)

    def use(self, now: float) -> None:
        """It expires only when nobody has used it for a time."""
        self._used_at = now

    def too_many(self) -> list[Entry]:
        """Those at the head that a longer queue than allowed gives up."""
        given_up = []
        while self.ready and not self.limits.refuses and self._is_too_long():
            given_up.append(self.ready.pop(0))
        return given_up

    def expired(self, now: float) -> list[Entry]:
        given_up = []
        while self.ready and (expires_at := self.ready[0].expires_at) is not None and expires_at <= now:
            given_up.append(self.ready.pop(0))
        return given_up

    @property
    def expires_at(self) -> float | None:
        """When the queue itself goes, if nobody uses it until then."""
        return None if self.limits.expires_s is None or self.consumers else self._used_at + self.limits.expires_s

    @property
    def next_due(self) -> float | None:
        """When time changes something here."""
        head = self.ready[0].expires_at if self.ready else None
        return min((due for due in (head, self.expires_at) if due is not None), default=None)

    def _take(self, consumer: Consumer) -> Entry:
        entry = self.ready.pop(0)
        if not consumer.no_ack:
            consumer.unacked[entry.position] = self.unacked[entry.position] = entry
        return entry

    def _next_consumer(self) -> Consumer | None:
        """Of those that take more the first of the highest priority, who goes to the end of the row."""
        candidates = self.consumers[:1] if self.limits.single_consumer else self.consumers
        able = [consumer for consumer in candidates if consumer.is_able]
        if not able:
            return None
        chosen = max(able, key=lambda consumer: consumer.priority)
        if not self.limits.single_consumer:
            self.consumers.remove(chosen)
            self.consumers.append(chosen)
        return chosen

    def _is_too_long(self) -> bool:
        limits = self.limits
        return (limits.length is not None and len(self.ready) > limits.length) or (
            limits.length_bytes is not None and self._ready_bytes() > limits.length_bytes
        )

    def _ready_bytes(self) -> int:
        return sum(len(entry.message.body) for entry in self.ready)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a queue's arguments say."""

    ttl_s: float | None
    expires_s: float | None
    length: int | None
    length_bytes: int | None
    overflow: str
    dead_letter_exchange: str | None
    dead_letter_key: str | None
    single_consumer: bool

    @property
    def refuses(self) -> bool:
        return self.overflow.startswith("reject-publish")

    @classmethod
    def of(cls, arguments: Table) -> "Limits":
        """An argument that means nothing here, or has no sense, is a `ValueError`: no test should rely on it."""
        rest = {name: value for name, value in arguments.items() if name not in WITHOUT_EFFECT}
        ttl_ms, expires_ms = _number(rest, "x-message-ttl"), _number(rest, "x-expires")
        limits = cls(
            ttl_s=None if ttl_ms is None else ttl_ms / 1000,
            expires_s=None if expires_ms is None else expires_ms / 1000,
            length=_number(rest, "x-max-length"),
            length_bytes=_number(rest, "x-max-length-bytes"),
            overflow=_text(rest, "x-overflow") or "drop-head",
            dead_letter_exchange=_text(rest, "x-dead-letter-exchange"),
            dead_letter_key=_text(rest, "x-dead-letter-routing-key"),
            single_consumer=rest.pop("x-single-active-consumer", False) is True,
        )
        if limits.overflow not in ("drop-head", "reject-publish", "reject-publish-dlx"):
            raise ValueError(f"x-overflow {limits.overflow!r}")
        if rest.pop("x-queue-type", "classic") != "classic" or rest:
            raise ValueError(f"{', '.join(rest) or 'x-queue-type'}: it has classic queues and their arguments only")
        return limits


def _number(arguments: Table, name: str) -> int | None:
    value = arguments.pop(name, None)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise ValueError(f"{name} {value!r}")
    return value


def _text(arguments: Table, name: str) -> str | None:
    value = arguments.pop(name, None)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} {value!r}")
    return value


def _expiration_s(message: StoredMessage) -> float | None:
    expiration = message.properties.expiration
    return None if expiration is None else int(expiration) / 1000


def _position(entry: Entry) -> int:
    return entry.position
