"""The federation links of this node, by policies and parameters, and their status rows as RabbitMQ shows them.

Not here: starting and stopping links (`bridges.supervisor`), running them (`bridges.federation.links`).
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal

from warren.bridges.bridge import Bridge
from warren.bridges.connections import acts_as_administrator
from warren.bridges.federation.links import ExchangeLink, QueueLink
from warren.bridges.federation.upstream_topology import link_id, link_key
from warren.bridges.federation.upstreams import UPSTREAM, UPSTREAM_SET, FederationUpstream, FederationUpstreams
from warren.bridges.host import BridgeHost, FederatedObject
from warren.bridges.supervisor import RUNNING, TERMINATED, BridgeWorker
from warren.bridges.transfer_options import ON_CONFIRM

PURPOSE = "x-internal-purpose"
QUEUE_TYPE = "x-queue-type"


@dataclass(frozen=True)
class MissingUpstream:
    """A policy names an upstream, or a set, that does not exist or cannot be used."""

    kind: Literal["exchange", "queue"]
    vhost: str
    name: str
    upstream: str
    sentence: str
    # seconds since 1970
    since: float = field(compare=False)

    @property
    def key(self) -> str:
        return link_key(self.kind, self.vhost, self.name, self.upstream, self.name)


class FederationLinks:
    """The wanted links, and the reasons why others cannot be; each reason is logged once."""

    def __init__(self) -> None:
        self.missing: list[MissingUpstream] = []

    def wanted(self, host: BridgeHost) -> Iterable[Bridge]:
        federated = [one for one in host.federated() if is_suitable(one)]
        upstreams = FederationUpstreams(
            host.parameters(UPSTREAM), host.parameters(UPSTREAM_SET), partial(acts_as_administrator, host)
        )
        missing: list[MissingUpstream] = []
        links: list[Bridge] = []
        for one in federated:
            missing += [
                MissingUpstream(one.kind, one.vhost, one.name, *each, time.time()) for each in upstreams.missing(one)
            ]
            links += [link_of(one, upstream, host.cluster_name) for upstream in upstreams.of(one)]
        self._note(missing, host)
        return links

    def _note(self, missing: list[MissingUpstream], host: BridgeHost) -> None:
        known = {one: one for one in self.missing}
        for one in missing:
            if one not in known:
                fields = {"kind": "federation", "vhost": one.vhost, one.kind: one.name, "upstream": one.upstream}
                host.log.warning("federation.upstream_missing", **fields, reason=one.sentence)
        self.missing = [known.get(one, one) for one in missing]


def is_suitable(federated: FederatedObject) -> bool:
    """Clients cannot bind to the default exchange or publish to an internal one; internal objects of links are not
    federated."""
    if PURPOSE in federated.arguments or not federated.name:
        return False
    return not federated.internal if federated.kind == "exchange" else federated.arguments.get(QUEUE_TYPE) != "stream"


def link_of(federated: FederatedObject, upstream: FederationUpstream, cluster_name: str) -> Bridge:
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


Row = dict[str, object]

STATUS: Final = {TERMINATED: "error"}
"""The states with another name in RabbitMQ."""


def federation_status_rows(
    node: str, keepers: Mapping[str, BridgeWorker], missing: Iterable[MissingUpstream]
) -> list[Row]:
    """One row for each link, and one for each missing upstream."""
    links = [(keeper.bridge, keeper) for keeper in keepers.values()]
    found = [_link_row(node, link, keeper) for link, keeper in links if isinstance(link, ExchangeLink | QueueLink)]
    return found + [_missing_row(node, one) for one in missing]


def key_of_link_id(vhost: str, wanted_id: str, keepers: Mapping[str, BridgeWorker]) -> str | None:
    """The key of this node's link with that id in that virtual host, if there is one."""
    for key, keeper in keepers.items():
        link = keeper.bridge
        if isinstance(link, ExchangeLink | QueueLink) and link.vhost == vhost and link_id(key) == wanted_id:
            return key
    return None


def _link_row(node: str, link: ExchangeLink | QueueLink, keeper: BridgeWorker) -> Row:
    row: Row = {"node": node}
    if isinstance(link, ExchangeLink):
        row |= {"exchange": link.name, "upstream_exchange": link.upstream.exchange, "type": "exchange"}
    else:
        row |= {
            "queue": link.name,
            "upstream_queue": link.upstream.queue,
            "consumer_tag": link.upstream.consumer_tag,
            "type": "queue",
        }
    row |= {"vhost": link.vhost, "upstream": link.upstream.name, "id": link_id(link.key)}
    row["status"] = STATUS.get(keeper.state, keeper.state)
    if keeper.state == RUNNING:
        row["local_connection"] = keeper.facts.get("local_connection", "")
    elif keeper.reason:
        row["error"] = keeper.reason
    row["uri"] = keeper.facts.get("uri", link.upstream.shown_uri)
    row["timestamp"] = _moment(keeper.since)
    stats = keeper.stats
    row["forwarded"] = stats.confirmed if link.upstream.ack_mode == ON_CONFIRM else stats.published
    row["uncertain"] = stats.uncertain
    return row


def _missing_row(node: str, missing: MissingUpstream) -> Row:
    return {
        "node": node,
        missing.kind: missing.name,
        f"upstream_{missing.kind}": missing.name,
        "type": missing.kind,
        "vhost": missing.vhost,
        "upstream": missing.upstream,
        "id": link_id(missing.key),
        "status": "error",
        "error": missing.sentence,
        "uri": "",
        "timestamp": _moment(missing.since),
    }


def _moment(seconds: float) -> str:
    """Local time, with the hour as RabbitMQ writes it."""
    at = time.localtime(seconds)
    return f"{at.tm_year}-{at.tm_mon:02}-{at.tm_mday:02} {at.tm_hour}:{at.tm_min:02}:{at.tm_sec:02}"
