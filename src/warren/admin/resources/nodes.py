"""The node itself, to read: overview, nodes, memory, feature flags, who the visitor is and how logins went; and what
was remembered of figures, to forget.

Not here: health checks (`resources.health`).

The node as a row: what it uses, what it may use, where it listens, what it runs; and where its memory goes.

What messages hold of memory is known; what code, loop and everything else take is the rest of what the process has.

Not here: measuring (`node.admin_ports`), alarms (`broker.alarms`).

The overview: totals of everything.

Whoever may not monitor sees the totals of their own virtual hosts only.

Not here: the node's own figures (`views.nodes`).
"""

from typing import Any

from warren import __version__
from warren.admin import message_stats
from warren.admin.context import AdminContext
from warren.admin.fitness import own_alarm
from warren.admin.forwarding import ALONE, at_node
from warren.admin.http.application import log_in
from warren.admin.http.authentication import ApiUser
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import ApiResponse, json_response, no_content, not_found
from warren.admin.http.router import Resource, administrator, manager, monitor
from warren.admin.listing.responses import object_response, rows_response
from warren.admin.message_stats import sample_spans, summed
from warren.admin.peers import PeerReply, Peers
from warren.admin.ports import HistoryPort, IoStats, LinkFacts, ListenerFacts, NodeFacts, SampleSpan, SampleSpans
from warren.admin.rabbitmq_json import ERLANG_FULL_VERSION, ERLANG_VERSION, METRICS_GC_QUEUE_LENGTH, NO_RATE
from warren.admin.resources.connection_rows import listed_connections
from warren.admin.resources.exchanges import exchange_types
from warren.broker.broker import Broker
from warren.broker.cluster.addresses import parse_address
from warren.broker.model.stats import VhostStats
from warren.broker.sessions.handshake import COMPATIBLE_VERSION
from warren.broker.snapshots import NodeQueueTotals
from warren.broker.vhost import Vhost

_MECHANISMS = {
    "PLAIN": "SASL PLAIN authentication mechanism",
    "AMQPLAIN": "QPid AMQPLAIN mechanism",
    "EXTERNAL": "TLS peer certificate authentication mechanism",
}
_PLUGINS = ["rabbitmq_management", "rabbitmq_prometheus", "rabbitmq_tracing", "rabbitmq_consistent_hash_exchange"]
_NEVER_COUNTED = (
    "gc_bytes_reclaimed",
    "io_seek_count",
    "io_reopen_count",
    "mnesia_ram_tx_count",
    "mnesia_disk_tx_count",
    "msg_store_read_count",
    "msg_store_write_count",
    "queue_index_write_count",
    "queue_index_read_count",
)
NO_LIMIT_OF_PROCESSES = 1048576


def node_row(
    broker: Broker, facts: NodeFacts, history: HistoryPort, span: SampleSpan | None, peers: Peers
) -> dict[str, Any]:
    measured, alarm = _measured(broker, facts), own_alarm(broker)
    return {
        "partitions": peers.parted(),
        "os_pid": str(facts.pid),
        "fd_total": facts.descriptors_total,
        "sockets_total": facts.descriptors_total,
        "mem_limit": facts.memory_limit_bytes,
        "mem_alarm": "memory" in alarm,
        "disk_free_limit": facts.disk_limit_bytes,
        "disk_free_alarm": "disk" in alarm,
        "proc_total": NO_LIMIT_OF_PROCESSES,
        "rates_mode": "basic",
        "uptime": facts.now_ms() - facts.started_at_ms,
        "run_queue": 0,
        "processors": facts.processors,
        "exchange_types": exchange_types(),
        "auth_mechanisms": [
            {"name": name, "description": text, "enabled": name in broker.settings.auth_mechanisms}
            for name, text in _MECHANISMS.items()
        ],
        "applications": _applications(facts),
        "contexts": context_rows(facts),
        "log_files": ["<stderr>"],
        "db_dir": facts.data_dir,
        "config_files": [facts.config_file] if facts.config_file else [],
        "net_ticktime": facts.silence_s,
        "enabled_plugins": _PLUGINS,
        "mem_calculation_strategy": "rss",
        "ra_open_file_metrics": {"ra_log_wal": 0, "ra_log_segment_writer": 0},
        "name": facts.name,
        "running": not peers.paused(),
        "type": peers.kind(facts.name),
        **peers.witness(facts.name),
        **history.rated("node", facts.name, measured, span),
        **_averages(facts.io()),
        "cluster_links": [_link(link, history, span) for link in peers.links()],
        "metrics_gc_queue_length": METRICS_GC_QUEUE_LENGTH,
        "event_loop_lag_ms": round(facts.loop_lag_ms(), 3),
        "event_loop": facts.loop_name,
        "core": facts.core_kind,
        "being_drained": facts.draining,
        **({"paused": True} if peers.paused() else {}),
    }


