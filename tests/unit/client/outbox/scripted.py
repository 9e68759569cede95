"""A transport with scripted answers that records its publishes.

Not here: brokers that decide for themselves (`warren.client.testing`, and the real ones in tests/client).
"""

from collections.abc import Awaitable, Callable, Sequence

from warren.client.errors import ClientError
from warren.client.testing import MemoryBroker, MemoryTransport
from warren.client.transport import Outgoing

Answering = Callable[[Outgoing], ClientError | None]


class ScriptedTransport(MemoryTransport):
    """Each message is answered by `answer`; `calls` has the messages of every call."""

    def __init__(self, answer: Answering = lambda message: None) -> None:
        super().__init__(MemoryBroker())
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
