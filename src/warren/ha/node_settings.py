"""The part of a node's configuration that has to agree with what stands before it: /etc/warren/warren.conf.

Not here: how the node is run as a service (`ha.units`).
"""

from collections.abc import Iterator

from warren.ha.deployment import (
    AMQP,
    AMQPS,
    HTTP,
    HTTPS,
    METRICS,
    PEER,
    RAM,
    USUAL_PORTS,
    WITNESS,
    BrokerNode,
    Deployment,
    endpoint,
)

_TLS_FAMILIES = {AMQPS: "ssl_options", HTTPS: "management.ssl"}


def node_config(deployment: Deployment, node: BrokerNode) -> str:
    """Its text; a node that runs needs these lines in the configuration it has."""
    return "\n".join(_lines(deployment, node)) + "\n"


def _lines(deployment: Deployment, node: BrokerNode) -> Iterator[str]:
    yield f"# Node {node.name}, written by `warren ha render`. Belongs at /etc/warren/warren.conf."
    yield "# All nodes of the cluster also need the same cookie: /var/lib/warren/cookie, mode 400."
    yield ""
    yield from _listeners(node)
    if deployment.proxy_protocol:
        yield ""
        yield "# Connections from the balancers begin with a PROXY header that says who the client is. Those of anybody"
        yield "# else must not, or everybody could claim any address. HAProxy has send-proxy-v2 and check-send-proxy."
        yield "proxy_protocol = true"
        yield "management.proxy_protocol = true"
        for number, balancer in enumerate(deployment.balancers, 1):
            yield f"proxy_protocol.from.{number} = {balancer.address}"
    if len(deployment.nodes) > 1:
        yield from _cluster(deployment, node)


def _listeners(node: BrokerNode) -> Iterator[str]:
    yield f"listeners.tcp.default = {node.ports[AMQP]}" if AMQP in node.ports else "listeners.tcp = none"
    if AMQPS in node.ports:
        yield f"listeners.ssl.default = {node.ports[AMQPS]}"
    if HTTP in node.ports:
        yield f"management.tcp.port = {node.ports[HTTP]}"
    if HTTPS in node.ports:
        yield f"management.ssl.port = {node.ports[HTTPS]}"
    if METRICS in node.ports:
        yield f"prometheus.tcp.port = {node.ports[METRICS]}"
    # AMQP and HTTP each have certificates of their own
    for family in [family for kind, family in _TLS_FAMILIES.items() if kind in node.ports]:
        yield "# TLS is ended here, so the certificates are here, too."
        yield f"#{family}.cacertfile = /etc/warren/authority.pem"
        yield f"#{family}.certfile = /etc/warren/node.pem"
        yield f"#{family}.keyfile = /etc/warren/node.key"


def _cluster(deployment: Deployment, node: BrokerNode) -> Iterator[str]:
    yield ""
    yield "# Where the others are, by the hosts in their names, which machines must know (DNS, or /etc/hosts): counts"
    yield "# when the node starts for the first time."
    yield "cluster_formation.peer_discovery_backend = classic_config"
    for number, each in enumerate(_first_a_disc_node(deployment), 1):
        yield f"cluster_formation.classic_config.nodes.{number} = {_peer(each)}"
    if node.kind in (RAM, WITNESS):
        yield f"cluster_formation.node_type = {node.kind}"
    yield ""
    yield "# A node that is cut off from the majority serves nobody, and its clients are led to the others."
    yield "cluster_partition_handling = pause_minority"


def _first_a_disc_node(deployment: Deployment) -> list[BrokerNode]:
    """The first of the list founds the cluster, and must be a disc node that holds queues."""
    return sorted(deployment.nodes, key=lambda node: node.kind in (RAM, WITNESS))


def _peer(node: BrokerNode) -> str:
    """As a node finds itself in the list, and the others by its host's name."""
    port = node.ports.get(PEER, USUAL_PORTS[PEER])
    name, _, host = node.name.partition("@")
    return node.name if port == USUAL_PORTS[PEER] else f"{name}@{endpoint(host, port)}"
