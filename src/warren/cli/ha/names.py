"""Nodes that a deployment knows by their hosts' names, looked up for what needs addresses: a firewall's rules.

Not here: HAProxy, which looks names up itself.
"""

import socket
from dataclasses import replace

from warren.errors import WarrenError
from warren.ha.deployment import BrokerNode, Deployment, is_ip


def looked_up(deployment: Deployment) -> Deployment:
    """The same with addresses alone, of the family of the virtual one; `WarrenError` names who has none."""
    family = socket.AF_INET6 if deployment.is_ipv6 else socket.AF_INET
    return replace(deployment, nodes=tuple(_looked_up(node, family) for node in deployment.nodes))


def _looked_up(node: BrokerNode, family: socket.AddressFamily) -> BrokerNode:
    if is_ip(node.address):
        return node
    try:
        found = socket.getaddrinfo(node.address, None, family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise WarrenError(
            f"node {node.name} is at {node.address}, and a firewall's rules need addresses, but the name cannot be "
            f"looked up here ({getattr(error, 'strerror', None) or error}): give its address in the deployment"
        ) from error
    return replace(node, address=str(found[0][4][0]))
