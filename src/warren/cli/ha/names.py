"""Nodes that a deployment knows by their hosts' names, looked up for what needs addresses: a firewall's rules.

Not here: HAProxy, which looks names up itself.
"""

import socket
from dataclasses import replace

from warren.errors import WarrenError
from warren.ha.deployment import BrokerNode, Deployment, is_ip, is_loopback


def looked_up(deployment: Deployment) -> Deployment:
    """The same with addresses alone, of the family of the virtual one; `WarrenError` names who has none."""
    family = socket.AF_INET6 if deployment.is_ipv6 else socket.AF_INET
    among_ourselves = all(is_loopback(each.address) for each in deployment.balancers)
    return replace(deployment, nodes=tuple(_looked_up(node, family, among_ourselves) for node in deployment.nodes))


def _looked_up(node: BrokerNode, family: socket.AddressFamily, among_ourselves: bool) -> BrokerNode:
    """A machine often knows itself by a loopback address; with `among_ourselves` there is no other machine."""
    if is_ip(node.address):
        return node
    try:
        found = socket.getaddrinfo(node.address, None, family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise WarrenError(
            f"node {node.name} is at {node.address}, and a firewall's rules need addresses, but the name cannot be "
            f"looked up here ({getattr(error, 'strerror', None) or error}): give its address in the deployment"
        ) from error
    address = str(found[0][4][0])
    if is_loopback(address) and not among_ourselves:
        raise WarrenError(
            f"node {node.name} is at {node.address}, which is {address} on this machine alone, and useless in another "
            "machine's rules: give its address in the deployment, or ask on a machine that is none of the nodes"
        )
    return replace(node, address=address)
