"""Health checks for scripts and orchestrators: exit code 0 if the check passes, 69 if it fails.

Not here: the checks themselves (`admin.resources.health`).
"""

import socket
from typing import Any, Final

from warren.cli.ctl.api import DATA_ERROR, UNAVAILABLE, ApiRefusal, Failure, UsageFailure, failed
from warren.cli.ctl.verb import Text, Verb, VerbCall
from warren.cli.ctl.verbs.status import UNITS, in_unit, listener_line, listeners, memory_shares

ALARMS: Final = {"memory": "Memory alarm", "disk": "Free disk space alarm"}
ANYWHERE: Final = ("[::]", "0.0.0.0")


def check_running(call: VerbCall) -> Text:
    call.api.get("overview", columns="node")
    words = f"RabbitMQ on node {call.node} is fully booted and running"
    return Text(words, {"message": words, "result": True})


def _alarms(which: str, none: str) -> Any:
    def run(call: VerbCall) -> Text:
        refusal = _refusal(call, "health", "checks", which)
        if refusal is None:
            words = f"Node {call.node} reported {none}"
            return Text(words, {"alarms": [], "local": [], "message": words, "node": call.node, "result": "ok"})
        lines = [_alarm_line(alarm, call.node) for alarm in _list(refusal, "alarms")]
        raise failed("\n".join(lines) or refusal.reason)

    return run


def _alarm_line(alarm: dict[str, Any], node: str) -> str:
    resource = str(alarm.get("resource"))
    return f"{ALARMS.get(resource, resource)} on node {alarm.get('node', node)}"


def _refusal(call: VerbCall, *check: str) -> ApiRefusal | None:
    """The failure that the server reports, or None if the check passes."""
    try:
        call.api.get(*check)
    except ApiRefusal as answer:
        if answer.status != 503:
            raise
        return answer
    return None


def check_port_listener(call: VerbCall) -> Text:
    port = call.arguments[0]
    refusal = _refusal(call, "health", "checks", "port-listener", port)
    if refusal is not None:
        ports = ", ".join(str(found) for found in sorted(_list(refusal, "ports")))
        raise Failure(
            UNAVAILABLE,
            f"No listener for port {port} is active on node {call.node}. "
            f"Found listeners that use the following ports: {ports}",
        )
    return Text(f"A listener for port {port} is running on node {call.node}.")


def check_protocol_listener(call: VerbCall) -> Text:
    protocol = call.arguments[0]
    refusal = _refusal(call, "health", "checks", "protocol-listener", protocol)
    if refusal is not None:
        protocols = ", ".join(sorted(map(str, _list(refusal, "protocols"))))
        raise failed(
            f"No listener for protocol {protocol} is active on node {call.node}. "
            f"Found listeners for the following protocols: {protocols}"
        )
    return Text(f"A listener for protocol {protocol} is running on node {call.node}.")


def _list(refusal: ApiRefusal, name: str) -> list[Any]:
    found = refusal.document.get(name)
    return found if isinstance(found, list) else []


def check_port_connectivity(call: VerbCall) -> Text:
    """Connect to each of the node's listeners."""
    found = _listeners_here(call)
    deaf = []
    for listener in found:
        interface = listener["interface"]
        host = call.api.host if interface in ANYWHERE else interface.strip("[]")
        try:
            socket.create_connection((host, listener["port"]), timeout=call.timeout_s).close()
        except OSError:
            deaf.append(listener)
    if deaf:
        lines = [listener_line(listener) for listener in deaf]
        raise failed("\n".join([f"Connection attempts to these listeners of node {call.node} failed:", *lines]))
    ports = ", ".join(str(port) for port in sorted(listener["port"] for listener in found))
    return Text(f"Successfully connected to ports {ports} on node {call.node}.")


def check_virtual_hosts(call: VerbCall) -> Text:
    refusal = _refusal(call, "health", "checks", "virtual-hosts")
    if refusal is not None:
        down = "\n".join(map(str, _list(refusal, "virtual-hosts")))
        raise failed(f"Some virtual hosts on node {call.node} are down:\n{down}")
    return Text(f"Node {call.node} reported all vhosts as running")


def check_certificate_expiration(call: VerbCall) -> Text:
    within, unit = str(call.own("within", 4)), str(call.own("unit", "weeks"))
    refusal = _refusal(call, "health", "checks", "certificate-expiration", within, unit)
    if refusal is not None:
        raise failed(refusal.reason)
    return Text(f"No certificates are expiring within {within} {unit}.")


def check_mirror_sync(call: VerbCall) -> Text:
    """Whether stopping the node would lose the only synchronised replica of a queue."""
    refusal = _refusal(call, "health", "checks", "node-is-mirror-sync-critical")
    if refusal is not None:
        lines = [
            f"{queue.get('readable_name')} would lose its only synchronised replica (master)"
            f" if node {call.node} is stopped"
            for queue in _list(refusal, "queues")
        ]
        raise failed("\n".join(lines) or refusal.reason)
    if len(call.api.get("nodes", columns="name")) == 1:
        words = f"Node {call.node} seems to be the only one in a single node cluster, the check does not apply"
        return Text(words, {"result": "ok", "message": words})
    words = f"Node {call.node} reported no classic mirrored queues without online synchronised mirrors"
    return Text(words, {"result": "ok"})


