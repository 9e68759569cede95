"""The seam between what makes delivery reliable and what carries it: another broker, or memory, may stand behind it.

Template, listener, outbox and inbox know these few calls and nothing of channels, connections or frames. A transport
keeps itself alive: it reconnects, declares again what it was told to declare, takes up its subscriptions, and sends
again what was not decided when a connection ended. So what is published may arrive twice, and never silently not at
all.

    Transport.publish     a list of messages in, for each None or the error that says what became of it
    Transport.subscribe   a queue's messages from now on, whatever happens to the connection meanwhile
    Incoming.ack          settles a message; one whose connection has ended is the broker's again, and stays so

Not here: how AMQP does it (`client.recovering`), how memory does (`client.testing`).
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from warren.client.errors import ClientError
from warren.client.machine.publishes import Message
from warren.wire.field_tables import Table
from warren.wire.properties import Properties


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message and where it goes; with `mandatory` it comes back as a `PublishFailed` if no queue wants it."""

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
    """From an exchange to a queue, or to another exchange."""

    source: str
    destination: str
    routing_key: str = ""
    to_exchange: bool = False
    arguments: Table = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Layout:
    """What a program needs to find on the broker, in the order in which it is declared."""

    exchanges: tuple[ExchangeLayout, ...] = ()
    queues: tuple[QueueLayout, ...] = ()
    bindings: tuple[BindingLayout, ...] = ()


class Incoming(Protocol):
    """A message that came; it is settled once, by `ack` or `nack`."""

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
    @property
    def is_ours(self) -> bool:
        """Whether it is for this program to handle; else its connection has ended, and the broker delivers it again."""

    def ack(self) -> None:
        """It is dealt with."""

    def nack(self, *, requeue: bool = True) -> None:
        """It is refused: back to the queue, or to where the queue's dead letters go."""


class Subscription(Protocol):
    """A queue's messages, in the order in which they come."""

    async def batch(self, timeout_s: float | None = None) -> Sequence[Incoming]:
        """All that are there, at least one; none if the time is over, or it was cancelled."""

    def __aiter__(self) -> AsyncIterator[Incoming]: ...

    async def cancel(self) -> None:
        """Ask for no more. What has come may still be settled."""


class Transport(Protocol):
    """A broker, reached by whatever way."""

    async def publish(self, messages: Sequence[Outgoing], timeout_s: float | None = None) -> list[ClientError | None]:
        """Returns when each is decided or the time is over: for each None if the broker has it, or what went wrong.

        The error's `outcome` says whether it is certain that the broker does not have it.
        """

    async def publish_together(self, messages: Sequence[Outgoing], timeout_s: float | None = None) -> None:
        """Returns when the broker has all of them, in one transaction, which is never sent twice.

        Else an error: its `outcome` is `unknown` if the broker may have some of them, and otherwise it has none. What
        is mandatory and wanted by no queue is a `PublishFailed` too, but all others are there.
        """

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """One way: returns when they are handed over, and nobody learns what became of them."""

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
        """Have all of it on the broker now, and again after each failure of the connection."""

    async def close(self, deadline_s: float = 10.0) -> None:
        """Take no more, finish what is in hand, and end within the deadline."""
