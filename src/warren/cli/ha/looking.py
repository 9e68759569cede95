"""Looks at a deployment from outside: at each door and each node at the same time, then at the cluster behind them.

Not here: single questions (`cli.ha.probes`), what they mean (`ha.verdict`).
"""

import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from warren.cli.ctl.api import Api
from warren.cli.ctl.failure import Failure
from warren.cli.ha.probes import ask_fitness, greet
from warren.client import ClientError, blocking
from warren.ha.deployment import AMQP, AMQPS, HTTP, HTTPS, Balancer, BrokerNode, Deployment, endpoint
from warren.ha.sightings import ClusterSighting, Door, NodeSighting, Sightings

_PATIENCE_S = 20.0
_SEEN_WITHIN_S = 10.0
_QUEUE_COLUMNS = ["name", "vhost", "exclusive", "slave_nodes", "synchronised_slave_nodes"]


@dataclass(frozen=True)
class Visitor:
    """As whom the cluster is asked; without a name it is not."""

    user: str = ""
    password: str = ""
    ca_file: str = ""


def look(deployment: Deployment, visitor: Visitor) -> Sightings:
    doors: list[Callable[[], Door]] = [lambda: _door(deployment, deployment.virtual_address, None)]
    doors += [_bound(deployment, balancer) for balancer in deployment.balancers]
    with ThreadPoolExecutor(max_workers=32) as pool:
        found_doors = [pool.submit(door) for door in doors]
        found_nodes = [pool.submit(_node, deployment, node) for node in deployment.nodes]
        seen = Sightings(tuple(door.result() for door in found_doors), tuple(node.result() for node in found_nodes))
    return replace(seen, cluster=_cluster(deployment, seen, visitor)) if visitor.user else seen


def _bound(deployment: Deployment, balancer: Balancer) -> Callable[[], Door]:
    return lambda: _door(deployment, balancer.address, balancer)


def _door(deployment: Deployment, address: str, balancer: Balancer | None) -> Door:
    ports = deployment.ports
    return Door(
        address,
        balancer,
        tuple(greet(address, ports[kind], tls=kind == AMQPS) for kind in (AMQP, AMQPS) if kind in ports),
        tuple(ask_fitness(address, ports[kind], tls=kind == HTTPS) for kind in (HTTP, HTTPS) if kind in ports),
    )


def _node(deployment: Deployment, node: BrokerNode) -> NodeSighting:
    """Without a header first, as anybody would; who closes that may want one."""
    kind = HTTP if HTTP in node.ports else HTTPS
    answer = ask_fitness(node.address, node.ports[kind], tls=kind == HTTPS)
    wants_header = False
    if answer.silent:
        asked_again = ask_fitness(node.address, node.ports[kind], tls=kind == HTTPS, header=True)
        wants_header = not asked_again.refusal
        answer = asked_again if wants_header else answer
    greeting = None
    amqp = next((each for each in (AMQP, AMQPS) if each in node.ports), None)
    if amqp is not None and not answer.refusal:
        greeting = greet(node.address, node.ports[amqp], tls=amqp == AMQPS)
        if greeting.silent:
            with_header = greet(node.address, node.ports[amqp], tls=amqp == AMQPS, header=True)
            if not with_header.refusal:
                greeting, wants_header = with_header, True
    puzzled = wants_header or answer.refusal or (greeting is not None and greeting.unreached)
    return NodeSighting(node, answer, greeting, wants_header, own_address(node.address) if puzzled else "")


def _cluster(deployment: Deployment, seen: Sightings, visitor: Visitor) -> ClusterSighting:
    """Through the first door that leads to a node, or else by a node itself."""
    url = _way_in(deployment, seen)
    if url is None:
        return ClusterSighting(refusal="no door and no node answers over HTTP")
    try:
        with closing(Api(url, visitor.user, visitor.password, visitor.ca_file, _PATIENCE_S)) as api:
            told = ClusterSighting(tuple(api.get("nodes")), tuple(api.pages("queues", columns=_QUEUE_COLUMNS)))
            return _with_own_connection(deployment, told, visitor, api)
    except Failure as failure:
        return ClusterSighting(refusal=failure.text.strip().splitlines()[-1].strip(" *"))


def _way_in(deployment: Deployment, seen: Sightings) -> str | None:
    kinds = {deployment.ports[kind]: kind for kind in (HTTP, HTTPS) if kind in deployment.ports}
    for door in seen.doors:
        for answer in door.answers:
            if answer.standing:
                return f"{kinds[answer.port]}://{endpoint(door.address, answer.port)}"
    for sighting in seen.nodes:
        if sighting.answer.standing and not sighting.wants_header:
            own = HTTP if HTTP in sighting.node.ports else HTTPS
            return f"{own}://{sighting.node.endpoint(own)}"
    return None


def _with_own_connection(deployment: Deployment, told: ClusterSighting, visitor: Visitor, api: Api) -> ClusterSighting:
    """Log in through the virtual address, and find out who the nodes think we are."""
    name = f"warren ha check {uuid4()}"
    try:
        connection = blocking.connect(_amqp_url(deployment, visitor), name=name, call_timeout_s=_PATIENCE_S)
    except ClientError as error:
        return replace(told, login_refusal=str(error))
    with closing(connection):
        row = _found(api, name)
    return replace(told, called_from=own_address(deployment.virtual_address), seen_from=str(row.get("peer_host", "")))


def _amqp_url(deployment: Deployment, visitor: Visitor) -> str:
    kind = AMQP if AMQP in deployment.ports else AMQPS
    login = f"{quote(visitor.user, safe='')}:{quote(visitor.password, safe='')}"
    trust = ""
    if kind == AMQPS:
        trust = f"?cacertfile={quote(visitor.ca_file, safe='')}" if visitor.ca_file else "?verify=verify_none"
    return f"{kind}://{login}@{endpoint(deployment.virtual_address, deployment.ports[kind])}/{trust}"


def _found(api: Api, name: str) -> dict[str, Any]:
    """Our connection's row; nodes tell each other of connections with a little delay."""
    deadline = time.monotonic() + _SEEN_WITHIN_S
    while True:
        for row in api.pages("connections", columns=["peer_host", "user_provided_name"]):
            if row.get("user_provided_name") == name:
                return row
        if time.monotonic() > deadline:
            return {}
        time.sleep(0.2)


def own_address(host: str) -> str:
    """The address from which this machine reaches another, or none; nothing is sent to learn it."""
    try:
        [(family, _, _, _, there), *_] = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(there)
            return str(probe.getsockname()[0])
    except OSError:
        # a name that nobody knows, or no way there
        return ""
