"""The node as a row: what it uses, what it may use, where it listens, what it runs; and where its memory goes.

What messages hold of memory is known; what code, loop and everything else take is the rest of what the process has.

Not here: measuring (`node.facts`), alarms (`broker.alarms`).
"""

from typing import Any

from warren import __version__
from warren.admin.cluster.peer_port import LinkFacts
from warren.admin.cluster.peers import Peers
from warren.admin.history_port import HistoryPort, Span
from warren.admin.node_facts import IoFigures, ListenerFacts, NodeFacts
from warren.admin.views import figures
from warren.admin.views.alarms import own_alarm
from warren.admin.views.erlang import METRICS_GC_QUEUE_LENGTH, NO_RATE
from warren.admin.views.exchanges import exchange_types
from warren.broker.broker import Broker
from warren.cluster.addresses import parse_address
from warren.session.handshake import COMPATIBLE_VERSION

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


def node_row(broker: Broker, facts: NodeFacts, history: HistoryPort, span: Span | None, peers: Peers) -> dict[str, Any]:
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
        "contexts": contexts(facts),
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


def without_stats(name: str, peers: Peers) -> dict[str, Any]:
    return {"name": name, "type": peers.kind(name), **peers.witness(name), "running": name in peers.running()}


def away(name: str, peers: Peers) -> dict[str, Any]:
    """A member that says nothing of itself."""
    kind = {"type": peers.kind(name), **peers.witness(name)}
    return {"name": name, **kind, "running": False, "partitions": [], "cluster_links": []}


def _link(link: LinkFacts, history: HistoryPort, span: Span | None) -> dict[str, Any]:
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
        **figures.churn(broker.figures),
    }


def _averages(io: IoFigures) -> dict[str, Any]:
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


def contexts(facts: NodeFacts) -> list[dict[str, Any]]:
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
