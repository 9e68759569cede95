"""A transport that answers as a test tells it to, and remembers what it was given.

Not here: brokers that decide for themselves (`warren.client.testing`, and the real ones in tests/client).
"""

from collections.abc import Awaitable, Callable, Sequence

from warren.client.errors import ClientError
from warren.client.transport import Incoming, Layout, Outgoing, Subscription
from warren.wire.values import Table

Answering = Callable[[Outgoing], ClientError | None]


class ScriptedTransport:
    """Each message is answered by `answer`; `calls` has the messages of every call."""

    def __init__(self, answer: Answering = lambda message: None) -> None:
        self.answer = answer
        self.calls: list[list[Outgoing]] = []
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    @property
    def bodies(self) -> list[list[bytes]]:
        return [[each.message.body for each in call] for call in self.calls]

    async def publish(self, messages: Sequence[Outgoing], timeout_s: float | None = None) -> list[ClientError | None]:
        self.calls.append(list(messages))
        if self.meanwhile is not None:
            await self.meanwhile()
        return [self.answer(message) for message in messages]

    async def send(self, messages: Sequence[Outgoing]) -> None:
        raise NotImplementedError

    async def subscribe(
        self,
        queue: str,
        *,
        prefetch: int = 100,
        no_ack: bool = False,
        exclusive: bool = False,
        arguments: Table | None = None,
    ) -> Subscription:
        raise NotImplementedError

    async def get(self, queue: str, *, no_ack: bool = False) -> Incoming | None:
        raise NotImplementedError

    async def declare(self, layout: Layout) -> None:
        raise NotImplementedError

    async def close(self, deadline_s: float = 10.0) -> None:
        raise NotImplementedError
