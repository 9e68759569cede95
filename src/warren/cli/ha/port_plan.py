"""Ports that must be open on each machine, and nftables rules for them.

The rules restrict only the ports of this deployment, so loading them over SSH does not cut the connection. They are a
table of their own that is replaced as a whole, so they can be loaded repeatedly.

Not here: resolving names (`cli.ha.source`).
"""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from warren.cli.ha.deployment import (
    AMQP,
    AMQPS,
    DISC,
    ETCD_STEPS,
    HTTP,
    HTTPS,
    METRICS,
    PEER,
    RAM,
    USUAL_PORTS,
    WITNESS,
    Balancer,
    BrokerNode,
    Deployment,
)
from warren.errors import ConfigError

VRRP: Final = 112
"""The IP protocol number of VRRP, which the balancers speak with each other."""
ANYWHERE: Final = "anywhere"
_WORDS = {AMQP: "AMQP", AMQPS: "AMQP over TLS", HTTP: "HTTP API and pages", HTTPS: "HTTP API and pages over TLS"}
_KINDS = {DISC: "disc node", RAM: "RAM node", WITNESS: "witness"}


@dataclass(frozen=True)
class PortUsers:
    """Allowed clients: a word for them, and their addresses and networks; none means any."""

    words: str
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class OpenPort:
    """A TCP port; 0 stands for VRRP, which has no ports."""

    port: int
    users: PortUsers
    what: str


@dataclass(frozen=True)
class Machine:
    """A machine and its open ports; everything at one address is one machine."""

    names: tuple[str, ...]
    address: str
    openings: tuple[OpenPort, ...]


def machines(deployment: Deployment) -> list[Machine]:
    """Balancers first, in the order of the deployment."""
    found: dict[str, tuple[list[str], list[OpenPort]]] = {}
    for balancer in deployment.balancers:
        names, openings = found.setdefault(balancer.address, ([], []))
        names.append(balancer.name)
        openings += _of_balancer(deployment, balancer)
    for node in deployment.nodes:
        names, openings = found.setdefault(node.address, ([], []))
        names.append(f"{node.name}, {_KINDS[node.kind]}")
        openings += _of_node(deployment, node)
    return [Machine(tuple(names), address, tuple(openings)) for address, (names, openings) in found.items()]


def _of_balancer(deployment: Deployment, balancer: Balancer) -> Iterator[OpenPort]:
    clients = PortUsers("clients", deployment.clients)
    operators = PortUsers("operators", deployment.operators)
    for kind in deployment.served():
        yield OpenPort(deployment.ports[kind], clients if kind in (AMQP, AMQPS) else operators, _WORDS[kind])
    others = [each for each in deployment.balancers if each != balancer]
    users = PortUsers(", ".join(each.name for each in others), tuple(each.address for each in others))
    yield OpenPort(0, users, f"VRRP: who has {deployment.virtual_address}")


def _of_node(deployment: Deployment, node: BrokerNode) -> Iterator[OpenPort]:
    balancers = PortUsers("balancers", tuple(each.address for each in deployment.balancers))
    operators = PortUsers("operators", deployment.operators)
    for kind in (AMQP, AMQPS, HTTP, HTTPS):
        if kind in node.ports:
            health = ", health check" if kind == node.health_kind else ""
            yield OpenPort(node.ports[kind], balancers, _WORDS[kind] + health)
            if kind in (HTTP, HTTPS):
                yield OpenPort(node.ports[kind], operators, "the same, for warren ctl and warren ha check")
    yield OpenPort(node.ports.get(METRICS, USUAL_PORTS[METRICS]), operators, "metrics for Prometheus")
    others = [each for each in deployment.nodes if each != node]
    if others:
        yield from _among_nodes(node, others)


