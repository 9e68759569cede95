"""Deployments for tests: three disc nodes behind two balancers, with variations.

Not here: other files (`FILE` describes the same deployment).
"""

from dataclasses import replace
from typing import Any

from warren.cli.ha.deployment import AMQP, HTTP, PEER, Balancer, BrokerNode, Deployment

PORTS = {AMQP: 5672, HTTP: 15672}
NODE_PORTS = {**PORTS, PEER: 25672}
FILE = """\
virtual_address = "10.0.0.10/24"

[[balancers]]
name = "lb1"
address = "10.0.0.11"
interface = "eth0"

[[balancers]]
name = "lb2"
address = "10.0.0.12"
interface = "eth1"

[[nodes]]
name = "warren@n1"
address = "10.0.0.21"

[[nodes]]
name = "warren@n2"
address = "10.0.0.22"

[[nodes]]
name = "warren@n3"
address = "10.0.0.23"
"""


def node(number: int, kind: str = "disc", ports: dict[str, int] = NODE_PORTS) -> BrokerNode:
    return BrokerNode(f"warren@n{number}", f"10.0.0.2{number}", kind, ports)


def deployment(**changes: Any) -> Deployment:
    usual = Deployment(
        virtual_address="10.0.0.10",
        prefix=24,
        balancers=(Balancer("lb1", "10.0.0.11", "eth0"), Balancer("lb2", "10.0.0.12", "eth1")),
        nodes=(node(1), node(2), node(3)),
        ports=PORTS,
    )
    return replace(usual, **changes)
