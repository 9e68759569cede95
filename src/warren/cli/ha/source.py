"""Where a command gets its deployment: a file, or a running cluster and options.

A cluster reports its nodes and their listeners, not the balancers and the virtual address. A node's address is that of
a listener or of a link to it, or the host in its name. Listeners for other purposes, like metrics, need not be
reachable for clients. Loopback addresses count only if there are no others.

Firewall rules need addresses, so host names are resolved for them. HAProxy resolves names itself.

Not here: the file format (`cli.ha.deployment_file`).
"""

import ipaddress
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from warren.cli.ctl.api import Api, Failure
from warren.cli.ha import deployment_file
from warren.cli.ha.deployment import (
    AMQP,
    AMQPS,
    DISC,
    FRONT_KINDS,
    HTTP,
    HTTPS,
    KINDS,
    METRICS,
    PEER,
    USUAL_PORTS,
    WITNESS,
    Balancer,
    BrokerNode,
    Deployment,
    canonical,
    is_ip,
    is_loopback,
    problem,
)
from warren.errors import ConfigError, WarrenError

_KINDS_OF_LISTENERS = {"amqp": AMQP, "amqp/ssl": AMQPS, "http": HTTP, "https": HTTPS, "clustering": PEER}
_METRICS_LISTENER = "http/prometheus"
Rows = Sequence[Mapping[str, Any]]


def nodes_of(nodes: Rows, listeners: Rows) -> tuple[BrokerNode, ...]:
    """From the rows of `/api/nodes` and the listeners of `/api/overview`; all nodes must run."""
    down = [str(row["name"]) for row in nodes if not row.get("running")]
    if down:
        raise ConfigError(
            f"these nodes do not run, so their listeners are unknown: {', '.join(down)}; start them, or describe "
            "the deployment in a file"
        )
    return tuple(_node(row, nodes, listeners) for row in sorted(nodes, key=lambda row: str(row["name"])))


def _node(row: Mapping[str, Any], nodes: Rows, listeners: Rows) -> BrokerNode:
    name = str(row["name"])
    own = [listener for listener in listeners if listener.get("node") == name]
    ports: dict[str, int] = {}
    for listener in own:
        kind = _KINDS_OF_LISTENERS.get(str(listener.get("protocol")))
        if kind is not None:
            ports.setdefault(kind, int(listener["port"]))
        elif listener.get("protocol") == _METRICS_LISTENER and int(listener["port"]) != USUAL_PORTS[METRICS]:
            ports.setdefault(METRICS, int(listener["port"]))
    kind = WITNESS if row.get("witness") else str(row.get("type", DISC))
    return BrokerNode(name, _address(name, nodes, own), kind if kind in KINDS else DISC, ports)


def _address(name: str, nodes: Rows, own: Rows) -> str:
    listening = [each.get("ip_address") for each in own if str(each.get("protocol")) in _KINDS_OF_LISTENERS]
    dialled = [link.get("peer_addr") for row in nodes for link in row.get("cluster_links", ()) if link["name"] == name]
    definite = [str(found).strip("[]") for found in (*listening, *dialled) if _is_definite(str(found))]
    elsewhere = [address for address in definite if not is_loopback(address)]
    if elsewhere:
        return elsewhere[0]
    everywhere = not all(_is_definite(str(address)) for address in listening)
    return definite[0] if definite and not everywhere else name.partition("@")[2]


def _is_definite(address: str) -> bool:
    bare = address.strip("[]")
    return is_ip(bare) and not ipaddress.ip_address(bare).is_unspecified


_API_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class DeploymentSource:
    """Options of the command line."""

    file: str
    url: str = ""
    user: str = ""
    password: str = ""
    virtual: str = ""
    balancers: tuple[str, ...] = ()
    interface: str = "eth0"
    ca_file: str = ""


def deployment_of(source: DeploymentSource) -> Deployment:
    if bool(source.file) == bool(source.url):
        raise ConfigError(
            "give the FILE that describes the deployment, or --from with the URL of a running node's HTTP API"
        )
    if source.file and (source.virtual or source.balancers):
        raise ConfigError(f"--virtual and --balancer belong to --from; {source.file} must have these settings itself")
    return _of_cluster(source) if source.url else read_file(source.file)


