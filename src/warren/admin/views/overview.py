"""The overview: totals of everything.

Whoever may not monitor sees the totals of their own virtual hosts only.

Not here: the node's own figures (`views.nodes`).
"""

from typing import Any

from warren.admin.cluster.peers import Peers
from warren.admin.cluster.sums import sum_of
from warren.admin.history_port import HistoryPort, Spans
from warren.admin.http.visitor import Visitor
from warren.admin.node_facts import NodeFacts
from warren.admin.views import figures
from warren.admin.views.connections import listed_connections
from warren.admin.views.erlang import ERLANG_FULL_VERSION, ERLANG_VERSION
from warren.admin.views.exchanges import exchange_types
from warren.admin.views.nodes import contexts, listener_rows
from warren.broker.broker import Broker
from warren.broker.vhost import Vhost
from warren.broker.watching.sums import QueueSums
from warren.model.figures import VhostFigures
from warren.session.handshake import COMPATIBLE_VERSION

RETENTION_S = {"global": [600, 3600, 28800, 86400], "basic": [600, 3600], "detailed": [600]}


def overview_row(
    broker: Broker, facts: NodeFacts, history: HistoryPort, visitor: Visitor, spans: Spans, peers: Peers
) -> dict[str, Any]:
    vhosts = _seen(broker, visitor)
    sums = QueueSums(vhosts)
    # the history of the whole is kept for the whole alone
    key = "" if visitor.is_monitor else visitor.name
    row = _constant(broker)
    row |= {
        "message_stats": history.rated("overview", key, _counted(broker, vhosts, sums, visitor), spans.messages),
        "churn_rates": history.rated("churn", key, figures.churn(broker.figures), spans.messages),
        "queue_totals": history.rated("overview", key, figures.lengths(sums.ready, sums.unacked), spans.lengths),
        "object_totals": _objects(broker, vhosts, sums, visitor),
        "statistics_db_event_queue": 0,
    }
    if visitor.is_monitor:
        row["node"] = facts.name
        row["listeners"] = listener_rows(facts, peers)
        row["contexts"] = contexts(facts)
    return row


def of_cluster(own: dict[str, Any], others: list[dict[str, Any]], broker: Broker, visitor: Visitor) -> dict[str, Any]:
    """The overviews of several nodes as one; what is agreed upon is the same for all of them."""
    parts = [own, *others]
    row = {**own}
    for name in ("message_stats", "churn_rates", "queue_totals", "object_totals"):
        if name in own:
            row[name] = sum_of([part.get(name) for part in parts])
    vhosts = _seen(broker, visitor)
    row["object_totals"] |= {
        "queues": sum(len(vhost.topology.queues) for vhost in vhosts),
        "exchanges": own["object_totals"]["exchanges"],
    }
    for name in ("listeners", "contexts"):
        if name in own:
            found = [one for part in parts for one in part.get(name, [])]
            row[name] = sorted(found, key=lambda one: str(one["node"]))
    return row


def without_stats(broker: Broker, facts: NodeFacts, visitor: Visitor) -> dict[str, Any]:
    vhosts = _seen(broker, visitor)
    objects = _objects(broker, vhosts, QueueSums(vhosts), visitor)
    return _constant(broker) | {
        "disable_stats": True,
        "node": facts.name,
        "object_totals": {name: objects[name] for name in ("queues", "exchanges", "connections")},
    }


def _seen(broker: Broker, visitor: Visitor) -> list[Vhost]:
    return [vhost for vhost in broker.vhosts.values() if visitor.is_monitor or vhost.name in visitor.vhosts]


def _constant(broker: Broker) -> dict[str, Any]:
    return {
        "management_version": COMPATIBLE_VERSION,
        "rates_mode": "basic",
        "sample_retention_policies": RETENTION_S,
        "exchange_types": exchange_types(),
        "product_version": COMPATIBLE_VERSION,
        "product_name": "RabbitMQ",
        "rabbitmq_version": COMPATIBLE_VERSION,
        "cluster_name": broker.cluster_name(),
        "erlang_version": ERLANG_VERSION,
        "erlang_full_version": ERLANG_FULL_VERSION,
        "release_series_support_status": "supported",
        "disable_stats": False,
        "enable_queue_totals": False,
    }


def _counted(broker: Broker, vhosts: list[Vhost], sums: QueueSums, visitor: Visitor) -> dict[str, int]:
    if visitor.is_monitor:
        return figures.of_all(broker.figures, sums.disk_reads, sums.disk_writes)
    total = VhostFigures()
    for vhost in vhosts:
        total.add(vhost.figures)
        total.published += vhost.figures.published
        total.confirmed += vhost.figures.confirmed
        total.returned_unroutable += vhost.figures.returned_unroutable
        total.dropped_unroutable += vhost.figures.dropped_unroutable
    return figures.of_all(total, sums.disk_reads, sums.disk_writes)


def _objects(broker: Broker, vhosts: list[Vhost], sums: QueueSums, visitor: Visitor) -> dict[str, int]:
    connections = [c for c in listed_connections(broker) if visitor.is_monitor or c.user == visitor.name]
    return {
        "channels": sum(len(connection.channels) for connection in connections),
        "connections": len(connections),
        "consumers": sums.consumers,
        "exchanges": sum(len(vhost.topology.exchanges) for vhost in vhosts),
        "queues": sums.queues,
    }