def node_row_without_stats(name: str, peers: Peers) -> dict[str, Any]:
    return {"name": name, "type": peers.kind(name), **peers.witness(name), "running": name in peers.running()}


def down_node_row(name: str, peers: Peers) -> dict[str, Any]:
    """A member that says nothing of itself."""
    kind = {"type": peers.kind(name), **peers.witness(name)}
    return {"name": name, **kind, "running": False, "partitions": [], "cluster_links": []}


def _link(link: LinkFacts, history: HistoryPort, span: SampleSpan | None) -> dict[str, Any]:
    """RabbitMQ's words for a connection between two nodes."""
    passed = {"send_bytes": link.sent_bytes, "recv_bytes": link.received_bytes}
    return {
        "stats": history.rated("link", link.key, passed, span),
        "name": link.node,
        "peer_addr": link.peer_host,
        "peer_port": link.peer_port,
        "sock_addr": link.own_host,
        "sock_port": link.own_port,
        **passed,
    }


def _measured(broker: Broker, facts: NodeFacts) -> dict[str, int]:
    io = facts.io()
    return {
        "mem_used": facts.memory_used_bytes(),
        "fd_used": facts.descriptors_used(),
        "sockets_used": facts.sockets_used(),
        "proc_used": len(broker.connections),
        "disk_free": facts.disk_free_bytes(),
        "gc_num": facts.collections(),
        "context_switches": facts.context_switches(),
        "io_read_count": io.reads,
        "io_read_bytes": io.read_bytes,
        "io_write_count": io.writes,
        "io_write_bytes": io.write_bytes,
        "io_sync_count": io.syncs,
        **dict.fromkeys(_NEVER_COUNTED, 0),
        **message_stats.churn_counters(broker.stats),
    }


def _averages(io: IoStats) -> dict[str, Any]:
    """How many milliseconds the disk takes."""
    times = {
        "io_read_avg_time": _average_ms(io.read_s, io.reads),
        "io_write_avg_time": _average_ms(io.write_s, io.writes),
        "io_sync_avg_time": _average_ms(io.sync_s, io.syncs),
        "io_seek_avg_time": 0.0,
    }
    return times | {f"{name}_details": NO_RATE for name in times}


def _average_ms(seconds: float, count: int) -> float:
    return seconds * 1000 / count if count else 0.0


def _applications(facts: NodeFacts) -> list[dict[str, Any]]:
    return [
        {"name": "rabbit", "description": "RabbitMQ", "version": COMPATIBLE_VERSION},
        {"name": "warren", "description": f"Warren, core {facts.core_kind}", "version": __version__},
        *({"name": name, "description": name, "version": COMPATIBLE_VERSION} for name in _PLUGINS),
    ]


def listener_rows(facts: NodeFacts, peers: Peers) -> list[dict[str, Any]]:
    return [
        {
            "node": facts.name,
            "protocol": listener.protocol,
            "ip_address": listener.host,
            "port": listener.port,
            "socket_opts": {"backlog": 8192, "nodelay": True},
        }
        for listener in [*facts.listeners(), *_peer_listener(peers)]
    ]


def _peer_listener(peers: Peers) -> list[ListenerFacts]:
    """Where members find each other."""
    member = peers.member(peers.own)
    if member is None or not member.peer:
        return []
    address = parse_address(member.peer)
    return [ListenerFacts("clustering", address.host, address.port)]


def context_rows(facts: NodeFacts) -> list[dict[str, Any]]:
    """The HTTP listeners once more, as RabbitMQ's web server knows them."""
    return [_context(facts.name, listener) for listener in facts.listeners() if listener.protocol.startswith("http")]


def _context(node: str, listener: ListenerFacts) -> dict[str, Any]:
    description = "RabbitMQ Prometheus" if "prometheus" in listener.protocol else "RabbitMQ Management"
    return {
        "ssl_opts": [],
        "node": node,
        "description": description,
        "path": "/",
        "cowboy_opts": "[{sendfile,false}]",
        "ip": listener.host,
        "port": str(listener.port),
    }


