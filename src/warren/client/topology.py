"""The calls of a channel that make, bind and remove queues and exchanges.

Not here: publishing and consuming (`client.channel`).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from warren.client.machine.events import Answered
from warren.wire.methods import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
)
from warren.wire.values import Table


@dataclass(frozen=True)
class DeclaredQueue:
    """A queue as the broker found or made it."""

    name: str
    messages: int
    consumers: int


class TopologyCalls(ABC):
    """Each returns when the broker has answered; what it refuses is a `ChannelClosed`."""

    @abstractmethod
    async def _call(self, method: Method) -> Answered:
        """Send a method, and wait for its answer."""

    async def declare_queue(
        self,
        name: str = "",
        *,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        passive: bool = False,
        arguments: Table | None = None,
    ) -> DeclaredQueue:
        """A queue without a name gets one from the broker; `passive` asks only whether it is there."""
        method = QueueDeclare(
            name,
            passive=passive,
            durable=durable,
            exclusive=exclusive,
            auto_delete=auto_delete,
            arguments=arguments,
        )
        answer = (await self._call(method)).method
        assert isinstance(answer, QueueDeclareOk)
        return DeclaredQueue(answer.queue, answer.message_count, answer.consumer_count)

    async def bind_queue(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        await self._call(QueueBind(queue, exchange, routing_key, arguments=arguments))

    async def unbind_queue(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        await self._call(QueueUnbind(queue, exchange, routing_key, arguments))

    async def purge_queue(self, queue: str) -> int:
        """Drops what is ready; how many that were."""
        answer = (await self._call(QueuePurge(queue))).method
        assert isinstance(answer, QueuePurgeOk)
        return answer.message_count

    async def delete_queue(self, queue: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """How many messages went with it."""
        answer = (await self._call(QueueDelete(queue, if_unused, if_empty))).method
        assert isinstance(answer, QueueDeleteOk)
        return answer.message_count

    async def declare_exchange(
        self,
        name: str,
        type: str = "direct",
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        passive: bool = False,
        arguments: Table | None = None,
    ) -> None:
        method = ExchangeDeclare(
            name,
            type,
            passive=passive,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments,
        )
        await self._call(method)

    async def bind_exchange(
        self, destination: str, source: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        await self._call(ExchangeBind(destination, source, routing_key, arguments=arguments))

    async def unbind_exchange(
        self, destination: str, source: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        await self._call(ExchangeUnbind(destination, source, routing_key, arguments=arguments))

    async def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        await self._call(ExchangeDelete(name, if_unused))