def _among_nodes(node: BrokerNode, others: list[BrokerNode]) -> Iterator[OpenPort]:
    port = node.ports.get(PEER, USUAL_PORTS[PEER])
    all_nodes = PortUsers("other nodes", _addresses(others))
    yield OpenPort(port, all_nodes, "links between nodes")
    if node.kind == RAM:
        return
    for_clients, for_members = ETCD_STEPS
    yield OpenPort(port + for_clients, all_nodes, "etcd: definitions")
    members = PortUsers("other disc nodes", _addresses([each for each in others if each.kind != RAM]))
    if members.sources:
        yield OpenPort(port + for_members, members, "etcd: its members")


def _addresses(nodes: list[BrokerNode]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(node.address for node in nodes))


def nftables_rules(machine: Machine) -> str:
    """A file for `nft -f`."""
    return "\n".join(_lines(machine)) + "\n"


def _lines(machine: Machine) -> Iterator[str]:
    yield "#!/usr/sbin/nft -f"
    yield f"# For {'; '.join(machine.names)} ({machine.address}), written by `warren ha plan`."
    yield "# Only the ports named here are guarded. Another table may still drop what this one accepts."
    yield "table inet warren"
    yield "delete table inet warren"
    yield "table inet warren {"
    yield "    chain input {"
    yield "        type filter hook input priority filter; policy accept;"
    yield "        ct state established,related accept"
    yield '        iif "lo" accept'
    for opening in machine.openings:
        for matching in _sources(opening):
            yield f"        {matching}{_what(opening)} accept comment {_quoted(opening)}"
    ports = sorted({opening.port for opening in machine.openings if opening.port})
    yield f"        tcp dport {{ {', '.join(map(str, ports))} }} counter drop"
    if any(not opening.port for opening in machine.openings):
        yield f"        meta l4proto {VRRP} counter drop"
    yield "    }"
    yield "}"


def _what(opening: OpenPort) -> str:
    return f"tcp dport {opening.port}" if opening.port else f"meta l4proto {VRRP}"


def _sources(opening: OpenPort) -> Iterator[str]:
    """One match for each address family; an empty one for any client."""
    if not opening.users.sources:
        yield ""
        return
    for family, word in ((4, "ip"), (6, "ip6")):
        found = [source for source in opening.users.sources if _family(source) == family]
        if found:
            yield f"{word} saddr {{ {', '.join(found)} }} "


def _family(source: str) -> int:
    try:
        return ipaddress.ip_network(source).version
    except ValueError:
        raise ConfigError(f"a firewall needs addresses, and {source} is a name") from None


def _quoted(opening: OpenPort) -> str:
    return '"' + f"{opening.users.words}: {opening.what}".replace('"', "'")[:120] + '"'


def plan_text(deployment: Deployment) -> str:
    """The plan of all machines."""
    parts = [f"Clients know one address: {deployment.virtual_address}\n"]
    for machine in machines(deployment):
        parts += [_heading(machine), *_table(machine), "", "Firewall:\n", nftables_rules(machine)]
    return "\n".join(parts)


def rules_of(deployment: Deployment, name: str) -> str:
    """The firewall rules of the machine with this name or address."""
    found = machines(deployment)
    for machine in found:
        if name == machine.address or name in (each.partition(",")[0] for each in machine.names):
            return nftables_rules(machine)
    known = ", ".join(each.partition(",")[0] for machine in found for each in machine.names)
    raise ConfigError(f"there is no machine {name} in this deployment; there are {known}")


def _heading(machine: Machine) -> str:
    title = f"{'; '.join(machine.names)} at {machine.address}"
    return f"{title}\n{'-' * len(title)}"


def _table(machine: Machine) -> Iterator[str]:
    rows = [(_port(opening), _from(opening), opening.what) for opening in machine.openings]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for port, users, what in rows:
        yield f"{port:{widths[0]}}  from {users:{widths[1]}}  {what}"


def _port(opening: OpenPort) -> str:
    return f"tcp {opening.port}" if opening.port else f"protocol {VRRP}"


def _from(opening: OpenPort) -> str:
    sources = ", ".join(opening.users.sources) or ANYWHERE
    return f"{opening.users.words} ({sources})"
