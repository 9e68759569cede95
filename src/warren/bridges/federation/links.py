"""A link of a federated exchange: what is published upstream and wanted here is published here.

Not here: the shape of it (`bridges.federation`), its names there (`federation.exchange_plan`).

A link of a federated queue: what waits upstream comes here while somebody here would take it at once.

It consumes with priority -1, so that consumers of the upstream itself come first, and only while the queue here is
empty and has consumers that could take more. What is on its way when that changes is carried still.

Not here: the shape of it (`bridges.federation`).

What both kinds of links ask of their two ends.

Not here: connecting (`bridges.connections`).
"""

import asyncio
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import unquote

from warren.bridges.bridge import Bridge, BridgeRun
from warren.bridges.connections import (
    Place,
    ReachedBroker,
    connect_first,
    is_same_vhost,
    parse_local_uri,
    redacted_uri,
    uri_places,
)
from warren.bridges.federation.headers import rewrite_for_exchange, rewrite_for_queue
from warren.bridges.federation.upstream_topology import (
    SUFFIXES,
    ExchangeLinkSpec,
    UpstreamTopology,
    Wanted,
    binding_differences,
    link_key,
    upstream_bindings,
)
from warren.bridges.federation.upstreams import FederationUpstream
from warren.bridges.host import BridgeHost, LocalBinding
from warren.bridges.transfer import ConsumptionGate, transfer
from warren.bridges.transfer_options import TransferOptions
from warren.client.connection import Connection
from warren.client.errors import ChannelClosed, ClientError
from warren.errors import PRECONDITION_FAILED
from warren.wire.field_tables import Table


def upstream_vhost(uri: str, own: str) -> str:
    """The virtual host that a URI leads to; one that names none means the same as here."""
    authority, slash, path = uri.partition("://")[2].partition("/")
    if path:
        return unquote(path)
    return "/" if authority and slash else own


@dataclass(frozen=True)
class FederatedPair:
    """What is federated, and what it is called upstream."""

    kind: Literal["exchange", "queue"]
    vhost: str
    name: str
    upstream_name: str

    def check_uris(self, uris: Sequence[str]) -> None:
        """A `ValueError` if one of them names no host, and leads from a thing to itself."""
        for uri in uris:
            here = parse_local_uri(uri)
            if here is not None and (here.vhost or self.vhost) == self.vhost and self.name == self.upstream_name:
                raise ValueError(self._sentence())

    async def check_upstream(self, host: BridgeHost, reached: ReachedBroker, connection_name: str) -> None:
        """The same of a URI that names a host: a cluster of the same name is asked whether it is this one."""
        source = reached.connection
        if self.name != self.upstream_name or upstream_vhost(reached.uri, self.vhost) != self.vhost:
            return
        if cluster_of(source) != host.cluster_name:
            return
        async with await host.connect_here(self.vhost, connection_name, "") as here:
            if await is_same_vhost(here, source):
                raise ValueError(self._sentence())

    def _sentence(self) -> str:
        itself = f"{self.kind} {self.name!r} of virtual host {self.vhost!r}"
        return f"{itself} is its own upstream: give the upstream another URI, or another {self.kind}"


def cluster_of(connection: Connection) -> str:
    """The name of the upstream's cluster, by which loops are known; empty for brokers that have none."""
    name = connection.server_properties.get("cluster_name")
    return name if isinstance(name, str) else ""