def read_file(name: str) -> Deployment:
    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name} cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}") from error
    return deployment_file.parse_deployment(text, name)


def credentials(user: str, password: str) -> tuple[str, str]:
    """As in `warren ctl`."""
    return (
        user or os.environ.get("WARREN_USER") or "guest",
        password or os.environ.get("WARREN_PASSWORD") or "guest",
    )


def _of_cluster(source: DeploymentSource) -> Deployment:
    if not source.virtual:
        raise ConfigError(
            "--from needs --virtual ADDRESS/LENGTH, the address that clients will know, like 10.0.0.10/24"
        )
    address, slash, length = source.virtual.partition("/")
    if not slash or not length.isascii() or not length.isdigit():
        raise ConfigError(f"--virtual must be like 10.0.0.10/24, not {source.virtual}")
    nodes = nodes_of(*_asked(source))
    kinds = [kind for kind in FRONT_KINDS if any(kind in node.ports for node in nodes)]
    ports = {kind: next(node.ports[kind] for node in nodes if kind in node.ports) for kind in kinds}
    balancers = tuple(_balancer(each, source.interface) for each in source.balancers)
    deployment = Deployment(canonical(address), int(length[:4]), balancers, nodes, ports)
    wrong = problem(deployment)
    if wrong is not None:
        raise ConfigError(wrong)
    return deployment


def _balancer(text: str, interface: str) -> Balancer:
    name, equals, address = text.partition("=")
    if not equals:
        raise ConfigError(f"--balancer must be NAME=ADDRESS, like lb1=10.0.0.11, not {text}")
    address, _, own_interface = address.partition("%")
    return Balancer(name, canonical(address), own_interface or interface)


def _asked(source: DeploymentSource) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    try:
        with closing(
            Api(source.url, *credentials(source.user, source.password), source.ca_file, _API_TIMEOUT_S)
        ) as api:
            nodes, overview = api.get("nodes"), api.get("overview")
    except Failure as failure:
        raise WarrenError(f"{source.url} cannot be asked for its nodes: {_last_line(failure.text)}") from failure
    if not _is_rows(nodes) or not isinstance(overview, dict):
        raise WarrenError(f"the server at {source.url} is not a node of Warren: it reports no nodes")
    if not isinstance(overview.get("listeners"), list):
        raise WarrenError(
            f"{source.url} does not show the nodes' listeners to this user: the user needs the tag monitoring"
        )
    return nodes, overview["listeners"]


def _is_rows(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(row, dict) and "name" in row for row in found)


def _last_line(text: str) -> str:
    return text.strip().splitlines()[-1].strip(" *")


def with_addresses(deployment: Deployment) -> Deployment:
    """The same with IP addresses only, in the family of the virtual address; `WarrenError` names a node without one."""
    family = socket.AF_INET6 if deployment.is_ipv6 else socket.AF_INET
    among_ourselves = all(is_loopback(each.address) for each in deployment.balancers)
    return replace(deployment, nodes=tuple(_looked_up(node, family, among_ourselves) for node in deployment.nodes))


def _looked_up(node: BrokerNode, family: socket.AddressFamily, among_ourselves: bool) -> BrokerNode:
    """A machine often resolves itself to a loopback address; with `among_ourselves` all are on one machine."""
    if is_ip(node.address):
        return node
    try:
        found = socket.getaddrinfo(node.address, None, family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise WarrenError(
            f"node {node.name} is at {node.address}, and firewall rules need addresses, but the name cannot be "
            f"resolved here ({getattr(error, 'strerror', None) or error}): give its address in the deployment"
        ) from error
    address = str(found[0][4][0])
    if is_loopback(address) and not among_ourselves:
        raise WarrenError(
            f"node {node.name} is at {node.address}, which means {address} on this machine only, and cannot be used in "
            "rules for other machines: give its address in the deployment, or run this on a machine without a node"
        )
    return replace(node, address=address)
