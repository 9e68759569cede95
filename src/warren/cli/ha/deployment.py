r"""A deployment: broker nodes, load balancers in front of them, and one address for clients.

::

                     virtual address            on one balancer at a time (VRRP, Keepalived)
                    /               \
        balancer lb1                 balancer lb2          HAProxy on both, with the same nodes behind them
              |      \            /      |
           node n1      node n2      node n3              a cluster; each takes any client

Invariant: a `Deployment` without a `problem` can be rendered, planned and checked.

Not here: reading it (`cli.ha.deployment_file`, `cli.ha.source`), using it (`cli.ha.bundle`, `cli.ha.port_plan`).
"""

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

AMQP, AMQPS, HTTP, HTTPS, PEER, METRICS = "amqp", "amqps", "http", "https", "peer", "metrics"
USUAL_PORTS: Final = {AMQP: 5672, AMQPS: 5671, HTTP: 15672, HTTPS: 15671, PEER: 25672, METRICS: 15692}
FRONT_KINDS: Final = (AMQP, AMQPS, HTTP, HTTPS)
DISC, RAM, WITNESS = "disc", "ram", "witness"
KINDS: Final = (DISC, RAM, WITNESS)
ETCD_STEPS: Final = (1000, 2000)
"""Offsets from a disc node's peer port to the client port and the peer port of its etcd member."""
FITNESS_PATH: Final = "/api/warren/fitness"
DEPLOYMENT_FILE: Final = "deployment.toml"
"""The file that describes the deployment, beside the folders of the machines."""
BALANCER_HEADER: Final = "x-balancer"
"""The response header that names the balancer."""
PROGRAM: Final = "/opt/warren/.venv/bin/warren"
"""The path of `warren` on a node's machine."""

_HOST_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"(?=.{{1,253}}$){_HOST_LABEL}(\.{_HOST_LABEL})*")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_NODE_NAME = re.compile(r"[A-Za-z0-9._-]{1,120}@[A-Za-z0-9._:-]{1,120}")
_INTERFACE = re.compile(r"[A-Za-z0-9._@:-]{1,15}")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")
_ALL_DIGITS = re.compile(r"[0-9.]+")


@dataclass(frozen=True)
class BrokerNode:
    """One node; `address` is how the balancers reach it, `ports` its listeners by kind."""

    name: str
    address: str
    kind: str = DISC
    ports: dict[str, int] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The name in configurations that do not allow `@`."""
        return self.name.replace("@", "-at-").replace(":", "-")

    @property
    def health_kind(self) -> str:
        """The listener for health checks."""
        return HTTP if HTTP in self.ports else HTTPS

    def endpoint(self, kind: str) -> str:
        return endpoint(self.address, self.ports[kind])


@dataclass(frozen=True)
class Balancer:
    """A machine with HAProxy and Keepalived; `interface` has its own `address` and will have the virtual one."""

    name: str
    address: str
    interface: str


@dataclass(frozen=True)
class HaproxySettings:
    """Settings of HAProxy; without a `user` it changes neither user nor root directory."""

    user: str = "haproxy"
    run_directory: str = "/run/haproxy"
    maxconn: int = 20_000
    health_port: int = 8404


@dataclass(frozen=True)
class KeepalivedSettings:
    """Settings of Keepalived; `directory` has its configuration and the check script."""

    router_id: int = 51
    directory: str = "/etc/keepalived"
    script_user: str = "root"
    advert_s: float = 0.5


@dataclass(frozen=True)
class Deployment:
    """All of it. `ports` are those of the virtual address; with `proxy_protocol` nodes see the client's address.

    `clients` and `operators` are their networks; none means any. `program` is the path of `warren` on the nodes'
    machines.
    """

    virtual_address: str
    prefix: int
    balancers: tuple[Balancer, ...]
    nodes: tuple[BrokerNode, ...]
    ports: dict[str, int]
    proxy_protocol: bool = True
    clients: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    program: str = PROGRAM
    haproxy: HaproxySettings = HaproxySettings()
    keepalived: KeepalivedSettings = KeepalivedSettings()

    @property
    def is_ipv6(self) -> bool:
        return ":" in self.virtual_address

    def served(self) -> list[str]:
        """The kinds of connections that the virtual address accepts."""
        return [kind for kind in FRONT_KINDS if kind in self.ports]

    def behind(self, kind: str) -> list[BrokerNode]:
        """The nodes that accept such connections."""
        return [node for node in self.nodes if kind in node.ports]


def endpoint(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def is_ip(text: str) -> bool:
    """Without a scope (`fe80::1%eth0`), which is valid on one machine only; Python would accept any text as one."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def is_loopback(text: str) -> bool:
    return is_ip(text) and ipaddress.ip_address(text).is_loopback


def canonical(text: str) -> str:
    """An IP address in its usual notation; other texts unchanged."""
    return str(ipaddress.ip_address(text)) if is_ip(text) else text


