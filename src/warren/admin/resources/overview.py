"""The overview of the cluster, its name, its feature flags and the spread of its masters.

A user without the tag `monitoring` sees the totals of their own virtual hosts only.

Not here: the rows of nodes (`resources.nodes`).
"""

from typing import Any

from warren.admin import message_stats
from warren.admin.http.authentication import ApiUser
from warren.admin.http.documents import require, text
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import (
    ApiResponse,
    bad_request,
    json_response,
    no_content,
)
from warren.admin.http.router import Resource, Routes, administrator, manager
from warren.admin.http.schemas import TEXT, an_object
from warren.admin.listing.responses import object_response, rows_response
from warren.admin.message_stats import sample_spans, summed
from warren.admin.peer_requests import peer_documents
from warren.admin.peers import Peers
from warren.admin.ports import (
    HistoryPort,
    NodeFacts,
    SampleSpans,
)
from warren.admin.rabbitmq_json import ERLANG_FULL_VERSION, ERLANG_VERSION
from warren.admin.resources.connection_rows import listed_connections
from warren.admin.resources.exchanges import exchange_types
from warren.admin.resources.nodes import context_rows, listener_rows
from warren.broker.broker import Broker
from warren.broker.commands.requests import (
    RebalanceQueues,
    SetGlobalParameter,
)
from warren.broker.model.stats import VhostStats
from warren.broker.sessions.handshake import COMPATIBLE_VERSION
from warren.broker.snapshots import NodeQueueTotals
from warren.broker.vhost import Vhost

RETENTION_S = {"global": [600, 3600, 28800, 86400], "basic": [600, 3600], "detailed": [600]}


FEATURE_FLAGS = {
    "classic_mirrored_queue_version": "Support setting version for classic mirrored queues",
    "drop_unroutable_metric": "Count unroutable publishes to be dropped in stats",
    "empty_basic_get_metric": "Count AMQP `basic.get` on empty queues in stats",
    "implicit_default_bindings": "Default bindings are now implicit, instead of being stored in the database",
    "maintenance_mode_status": "Maintenance mode status",
    "quorum_queue": "Support queues of type `quorum`",
    "stream_queue": "Support queues of type `stream`",
    "user_limits": "Configure connection and channel limits for a user",
    "virtual_host_metadata": "Virtual host metadata (description, tags, etc)",
}


def overview_row(
    broker: Broker, facts: NodeFacts, history: HistoryPort, api_user: ApiUser, spans: SampleSpans, peers: Peers
) -> dict[str, Any]:
    vhosts = _seen(broker, api_user)
    sums = NodeQueueTotals(vhosts)
    # samples of totals exist only for all virtual hosts together
    key = "" if api_user.is_monitor else api_user.name
    row = _constant(broker)
    row |= {
        "message_stats": history.rated("overview", key, _counted(broker, vhosts, sums, api_user), spans.messages),
        "churn_rates": history.rated("churn", key, message_stats.churn_counters(broker.stats), spans.messages),
        "queue_totals": history.rated(
            "overview", key, message_stats.queue_lengths(sums.ready, sums.unacked), spans.lengths
        ),
        "object_totals": _objects(broker, vhosts, sums, api_user),
        "statistics_db_event_queue": 0,
    }
    if api_user.is_monitor:
        row["node"] = facts.name
        row["listeners"] = listener_rows(facts, peers)
        row["contexts"] = context_rows(facts)
    return row


def cluster_overview(
    own: dict[str, Any], others: list[dict[str, Any]], broker: Broker, api_user: ApiUser
) -> dict[str, Any]:
    """The overviews of several nodes as one."""
    parts = [own, *others]
    row = {**own}
    for name in ("message_stats", "churn_rates", "queue_totals", "object_totals"):
        if name in own:
            row[name] = summed([part.get(name) for part in parts])
    vhosts = _seen(broker, api_user)
    row["object_totals"] |= {
        "queues": sum(len(vhost.topology.queues) for vhost in vhosts),
        "exchanges": own["object_totals"]["exchanges"],
    }
    for name in ("listeners", "contexts"):
        if name in own:
            found = [one for part in parts for one in part.get(name, [])]
            row[name] = sorted(found, key=lambda one: str(one["node"]))
    return row


