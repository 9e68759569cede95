"""Which links there are, by what policies and parameters say.

Not here: starting and stopping them (`bridges.supervisor`), how they stand (`federation.standing`).
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from warren.bridges.bridge import Bridge
from warren.bridges.federation.exchange_link import ExchangeLink
from warren.bridges.federation.names import link_key
from warren.bridges.federation.queue_link import QueueLink
from warren.bridges.federation.upstream import UPSTREAM, UPSTREAM_SET, Upstream, Upstreams
from warren.bridges.host import Federated, Host

PURPOSE = "x-internal-purpose"
QUEUE_TYPE = "x-queue-type"


@dataclass(frozen=True)
class Missing:
    """An upstream, or a set of them, that a policy names and that is not there."""

    kind: Literal["exchange", "queue"]
    vhost: str
    name: str
    upstream: str
    sentence: str
    # in seconds since 1970
    since: float = field(compare=False)

    @property
    def key(self) -> str:
        return link_key(self.kind, self.vhost, self.name, self.upstream, self.name)


class FederationLinks:
    """The links that are wanted, and what keeps others from being; the log has the latter once."""

    def __init__(self) -> None:
        self.missing: list[Missing] = []

    def wanted(self, host: Host) -> Iterable[Bridge]:
        federated = [one for one in host.federated() if is_suitable(one)]
        upstreams = Upstreams(host.parameters(UPSTREAM), host.parameters(UPSTREAM_SET))
        missing: list[Missing] = []
        links: list[Bridge] = []
        for one in federated:
            missing += [Missing(one.kind, one.vhost, one.name, *each, time.time()) for each in upstreams.missing(one)]
            links += [link_of(one, upstream, host.cluster_name) for upstream in upstreams.of(one)]
        self._note(missing, host)
        return links

    def _note(self, missing: list[Missing], host: Host) -> None:
        known = {one: one for one in self.missing}
        for one in missing:
            if one not in known:
                fields = {"kind": "federation", "vhost": one.vhost, one.kind: one.name, "upstream": one.upstream}
                host.log.warning("federation.upstream_missing", **fields, reason=one.sentence)
        self.missing = [known.get(one, one) for one in missing]


def is_suitable(federated: Federated) -> bool:
    """Nobody can bind to the default exchange or publish to an internal one, and what serves a link has none."""
    if PURPOSE in federated.arguments or not federated.name:
        return False
    return not federated.internal if federated.kind == "exchange" else federated.arguments.get(QUEUE_TYPE) != "stream"


def link_of(federated: Federated, upstream: Upstream, cluster_name: str) -> Bridge:
    if federated.kind == "queue":
        return QueueLink(
            vhost=federated.vhost,
            name=federated.name,
            upstream=upstream,
            home=federated.home,
            policy_name=federated.policy_name,
            durable=federated.durable,
            auto_delete=federated.auto_delete,
            arguments=dict(federated.arguments),
        )
    return ExchangeLink(
        vhost=federated.vhost,
        name=federated.name,
        type=federated.type,
        upstream=upstream,
        cluster_name=cluster_name,
        policy_name=federated.policy_name,
        durable=federated.durable,
        auto_delete=federated.auto_delete,
        arguments=dict(federated.arguments),
    )
