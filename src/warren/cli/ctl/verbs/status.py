"""Status of a node and its cluster: status, cluster_status, environment.

Each is a JSON document, and the same facts as lines under headings. A fact that the server does not report has no line.

Not here: health checks (`health_checks`).
"""

import sys
from collections.abc import Iterable
from typing import Any, Final

from warren.cli.ctl.api import USAGE, UsageFailure, failed
from warren.cli.ctl.command_line import heading
from warren.cli.ctl.terms import Atom, erlang
from warren.cli.ctl.verb import Text, Verb, VerbCall

PURPOSES: Final = {
    "amqp": "AMQP 0-9-1 and AMQP 1.0",
    "amqp/ssl": "AMQP 0-9-1 and AMQP 1.0 over TLS",
    "clustering": "inter-node and CLI tool communication",
    "http": "HTTP API",
    "https": "HTTP API over TLS (HTTPS)",
    "http/prometheus": "Prometheus exporter API over HTTP",
    "https/prometheus": "Prometheus exporter API over TLS (HTTPS)",
}
UNITS: Final = {
    "bytes": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
}
Facts = dict[str, Any]


def status(call: VerbCall) -> Text:
    facts = node_facts(call)
    return Text(_sections(_status_sections(facts, str(call.own("unit", "gb")))), facts)


def node_facts(call: VerbCall) -> Facts:
    """The document of `status`."""
    node = call.api.get("nodes", call.node)
    overview = call.api.get("overview")
    totals = overview.get("object_totals") or {}
    memory = (call.api.find("nodes", call.node, "memory") or {}).get("memory") or {}
    product = overview.get("product_name", "")
    vhosts = sum(1 for _ in call.api.pages("vhosts", columns=["name"]))
    return {
        "pid": _number(node.get("os_pid")),
        "os": sys.platform.capitalize() if node.get("os") is None else node["os"],
        "uptime": int(node.get("uptime", 0)) // 1000,
        "is_under_maintenance": bool(node.get("being_drained", False)),
        "product_name": "" if product == "RabbitMQ" else product,
        "product_version": "" if product == "RabbitMQ" else overview.get("product_version", ""),
        "rabbitmq_version": overview.get("rabbitmq_version", ""),
        "release_series_support_status": overview.get("release_series_support_status", ""),
        "node": call.node,
        "erlang_version": overview.get("erlang_full_version", ""),
        "processes": {"used": node.get("proc_used"), "limit": node.get("proc_total")},
        "run_queue": node.get("run_queue"),
        "net_ticktime": node.get("net_ticktime"),
        "active_plugins": node.get("enabled_plugins") or [],
        "data_directory": node.get("db_dir", ""),
        "config_files": node.get("config_files") or [],
        "log_files": node.get("log_files") or [],
        "alarms": node_alarms([node]),
        "memory": memory,
        "memory_used": node.get("mem_used", 0),
        "vm_memory_calculation_strategy": node.get("mem_calculation_strategy", ""),
        "vm_memory_high_watermark_limit": node.get("mem_limit", 0),
        "file_descriptors": {
            "total_used": node.get("fd_used"),
            "total_limit": node.get("fd_total"),
            "sockets_used": node.get("sockets_used"),
            "sockets_limit": node.get("sockets_total"),
        },
        "disk_free": node.get("disk_free", 0),
        "disk_free_limit": node.get("disk_free_limit", 0),
        "totals": {
            "connection_count": totals.get("connections", 0),
            "queue_count": totals.get("queues", 0),
            "virtual_host_count": vhosts,
        },
        "listeners": [listener for listener in listeners(overview) if listener["node"] == call.node],
    }


def _number(text: object) -> object:
    return int(text) if isinstance(text, str) and text.isdigit() else text


def node_alarms(nodes: Iterable[Facts]) -> list[str]:
    """A line for every alarm of these nodes."""
    names = {"mem_alarm": "Memory alarm", "disk_free_alarm": "Free disk space alarm"}
    return [f"{words} on node {node['name']}" for node in nodes for field, words in names.items() if node.get(field)]


def listeners(overview: Facts) -> list[Facts]:
    """Listeners of nodes."""
    return [
        {
            "node": listener["node"],
            "interface": f"[{address}]" if ":" in (address := str(listener["ip_address"])) else address,
            "port": listener["port"],
            "protocol": listener["protocol"],
            "purpose": PURPOSES.get(listener["protocol"], listener["protocol"]),
        }
        for listener in overview.get("listeners") or []
    ]


