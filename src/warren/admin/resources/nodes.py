"""Nodes: paths, rows, where their memory goes, and orders to one of them.

Paths below `/api/warren`, `/stop` and `/draining` are Warren's own; `warren ctl` uses them.

Memory that messages hold is counted. The rest of what the process has is `other_system`.

Not here: measuring, and what an order does (`node.admin_ports`), alarms (`broker.alarms`), the membership paths of a
stopped node (`node.cluster.control_endpoint`).
"""

from typing import Any

from warren import __version__
from warren.admin import message_stats
from warren.admin.fitness import own_alarm
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import (
    ApiResponse,
    HttpFault,
    bad_request,
    json_response,
    no_content,
    not_found,
)
from warren.admin.http.router import Resource, Routes, administrator, monitor
from warren.admin.http.schemas import FLAG, TABLE, TEXT, an_object
from warren.admin.listing.responses import object_response, rows_response
from warren.admin.message_stats import sample_spans
from warren.admin.peer_requests import ALONE, at_node, peer_documents
from warren.admin.peers import Peers
from warren.admin.ports import (
    LOG_LEVELS,
    ForgetNodeRefused,
    HistoryPort,
    IoStats,
    LinkFacts,
    ListenerFacts,
    NodeFacts,
    SampleSpan,
)
from warren.admin.rabbitmq_json import METRICS_GC_QUEUE_LENGTH, NO_RATE
from warren.admin.resources.exchanges import exchange_types
from warren.broker.broker import Broker
from warren.broker.cluster.addresses import parse_address
from warren.broker.sessions.handshake import COMPATIBLE_VERSION

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


RUNNING = "running"

_ERLANG_TABLES = [
    f"/api/nodes/{{node}}/memory/ets{which}{unit}" for which in ("", "/{filter}") for unit in ("", "/relative")
]


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
    """A member that does not respond."""
    kind = {"type": peers.kind(name), **peers.witness(name)}
    return {"name": name, **kind, "running": False, "partitions": [], "cluster_links": []}


def _link(link: LinkFacts, history: HistoryPort, span: SampleSpan | None) -> dict[str, Any]:
    """A link between two nodes in RabbitMQ's terms."""
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
    """Average times of disk operations in milliseconds."""
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
    """The listener for other members."""
    member = peers.member(peers.own)
    if member is None or not member.peer:
        return []
    address = parse_address(member.peer)
    return [ListenerFacts("clustering", address.host, address.port)]