def overview_without_stats(broker: Broker, facts: NodeFacts, api_user: ApiUser) -> dict[str, Any]:
    vhosts = _seen(broker, api_user)
    objects = _objects(broker, vhosts, NodeQueueTotals(vhosts), api_user)
    return _constant(broker) | {
        "disable_stats": True,
        "node": facts.name,
        "object_totals": {name: objects[name] for name in ("queues", "exchanges", "connections")},
    }


def _seen(broker: Broker, api_user: ApiUser) -> list[Vhost]:
    return [vhost for vhost in broker.vhosts.values() if api_user.is_monitor or vhost.name in api_user.vhosts]


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


def _counted(broker: Broker, vhosts: list[Vhost], sums: NodeQueueTotals, api_user: ApiUser) -> dict[str, int]:
    if api_user.is_monitor:
        return message_stats.total_counters(broker.stats, sums.disk_reads, sums.disk_writes)
    total = VhostStats()
    for vhost in vhosts:
        total.add(vhost.stats)
        total.published += vhost.stats.published
        total.confirmed += vhost.stats.confirmed
        total.returned_unroutable += vhost.stats.returned_unroutable
        total.dropped_unroutable += vhost.stats.dropped_unroutable
    return message_stats.total_counters(total, sums.disk_reads, sums.disk_writes)


def _objects(broker: Broker, vhosts: list[Vhost], sums: NodeQueueTotals, api_user: ApiUser) -> dict[str, int]:
    connections = [c for c in listed_connections(broker) if api_user.is_monitor or c.user == api_user.name]
    return {
        "channels": sum(len(connection.channels) for connection in connections),
        "connections": len(connections),
        "consumers": sums.consumers,
        "exchanges": sum(len(vhost.topology.exchanges) for vhost in vhosts),
        "queues": sums.queues,
    }


def routes() -> Routes:
    return {
        "/api/overview": Resource(manager, {"GET": show_overview}),
        "/api/cluster-name": Resource(manager, {"GET": cluster_name}).also(
            administrator, {"PUT": put_cluster_name}, an_object({"name": TEXT})
        ),
        "/api/extensions": Resource(manager, {"GET": extensions}),
        "/api/feature-flags": Resource(administrator, {"GET": feature_flags}),
        "/api/feature-flags/{name}/enable": Resource(administrator, {"PUT": enable_feature}),
        "/api/rebalance/queues": Resource(administrator, {"POST": rebalance}),
    }


async def show_overview(call: ApiRequest) -> ApiResponse:
    context = call.context
    broker, facts, api_user = context.broker, context.facts, call.api_user
    if call.flag("disable_stats"):
        row = overview_without_stats(broker, facts, api_user)
    else:
        row = overview_row(broker, facts, context.history, api_user, sample_spans(call.query), context.peers)
    if call.part is not None:
        return json_response(row)
    others = await peer_documents(call)
    if others:
        row = cluster_overview(row, others, broker, api_user)
    return object_response(call, row)


async def cluster_name(call: ApiRequest) -> ApiResponse:
    return object_response(call, {"name": call.context.broker.cluster_name()})


async def put_cluster_name(call: ApiRequest) -> ApiResponse:
    document = await call.document()
    require(document, "name")
    return await call.carry_out(SetGlobalParameter("cluster_name", text(document, "name")))


async def extensions(call: ApiRequest) -> ApiResponse:
    return json_response([{"javascript": "dispatcher.js"}, {"javascript": "tracing.js"}])


async def feature_flags(call: ApiRequest) -> ApiResponse:
    rows = [
        {
            "name": name,
            "desc": text,
            "doc_url": "",
            "state": "enabled",
            "stability": "stable",
            "provided_by": "rabbit",
        }
        for name, text in FEATURE_FLAGS.items()
    ]
    return await rows_response(call, rows, ("name",))


async def enable_feature(call: ApiRequest) -> ApiResponse:
    """All feature flags are enabled."""
    if call.params["name"] not in FEATURE_FLAGS:
        raise bad_request("unsupported")
    return no_content()


async def rebalance(call: ApiRequest) -> ApiResponse:
    """Spread the masters of mirrored queues evenly; nothing to do outside a cluster."""
    await call.context.command_queue.carry_out(RebalanceQueues())
    return no_content()
