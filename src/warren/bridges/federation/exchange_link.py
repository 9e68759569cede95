"""A link of a federated exchange: what is published upstream and wanted here is published here.

Not here: the shape of it (`bridges.federation`), its names there (`federation.exchange_plan`).
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from warren.bridges.bridge import Bridge, Life
from warren.bridges.carrying.carrier import carry
from warren.bridges.carrying.terms import Terms
from warren.bridges.connecting import Reached, reach, without_password
from warren.bridges.federation.bindings import Wanted, differences, wanted_upstream
from warren.bridges.federation.ends import Federating, cluster_of, one_of_them_ends, upstream_vhost
from warren.bridges.federation.exchange_plan import ExchangePlan
from warren.bridges.federation.forwarding import to_exchange
from warren.bridges.federation.names import SUFFIXES, link_key
from warren.bridges.federation.upstream import Upstream
from warren.bridges.federation.upstream_end import UpstreamEnd
from warren.bridges.host import Host, LocalBinding
from warren.bridges.same_place import Place, places
from warren.client.connection import Connection
from warren.client.errors import ChannelClosed, ClientError
from warren.errors import PRECONDITION_FAILED
from warren.wire.values import Table

CHECK_EVERY_S: Final = 30.0
UNUSED_WITHIN_S: Final = 5.0
ASK_AGAIN_S: Final = 0.5


@dataclass(frozen=True)
class ExchangeLink(Bridge):
    """Of one exchange, with one upstream."""

    vhost: str
    name: str
    type: str
    upstream: Upstream
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

    async def live(self, life: Life) -> None:
        federating = Federating("exchange", self.vhost, self.name, self.upstream.exchange)
        federating.check_uris(self.upstream.uris)
        reached = await reach(life.host, self.upstream.uris, self.vhost, self.connection_name)
        async with reached.connection as source:
            await federating.check_upstream(life.host, reached, self.connection_name)
            plan = self._plan(reached.uri)
            end = UpstreamEnd(plan, source, reached.whole_uri)
            await end.prepare(life.host)
            async with await life.host.connect_here(self.vhost, self.connection_name, "") as here:
                bindings = _BindingsKept(life.host, plan, end, cluster_of(source))
                await bindings.begin(source)
                life.is_up(uri=reached.uri, local_connection=self.connection_name)
                await one_of_them_ends(bindings.keep(), self._carry(life, plan, source, here, reached))

    async def _carry(
        self, life: Life, plan: ExchangePlan, source: Connection, here: Connection, reached: Reached
    ) -> None:
        hop: Table = {"uri": reached.uri, "exchange": self.name, "vhost": plan.upstream_vhost}
        if cluster := cluster_of(source):
            hop["cluster-name"] = cluster
        upstream = self.upstream
        rewrite = to_exchange(self.name, self.cluster_name, self.vhost, hop, upstream.max_hops, upstream.trust_user_id)
        terms = Terms(ack_mode=upstream.ack_mode, prefetch=upstream.prefetch)
        await carry(source, plan.queue, here, rewrite, terms, life)

    async def retire(self, host: Host, wanted: Collection[Bridge]) -> None:
        """The exchange is federated with this upstream no more: nothing is left of it there.

        Another upstream, by another name or user, may lead to the same broker. The queue belongs to its link then, and
        what leads to the queue goes when it is led there by that link.
        """
        try:
            heir = self.heir_among(wanted)
            if self.upstream.keeps_resources and heir is None:
                return
            reached = await reach(host, self.upstream.uris, self.vhost, self.connection_name)
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

    def heir_among(self, wanted: Collection[Bridge]) -> "ExchangeLink | None":
        """One that has the same queue upstream, by what their URIs say."""
        links = [link for link in wanted if isinstance(link, ExchangeLink)]
        return next((link for link in links if self._queues() & link._queues()), None)

    async def _stand_in(self, host: Host, reached: Reached) -> None:
        plan, upstream_name = self._plan(reached.uri), cluster_of(reached.connection)
        end = UpstreamEnd(plan, reached.connection, reached.whole_uri)
        here = host.bindings_of(self.vhost, self.name)
        await end.stand_in(host, lambda suffix: list(wanted_upstream(here, plan, upstream_name, suffix).values()))

    def _queues(self) -> set[tuple[Place, str]]:
        """Each place that it may be connected to, with what its queue is called there."""
        uris = self.upstream.uris
        return {(place, self._plan(uri).queue) for uri in uris for place in places(uri, self.vhost)}

    def _plan(self, uri: str) -> ExchangePlan:
        return ExchangePlan(
            vhost=self.vhost,
            name=self.name,
            type=self.type,
            upstream=self.upstream,
            upstream_vhost=upstream_vhost(without_password(uri), self.vhost),
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


class _BindingsKept:
    """The bindings upstream of one life, which follow those here."""

    def __init__(self, host: Host, plan: ExchangePlan, end: UpstreamEnd, upstream_name: str) -> None:
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
        wanted = wanted_upstream(bindings, self._plan, self._upstream_name, self._end.suffix)
        missing, surplus = differences(self._made, wanted)
        await self._end.bind(self._channel, missing)
        await self._end.unbind(self._channel, surplus)
        self._seen, self._made = bindings, wanted
