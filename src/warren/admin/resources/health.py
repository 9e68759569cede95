"""Health checks: 200 and `ok`, or 503 and the reason.

RabbitMQ's checks need a login. The fitness check for load balancers does not. It counts the mirrors that are being
synchronised, which are those that still receive data: a mirror that waits for an operator, or that has lost its master,
receives none.

Not here: reasons of fitness (`admin.fitness`), the progress of each mirror (`resources.queue_rows`).
"""

from warren.admin.direct_link import LinkFault
from warren.admin.fitness import (
    PATH,
    RELUCTANT_STATUSES,
    UNFIT_STATUS,
    cluster_alarms,
    fitness_row,
    local_alarms,
    reasons_of,
    status_of,
)
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import (
    ApiResponse,
    HttpFault,
    bad_request,
    json_response,
    not_authorised,
)
from warren.admin.http.router import Handler, Resource, Routes, in_vhost, manager
from warren.admin.peer_requests import at_node
from warren.admin.resources.queue_rows import MirrorRows
from warren.broker.broker import Broker
from warren.broker.links.mirrored_queue_proxy import MirroredQueueProxy
from warren.broker.links.remote_queue import RemoteQueue
from warren.broker.replication.local_replica import LocalReplica
from warren.broker.replication.mirror import FOLLOWING
from warren.errors import ACCESS_REFUSED, REPLY_NAMES
from warren.wire.methods import BasicGet, BasicGetEmpty, BasicGetOk, QueueDeclare, QueueDeclareOk
from warren.wire.properties import Properties

STALLED_AFTER_MS = 10_000
"""A master may be configured to send slowly, 64 KiB at a time."""


class MirrorSyncMonitor:
    """Remembers how much each mirror had received, to tell whether it still receives."""

    def __init__(self) -> None:
        # by queue id: bytes received, and when that number last changed
        self._seen: dict[int, tuple[int, int]] = {}

    def under_way(self, broker: Broker, now_ms: int) -> int:
        """The number of queues that are being synchronised to this node."""
        replica_sets = None if broker.cluster is None else broker.cluster.replica_sets
        found: dict[int, tuple[int, int]] = {}
        if replica_sets is not None:
            for replica in replica_sets.replicas():
                if replica.master_replica is None and not replica.mirror.whole and replica.mirror.state == FOLLOWING:
                    found[replica.queue_id] = self._now(replica, now_ms)
        self._seen = found
        return sum(size > 0 and now_ms - at_ms < STALLED_AFTER_MS for size, at_ms in found.values())

    def _now(self, replica: LocalReplica, now_ms: int) -> tuple[int, int]:
        size = int(replica.upstream.acked_bytes)
        before = self._seen.get(replica.queue_id)
        return before if before is not None and before[0] == size else (size, now_ms)


_DAYS = {"days": 1, "weeks": 7, "months": 28, "years": 365}
_DAY_MS = 24 * 3600 * 1000
_PROTOCOL_NAMES = {"amqp091": "amqp", "amqp0.9.1": "amqp", "amqp0-9-1": "amqp", "amqps": "amqp/ssl"}


def routes() -> Routes:
    checks = {
        "/api/healthchecks/node": node_health,
        "/api/healthchecks/node/{node}": at_node(node_health),
        "/api/health/checks/alarms": alarms,
        "/api/health/checks/local-alarms": alarms_here,
        "/api/health/checks/background-tasks": background_tasks,
        "/api/health/checks/certificate-expiration/{within}/{unit}": certificate_expiration,
        "/api/health/checks/port-listener/{port}": port_listener,
        "/api/health/checks/protocol-listener/{protocol}": protocol_listener,
        "/api/health/checks/virtual-hosts": virtual_hosts,
        "/api/health/checks/node-is-mirror-sync-critical": mirror_sync_critical,
        "/api/health/checks/node-is-quorum-critical": quorum_critical,
    }
    found = {template: Resource(manager, {"GET": check}) for template, check in checks.items()}
    return {
        **found,
        "/api/aliveness-test/{vhost}": Resource(in_vhost, {"GET": aliveness}),
        PATH: Resource(None, {"GET": fitness_of(MirrorSyncMonitor())}),
    }


def fitness_of(arrivals: MirrorSyncMonitor) -> Handler:
    async def fitness(call: ApiRequest) -> ApiResponse:
        """Whether load balancers should send clients here, and if not, why."""
        wanted = call.query.get("reluctant", str(UNFIT_STATUS))
        if wanted not in RELUCTANT_STATUSES:
            raise bad_request(f"reluctant must be one of {', '.join(RELUCTANT_STATUSES)}, not {wanted!r}")
        context = call.context
        syncs = arrivals.under_way(context.broker, context.facts.now_ms())
        reasons = reasons_of(context.broker, context.facts, syncs)
        status = status_of(reasons, RELUCTANT_STATUSES[wanted])
        return json_response(fitness_row(context.facts.name, reasons), status)

    return fitness


def _good(**facts: object) -> ApiResponse:
    return json_response({"status": "ok", **facts})


def _failed(reason: str, **facts: object) -> ApiResponse:
    return json_response({"status": "failed", "reason": reason, **facts}, 503)


ALIVENESS_QUEUE = "aliveness-test"