def listener_line(listener: Facts) -> str:
    return "Interface: {interface}, port: {port}, protocol: {protocol}, purpose: {purpose}".format(**listener)


def in_unit(size_bytes: float, unit: str) -> str:
    return f"{round(size_bytes / UNITS[unit.lower()], 4)} {unit}"


def memory_shares(memory: Facts) -> list[tuple[str, int, float]]:
    """Uses of memory, the largest first: name, bytes and per cent."""
    total = memory.get("total") or {}
    whole = max(total.values(), default=0) if isinstance(total, dict) else total
    used = {name: size for name, size in memory.items() if isinstance(size, int) and name != "total"}
    return [
        (name, size, round(100 * size / whole, 2) if whole else 0.0)
        for name, size in sorted(used.items(), key=lambda use: -use[1])
    ]


def _status_sections(facts: Facts, unit: str) -> list[tuple[str, list[str]]]:
    descriptors, totals, limit = facts["file_descriptors"], facts["totals"], facts["vm_memory_high_watermark_limit"]
    breakdown = [f"{name}: {in_unit(size, unit)} ({share} %)" for name, size, share in memory_shares(facts["memory"])]
    memory = [
        f"Total memory used: {in_unit(facts['memory_used'], unit)}",
        f"Calculation strategy: {facts['vm_memory_calculation_strategy']}",
        f"Memory high watermark setting: computed to: {in_unit(limit, unit)}",
    ]
    return [
        ("Runtime", _runtime(facts)),
        ("Plugins", ["Enabled plugins:", "", *_bullets(facts["active_plugins"])]),
        ("Data directory", [f"Node data directory: {facts['data_directory']}"]),
        ("Config files", _bullets(facts["config_files"])),
        ("Log file(s)", _bullets(facts["log_files"])),
        ("Alarms", facts["alarms"] or ["(none)"]),
        ("Memory", [*memory, "", *breakdown] if breakdown else memory),
        (
            "File Descriptors",
            [
                f"Total: {descriptors['total_used']}, limit: {descriptors['total_limit']}",
                f"Sockets: {descriptors['sockets_used']}, limit: {descriptors['sockets_limit']}",
            ],
        ),
        (
            "Free Disk Space",
            [
                f"Low free disk space watermark: {in_unit(facts['disk_free_limit'], unit)}",
                f"Free disk space: {in_unit(facts['disk_free'], unit)}",
            ],
        ),
        (
            "Totals",
            [
                f"Connection count: {totals['connection_count']}",
                f"Queue count: {totals['queue_count']}",
                f"Virtual host count: {totals['virtual_host_count']}",
            ],
        ),
        ("Listeners", [listener_line(listener) for listener in facts["listeners"]]),
    ]


def _runtime(facts: Facts) -> list[str]:
    processes = facts["processes"]
    known = [
        ("OS PID", facts["pid"]),
        ("OS", facts["os"]),
        ("Uptime (seconds)", facts["uptime"]),
        ("Is under maintenance?", str(facts["is_under_maintenance"]).lower()),
        ("Product name", facts["product_name"]),
        ("Product version", facts["product_version"]),
        ("RabbitMQ version", facts["rabbitmq_version"]),
        ("RabbitMQ release series support status", facts["release_series_support_status"]),
        ("Node name", facts["node"]),
        ("Erlang configuration", facts["erlang_version"]),
        ("Erlang processes", f"{processes['used']} used, {processes['limit']} limit" if processes["used"] else ""),
        ("Scheduler run queue", facts["run_queue"]),
        ("Cluster heartbeat timeout (net_ticktime)", facts["net_ticktime"]),
    ]
    return [f"{name}: {value}" for name, value in known if value not in ("", None)]


def _bullets(words: list[str]) -> list[str]:
    return [f" * {word}" for word in words] or ["(none)"]


def _sections(sections: list[tuple[str, list[str]]]) -> str:
    return "\n\n".join("\n".join([heading(title, sys.stdout), "", *lines]) for title, lines in sections)