def context_rows(facts: NodeFacts) -> list[dict[str, Any]]:
    """The HTTP listeners again, as RabbitMQ's web server lists them."""
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
    """Rounded up, so that a small share is not 0."""
    return -(-value * 100 // total)


def routes() -> Routes:
    return {
        "/api/nodes": Resource(monitor, {"GET": all_nodes}),
        "/api/nodes/{node}": Resource(monitor, {"GET": one_node}),
        "/api/nodes/{node}/memory": Resource(monitor, {"GET": at_node(show_memory)}),
        "/api/nodes/{node}/memory/relative": Resource(monitor, {"GET": at_node(show_relative_memory)}),
        **{path: Resource(monitor, {"GET": at_node(erlang_tables)}) for path in _ERLANG_TABLES},
        "/api/reset": Resource(administrator, {"DELETE": reset_everywhere}),
        "/api/reset/{node}": Resource(administrator, {"DELETE": at_node(reset)}),
        "/api/nodes/{node}/stop": Resource(administrator, {"POST": at_node(stop)}),
        "/api/nodes/{node}/draining": Resource(administrator, {"PUT": at_node(drain), "DELETE": at_node(revive)}),
        "/api/warren/settings": Resource(administrator, {"GET": settings}),
        "/api/warren/settings/{key}": Resource(
            administrator, {"PUT": set_setting}, an_object({"value": {"type": ["string", "number"]}})
        ),
        "/api/warren/log-levels": Resource(
            administrator, {"GET": log_levels, "PUT": set_log_levels}, an_object({"categories": TABLE})
        ),
        "/api/warren/log-levels/{category}": Resource(
            administrator, {"PUT": set_log_level}, an_object({"level": TEXT})
        ),
        "/api/warren/membership": Resource(administrator, {"GET": show_membership}),
        "/api/warren/membership/stop_app": Resource(administrator, {"POST": stop_app}),
        "/api/warren/membership/start_app": Resource(administrator, {"POST": start_app}),
        "/api/warren/membership/forget_cluster_node": Resource(
            administrator, {"POST": forget_node}, an_object({"node": TEXT}, offline=FLAG)
        ),
    }


async def all_nodes(call: ApiRequest) -> ApiResponse:
    """The rows of all nodes, each from the node itself."""
    peers = call.context.peers
    if call.flag("disable_stats"):
        return await rows_response(call, [node_row_without_stats(name, peers) for name in peers.names()])
    if call.part is not None:
        return json_response([_own_row(call)])
    rows = {row["name"]: row for found in await peer_documents(call) for row in found} | {peers.own: _own_row(call)}
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
    reply = await peers.ask(name, call.peer_query(ALONE))
    row = down_node_row(name, peers) if reply is None or reply.status != 200 else reply.document
    return object_response(call, row)


def _own_row(call: ApiRequest) -> dict[str, Any]:
    context = call.context
    return node_row(context.broker, context.facts, context.history, sample_spans(call.query).node, context.peers)


async def show_memory(call: ApiRequest) -> ApiResponse:
    return object_response(call, {"memory": memory_breakdown(call.context.broker, call.context.facts)})


async def show_relative_memory(call: ApiRequest) -> ApiResponse:
    return object_response(call, {"memory": relative_memory(call.context.broker, call.context.facts)})


async def erlang_tables(call: ApiRequest) -> ApiResponse:
    """RabbitMQ's response when there are no ETS tables."""
    return object_response(call, {"ets_tables_memory": "no_tables"})


async def reset(call: ApiRequest) -> ApiResponse:
    """Delete the samples of statistics; counters keep their values."""
    call.context.history.forget()
    return no_content()


async def reset_everywhere(call: ApiRequest) -> ApiResponse:
    if call.part is None:
        await call.context.peers.ask_all(call.peer_query(ALONE))
    return await reset(call)


async def stop(call: ApiRequest) -> ApiResponse:
    call.context.control.stop(call.api_user.name)
    return no_content()


async def drain(call: ApiRequest) -> ApiResponse:
    """Tell load balancers to send no new clients."""
    call.context.control.drain(call.api_user.name, True)
    return no_content()


async def revive(call: ApiRequest) -> ApiResponse:
    """Tell load balancers to send clients again."""
    call.context.control.drain(call.api_user.name, False)
    return no_content()


async def settings(call: ApiRequest) -> ApiResponse:
    return object_response(call, dict(call.context.control.settings()))


async def set_setting(call: ApiRequest) -> ApiResponse:
    key, value = call.params["key"], (await call.document()).get("value")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise bad_request("value must be a string or a number")
    try:
        call.context.control.set_setting(key, str(value))
    except KeyError:
        raise not_found() from None
    except ValueError as error:
        raise bad_request(f"{key} must be {error}, not {str(value)!r}") from None
    return no_content()


async def log_levels(call: ApiRequest) -> ApiResponse:
    return json_response({"levels": list(LOG_LEVELS), "categories": call.context.control.log_levels()})


async def set_log_levels(call: ApiRequest) -> ApiResponse:
    wanted = (await call.document()).get("categories")
    if not isinstance(wanted, dict):
        raise bad_request("categories must be an object, from category to level")
    _set(call, wanted)
    return no_content()


async def set_log_level(call: ApiRequest) -> ApiResponse:
    _set(call, {call.params["category"]: (await call.document()).get("level")})
    return no_content()


def _set(call: ApiRequest, wanted: dict[str, Any]) -> None:
    """All levels or none."""
    control = call.context.control
    known = control.log_levels()
    for category, level in wanted.items():
        if category not in known:
            raise bad_request(f"category must be one of {', '.join(known)}, not {category!r}")
        if level not in LOG_LEVELS:
            raise bad_request(f"level must be one of {', '.join(LOG_LEVELS)}, not {level!r}")
    control.set_log_levels(wanted)


async def show_membership(call: ApiRequest) -> ApiResponse:
    return json_response({"node": call.context.peers.own, "app": RUNNING, "trouble": ""})


async def stop_app(call: ApiRequest) -> ApiResponse:
    call.context.control.stop_app(call.api_user.name)
    return no_content()


async def start_app(call: ApiRequest) -> ApiResponse:
    """Nothing to do: the node runs."""
    return no_content()


async def forget_node(call: ApiRequest) -> ApiResponse:
    document = await call.document()
    name = document.get("node")
    if not isinstance(name, str):
        raise bad_request("node must be a string")
    if document.get("offline"):
        raise HttpFault(400, RUNNING, "this command requires the target node to be stopped.")
    try:
        await call.context.control.forget_node(call.api_user.name, name)
    except ForgetNodeRefused as refusal:
        raise HttpFault(400, refusal.code, str(refusal)) from refusal
    return no_content()
