"""Which ports of which machine must be open, for whom and for what.

Not here: how that is printed (`ha.plan`), and enforced (`ha.firewall`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from warren.ha.deployment import (
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

VRRP: Final = 112
"""The number of the protocol, beside TCP and UDP, that the balancers speak with each other."""
ANYWHERE: Final = "anywhere"
_WORDS = {AMQP: "AMQP", AMQPS: "AMQP over TLS", HTTP: "HTTP API and pages", HTTPS: "HTTP API and pages over TLS"}
_KINDS = {DISC: "disc node", RAM: "RAM node", WITNESS: "witness"}


@dataclass(frozen=True)
class Whom:
    """Somebody who may come in: in words, and the addresses and networks they come from; none means anybody."""

    words: str
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class Opening:
    """A port of TCP; 0 is VRRP, which has no ports."""

    port: int
    whom: Whom
    what: str


@dataclass(frozen=True)
class Machine:
    """A machine and what it lets in; everything on one address is one machine."""

    names: tuple[str, ...]
    address: str
    openings: tuple[Opening, ...]


def machines(deployment: Deployment) -> list[Machine]:
    """Balancers first, in the order of the deployment."""
    found: dict[str, tuple[list[str], list[Opening]]] = {}
    for balancer in deployment.balancers:
        names, openings = found.setdefault(balancer.address, ([], []))
        names.append(balancer.name)
        openings += _of_balancer(deployment, balancer)
    for node in deployment.nodes:
        names, openings = found.setdefault(node.address, ([], []))
        names.append(f"{node.name}, {_KINDS[node.kind]}")
        openings += _of_node(deployment, node)
    return [Machine(tuple(names), address, tuple(openings)) for address, (names, openings) in found.items()]


def _of_balancer(deployment: Deployment, balancer: Balancer) -> Iterator[Opening]:
    clients = Whom("clients", deployment.clients)
    people = Whom("operators", deployment.operators)
    for kind in deployment.served():
        yield Opening(deployment.ports[kind], clients if kind in (AMQP, AMQPS) else people, _WORDS[kind])
    others = [each for each in deployment.balancers if each != balancer]
    whom = Whom(", ".join(each.name for each in others), tuple(each.address for each in others))
    yield Opening(0, whom, f"VRRP: who has {deployment.virtual_address}")


def _of_node(deployment: Deployment, node: BrokerNode) -> Iterator[Opening]:
    balancers = Whom("balancers", tuple(each.address for each in deployment.balancers))
    people = Whom("operators", deployment.operators)
    for kind in (AMQP, AMQPS, HTTP, HTTPS):
        if kind in node.ports:
            health = ", and how the node is" if kind == node.health_kind else ""
            yield Opening(node.ports[kind], balancers, _WORDS[kind] + health)
            if kind in (HTTP, HTTPS):
                yield Opening(node.ports[kind], people, "the same, for warren ctl and warren ha check")
    yield Opening(node.ports.get(METRICS, USUAL_PORTS[METRICS]), people, "metrics for Prometheus")
    others = [each for each in deployment.nodes if each != node]
    if others:
        yield from _among_nodes(node, others)


def _among_nodes(node: BrokerNode, others: list[BrokerNode]) -> Iterator[Opening]:
    port = node.ports.get(PEER, USUAL_PORTS[PEER])
    everybody = Whom("other nodes", _addresses(others))
    yield Opening(port, everybody, "links between nodes")
    if node.kind == RAM:
        return
    for_clients, for_members = ETCD_STEPS
    yield Opening(port + for_clients, everybody, "etcd: definitions")
    members = Whom("other disc nodes", _addresses([each for each in others if each.kind != RAM]))
    if members.sources:
        yield Opening(port + for_members, members, "etcd: its members")


def _addresses(nodes: list[BrokerNode]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(node.address for node in nodes))
