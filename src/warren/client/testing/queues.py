"""One queue of the memory broker: its messages in order, who gets them, and which of them it gives up.

A message has a *position*, which it keeps: whoever puts it back puts it where it was. As in RabbitMQ, only the first
message expires, so that one with a longer life holds up those behind it; and what is in consumers' hands neither
expires nor counts for the queue's length.

Invariants: `ready` is in the order of positions; an entry is in `ready` or in one consumer's `unacked`, never in both.

Not here: where dead letters go (`testing.broker`).

A message as the memory broker keeps it: properties as the bytes they are on the wire.

So what a real broker could not be sent is refused here as well, and nobody changes a message by changing what it was
made of. Decoded each time anew, as deliveries of a connection are.

Not here: its place in a queue (`testing.queues`).

What becomes of a message that a queue gives up: the same message, on its way to the dead-letter exchange.

Its header `x-death` has an entry for each queue and reason it died of, the latest first, with a count; a message that
dies again in the same way has its entry counted up and moved to the front, and nothing else of it changed. What was its
expiration stands there too, because it has none any more: it would die at once in the next queue.

Not here: which of the queues' messages die (`testing.queues`).
"""

import bisect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from librt.strings import BytesWriter

from warren.client.transport import Outgoing, QueueLayout
from warren.wire.field_tables import Long, Table, Timestamp
from warren.wire.properties import Properties, decode_properties, encode_header_payload
from warren.wire.scalars import write_shortstr


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """`routing_keys` has the one it was published with, then those of its headers CC and BCC."""

    body: bytes
    header: bytes
    exchange: str
    routing_keys: tuple[str, ...]

    @property
    def routing_key(self) -> str:
        return self.routing_keys[0]

    @property
    def properties(self) -> Properties:
        return decode_properties(self.header, 0, len(self.header))

    @property
    def headers(self) -> Table:
        return self.properties.headers or {}


def stored_message(outgoing: Outgoing) -> StoredMessage:
    """What a broker makes of it; one of the `MISFITS` if it cannot be encoded."""
    message = outgoing.message
    key = outgoing.routing_key if message.routing_key is None else message.routing_key
    for text in (outgoing.exchange, key):
        write_shortstr(BytesWriter(), text)
    header = encode_header_payload(message.properties or Properties(), len(message.body))
    properties = decode_properties(header, 0, len(header))
    headers = properties.headers or {}
    keys = (key, *_listed(headers, "CC"), *_listed(headers, "BCC"))
    if "BCC" in headers:
        del headers["BCC"]
        header = encode_header_payload(properties, len(message.body))
    return StoredMessage(bytes(message.body), header, outgoing.exchange, keys)


def _listed(headers: Table, name: str) -> list[str]:
    found = headers.get(name)
    return [key for key in found if isinstance(key, str)] if isinstance(found, list) else []


IGNORED_ARGUMENTS = frozenset({"x-queue-mode", "x-queue-version", "x-queue-master-locator"})
"""They say how a queue is kept, not what it does."""


@dataclass(slots=True, eq=False)
class MemoryQueueEntry:
    """A message and its place in a queue."""

    position: int
    message: StoredMessage
    expires_at: float | None
    redelivered: bool = False


@dataclass(slots=True, eq=False)
class MemoryConsumer:
    """Whoever takes messages of a queue; `hand` is called with each, `gone` when the queue is deleted."""

    queue: "MemoryQueue"
    prefetch: int = 0
    no_ack: bool = False
    exclusive: bool = False
    priority: int = 0
    hand: Callable[[MemoryQueueEntry], None] = lambda _: None
    gone: Callable[[], None] = lambda: None
    unacked: dict[int, MemoryQueueEntry] = field(default_factory=dict)

    @property
    def is_able(self) -> bool:
        return self.no_ack or not self.prefetch or len(self.unacked) < self.prefetch