# -- memory

_NOTHING_HERE = (
    "connection_readers",
    "connection_writers",
    "connection_channels",
    "connection_other",
    "queue_slave_procs",
    "quorum_queue_procs",
    "quorum_queue_dlx_procs",
    "stream_queue_procs",
    "stream_queue_replica_reader_procs",
    "stream_queue_coordinator_procs",
    "plugins",
    "metrics",
    "mgmt_db",
    "mnesia",
    "quorum_ets",
    "other_ets",
    "msg_index",
    "code",
    "atom",
    "allocated_unused",
    "reserved_unallocated",
)


def memory_breakdown(broker: Broker, facts: NodeFacts) -> dict[str, Any]:
    used = facts.memory_used_bytes()
    messages = min(used, int(broker.turn.held_bytes))
    return {
        **dict.fromkeys(_NOTHING_HERE, 0),
        "queue_procs": 0,
        "binary": messages,
        "other_proc": 0,
        "other_system": used - messages,
        "strategy": "rss",
        "total": {"erlang": used, "rss": used, "allocated": used},
    }


def relative_memory(broker: Broker, facts: NodeFacts) -> dict[str, Any]:
    """The same in per cent."""
    absolute = memory_breakdown(broker, facts)
    total = absolute["total"]["rss"] or 1
    shares = {name: _per_cent(value, total) for name, value in absolute.items() if isinstance(value, int)}
    return {"total": 100, **shares}


