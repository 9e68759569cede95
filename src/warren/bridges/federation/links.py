"""The links of federated exchanges and queues.

An exchange link binds its own queue upstream like the exchange here, and publishes here what arrives. A queue link
consumes upstream with priority -1, so consumers of the upstream come first, and only while the queue here is empty and
has consumers with room. Messages in flight when that changes are still transferred.

Not here: connecting (`bridges.connections`), objects upstream (`bridges.federation.upstream_topology`), which links
there are (`bridges.federation.link_set`).
"""

import asyncio
from abc import abstractmethod
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import unquote

from warren.bridges.bridge import Bridge, BridgeRun
from warren.bridges.connections import (
    Place,
    ReachedBroker,
    connect_first,
    connect_here,
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
    """The virtual host that a URI leads to; a URI without one means the same virtual host as here."""
    authority, slash, path = uri.partition("://")[2].partition("/")
    if path:
        return unquote(path)
    return "/" if authority and slash else own


@dataclass(frozen=True)
class FederatedPair:
    """A federated exchange or queue, and its name upstream."""

    kind: Literal["exchange", "queue"]
    vhost: str
    name: str
    upstream_name: str

    def check_uris(self, uris: Sequence[str]) -> None:
        """Raises a `ValueError` if a URI without a host leads from the object to itself."""
        for uri in uris:
            here = parse_local_uri(uri)
            if here is not None and (here.vhost or self.vhost) == self.vhost and self.name == self.upstream_name:
                raise ValueError(self._sentence())

    async def check_upstream(self, host: BridgeHost, reached: ReachedBroker, connection_name: str) -> None:
        """The same for a URI with a host: a cluster of the same name is tested whether it is this one."""
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
    """The name of the upstream's cluster, which identifies loops; empty for brokers without one."""
    name = connection.server_properties.get("cluster_name")
    return name if isinstance(name, str) else ""


async def run_until_first_ends(*parts: Coroutine[object, object, None]) -> None:
    """Run coroutines until one returns or raises. The others are cancelled, and have ended when this returns."""
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


class FederationLink(Bridge):
    """What the links of exchanges and of queues have in common."""

    name: str
    upstream: FederationUpstream
    policy_name: str

    @property
    @abstractmethod
    def pair(self) -> FederatedPair: ...

    @property
    def key(self) -> str:
        pair = self.pair
        return link_key(pair.kind, pair.vhost, pair.name, self.upstream.name, pair.upstream_name)

    @property
    def reconnect_delay_s(self) -> float:
        return self.upstream.reconnect_delay_s

    @property
    def connection_name(self) -> str:
        return f"Federation link (upstream: {self.upstream.name}, policy: {self.policy_name})"

    def describe(self) -> Mapping[str, object]:
        pair = self.pair
        return {"kind": "federation", "vhost": pair.vhost, pair.kind: pair.name, "upstream": self.upstream.name}

    async def live(self, run: BridgeRun) -> None:
        pair = self.pair
        pair.check_uris(self.upstream.uris)
        reached = await connect_first(
            run.host, self.upstream.uris, pair.vhost, self.connection_name, self.upstream.definer
        )
        async with reached.connection as source:
            await pair.check_upstream(run.host, reached, self.connection_name)
            await self.carry(run, source, reached)

    async def connect_downstream(self, host: BridgeHost) -> Connection:
        """A connection to this broker as the user who defined the upstream."""
        return await connect_here(host, self.pair.vhost, self.connection_name, self.upstream.definer)

    @abstractmethod
    async def carry(self, run: BridgeRun, source: Connection, reached: ReachedBroker) -> None:
        """Declare what the link needs upstream, and transfer messages until the link breaks."""


@dataclass(frozen=True)
class ExchangeLink(FederationLink):
    """The link of one exchange with one upstream."""

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
    def pair(self) -> FederatedPair:
        return FederatedPair("exchange", self.vhost, self.name, self.upstream.exchange)

    async def carry(self, run: BridgeRun, source: Connection, reached: ReachedBroker) -> None:
        plan = self._plan(reached.uri)
        end = UpstreamTopology(plan, source, reached.whole_uri)
        await end.prepare(run.host)
        async with await self.connect_downstream(run.host) as here:
            bindings = _BindingSync(run.host, plan, end, cluster_of(source))
            await bindings.begin(source)
            run.is_up(uri=reached.uri, local_connection=self.connection_name)
            await run_until_first_ends(bindings.keep(), self._transfer(run, plan, source, here, reached))

    async def _transfer(
        self, run: BridgeRun, plan: ExchangeLinkSpec, source: Connection, here: Connection, reached: ReachedBroker
    ) -> None:
        hop: Table = {"uri": reached.uri, "exchange": self.name, "vhost": plan.upstream_vhost}
        if cluster := cluster_of(source):
            hop["cluster-name"] = cluster
        upstream = self.upstream
        rewrite = rewrite_for_exchange(
            self.name, self.cluster_name, self.vhost, hop, upstream.max_hops, upstream.trust_user_id
        )
        options = TransferOptions(ack_mode=upstream.ack_mode, prefetch=upstream.prefetch)
        await transfer(source, plan.queue, here, rewrite, options, run)

    async def retire(self, host: BridgeHost, wanted: Collection[Bridge]) -> None:
        """The exchange is no longer federated with this upstream: delete the objects there.

        Another upstream, with another name or user, may lead to the same broker and use the same queue. Then the queue
        stays, and the bindings go once that link has its own.
        """
        try:
            successor = self.successor_among(wanted)
            if self.upstream.keeps_resources and successor is None:
                return
            reached = await connect_first(
                host, self.upstream.uris, self.vhost, self.connection_name, self.upstream.definer
            )
            async with reached.connection as source:
                plan = self._plan(reached.uri)
                if successor is None:
                    await _delete_unused(source, plan.queue)
                else:
                    await successor._bind_as_successor(host, reached)
                async with await source.channel() as channel:
                    for suffix in SUFFIXES:
                        await channel.delete_exchange(plan.internal_exchange(suffix))
        except (ClientError, OSError) as trouble:
            host.log.warning("federation.leftovers_kept", **self.describe(), reason=str(trouble))

    def successor_among(self, wanted: Collection[Bridge]) -> "ExchangeLink | None":
        """A link with the same queue upstream, judged by URIs."""
        links = [link for link in wanted if isinstance(link, ExchangeLink)]
        return next((link for link in links if self._queues() & link._queues()), None)

    async def _bind_as_successor(self, host: BridgeHost, reached: ReachedBroker) -> None:
        plan, upstream_name = self._plan(reached.uri), cluster_of(reached.connection)
        end = UpstreamTopology(plan, reached.connection, reached.whole_uri)
        here = host.bindings_of(self.vhost, self.name)
        await end.bind_as_successor(
            host, lambda suffix: list(upstream_bindings(here, plan, upstream_name, suffix).values())
        )

    def _queues(self) -> set[tuple[Place, str]]:
        """Each place the link may be connected to, with the queue's name there."""
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
    """Delete the queue unless it has a consumer: then it belongs to another link. The link's own consumer may count
    for a moment more."""
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
    """Keeps the bindings upstream like those here, during one run."""

    def __init__(self, host: BridgeHost, plan: ExchangeLinkSpec, end: UpstreamTopology, upstream_name: str) -> None:
        self._host = host
        self._plan = plan
        self._end = end
        self._upstream_name = upstream_name
        self._seen: list[LocalBinding] | None = None
        self._made: Wanted = {}

    async def begin(self, source: Connection) -> None:
        """Create all bindings. Bindings of an earlier run that are no longer wanted are gone afterwards."""
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
class QueueLink(FederationLink):
    """The link of one queue with one upstream."""

    vhost: str
    name: str
    upstream: FederationUpstream
    home: str = ""
    policy_name: str = ""
    durable: bool = True
    auto_delete: bool = False
    arguments: Table = field(default_factory=dict)

    @property
    def pair(self) -> FederatedPair:
        return FederatedPair("queue", self.vhost, self.name, self.upstream.queue)

    async def carry(self, run: BridgeRun, source: Connection, reached: ReachedBroker) -> None:
        _check_priorities(source)
        async with await source.channel() as channel:
            await channel.declare_queue(
                self.upstream.queue, durable=self.durable, auto_delete=self.auto_delete, arguments=self.arguments
            )
        async with await self.connect_downstream(run.host) as here:
            run.is_up(uri=reached.uri, local_connection=self.connection_name)
            await self._transfer(run, source, here, reached.uri)

    async def _transfer(self, run: BridgeRun, source: Connection, here: Connection, uri: str) -> None:
        host, upstream = run.host, self.upstream
        rewrite = rewrite_for_queue(self.name, {"uri": uri, "queue": self.name}, upstream.trust_user_id)
        options = TransferOptions(
            ack_mode=upstream.ack_mode,
            prefetch=upstream.prefetch,
            consumer_arguments=PRIORITY,
            consumer_tag=upstream.consumer_tag,
            # a queue deleted meanwhile must not swallow messages in flight
            mandatory=True,
        )
        gate = ConsumptionGate(host.wants_more(self.vhost, self.name))
        stop = host.on_change(lambda: gate.turn(host.wants_more(self.vhost, self.name)))
        try:
            await transfer(source, upstream.queue, here, rewrite, options, run, gate)
        finally:
            stop()


def _check_priorities(source: Connection) -> None:
    capabilities = source.server_properties.get("capabilities")
    if not isinstance(capabilities, dict) or capabilities.get("consumer_priorities") is not True:
        raise ValueError("the upstream has no priorities of consumers, without which its own would go short")