def node_health_check(call: VerbCall) -> Text:
    for check in ("local-alarms", "virtual-hosts"):
        refusal = _refusal(call, "health", "checks", check)
        if refusal is not None:
            raise failed(f"Health check failed:\n{refusal.reason}")
    return Text("Health check passed")


def show_listeners(call: VerbCall) -> Text:
    found = _listeners_here(call)
    document = {"listeners": found, "node": call.node, "result": "ok"}
    return Text("\n".join(map(listener_line, found)), document)


def _listeners_here(call: VerbCall) -> list[dict[str, Any]]:
    overview = call.api.get("overview", columns="listeners")
    return [listener for listener in listeners(overview) if listener["node"] == call.node]


def memory_breakdown(call: VerbCall) -> Text:
    unit = str(call.own("unit", "gb"))
    shares = memory_shares(call.api.get("nodes", call.node, "memory")["memory"])
    lines = [f"{name}: {in_unit(size, unit)} ({share}%)" for name, size, share in shares]
    return Text("\n".join(lines), {name: {"bytes": size, "percentage": share} for name, size, share in shares})


def _check_unit(call: VerbCall) -> None:
    unit = call.own("unit", "gb")
    if unit.lower() not in UNITS:
        raise UsageFailure(DATA_ERROR, f"Bad argument: unit '{unit}' is not supported")


def _check_port(call: VerbCall) -> None:
    if not call.arguments[0].isascii() or not call.arguments[0].isdigit() or not int(call.arguments[0]):
        raise UsageFailure(DATA_ERROR, "Bad argument: Argument must be a positive integer")


VERBS: Final = [
    Verb(
        "is_running",
        "Reports whether a node is running",
        check_running,
        "[--timeout <timeout>]",
        "is_running",
        "Asking node {node} for its status ...",
    ),
    Verb(
        "check_running",
        "Checks that a node is running",
        check_running,
        "[--timeout <timeout>]",
        "check_running -q",
        "Checking if RabbitMQ is running on node {node} ...",
    ),
    Verb(
        "check_local_alarms",
        "Checks that a node has no alarm of its own",
        _alarms("local-alarms", "no local alarms"),
        "[--timeout <timeout>]",
        "check_local_alarms -q",
        "Asking node {node} to report any local resource alarms ...",
    ),
    Verb(
        "check_alarms",
        "Checks that no node of the cluster has an alarm",
        _alarms("alarms", "no alarms, local or clusterwide"),
        "[--timeout <timeout>]",
        "check_alarms -q",
        "Asking node {node} to report any local resource alarms ...",
    ),
    Verb(
        "check_port_listener",
        "Checks that a node listens on a port",
        check_port_listener,
        "<port> [--timeout <timeout>]",
        "check_port_listener 5672",
        "Asking node {node} if there's an active listener on port {0} ...",
        (1, 1),
        check=_check_port,
    ),
    Verb(
        "check_protocol_listener",
        "Checks that a node listens for a protocol",
        check_protocol_listener,
        "<protocol> [--timeout <timeout>]",
        "check_protocol_listener amqp",
        "Asking node {node} if there's an active listener for protocol {0} ...",
        (1, 1),
    ),
    Verb(
        "check_port_connectivity",
        "Checks that every port of a node can be connected to from here",
        check_port_connectivity,
        "[--timeout <timeout>]",
        "check_port_connectivity --timeout 5",
        "Testing TCP connections to all active listeners on node {node} ...",
    ),
    Verb(
        "check_virtual_hosts",
        "Checks that all virtual hosts of a node run",
        check_virtual_hosts,
        "[--timeout <timeout>]",
        "check_virtual_hosts -q",
        "Checking if all vhosts are running on node {node} ...",
    ),
    Verb(
        "check_certificate_expiration",
        "Checks that no certificate of a node expires soon",
        check_certificate_expiration,
        "[--within <period>] [--unit <unit>]",
        "check_certificate_expiration --within 2 --unit months",
        "Checking certificate expiration on node {node} ...",
        switches={"within": int, "unit": str},
    ),
    Verb(
        "check_if_node_is_mirror_sync_critical",
        "Checks that no mirrored queue would be left without a synchronised mirror if a node stopped",
        check_mirror_sync,
        "[--timeout <timeout>]",
        "check_if_node_is_mirror_sync_critical",
        "Checking if node {node} is critical for data safety of any classic mirrored queues ...",
    ),
    Verb(
        "node_health_check",
        "Checks alarms and virtual hosts",
        node_health_check,
        "[--timeout <timeout>]",
        "node_health_check -q",
        "Timeout: 70 seconds ...\nChecking health of node {node} ...",
        patience_s=70.0,
    ),
    Verb(
        "listeners",
        "Lists the listeners of a node",
        show_listeners,
        "[--timeout <timeout>]",
        "listeners",
        "Asking node {node} to report its protocol listeners ...",
    ),
    Verb(
        "memory_breakdown",
        "Shows what a node uses its memory for",
        memory_breakdown,
        "[--unit <unit>] [--timeout <timeout>]",
        "memory_breakdown --unit mb",
        "Reporting memory breakdown on node {node}...",
        switches={"unit": str},
        check=_check_unit,
    ),
]