def cluster_status(call: VerbCall) -> Text:
    nodes, overview = call.api.get("nodes"), call.api.get("overview")
    running = [node for node in nodes if node.get("running", True)]
    witnesses = [node["name"] for node in nodes if node.get("witness")]
    flags = call.api.find("feature-flags") or []
    facts: Facts = {
        "cluster_name": call.api.get("cluster-name")["name"],
        "disk_nodes": [node["name"] for node in nodes if node.get("type") != "ram"],
        "ram_nodes": [node["name"] for node in nodes if node.get("type") == "ram"],
        **({"witness_nodes": witnesses} if witnesses else {}),
        "running_nodes": [node["name"] for node in running],
        "versions": {node["name"]: _versions(node, overview) for node in running},
        "maintenance_status": {node["name"]: _maintenance(node) for node in running},
        "alarms": node_alarms(running),
        "partitions": {node["name"]: node["partitions"] for node in running if node.get("partitions")},
        "listeners": _by_node(listeners(overview)),
        "feature_flags": flags,
    }
    return Text(_sections(_cluster_sections(facts)), facts)


def _by_node(found: list[Facts]) -> dict[str, list[Facts]]:
    grouped: dict[str, list[Facts]] = {}
    for listener in found:
        grouped.setdefault(listener["node"], []).append(listener)
    return grouped


def _versions(node: Facts, overview: Facts) -> Facts:
    """The versions that the node itself reports: nodes differ during a rolling upgrade."""
    versions = {one["name"]: one["version"] for one in node.get("applications") or []}
    return {
        "rabbitmq_name": overview.get("product_name", "RabbitMQ"),
        "rabbitmq_version": versions.get("rabbit", overview.get("product_version", "")),
        "erlang_version": overview.get("erlang_version", ""),
    }


def _version(versions: Facts) -> str:
    words = f"{versions['rabbitmq_name']} {versions['rabbitmq_version']}".rstrip()
    return f"{words} on Erlang {versions['erlang_version']}" if versions["erlang_version"] else words


def _maintenance(node: Facts) -> str:
    return "marked for maintenance" if node.get("being_drained") else "not under maintenance"


def _cluster_sections(facts: Facts) -> list[tuple[str, list[str]]]:
    apart = [f"Node {node} cannot communicate with {', '.join(others)}" for node, others in facts["partitions"].items()]
    sections = [
        ("Basics", [f"Cluster name: {facts['cluster_name']}"]),
        ("Disk Nodes", facts["disk_nodes"]),
        ("RAM Nodes", facts["ram_nodes"]),
        ("Witnesses", facts.get("witness_nodes", [])),
        ("Running Nodes", facts["running_nodes"]),
        ("Versions", [f"{node}: {_version(versions)}" for node, versions in facts["versions"].items()]),
        (
            "Maintenance status",
            [f"Node: {node}, status: {state}" for node, state in facts["maintenance_status"].items()],
        ),
        ("Alarms", facts["alarms"] or ["(none)"]),
        ("Network Partitions", apart or ["(none)"]),
        (
            "Listeners",
            [f"Node: {node}, i{listener_line(one)[1:]}" for node, own in facts["listeners"].items() for one in own],
        ),
        ("Feature flags", [f"Flag: {flag['name']}, state: {flag['state']}" for flag in facts["feature_flags"]]),
    ]
    return [(title, lines) for title, lines in sections if lines]


def environment(call: VerbCall) -> Text:
    settings = call.api.find("warren", "settings")
    if settings is None:
        raise failed("this server does not tell its settings over HTTP")
    lines = ",\n     ".join(f"{{{erlang(Atom(name))},{erlang(value)}}}" for name, value in sorted(settings.items()))
    return Text(f"[{{warren,\n    [{lines}]}}]", {"warren": settings})


def _check_unit(call: VerbCall) -> None:
    unit = call.own("unit", "gb")
    if unit.lower() not in UNITS:
        raise UsageFailure(USAGE, f"unit '{unit}' is not supported. Please use one of: {', '.join(UNITS)}")


VERBS: Final = [
    Verb(
        "status",
        "Shows the version, resource use and listeners of a node",
        status,
        "[--unit <unit>] [--timeout <timeout>]",
        "status --unit mb",
        "Status of node {node} ...",
        switches={"unit": str},
        check=_check_unit,
    ),
    Verb(
        "cluster_status",
        "Lists the nodes of the cluster and which of them run",
        cluster_status,
        "[--timeout <timeout>]",
        "cluster_status --formatter json",
        "Cluster status of node {node} ...",
    ),
]
ENVIRONMENT: Final = Verb(
    "environment",
    "Prints the effective settings of a node",
    environment,
    "",
    "environment",
    "Application environment of node {node} ...",
)