def canonical_network(text: str) -> str:
    """A network with its prefix length, which may be given as a mask; other texts unchanged."""
    return str(ipaddress.ip_network(text)) if _is_network(text) else text


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return "%" not in text


def _is_of_a_machine(text: str) -> bool:
    """An IP address that is neither unspecified nor multicast."""
    return is_ip(text) and not ipaddress.ip_address(text).is_unspecified and not ipaddress.ip_address(text).is_multicast


def _is_host(text: str) -> bool:
    """A host name; a text of digits and dots is a mistyped address."""
    return bool(_HOST.fullmatch(text)) and not _ALL_DIGITS.fullmatch(text)


def problem(deployment: Deployment) -> str | None:
    """The first problem, in a sentence; None if there is none."""
    return next(_problems(deployment), None)


def remarks(deployment: Deployment) -> list[str]:
    """Sentences about unusual settings, which may be intended."""
    virtual = f"{deployment.virtual_address}/{deployment.prefix}"
    network = ipaddress.ip_network(virtual, strict=False)
    strangers = [each.name for each in deployment.balancers if ipaddress.ip_address(each.address) not in network]
    if not strangers or network.num_addresses == 1:
        return []
    return [f"virtual_address {virtual} is in another network than {' and '.join(strangers)}: is that meant?"]


def _problems(deployment: Deployment) -> Iterator[str]:
    yield from _problems_of_the_address(deployment)
    yield from _problems_of_balancers(deployment)
    yield from _problems_of_nodes(deployment)
    yield from _problems_of_ports(deployment)
    for network in (*deployment.clients, *deployment.operators):
        if not _is_network(network):
            yield f"clients and operators must be networks like 10.1.0.0/16, not {network!r}"
    yield from _problems_of_settings(deployment)


def _problems_of_settings(deployment: Deployment) -> Iterator[str]:
    settings = deployment.keepalived
    if not 1 <= settings.router_id <= 255:
        yield f"keepalived.router_id must be from 1 to 255, not {settings.router_id}"
    if not 0.01 <= settings.advert_s <= 40:
        yield f"keepalived.advert_s must be from 0.01 to 40 seconds, not {settings.advert_s:g}"
    paths = {
        "haproxy.run_directory": (deployment.haproxy.run_directory, "/run/haproxy"),
        "keepalived.directory": (settings.directory, "/etc/keepalived"),
        "program": (deployment.program, PROGRAM),
    }
    for key, (path, example) in paths.items():
        if not path.startswith("/") or ".." in path.split("/"):
            yield f"{key} must be a whole path like {example}, without .. in it, not {path!r}"
    users = {"haproxy.user": deployment.haproxy.user, "keepalived.script_user": settings.script_user}
    for key, user in users.items():
        if not _USER.fullmatch(user) and (user or key != "haproxy.user"):
            yield f"{key} must be the name of a user, not {user!r}"
    if deployment.haproxy.maxconn < 1:
        yield f"haproxy.maxconn must be 1 or more, not {deployment.haproxy.maxconn}"


def _problems_of_the_address(deployment: Deployment) -> Iterator[str]:
    virtual = deployment.virtual_address
    if not _is_of_a_machine(virtual):
        yield f"virtual_address must be an IP address with the length of its network, like 10.0.0.10/24, not {virtual}"
        return
    longest = 128 if deployment.is_ipv6 else 32
    if not 1 <= deployment.prefix <= longest:
        yield f"the network of virtual_address must have a length from 1 to {longest}, not {deployment.prefix}"
        return
    network = ipaddress.ip_network(f"{virtual}/{deployment.prefix}", strict=False)
    if network.num_addresses > 2 and virtual in map(str, _reserved(network)):
        yield f"virtual_address {virtual} cannot be the address of a machine: it is the first or last of {network}"
    owners = [(each.name, each.address) for each in deployment.balancers]
    owners += [(each.name, each.address) for each in deployment.nodes]
    for name, address in owners:
        if address == virtual:
            yield f"{virtual} is the virtual address, and cannot be the address of {name}, too"


