"""The objects of an exchange link upstream: its queue, its internal exchange, and the bindings.

An internal exchange of RabbitMQ's type `x-federation-upstream` filters by `max-hops`. Brokers without that type get a
fanout exchange, and the link drops the messages. Declaring an unknown type costs a connection, so a separate connection
asks.

**Names.** They contain the name of this cluster: two brokers that federate from one upstream need a queue each. Two
upstreams of this cluster that lead to one broker share a queue with RabbitMQ's name, because with two queues each
message would come twice. Each link has internal exchanges of its own, so that deleting one link leaves the other
working.

**Bindings.** Bindings with equal key and arguments are one binding upstream, however many queues have them here.

Not here: following changes (`bridges.federation.links`).
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from warren.bridges.connections import connect_uri
from warren.bridges.federation.headers import upstream_binding_arguments
from warren.bridges.federation.upstreams import FederationUpstream
from warren.bridges.host import BridgeHost, LocalBinding
from warren.client.channel import Channel
from warren.client.connection import Connection
from warren.client.errors import ChannelClosed, ConnectionClosed
from warren.errors import COMMAND_INVALID, NOT_FOUND, PRECONDITION_FAILED
from warren.wire.field_tables import Long, Table, encode_table

SUFFIXES: Final = ("A", "B")
NAME_OCTETS_MAX: Final = 255


def upstream_queue_name(
    exchange: str, upstream_vhost: str, cluster_name: str, own_vhost: str, own_exchange: str
) -> str:
    """Contains as much of the downstream end as differs from the upstream end."""
    if own_vhost != upstream_vhost:
        there = f":{own_vhost}:{own_exchange}"
    elif own_exchange != exchange:
        there = f":{own_exchange}"
    else:
        there = ""
    return f"federation: {exchange} -> {cluster_name}{there}"


def internal_exchange_name(queue: str, of_link: str, suffix: str) -> str:
    """Contains the link's id, because a queue's name may be too long."""
    name = f"{queue} {of_link} {suffix}"
    octets = name.encode("utf-8", "surrogateescape")
    return name if len(octets) <= NAME_OCTETS_MAX else f"federation: {hashlib.sha256(octets).hexdigest()}"


def shared_exchange_names(queue: str) -> list[str]:
    """RabbitMQ's names, the same for all links: a successor under the same name continues with the queue."""
    return [f"{queue} {suffix}" for suffix in SUFFIXES]


def link_key(kind: str, vhost: str, name: str, upstream: str, upstream_name: str) -> str:
    """Identifies a link on every node; its other settings may change."""
    return "/".join(("federation", kind, *(quote(part, safe="") for part in (vhost, name, upstream, upstream_name))))