class MemoryQueue:
    def __init__(self, layout: QueueLayout, owner: object, now: float) -> None:
        """`owner` is the connection that alone may use it, if it is exclusive."""
        self.layout = layout
        self.name = layout.name
        self.owner = owner if layout.exclusive else None
        self.limits = MemoryQueueLimits.of(layout.arguments)
        self.ready: list[MemoryQueueEntry] = []
        # whose turn it is, first
        self.consumers: list[MemoryConsumer] = []
        self.unacked: dict[int, MemoryQueueEntry] = {}
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
        self.ready.append(MemoryQueueEntry(self._last_position, message, now + min(lives_s) if lives_s else None))

    def deliver(self) -> None:
        """Hand out what there is to whoever takes it."""
        while self.ready and (consumer := self._next_consumer()):
            entry = self._take(consumer)
            consumer.hand(entry)

    def take(self, consumer: MemoryConsumer, now: float) -> MemoryQueueEntry | None:
        """The first message, for one that asks for it."""
        self.use(now)
        return self._take(consumer) if self.ready else None

    def settle(self, consumer: MemoryConsumer, entry: MemoryQueueEntry) -> None:
        del consumer.unacked[entry.position], self.unacked[entry.position]

    def requeue(self, entries: Iterable[MemoryQueueEntry]) -> None:
        """What is in nobody's hands any more goes back to where it was, and was delivered before."""
        for entry in entries:
            entry.redelivered = True
            bisect.insort(self.ready, entry, key=_position)

    def add_consumer(self, consumer: MemoryConsumer) -> None:
        self.consumers.append(consumer)

    def remove_consumer(self, consumer: MemoryConsumer, now: float) -> None:
        """If it is one: who fetched a message once is none."""
        if consumer in self.consumers:
            self.consumers.remove(consumer)
            self.use(now)

    def use(self, now: float) -> None:
        """It expires only when nobody has used it for a time."""
        self._used_at = now

    def too_many(self) -> list[MemoryQueueEntry]:
        """Those at the head that a longer queue than allowed gives up."""
        given_up = []
        while self.ready and not self.limits.refuses and self._is_too_long():
            given_up.append(self.ready.pop(0))
        return given_up

    def expired(self, now: float) -> list[MemoryQueueEntry]:
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

    def _take(self, consumer: MemoryConsumer) -> MemoryQueueEntry:
        entry = self.ready.pop(0)
        if not consumer.no_ack:
            consumer.unacked[entry.position] = self.unacked[entry.position] = entry
        return entry

    def _next_consumer(self) -> MemoryConsumer | None:
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
class MemoryQueueLimits:
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
    def of(cls, arguments: Table) -> "MemoryQueueLimits":
        """An argument that means nothing here, or has no sense, is a `ValueError`: no test should rely on it."""
        rest = {name: value for name, value in arguments.items() if name not in IGNORED_ARGUMENTS}
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


def _position(entry: MemoryQueueEntry) -> int:
    return entry.position


Reason = Literal["rejected", "expired", "maxlen"]


def dead_letter(
    message: StoredMessage, reason: Reason, queue: str, exchange: str, routing_key: str | None, now: float
) -> StoredMessage:
    """With a key of the queue's the message goes there alone, and its header CC is gone."""
    properties = message.properties
    headers = properties.headers or {}
    keys = [message.routing_key, *_copies(headers)]
    death: Table = {
        "reason": reason,
        "queue": queue,
        "time": Timestamp(int(now)),
        "exchange": message.exchange,
        "routing-keys": list(keys),
    }
    if properties.expiration is not None:
        death["original-expiration"] = properties.expiration
    _add(headers, death)
    if routing_key is not None:
        headers.pop("CC", None)
    properties.headers, properties.expiration = headers, None
    target_keys = message.routing_keys if routing_key is None else (routing_key,)
    return StoredMessage(message.body, encode_header_payload(properties, len(message.body)), exchange, target_keys)


def is_cycle(message: StoredMessage, queue: str) -> bool:
    """Whether it died in that queue before and nobody has rejected it since: it would go round for ever."""
    reasons: list[object] = []
    for death in _deaths(message.headers):
        reasons.append(death.get("reason"))
        if death.get("queue") == queue:
            return "rejected" not in reasons
    return False


def _add(headers: Table, death: Table) -> None:
    deaths = _deaths(headers)
    if not deaths:
        headers |= {f"x-first-death-{fact}": death[fact] for fact in ("reason", "queue", "exchange")}
    alike = [each for each in deaths if (each.get("queue"), each.get("reason")) == (death["queue"], death["reason"])]
    others = [each for each in deaths if each not in alike]
    latest = alike[0] if alike else death
    headers["x-death"] = [_counted(latest), *map(_with_long_count, others)]


def _counted(death: Table) -> Table:
    return {**death, "count": Long(_count(death) + 1)}


def _with_long_count(death: Table) -> Table:
    return {**death, "count": Long(_count(death))}


def _count(death: Table) -> int:
    count = death.get("count", 0)
    return count if isinstance(count, int) else 0


def _deaths(headers: Table) -> list[Table]:
    deaths = headers.get("x-death")
    return [each for each in deaths if isinstance(each, dict)] if isinstance(deaths, list) else []


def _copies(headers: Table) -> list[str]:
    found = headers.get("CC")
    return [key for key in found if isinstance(key, str)] if isinstance(found, list) else []
