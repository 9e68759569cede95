"""`warren ha check` of the classic plan, two RAM nodes and one disc node, which is safe and pauses."""

import json
from dataclasses import replace
from pathlib import Path

from tests.ha.front import warren
from tests.support.operator import Operator
from tests.support.ports import free_port
from warren.cli.ha.deployment import Balancer, BrokerNode, Deployment
from warren.cli.ha.deployment_file import deployment_text
from warren.client import blocking

KINDS = {"n1": "disc", "n2": "ram", "n3": "ram"}
ONLY_DISC = "warning  n1@localhost is the only disc node: while it is down nothing can be declared, bound or deleted"


def deployment(cluster: Path) -> Deployment:
    """Balancers there are none; the cluster is asked by its nodes then."""
    nodes = json.loads((cluster / "cluster.json").read_text())["nodes"]
    return Deployment(
        virtual_address="127.0.0.10",
        prefix=8,
        balancers=(Balancer("lb1", "127.0.0.11", "eth0"), Balancer("lb2", "127.0.0.12", "eth0")),
        nodes=tuple(
            BrokerNode(
                f"{node['name']}@localhost",
                "127.0.0.1",
                KINDS[node["name"]],
                {kind: node[kind] for kind in ("amqp", "http", "peer")},
            )
            for node in nodes
        ),
        ports={"amqp": free_port(), "http": free_port()},
        proxy_protocol=False,
    )


def test_the_classic_plan_is_warned_of(tmp_path: Path) -> None:
    cluster, file = tmp_path / "cluster", tmp_path / "deployment.toml"
    free = ("--amqp", "0", "--http", "0", "--peer", "0", "--data", str(cluster))
    try:
        up = warren("cluster", "up", "--nodes", "3", "--ram", "2", *free)
        assert up.returncode == 0, up
        told = deployment(cluster)
        disc = told.nodes[0].ports
        Operator(("127.0.0.1", disc["http"])).policy("mirrored", "^orders$", {"ha-mode": "all"})
        with blocking.connect(f"amqp://guest:guest@127.0.0.1:{disc['amqp']}/") as connection:
            for name in ("orders", "audit"):
                connection.channel().declare_queue(name, durable=True)
        file.write_text(deployment_text(told))
        lines = warren("ha", "check", str(file), "--user", "guest", "--password", "guest").stdout.splitlines()
        file.write_text(deployment_text(replace(told, nodes=told.nodes[:2])))
        fewer = warren("ha", "check", str(file), "--user", "guest", "--password", "guest").stdout.splitlines()
    finally:
        warren("cluster", "down", "--data", str(cluster))
    assert [line for line in lines if line.startswith(ONLY_DISC) and "every node pauses until it is back" in line]
    assert [
        line
        for line in lines
        if "1 of 2 queues have no mirror, and are unavailable while their node is down: audit." in line
    ]
    assert not [line for line in lines if "RAM node, and" in line], "the kinds are as they should be"
    assert [
        line
        for line in fewer
        if "node n3@localhost is a member of the cluster, but the balancers do not use it" in line
    ]