def link_id(key: str) -> str:
    """Eight hexadecimal digits by which operators name a link."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:8]


@dataclass(frozen=True)
class ExchangeLinkSpec:
    """An exchange link with one virtual host of one upstream."""

    vhost: str
    name: str
    type: str
    upstream: FederationUpstream
    upstream_vhost: str
    cluster_name: str
    connection_name: str
    durable: bool = True
    auto_delete: bool = False
    arguments: Table = field(default_factory=dict)

    @property
    def queue(self) -> str:
        return upstream_queue_name(
            self.upstream.exchange, self.upstream_vhost, self.cluster_name, self.vhost, self.name
        )

    def internal_exchange(self, suffix: str) -> str:
        key = link_key("exchange", self.vhost, self.name, self.upstream.name, self.upstream.exchange)
        return internal_exchange_name(self.queue, link_id(key), suffix)

    @property
    def queue_arguments(self) -> Table:
        arguments: Table = {"x-internal-purpose": "federation"}
        if self.upstream.expires_ms is not None:
            arguments["x-expires"] = self.upstream.expires_ms
        if self.upstream.message_ttl_ms is not None:
            arguments["x-message-ttl"] = self.upstream.message_ttl_ms
        return arguments


UPSTREAM_TYPE = "x-federation-upstream"
PURPOSE: Table = {"x-internal-purpose": "federation"}
BINDINGS_AT_ONCE = 200

Binding = tuple[str, Table]


class UpstreamTopology:
    """The objects of one link, over one connection."""

    def __init__(self, plan: ExchangeLinkSpec, source: Connection, uri: str) -> None:
        self._plan = plan
        self._source = source
        # with its password
        self._uri = uri
        self.suffix = SUFFIXES[0]
        self.before = SUFFIXES[1]

    @property
    def internal_exchange(self) -> str:
        return self._plan.internal_exchange(self.suffix)

    async def prepare(self, host: BridgeHost) -> None:
        """Declare the queue, the federated exchange, and an internal exchange bound to the queue."""
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
        """Which internal exchange to use, and whether it has to be declared.

        If both exist, a run ended between declaring one and deleting the other, and it is unknown which of them has all
        bindings. Then one of them gets the missing bindings, so that no binding is absent for a moment.
        """
        there = [await self._has_exchange(self._plan.internal_exchange(suffix)) for suffix in SUFFIXES]
        self.suffix, self.before = reversed(SUFFIXES) if there == [True, False] else SUFFIXES
        return there != [True, True]

    async def replace_before(self) -> None:
        """All bindings exist: delete the previous run's internal exchange, and RabbitMQ's."""
        async with await self._source.channel() as channel:
            for name in (self._plan.internal_exchange(self.before), *shared_exchange_names(self._plan.queue)):
                await channel.delete_exchange(name)

    async def bind_as_successor(self, host: BridgeHost, bindings: Callable[[str], Sequence[Binding]]) -> None:
        """Act for the link, which may not have started: all bindings exist when this returns.

        Every internal exchange that exists gets them; a link deletes none before another one has them.
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
        """Check that the objects that messages pass through still exist."""
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

    async def _declare_internal(self, host: BridgeHost, channel: Channel) -> None:
        if self._source.server_properties.get("product") != "Warren" and await self._declare_upstream_type(host):
            return
        await channel.declare_exchange(
            self.internal_exchange, "fanout", durable=True, auto_delete=True, internal=True, arguments=PURPOSE
        )

    async def _declare_upstream_type(self, host: BridgeHost) -> bool:
        """Whether the broker knows that type."""
        plan = self._plan
        arguments: Table = {
            # RabbitMQ requires 64 bits
            "x-max-hops": Long(plan.upstream.max_hops),
            "x-downstream-name": plan.cluster_name,
            "x-downstream-vhost": plan.vhost,
            **PURPOSE,
        }
        asking = await connect_uri(host, self._uri, plan.vhost, plan.connection_name, plan.upstream.definer)
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


Wanted = dict[tuple[str, bytes], Binding]


def upstream_bindings(
    bindings: Iterable[LocalBinding], plan: ExchangeLinkSpec, upstream_name: str, suffix: str
) -> Wanted:
    """The bindings that go this far, with their arguments upstream."""
    here: Table = {
        "cluster-name": plan.cluster_name,
        "vhost": plan.vhost,
        "exchange": f"{plan.vhost}:{plan.name} {suffix}",
    }
    found: Wanted = {}
    for binding in bindings:
        arguments = upstream_binding_arguments(
            binding.arguments, plan.upstream.max_hops, upstream_name, plan.upstream_vhost, here
        )
        if arguments is not None:
            found[binding.routing_key, encode_table(arguments)] = (binding.routing_key, arguments)
    return found


def binding_differences(made: Wanted, wanted: Wanted) -> tuple[list[Binding], list[Binding]]:
    """The missing bindings, and the surplus ones."""
    missing = [binding for key, binding in wanted.items() if key not in made]
    surplus = [binding for key, binding in made.items() if key not in wanted]
    return missing, surplus
