"""A deployment from what a running cluster says of itself: which nodes there are, and where each listens for what.

A node's address is the one by which the others dial it, which is that of a listener, a link, or the host in its name.
Where it listens for anything else, like metrics, need not be where clients reach it; nor is a loopback address, as long
as there is another.

Not here: asking (`cli.ha.source`); balancers and the virtual address, of which the cluster knows nothing.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

from warren.errors import ConfigError
from warren.ha.deployment import (
    AMQP,
    AMQPS,
    DISC,
    HTTP,
    HTTPS,
    KINDS,
    METRICS,
    PEER,
    USUAL_PORTS,
    WITNESS,
    BrokerNode,
    is_ip,
    is_loopback,
)

_KINDS_OF_LISTENERS = {"amqp": AMQP, "amqp/ssl": AMQPS, "http": HTTP, "https": HTTPS, "clustering": PEER}
_METRICS_LISTENER = "http/prometheus"
Rows = Sequence[Mapping[str, Any]]


def nodes_of(nodes: Rows, listeners: Rows) -> tuple[BrokerNode, ...]:
    """From the rows of `/api/nodes` and the listeners of `/api/overview`; a node that is down cannot be described."""
    down = [str(row["name"]) for row in nodes if not row.get("running")]
    if down:
        raise ConfigError(
            f"these nodes do not run, so nobody knows where they listen: {', '.join(down)}; start them, or describe "
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