async def aliveness(call: ApiRequest) -> ApiResponse:
    """Declare a queue, publish a message and get it back. The queue stays, as in RabbitMQ."""
    vhost = call.vhost().name
    try:
        async with call.context.links.open(call.api_user.identity, vhost) as link:
            await link.ask(QueueDeclare(ALIVENESS_QUEUE), QueueDeclareOk)
            await link.publish("", ALIVENESS_QUEUE, Properties(), b"test_message")
            received = await link.ask_either(BasicGet(ALIVENESS_QUEUE, True), BasicGetOk, BasicGetEmpty)
    except LinkFault as fault:
        text = f"{REPLY_NAMES[fault.code]} - {fault.text}"
        raise (not_authorised(text) if fault.code == ACCESS_REFUSED else bad_request(f"{fault.code} {text}")) from fault
    if not isinstance(received.method, BasicGetOk):
        raise HttpFault(503, "service_unavailable", f"the message did not come back from queue '{ALIVENESS_QUEUE}'")
    return json_response({"status": "ok"})


async def node_health(call: ApiRequest) -> ApiResponse:
    if local_alarms(call.context.broker):
        return json_response({"status": "failed", "reason": "resource alarm(s) in effect"})
    failing = call.context.facts.failing_tasks()
    if failing:
        names = ", ".join(task.name for task in failing)
        return json_response({"status": "failed", "reason": f"background task(s) failing: {names}"})
    return _good()


async def alarms(call: ApiRequest) -> ApiResponse:
    raised = cluster_alarms(call.context.broker)
    return _failed("There are alarms in effect in the cluster", alarms=raised) if raised else _good()


async def alarms_here(call: ApiRequest) -> ApiResponse:
    raised = local_alarms(call.context.broker)
    return _failed("There are alarms in effect on the node", alarms=raised) if raised else _good()


async def background_tasks(call: ApiRequest) -> ApiResponse:
    failing = [
        {"name": task.name, "failures": task.failures, "reason": task.reason}
        for task in call.context.facts.failing_tasks()
    ]
    return _failed("Background tasks of the node fail and are restarted", tasks=failing) if failing else _good()


async def certificate_expiration(call: ApiRequest) -> ApiResponse:
    within, unit = call.params["within"], call.params["unit"]
    if unit not in _DAYS:
        raise bad_request("Time unit not recognised. Supported units: days, weeks, months, years.")
    if not within.isascii() or not within.isdigit() or len(within) > 9:
        raise bad_request("Invalid expiration value.")
    facts = call.context.facts
    until_ms = facts.now_ms() + int(within) * _DAYS[unit] * _DAY_MS
    expiring = [
        {
            "node": facts.name,
            "interface": found.listener.host,
            "port": found.listener.port,
            "protocol": found.listener.protocol,
            "certfile": found.path,
            "certfile_expires_on": found.expires_at_ms // 1000,
        }
        for found in facts.certificates()
        if found.expires_at_ms <= until_ms
    ]
    return _failed("Certificates expiring", expired=expiring) if expiring else _good()


async def port_listener(call: ApiRequest) -> ApiResponse:
    text = call.params["port"]
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise bad_request("Invalid port")
    port = int(text)
    ports = sorted({listener.port for listener in call.context.facts.listeners()})
    return _good(port=port) if port in ports else _failed("No active listener", missing=port, ports=ports)


async def protocol_listener(call: ApiRequest) -> ApiResponse:
    named = call.params["protocol"]
    protocol = _PROTOCOL_NAMES.get(named.lower(), named)
    protocols = list(dict.fromkeys(listener.protocol for listener in call.context.facts.listeners()))
    if protocol in protocols:
        return _good(protocol=protocol)
    return _failed("No active listener", missing=protocol, protocols=protocols)


async def virtual_hosts(call: ApiRequest) -> ApiResponse:
    """Every virtual host that exists is up."""
    return _good()


async def mirror_sync_critical(call: ApiRequest) -> ApiResponse:
    """Whether queues with their master here have mirrors but none in sync."""
    if len(call.context.peers.names()) == 1:
        return _good(reason="single node cluster")
    broker, own = call.context.broker, call.context.peers.own
    mirrors = MirrorRows(broker)
    critical = [
        {
            "name": queue.name,
            "readable_name": f"queue '{queue.name}' in vhost '{queue.vhost}'",
            "virtual_host": queue.vhost,
            "type": "classic",
        }
        for vhost in broker.vhosts.values()
        for queue in vhost.topology.queues.values()
        if isinstance(queue, RemoteQueue | MirroredQueueProxy) and queue.node == own
        if queue.replica_set is not None and mirrors.is_last_in_sync(queue.replica_set)
    ]
    reason = "There are classic mirrored queues without online synchronised mirrors"
    return _failed(reason, queues=critical) if critical else _good()


async def quorum_critical(call: ApiRequest) -> ApiResponse:
    """Whether the cluster would lose its majority without this node."""
    peers = call.context.peers
    names = peers.names()
    if len(names) == 1:
        return _good(reason="single node cluster")
    discs = [name for name in names if peers.kind(name) == "disc"]
    left = [name for name in peers.running() if name in discs and name != peers.own]
    if peers.own not in discs or len(left) > len(discs) // 2:
        return _good()
    reason = "There are not enough other disc nodes for a majority if the target node is shut down"
    return _failed(reason, disc_nodes=discs, running_disc_nodes=sorted([*left, peers.own]))
