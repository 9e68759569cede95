"""The transport seam: template, listener, outbox and inbox use these calls, and AMQP or memory implements them.

The users of a transport know nothing of channels, connections or frames. A transport recovers by itself: it reconnects,
declares its layout again, resumes its subscriptions, and resends publishes that were undecided when a connection ended.
So a message may arrive twice, and none is lost without an error.

    Transport.publish     takes a list of messages, and returns None or an error for each
    Transport.subscribe   the messages of a queue from now on, across lost connections
    Incoming.ack          settles a message; after its connection has ended it has no effect

Not here: the transport over AMQP (`client.recovering`), the one in memory (`client.testing`).
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from warren.client.errors import ClientError
from warren.client.machine.publishes import Message
from warren.wire.field_tables import Table
from warren.wire.properties import Properties


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message and its destination. A `mandatory` message that no queue is bound for fails with `PublishFailed`."""

    message: Message
    exchange: str = ""
    routing_key: str = ""
    mandatory: bool = True


@dataclass(frozen=True, slots=True)
class ExchangeLayout:
    name: str
    kind: str = "direct"
    durable: bool = True
    arguments: Table = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueueLayout:
    name: str
    durable: bool = True
    exclusive: bool = False
    auto_delete: bool = False
    arguments: Table = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BindingLayout:
    """A binding from an exchange to a queue, or to another exchange."""

    source: str
    destination: str
    routing_key: str = ""
    to_exchange: bool = False
    arguments: Table = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Layout:
    """The topology that a program needs, in the order in which it is declared."""

    exchanges: tuple[ExchangeLayout, ...] = ()
    queues: tuple[QueueLayout, ...] = ()
    bindings: tuple[BindingLayout, ...] = ()


class DeliveredMessage(Protocol):
    """The content of a message, and whether it was delivered before."""

    @property
    def body(self) -> bytes: ...
    @property
    def properties(self) -> Properties: ...
    @property
    def headers(self) -> Table: ...
    @property
    def exchange(self) -> str: ...
    @property
    def routing_key(self) -> str: ...
    @property
    def redelivered(self) -> bool: ...


Viewed = TypeVar("Viewed", bound=DeliveredMessage)


class MessageView(Generic[Viewed]):
    """A message that has the content of another one, for implementations of `Incoming`."""

    __slots__ = ("_message",)

    def __init__(self, message: Viewed) -> None:
        self._message = message

    @property
    def body(self) -> bytes:
        return self._message.body

    @property
    def properties(self) -> Properties:
        return self._message.properties

    @property
    def headers(self) -> Table:
        return self._message.headers

    @property
    def exchange(self) -> str:
        return self._message.exchange

    @property
    def routing_key(self) -> str:
        return self._message.routing_key

    @property
    def redelivered(self) -> bool:
        return self._message.redelivered


class Incoming(DeliveredMessage, Protocol):
    """A delivered message; it is settled once, by `ack` or `nack`."""

    @property
    def is_ours(self) -> bool:
        """Whether the program still has to settle it. If not, its connection has ended and the broker redelivers it."""

    def ack(self) -> None:
        """Acknowledge the message."""

    def nack(self, *, requeue: bool = True) -> None:
        """Refuse the message: requeue it, or dead-letter it."""


class Subscription(Protocol):
    """The messages of a queue, in order."""

    async def batch(self, timeout_s: float | None = None) -> Sequence[Incoming]:
        """All messages that are there, at least one; none after the timeout or `cancel`."""

    def __aiter__(self) -> AsyncIterator[Incoming]: ...

    async def cancel(self) -> None:
        """Ask for no more. Messages that have come can still be settled."""


class Transport(Protocol):
    """A broker, however it is reached."""

    async def publish(self, messages: Sequence[Outgoing], timeout_s: float | None = None) -> list[ClientError | None]:
        """Return when each message is decided or the time is over: for each None if the broker has it, or its error.

        The `outcome` of an error says whether it is certain that the broker does not have the message.
        """

    async def publish_together(self, messages: Sequence[Outgoing], timeout_s: float | None = None) -> None:
        """Publish all messages in one transaction, which is never sent twice.

        In an error, `outcome` is `unknown` if the broker may have some of them; otherwise it has none. An unroutable
        mandatory message is a `PublishFailed`, but then the broker has all others.
        """

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Return when the messages are handed over; their outcome is not reported."""

    async def subscribe(
        self,
        queue: str,
        *,
        prefetch: int = 100,
        no_ack: bool = False,
        exclusive: bool = False,
        arguments: Table | None = None,
    ) -> Subscription: ...

    async def get(self, queue: str, *, no_ack: bool = False) -> Incoming | None:
        """The first ready message of a queue, if it has one."""

    async def declare(self, layout: Layout) -> None:
        """Declare a layout now, and again after each failure of the connection."""

    async def close(self, deadline_s: float = 10.0) -> None:
        """Take no more, wait for acks and confirms, and end within the deadline."""