async def run_until_first_ends(*parts: Coroutine[object, object, None]) -> None:
    """Run them together until one returns or raises; the others are cancelled, and have ended when this does."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


CHECK_EVERY_S: Final = 30.0
UNUSED_WITHIN_S: Final = 5.0
ASK_AGAIN_S: Final = 0.5


@dataclass(frozen=True)
class ExchangeLink(Bridge):
    """Of one exchange, with one upstream."""

    vhost: str
    name: str
    type: str
    upstream: FederationUpstream
    cluster_name: str
    policy_name: str = ""
    durable: bool = True
    auto_delete: bool = False
    arguments: Table = field(default_factory=dict)

    @property
    def key(self) -> str:
        return link_key("exchange", self.vhost, self.name, self.upstream.name, self.upstream.exchange)

    @property
    def reconnect_delay_s(self) -> float:
        return self.upstream.reconnect_delay_s

    @property
    def connection_name(self) -> str:
        return f"Federation link (upstream: {self.upstream.name}, policy: {self.policy_name})"

    def describe(self) -> Mapping[str, object]:
        return {"kind": "federation", "vhost": self.vhost, "exchange": self.name, "upstream": self.upstream.name}

    async def live(self, life: BridgeRun) -> None:
        federating = FederatedPair("exchange", self.vhost, self.name, self.upstream.exchange)
        federating.check_uris(self.upstream.uris)
        reached = await connect_first(life.host, self.upstream.uris, self.vhost, self.connection_name)
        async with reached.connection as source:
            await federating.check_upstream(life.host, reached, self.connection_name)
            plan = self._plan(reached.uri)
            end = UpstreamTopology(plan, source, reached.whole_uri)
            await end.prepare(life.host)
            async with await life.host.connect_here(self.vhost, self.connection_name, "") as here:
                bindings = _BindingSync(life.host, plan, end, cluster_of(source))
                await bindings.begin(source)
                life.is_up(uri=reached.uri, local_connection=self.connection_name)
                await run_until_first_ends(bindings.keep(), self._carry(life, plan, source, here, reached))

    async def _carry(
        self, life: BridgeRun, plan: ExchangeLinkSpec, source: Connection, here: Connection, reached: ReachedBroker
    ) -> None:
        hop: Table = {"uri": reached.uri, "exchange": self.name, "vhost": plan.upstream_vhost}
        if cluster := cluster_of(source):
            hop["cluster-name"] = cluster
        upstream = self.upstream
        rewrite = rewrite_for_exchange(
            self.name, self.cluster_name, self.vhost, hop, upstream.max_hops, upstream.trust_user_id
        )
        terms = TransferOptions(ack_mode=upstream.ack_mode, prefetch=upstream.prefetch)
        await transfer(source, plan.queue, here, rewrite, terms, life)

    async def retire(self, host: BridgeHost, wanted: Collection[Bridge]) -> None:
        """The exchange is federated with this upstream no more: nothing is left of it there.

        Another upstream, by another name or user, may lead to the same broker. The queue belongs to its link then, and
        what leads to the queue goes when it is led there by that link.
        """
        try:
            heir = self.successor_among(wanted)
            if self.upstream.keeps_resources and heir is None:
                return
            reached = await connect_first(host, self.upstream.uris, self.vhost, self.connection_name)
            async with reached.connection as source:
                plan = self._plan(reached.uri)
                if heir is None:
                    await _delete_unused(source, plan.queue)
                else:
                    await heir._stand_in(host, reached)
                async with await source.channel() as channel:
                    for suffix in SUFFIXES:
                        await channel.delete_exchange(plan.internal_exchange(suffix))
        except (ClientError, OSError) as trouble:
            host.log.warning("federation.leftovers_kept", **self.describe(), reason=str(trouble))

    def successor_among(self, wanted: Collection[Bridge]) -> "ExchangeLink | None":
        """One that has the same queue upstream, by what their URIs say."""
        links = [link for link in wanted if isinstance(link, ExchangeLink)]
        return next((link for link in links if self._queues() & link._queues()), None)

    async def _stand_in(self, host: BridgeHost, reached: ReachedBroker) -> None:
        plan, upstream_name = self._plan(reached.uri), cluster_of(reached.connection)
        end = UpstreamTopology(plan, reached.connection, reached.whole_uri)
        here = host.bindings_of(self.vhost, self.name)
        await end.stand_in(host, lambda suffix: list(upstream_bindings(here, plan, upstream_name, suffix).values()))

    def _queues(self) -> set[tuple[Place, str]]:
        """Each place that it may be connected to, with what its queue is called there."""
        uris = self.upstream.uris
        return {(place, self._plan(uri).queue) for uri in uris for place in uri_places(uri, self.vhost)}

    def _plan(self, uri: str) -> ExchangeLinkSpec:
        return ExchangeLinkSpec(
            vhost=self.vhost,
            name=self.name,
            type=self.type,
            upstream=self.upstream,
            upstream_vhost=upstream_vhost(redacted_uri(uri), self.vhost),
            cluster_name=self.cluster_name,
            connection_name=self.connection_name,
            durable=self.durable,
            auto_delete=self.auto_delete,
            arguments=self.arguments,
        )


async def _delete_unused(source: Connection, queue: str) -> None:
    """Somebody else's queue has a consumer. That of the link itself may count for a moment after it has gone."""
    give_up_at = asyncio.get_running_loop().time() + UNUSED_WITHIN_S
    while True:
        channel = await source.channel()
        try:
            await channel.delete_queue(queue, if_unused=True)
            await channel.close()
            return
        except ChannelClosed as closed:
            if closed.code != PRECONDITION_FAILED or asyncio.get_running_loop().time() > give_up_at:
                raise
        await asyncio.sleep(ASK_AGAIN_S)