def _reserved(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> list[object]:
    """IPv6 has no broadcast address."""
    return [network.network_address, *([network.broadcast_address] if network.version == 4 else [])]


def _problems_of_balancers(deployment: Deployment) -> Iterator[str]:
    balancers = deployment.balancers
    if len(balancers) < 2:
        yield f"there must be at least two balancers, or one is a single point of failure; there is {len(balancers)}"
    for balancer in balancers:
        if not _LABEL.fullmatch(balancer.name):
            yield f"a balancer's name must be letters, digits, dots and dashes, not {balancer.name!r}"
        if not _is_of_a_machine(balancer.address):
            yield f"the address of balancer {balancer.name} must be an IP address, not {balancer.address!r}"
        elif (":" in balancer.address) != deployment.is_ipv6:
            yield f"the address of balancer {balancer.name} and the virtual address must both be IPv4, or both IPv6"
        if not _INTERFACE.fullmatch(balancer.interface):
            interface = balancer.interface
            yield f"the interface of balancer {balancer.name} must be a network interface like eth0, not {interface!r}"
    yield from _doubled("balancer", [(balancer.name, balancer.address) for balancer in balancers])


def _problems_of_nodes(deployment: Deployment) -> Iterator[str]:
    if not deployment.nodes:
        yield "there must be at least one node"
    for node in deployment.nodes:
        host = node.name.partition("@")[2]
        if not _NODE_NAME.fullmatch(node.name) or (":" in host and not is_ip(host)):
            yield f"a node's name must be like warren@HOST, not {node.name!r}"
        if not _is_of_a_machine(node.address) and not _is_host(node.address):
            yield f"the address of node {node.name} must be an IP address or a host name, not {node.address!r}"
        elif is_ip(node.address) and (":" in node.address) != deployment.is_ipv6:
            yield (
                f"the address of node {node.name} and those of the balancers must both be IPv4, or both IPv6: nodes "
                "know the balancers by their addresses"
            )
        if node.kind not in KINDS:
            yield f"the kind of node {node.name} must be {', '.join(KINDS[:-1])} or {KINDS[-1]}, not {node.kind!r}"
        if HTTP not in node.ports and HTTPS not in node.ports:
            yield f"node {node.name} must listen for http or https, or its health cannot be checked"
        if is_loopback(node.address) and not all(is_loopback(each.address) for each in deployment.balancers):
            yield f"node {node.name} is at {node.address}, where only its own machine can reach it, not the balancers"
    if deployment.nodes and all(node.kind == WITNESS for node in deployment.nodes):
        yield "all nodes are witnesses; there must be one that holds queues"
    elif deployment.nodes and all(node.kind != DISC for node in deployment.nodes):
        yield "there must be a disc node that is no witness: no other can be the first of a cluster"
    if len({node.name for node in deployment.nodes}) < len(deployment.nodes):
        yield "two nodes have the same name"
    yield from _mistakable(deployment)


def _mistakable(deployment: Deployment) -> Iterator[str]:
    """Machines must not share a folder or a name in configurations."""
    labels: dict[str, str] = {DEPLOYMENT_FILE: f"the file {DEPLOYMENT_FILE}"}
    named = [(each.name, f"balancer {each.name}") for each in deployment.balancers]
    named += [(each.label, f"node {each.name}") for each in deployment.nodes]
    for label, who in named:
        if labels.setdefault(label, who) != who:
            yield f"{labels[label]} and {who} would both be called {label}: give one of them another name"


def _doubled(what: str, named: list[tuple[str, str]]) -> Iterator[str]:
    for position, which in enumerate(("name", "address")):
        values = [pair[position] for pair in named]
        for value in dict.fromkeys(value for value in values if values.count(value) > 1):
            yield f"two of the {what}s have the {which} {value}"


def _problems_of_ports(deployment: Deployment) -> Iterator[str]:
    for whose, ports in [("", deployment.ports), *((f" of {node.name}", node.ports) for node in deployment.nodes)]:
        for kind, port in ports.items():
            if not 1 <= port <= 65535:
                yield f"the {kind} port{whose} must be from 1 to 65535, not {port}"
    if not 1 <= deployment.haproxy.health_port <= 65535:
        yield f"haproxy.health_port must be from 1 to 65535, not {deployment.haproxy.health_port}"
    for node in deployment.nodes:
        if node.kind != RAM and len(deployment.nodes) > 1 and node.ports.get(PEER, 0) + max(ETCD_STEPS) > 65535:
            yield f"the peer port of {node.name} must be at most {65535 - max(ETCD_STEPS)}: its etcd member is above it"
    served = [*deployment.ports.values(), deployment.haproxy.health_port]
    if len(set(served)) < len(served):
        yield "two ports of the balancers are the same (ports.* and haproxy.health_port)"
    if AMQP not in deployment.ports and AMQPS not in deployment.ports:
        yield "ports must have amqp or amqps"
    for kind in deployment.served():
        if not deployment.behind(kind):
            yield f"ports has {kind}, but no node listens for it"
    yield from _ports_used_twice(deployment.nodes)
    for balancer in deployment.balancers:
        for node in deployment.nodes:
            taken = set(served) & set(node.ports.values())
            if node.address == balancer.address and taken:
                yield (
                    f"balancer {balancer.name} and node {node.name} share the machine {node.address}, and port "
                    f"{min(taken)}: give one of them another port, or a machine of its own"
                )


def _ports_used_twice(nodes: tuple[BrokerNode, ...]) -> Iterator[str]:
    owners: dict[tuple[str, int], str] = {}
    for node in nodes:
        for kind, port in node.ports.items():
            other = owners.setdefault((node.address, port), f"the {kind} port of {node.name}")
            if other != f"the {kind} port of {node.name}":
                yield f"{other} and the {kind} port of {node.name} are the same, {endpoint(node.address, port)}"
