"""A link of a federated queue: what waits upstream comes here while somebody here would take it at once.

It consumes with priority -1, so that consumers of the upstream itself come first, and only while the queue here is
empty and has consumers that could take more. What is on its way when that changes is carried still.

Not here: the shape of it (`bridges.federation`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from warren.bridges.bridge import Bridge, Life
from warren.bridges.carrying.carrier import carry
from warren.bridges.carrying.tap import Tap
from warren.bridges.carrying.terms import Terms
from warren.bridges.connecting import reach
from warren.bridges.federation.ends import Federating
from warren.bridges.federation.forwarding import to_queue
from warren.bridges.federation.names import link_key
from warren.bridges.federation.upstream import Upstream
from warren.client.connection import Connection
from warren.wire.values import Table

PRIORITY: Table = {"x-priority": -1}


@dataclass(frozen=True)
class QueueLink(Bridge):
    """Of one queue, with one upstream."""

    vhost: str
    name: str
    upstream: Upstream
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

    async def live(self, life: Life) -> None:
        upstream = self.upstream
        federating = Federating("queue", self.vhost, self.name, upstream.queue)
        federating.check_uris(upstream.uris)
        reached = await reach(life.host, upstream.uris, self.vhost, self.connection_name)
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

    async def _carry(self, life: Life, source: Connection, here: Connection, uri: str) -> None:
        host, upstream = life.host, self.upstream
        rewrite = to_queue(self.name, {"uri": uri, "queue": self.name}, upstream.trust_user_id)
        terms = Terms(
            ack_mode=upstream.ack_mode,
            prefetch=upstream.prefetch,
            consumer_arguments=PRIORITY,
            consumer_tag=upstream.consumer_tag,
            # a queue that was deleted meanwhile must not swallow what is on its way
            mandatory=True,
        )
        tap = Tap(host.wants_more(self.vhost, self.name))
        stop = host.on_change(lambda: tap.turn(host.wants_more(self.vhost, self.name)))
        try:
            await carry(source, upstream.queue, here, rewrite, terms, life, tap)
        finally:
            stop()


def _check_priorities(source: Connection) -> None:
    capabilities = source.server_properties.get("capabilities")
    if not isinstance(capabilities, dict) or capabilities.get("consumer_priorities") is not True:
        raise ValueError("the upstream has no priorities of consumers, without which its own would go short")