def _per_cent(value: int, total: int) -> int:
    """Rounded up, so that what is there is seen."""
    return -(-value * 100 // total)


RETENTION_S = {"global": [600, 3600, 28800, 86400], "basic": [600, 3600], "detailed": [600]}


def overview_row(
    broker: Broker, facts: NodeFacts, history: HistoryPort, api_user: ApiUser, spans: SampleSpans, peers: Peers
) -> dict[str, Any]:
    vhosts = _seen(broker, api_user)
    sums = NodeQueueTotals(vhosts)
    # the history of the whole is kept for the whole alone
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
    """The overviews of several nodes as one; what is agreed upon is the same for all of them."""
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
_DISABLED_FLAGS = ("classic_mirrored_queue_version", "stream_queue")
_ERLANG_TABLES = [
    f"/api/nodes/{{node}}/memory/ets{which}{unit}" for which in ("", "/{filter}") for unit in ("", "/relative")
]


def routes(context: AdminContext) -> dict[str, Resource]:
    return {
        "/api/overview": Resource(manager, {"GET": show_overview}),
        "/api/cluster-name": Resource(manager, {"GET": cluster_name}),
        "/api/nodes": Resource(monitor, {"GET": all_nodes}),
        "/api/nodes/{node}": Resource(monitor, {"GET": one_node}),
        "/api/nodes/{node}/memory": Resource(monitor, {"GET": at_node(show_memory)}),
        "/api/nodes/{node}/memory/relative": Resource(monitor, {"GET": at_node(show_relative_memory)}),
        **{path: Resource(monitor, {"GET": at_node(erlang_tables)}) for path in _ERLANG_TABLES},
        "/api/extensions": Resource(manager, {"GET": extensions}),
        "/api/feature-flags": Resource(administrator, {"GET": feature_flags}),
        "/api/whoami": Resource(manager, {"GET": whoami}),
        "/api/auth": Resource(None, {"GET": auth}),
        "/api/auth/attempts/{node}": Resource(
            monitor, {"GET": at_node(auth_attempts), "DELETE": at_node(forget_attempts)}
        ),
        "/api/auth/attempts/{node}/source": Resource(
            monitor, {"GET": at_node(auth_sources), "DELETE": at_node(forget_attempts)}
        ),
        "/api/login": Resource(None, {"POST": login}),
        "/api/reset": Resource(administrator, {"DELETE": reset_everywhere}),
        "/api/reset/{node}": Resource(administrator, {"DELETE": at_node(reset)}),
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
    told = await context.peers.ask_all(call.question(ALONE))
    if told:
        row = cluster_overview(row, _documents(told), broker, api_user)
    return object_response(call, row)


def _documents(told: dict[str, PeerReply]) -> list[Any]:
    return [told[node].document for node in sorted(told) if told[node].status == 200]


async def cluster_name(call: ApiRequest) -> ApiResponse:
    return object_response(call, {"name": call.context.broker.cluster_name()})


async def all_nodes(call: ApiRequest) -> ApiResponse:
    """This one's own row and those of all others, as they tell them."""
    peers = call.context.peers
    if call.flag("disable_stats"):
        return await rows_response(call, [node_row_without_stats(name, peers) for name in peers.names()])
    if call.part is not None:
        return json_response([_own_row(call)])
    told = await peers.ask_all(call.question(ALONE))
    rows = {row["name"]: row for found in _documents(told) for row in found} | {peers.own: _own_row(call)}
    return await rows_response(
        call, [rows.get(name) or down_node_row(name, peers) for name in peers.names()], ("name",)
    )


async def one_node(call: ApiRequest) -> ApiResponse:
    peers = call.context.peers
    name = call.params["node"]
    if name not in peers.names():
        raise not_found()
    if name == peers.own:
        row = _own_row(call)
        if call.flag("memory"):
            row["memory"] = memory_breakdown(call.context.broker, call.context.facts)
        if call.flag("binary"):
            row["binary"] = {}
        return json_response(row) if call.part is not None else object_response(call, row)
    told = await peers.ask(name, call.question(ALONE))
    row = down_node_row(name, peers) if told is None or told.status != 200 else told.document
    return object_response(call, row)


def _own_row(call: ApiRequest) -> dict[str, Any]:
    context = call.context
    return node_row(context.broker, context.facts, context.history, sample_spans(call.query).node, context.peers)


async def show_memory(call: ApiRequest) -> ApiResponse:
    return object_response(call, {"memory": memory_breakdown(call.context.broker, call.context.facts)})


async def show_relative_memory(call: ApiRequest) -> ApiResponse:
    return object_response(call, {"memory": relative_memory(call.context.broker, call.context.facts)})


async def erlang_tables(call: ApiRequest) -> ApiResponse:
    """What RabbitMQ says where none of the tables of its language are."""
    return object_response(call, {"ets_tables_memory": "no_tables"})


async def extensions(call: ApiRequest) -> ApiResponse:
    return json_response([{"javascript": "dispatcher.js"}, {"javascript": "tracing.js"}])


async def feature_flags(call: ApiRequest) -> ApiResponse:
    rows = [
        {
            "name": name,
            "desc": text,
            "doc_url": "",
            "state": "disabled" if name in _DISABLED_FLAGS else "enabled",
            "stability": "stable",
            "provided_by": "rabbit",
        }
        for name, text in FEATURE_FLAGS.items()
    ]
    return await rows_response(call, rows, ("name",))


async def whoami(call: ApiRequest) -> ApiResponse:
    return object_response(call, {"name": call.api_user.name, "tags": call.api_user.tags})


async def auth(call: ApiRequest) -> ApiResponse:
    return json_response({"enable_uaa": False, "uaa_client_id": "", "uaa_location": ""})


async def auth_attempts(call: ApiRequest) -> ApiResponse:
    accounts, stats = call.context.accounts, call.context.broker.stats
    rows = [
        _attempts("http", accounts.attempts, accounts.refused),
        _attempts("amqp091", int(stats.logins), int(stats.logins_refused)),
    ]
    return await rows_response(call, rows)


def _attempts(protocol: str, attempts: int, failed: int) -> dict[str, Any]:
    return {
        "protocol": protocol,
        "auth_attempts": attempts,
        "auth_attempts_failed": failed,
        "auth_attempts_succeeded": attempts - failed,
    }


async def forget_attempts(call: ApiRequest) -> ApiResponse:
    call.context.accounts.forget_attempts()
    return no_content()


async def auth_sources(call: ApiRequest) -> ApiResponse:
    """RabbitMQ counts by address only when told to."""
    return json_response([])


async def reset(call: ApiRequest) -> ApiResponse:
    """Forget what figures were; what they are is counted on."""
    call.context.history.forget()
    return no_content()


async def reset_everywhere(call: ApiRequest) -> ApiResponse:
    if call.part is None:
        await call.context.peers.ask_all(call.question(ALONE))
    return await reset(call)


async def login(call: ApiRequest) -> ApiResponse:
    """Find out whether a user and a password are good. Nothing is remembered of it, on either side."""
    form = await call.form()
    await log_in(call, form.get("username", ""), form.get("password", ""))
    return json_response("ok")
