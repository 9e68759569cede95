"""What the link of an exchange has declared upstream: its queue, its internal exchange, and the bindings to that.

An internal exchange of RabbitMQ's own type lets through only what may come here by `max-hops`; one that fans out, for
brokers that have no such type, lets everything through, and the link drops what may not. Asking for a type that a
broker does not know costs a connection, so there is one for the question.

Not here: which bindings there are (`federation.bindings`).
"""

import asyncio
from collections.abc import Callable, Sequence

from warren.bridges.connecting import connect
from warren.bridges.federation.exchange_plan import ExchangePlan
from warren.bridges.federation.names import SUFFIXES, shared_exchange_names
from warren.bridges.host import Host
from warren.client.channel import Channel
from warren.client.connection import Connection
from warren.client.errors import ChannelClosed, ConnectionClosed
from warren.errors import COMMAND_INVALID, NOT_FOUND, PRECONDITION_FAILED
from warren.wire.field_tables import Long
from warren.wire.values import Table

UPSTREAM_TYPE = "x-federation-upstream"
PURPOSE: Table = {"x-internal-purpose": "federation"}
BINDINGS_AT_ONCE = 200

Binding = tuple[str, Table]


class UpstreamEnd:
    """One link's, over one connection."""

    def __init__(self, plan: ExchangePlan, source: Connection, uri: str) -> None:
        self._plan = plan
        self._source = source
        # with its password
        self._uri = uri
        self.suffix = SUFFIXES[0]
        self.before = SUFFIXES[1]

    @property
    def internal_exchange(self) -> str:
        return self._plan.internal_exchange(self.suffix)

    async def prepare(self, host: Host) -> None:
        """The queue, the exchange that is federated, and an internal exchange that leads to the queue."""
        plan = self._plan
        async with await self._source.channel() as channel:
            await self._declare_queue(channel)
            if not await self._has_exchange(plan.upstream.exchange):
                await channel.declare_exchange(
                    plan.upstream.exchange,
                    plan.type,
                    durable=plan.durable,
                    auto_delete=plan.auto_delete,
                    arguments=plan.arguments,
                )
            if await self._choose():
                await self._declare_internal(host, channel)
            await channel.bind_queue(plan.queue, self.internal_exchange)

    async def _declare_queue(self, channel: Channel) -> None:
        queue = self._plan.queue
        try:
            await channel.declare_queue(queue, durable=True, arguments=self._plan.queue_arguments)
        except ChannelClosed as closed:
            if closed.code != PRECONDITION_FAILED:
                raise
            raise ValueError(
                f"queue {queue!r} of the upstream was made with another expires or message-ttl: "
                f"set them back, or delete it there, with what waits in it ({closed.text})"
            ) from closed

    async def _choose(self) -> bool:
        """Which internal exchange it is to be, and whether it has to be made.

        Where there are both, a life ended between making the one and deleting the other, and nobody knows which of them
        has all bindings. Then one of them gets those it lacks, so that none is without for a moment.
        """
        there = [await self._has_exchange(self._plan.internal_exchange(suffix)) for suffix in SUFFIXES]
        self.suffix, self.before = reversed(SUFFIXES) if there == [True, False] else SUFFIXES
        return there != [True, True]

    async def replace_before(self) -> None:
        """All bindings are there: the internal exchange of the life before may go, and what RabbitMQ called so."""
        async with await self._source.channel() as channel:
            for name in (self._plan.internal_exchange(self.before), *shared_exchange_names(self._plan.queue)):
                await channel.delete_exchange(name)

    async def stand_in(self, host: Host, bindings: Callable[[str], Sequence[Binding]]) -> None:
        """For the link itself, which may not have begun, or is about to: all bindings are there when this returns.

        Whichever internal exchange there is gets them; a link deletes none before another one has them.
        """
        there = [suffix for suffix in SUFFIXES if await self._has_exchange(self._plan.internal_exchange(suffix))]
        async with await self._source.channel() as channel:
            if not there:
                await self._declare_internal(host, channel)
            for suffix in there or [self.suffix]:
                self.suffix = suffix
                await channel.bind_queue(self._plan.queue, self.internal_exchange)
                await self.bind(channel, bindings(suffix))

    async def bind(self, channel: Channel, bindings: Sequence[Binding]) -> None:
        for at in range(0, len(bindings), BINDINGS_AT_ONCE):
            await asyncio.gather(
                *(
                    channel.bind_exchange(self.internal_exchange, self._plan.upstream.exchange, key, arguments)
                    for key, arguments in bindings[at : at + BINDINGS_AT_ONCE]
                )
            )

    async def unbind(self, channel: Channel, bindings: Sequence[Binding]) -> None:
        for at in range(0, len(bindings), BINDINGS_AT_ONCE):
            await asyncio.gather(
                *(
                    channel.unbind_exchange(self.internal_exchange, self._plan.upstream.exchange, key, arguments)
                    for key, arguments in bindings[at : at + BINDINGS_AT_ONCE]
                )
            )

    async def check(self) -> None:
        """That nobody has deleted what messages come through."""
        for name in (self._plan.upstream.exchange, self.internal_exchange):
            if not await self._has_exchange(name):
                raise ValueError(f"exchange {name!r} of the upstream was deleted there, and is declared anew")

    async def _has_exchange(self, name: str) -> bool:
        channel = await self._source.channel()
        try:
            await channel.declare_exchange(name, passive=True)
        except ChannelClosed as closed:
            if closed.code == NOT_FOUND:
                return False
            raise
        await channel.close()
        return True

    async def _declare_internal(self, host: Host, channel: Channel) -> None:
        if self._source.server_properties.get("product") != "Warren" and await self._declare_upstream_type(host):
            return
        await channel.declare_exchange(
            self.internal_exchange, "fanout", durable=True, auto_delete=True, internal=True, arguments=PURPOSE
        )

    async def _declare_upstream_type(self, host: Host) -> bool:
        """Whether the broker knows that type."""
        plan = self._plan
        arguments: Table = {
            # RabbitMQ wants 64 bits
            "x-max-hops": Long(plan.upstream.max_hops),
            "x-downstream-name": plan.cluster_name,
            "x-downstream-vhost": plan.vhost,
            **PURPOSE,
        }
        asking = await connect(host, self._uri, plan.vhost, plan.connection_name)
        try:
            async with await asking.channel() as channel:
                await channel.declare_exchange(
                    self.internal_exchange,
                    UPSTREAM_TYPE,
                    durable=True,
                    auto_delete=True,
                    internal=True,
                    arguments=arguments,
                )
        except ConnectionClosed as closed:
            if closed.code == COMMAND_INVALID:
                return False
            raise
        finally:
            await asking.close()
        return True
