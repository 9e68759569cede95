"""Health checks: 200 and `ok`, or 503 and the reason. Beside RabbitMQ's, which want a password, one for load balancers,
which have none.

Not here: the aliveness test, which sends a message.
"""

from warren.admin.cluster.forwarding import at_node
from warren.admin.http.answers import Answer, json_answer
from warren.admin.http.call import Call
from warren.admin.http.faults import bad_request
from warren.admin.http.levels import manager
from warren.admin.http.router import Handler, Resource
from warren.admin.station import Station
from warren.admin.views.alarms import cluster_alarms, local_alarms
from warren.admin.views.catching_up import Arrivals
from warren.admin.views.fitness import PATH, RELUCTANT_STATUSES, UNFIT_STATUS, fitness_row, reasons_of, status_of
from warren.admin.views.rings import Mirrors
from warren.remote.remote_queue import RemoteQueue
from warren.remote.seat import Seat

_DAYS = {"days": 1, "weeks": 7, "months": 28, "years": 365}
_DAY_MS = 24 * 3600 * 1000
_PROTOCOL_NAMES = {"amqp091": "amqp", "amqp0.9.1": "amqp", "amqp0-9-1": "amqp", "amqps": "amqp/ssl"}


def routes(station: Station) -> dict[str, Resource]:
    checks = {
        "/api/healthchecks/node": node_health,
        "/api/healthchecks/node/{node}": at_node(node_health),
        "/api/health/checks/alarms": alarms,
        "/api/health/checks/local-alarms": alarms_here,
        "/api/health/checks/certificate-expiration/{within}/{unit}": certificate_expiration,
        "/api/health/checks/port-listener/{port}": port_listener,
        "/api/health/checks/protocol-listener/{protocol}": protocol_listener,
        "/api/health/checks/virtual-hosts": virtual_hosts,
        "/api/health/checks/node-is-mirror-sync-critical": mirror_sync_critical,
        "/api/health/checks/node-is-quorum-critical": quorum_critical,
    }
    found = {template: Resource(manager, {"GET": check}) for template, check in checks.items()}
    return {**found, PATH: Resource(None, {"GET": fitness_of(Arrivals())})}


def fitness_of(arrivals: Arrivals) -> Handler:
    async def fitness(call: Call) -> Answer:
        """Whether load balancers should send clients here, and if not, why."""
        wanted = call.query.get("reluctant", str(UNFIT_STATUS))
        if wanted not in RELUCTANT_STATUSES:
            raise bad_request(f"reluctant must be one of {', '.join(RELUCTANT_STATUSES)}, not {wanted!r}")
        station = call.station
        syncs = arrivals.under_way(station.broker, station.facts.now_ms())
        reasons = reasons_of(station.broker, station.facts, syncs)
        status = status_of(reasons, RELUCTANT_STATUSES[wanted])
        return json_answer(fitness_row(station.facts.name, reasons), status)

    return fitness


def _good(**facts: object) -> Answer:
    return json_answer({"status": "ok", **facts})


def _failed(reason: str, **facts: object) -> Answer:
    return json_answer({"status": "failed", "reason": reason, **facts}, 503)


async def node_health(call: Call) -> Answer:
    if local_alarms(call.station.broker):
        return json_answer({"status": "failed", "reason": "resource alarm(s) in effect"})
    return _good()


async def alarms(call: Call) -> Answer:
    raised = cluster_alarms(call.station.broker)
    return _failed("There are alarms in effect in the cluster", alarms=raised) if raised else _good()


async def alarms_here(call: Call) -> Answer:
    raised = local_alarms(call.station.broker)
    return _failed("There are alarms in effect on the node", alarms=raised) if raised else _good()


async def certificate_expiration(call: Call) -> Answer:
    within, unit = call.params["within"], call.params["unit"]
    if unit not in _DAYS:
        raise bad_request("Time unit not recognised. Supported units: days, weeks, months, years.")
    if not within.isascii() or not within.isdigit() or len(within) > 9:
        raise bad_request("Invalid expiration value.")
    facts = call.station.facts
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


async def port_listener(call: Call) -> Answer:
    text = call.params["port"]
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise bad_request("Invalid port")
    port = int(text)
    ports = sorted({listener.port for listener in call.station.facts.listeners()})
    return _good(port=port) if port in ports else _failed("No active listener", missing=port, ports=ports)


async def protocol_listener(call: Call) -> Answer:
    named = call.params["protocol"]
    protocol = _PROTOCOL_NAMES.get(named.lower(), named)
    protocols = list(dict.fromkeys(listener.protocol for listener in call.station.facts.listeners()))
    if protocol in protocols:
        return _good(protocol=protocol)
    return _failed("No active listener", missing=protocol, protocols=protocols)


async def virtual_hosts(call: Call) -> Answer:
    """A virtual host that is there is up."""
    return _good()


async def mirror_sync_critical(call: Call) -> Answer:
    """Whether queues whose masters are here have mirrors, none of which could take over."""
    if len(call.station.peers.names()) == 1:
        return _good(reason="single node cluster")
    broker, own = call.station.broker, call.station.peers.own
    mirrors = Mirrors(broker)
    critical = [
        {
            "name": queue.name,
            "readable_name": f"queue '{queue.name}' in vhost '{queue.vhost}'",
            "virtual_host": queue.vhost,
            "type": "classic",
        }
        for vhost in broker.vhosts.values()
        for queue in vhost.topology.queues.values()
        if isinstance(queue, RemoteQueue | Seat) and queue.node == own
        if queue.ring is not None and mirrors.is_last_in_sync(queue.ring)
    ]
    reason = "There are classic mirrored queues without online synchronised mirrors"
    return _failed(reason, queues=critical) if critical else _good()


async def quorum_critical(call: Call) -> Answer:
    """Whether the cluster could agree upon nothing any more if this node went."""
    peers = call.station.peers
    names = peers.names()
    if len(names) == 1:
        return _good(reason="single node cluster")
    discs = [name for name in names if peers.kind(name) == "disc"]
    left = [name for name in peers.running() if name in discs and name != peers.own]
    if peers.own not in discs or len(left) > len(discs) // 2:
        return _good()
    reason = "There are not enough other disc nodes for a majority if the target node is shut down"
    return _failed(reason, disc_nodes=discs, running_disc_nodes=sorted([*left, peers.own]))
