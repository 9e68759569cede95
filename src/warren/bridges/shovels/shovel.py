"""A shovel's life: both ends reached, what it needs declared, messages carried until it is done or told to end.

A queue that the definition names and that is not there is declared, durable; one that is there is taken as it is. An
exchange has to be there. A shovel that takes from an exchange has a queue of its own for it, which goes with the
connection: what is published while it is not connected does not wait for it.

Not here: who begins a life (`bridges.keeper`), when what is acked (`bridges.carrying`).
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from warren.bridges.bridge import Bridge, Life
from warren.bridges.carrying.carrier import carry
from warren.bridges.carrying.terms import NO_ACK, ON_CONFIRM, ON_PUBLISH, Terms
from warren.bridges.connecting import reach
from warren.bridges.host import Host
from warren.bridges.shovels.definition import DEFAULT_VHOST, QUEUE_LENGTH, Definition, shovel_of
from warren.bridges.shovels.loops import check_ends
from warren.bridges.shovels.rewriting import ends, rewriting
from warren.client.connection import Connection
from warren.client.errors import ChannelClosed, ClientError
from warren.client.topology import DeclaredQueue
from warren.policy.parameters import Parameter
from warren.wire.values import Table

COMPONENT: Final = "shovel"
NOT_FOUND: Final = 404


def key_of(vhost: str, name: str) -> str:
    return f"{COMPONENT}:{vhost}:{name}"


@dataclass(frozen=True)
class Shovel(Bridge):
    """One that is defined by a parameter."""

    definition: Definition

    @property
    def key(self) -> str:
        return key_of(self.definition.vhost, self.definition.name)

    @property
    def reconnect_delay_s(self) -> float:
        return self.definition.reconnect_delay_s

    def describe(self) -> dict[str, object]:
        return {"kind": COMPONENT, "vhost": self.definition.vhost, "name": self.definition.name}

    async def live(self, life: Life) -> None:
        definition, host = self.definition, life.host
        shown = f"Shovel {definition.name}"
        with _told_of("source"):
            source = await reach(host, definition.source.uris, DEFAULT_VHOST, shown)
        async with source.connection as taking:
            with _told_of("destination"):
                destination = await reach(host, definition.destination.uris, DEFAULT_VHOST, shown)
            async with destination.connection as giving:
                await check_ends(definition, taking, giving)
                with _told_of("destination"):
                    await self._prepare(giving)
                with _told_of("source"):
                    queue = await self._source_queue(taking)
                life.is_up(
                    src_uri=source.uri,
                    src_protocol="amqp091",
                    dest_protocol="amqp091",
                    dest_uri=destination.uri,
                    **ends(definition),
                )
                rewrite = rewriting(definition, host.cluster_name, source.uri, destination.uri)
                await carry(taking, queue.name, giving, rewrite, self._terms(queue, life), life)
        await forget_done(host, self)

    async def _prepare(self, giving: Connection) -> None:
        destination = self.definition.destination
        if destination.queue is not None:
            await _ensure_queue(giving, destination.queue, destination.queue_arguments)
        elif destination.exchange:
            # nothing is taken from the source before it is known that it can be given to somebody
            async with await giving.channel() as channel:
                await channel.declare_exchange(destination.exchange, passive=True)

    async def _source_queue(self, taking: Connection) -> DeclaredQueue:
        source = self.definition.source
        if source.queue is not None:
            return await _ensure_queue(taking, source.queue, source.queue_arguments)
        async with await taking.channel() as channel:
            own = await channel.declare_queue(exclusive=True, arguments=source.queue_arguments)
            await channel.bind_queue(own.name, source.exchange or "", source.exchange_key)
            return own

    def _terms(self, queue: DeclaredQueue, life: Life) -> Terms:
        definition = self.definition
        after = definition.source.delete_after
        limit = None
        if after == QUEUE_LENGTH:
            limit = queue.messages
        elif isinstance(after, int):
            # those of lives before this one count
            done = life.tally.confirmed if definition.ack_mode == ON_CONFIRM else life.tally.published
            limit = max(0, after - done)
        # without acks more would come than are wanted, and be lost
        counted = limit is not None and definition.ack_mode == NO_ACK
        return Terms(
            ack_mode=ON_PUBLISH if counted else definition.ack_mode,
            prefetch=definition.source.prefetch,
            consumer_arguments=definition.source.consumer_arguments,
            mandatory=definition.destination.queue is not None or definition.destination.mandatory,
            limit=limit,
        )


async def forget_done(host: Host, shovel: Shovel) -> None:
    """Clear its parameter; not one that was set meanwhile, and says otherwise: that is another shovel."""
    for parameter in host.parameters(COMPONENT):
        if shovel in _understood([parameter]):
            await host.forget(parameter)


class NotReady(ClientError):
    """An end of a shovel cannot be had, or not as the definition wants it."""

    retriable = True


@contextmanager
def _told_of(end: str) -> Iterator[None]:
    """Whoever reads why it broke wants to know at which end."""
    try:
        yield
    except (ClientError, OSError) as trouble:
        raise NotReady(f"{end}: {trouble}") from trouble


class Shovels:
    """The kind of bridges that parameters of the component `shovel` want."""

    def wanted(self, host: Host) -> list[Shovel]:
        return list(_understood(host.parameters(COMPONENT)))


def _understood(parameters: Iterable[Parameter]) -> Iterator[Shovel]:
    """What an older or newer node took and this one would not must not keep all others from running."""
    for parameter in parameters:
        with suppress(KeyError, TypeError, ValueError):
            yield Shovel(shovel_of(parameter))


async def _ensure_queue(connection: Connection, name: str, arguments: Table) -> DeclaredQueue:
    asking = await connection.channel()
    try:
        found = await asking.declare_queue(name, passive=True)
    except ChannelClosed as refusal:
        if refusal.code != NOT_FOUND:
            raise
    else:
        await asking.close()
        return found
    async with await connection.channel() as channel:
        return await channel.declare_queue(name, durable=True, arguments=arguments)