class _BindingSync:
    """The bindings upstream of one life, which follow those here."""

    def __init__(self, host: BridgeHost, plan: ExchangeLinkSpec, end: UpstreamTopology, upstream_name: str) -> None:
        self._host = host
        self._plan = plan
        self._end = end
        self._upstream_name = upstream_name
        self._seen: list[LocalBinding] | None = None
        self._made: Wanted = {}

    async def begin(self, source: Connection) -> None:
        """Make all that there are; what a life before made, and nobody wants any more, is gone then."""
        self._channel = await source.channel()
        await self._follow()
        await self._end.replace_before()

    async def keep(self) -> None:
        changed = asyncio.Event()
        stop = self._host.on_change(changed.set)
        try:
            while True:
                await self._follow()
                try:
                    async with asyncio.timeout(CHECK_EVERY_S):
                        await changed.wait()
                    changed.clear()
                except TimeoutError:
                    await self._end.check()
        finally:
            stop()

    async def _follow(self) -> None:
        bindings = self._host.bindings_of(self._plan.vhost, self._plan.name)
        if bindings == self._seen:
            return
        wanted = upstream_bindings(bindings, self._plan, self._upstream_name, self._end.suffix)
        missing, surplus = binding_differences(self._made, wanted)
        await self._end.bind(self._channel, missing)
        await self._end.unbind(self._channel, surplus)
        self._seen, self._made = bindings, wanted


PRIORITY: Table = {"x-priority": -1}


@dataclass(frozen=True)
class QueueLink(Bridge):
    """Of one queue, with one upstream."""

    vhost: str
    name: str
    upstream: FederationUpstream
    home: str = ""
    policy_name: str = ""
    durable: bool = True
    auto_delete: bool = False
    arguments: Table = field(default_factory=dict)

    @property
    def key(self) -> str:
        return link_key("queue", self.vhost, self.name, self.upstream.name, self.upstream.queue)

    @property
    def reconnect_delay_s(self) -> float:
        return self.upstream.reconnect_delay_s

    @property
    def connection_name(self) -> str:
        return f"Federation link (upstream: {self.upstream.name}, policy: {self.policy_name})"

    def describe(self) -> Mapping[str, object]:
        return {"kind": "federation", "vhost": self.vhost, "queue": self.name, "upstream": self.upstream.name}

    async def live(self, life: BridgeRun) -> None:
        upstream = self.upstream
        federating = FederatedPair("queue", self.vhost, self.name, upstream.queue)
        federating.check_uris(upstream.uris)
        reached = await connect_first(life.host, upstream.uris, self.vhost, self.connection_name)
        async with reached.connection as source:
            await federating.check_upstream(life.host, reached, self.connection_name)
            _check_priorities(source)
            async with await source.channel() as channel:
                await channel.declare_queue(
                    upstream.queue, durable=self.durable, auto_delete=self.auto_delete, arguments=self.arguments
                )
            async with await life.host.connect_here(self.vhost, self.connection_name, "") as here:
                life.is_up(uri=reached.uri, local_connection=self.connection_name)
                await self._carry(life, source, here, reached.uri)

    async def _carry(self, life: BridgeRun, source: Connection, here: Connection, uri: str) -> None:
        host, upstream = life.host, self.upstream
        rewrite = rewrite_for_queue(self.name, {"uri": uri, "queue": self.name}, upstream.trust_user_id)
        terms = TransferOptions(
            ack_mode=upstream.ack_mode,
            prefetch=upstream.prefetch,
            consumer_arguments=PRIORITY,
            consumer_tag=upstream.consumer_tag,
            # a queue that was deleted meanwhile must not swallow what is on its way
            mandatory=True,
        )
        tap = ConsumptionGate(host.wants_more(self.vhost, self.name))
        stop = host.on_change(lambda: tap.turn(host.wants_more(self.vhost, self.name)))
        try:
            await transfer(source, upstream.queue, here, rewrite, terms, life, tap)
        finally:
            stop()


def _check_priorities(source: Connection) -> None:
    capabilities = source.server_properties.get("capabilities")
    if not isinstance(capabilities, dict) or capabilities.get("consumer_priorities") is not True:
        raise ValueError("the upstream has no priorities of consumers, without which its own would go short")
