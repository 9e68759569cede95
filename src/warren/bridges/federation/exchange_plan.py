"""The link of an exchange as it is defined: what is federated, with which upstream, and what it is called there.

Not here: what it does (`federation.exchange_link`).
"""

from dataclasses import dataclass, field

from warren.bridges.federation.names import internal_exchange_name, link_id, link_key, upstream_queue_name
from warren.bridges.federation.upstream import Upstream
from warren.wire.values import Table


@dataclass(frozen=True)
class ExchangePlan:
    """With one upstream, of one virtual host of it."""

    vhost: str
    name: str
    type: str
    upstream: Upstream
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
