"""The rendered lines for a node, parsed as the node parses them."""

from pathlib import Path

import pytest

from tests.unit.cli.ha.deployments import NODE_PORTS, deployment, node
from warren.cli.ha.deployment import BrokerNode, Deployment
from warren.cli.ha.node_files import node_config
from warren.node.config.settings import NodeFlags, NodeSettings, read_settings


def understood(folder: Path, told: Deployment, one: BrokerNode) -> NodeSettings:
    file = folder / "warren.conf"
    file.write_text(node_config(told, one))
    return read_settings(NodeFlags(config=str(file)), {})


@pytest.mark.parametrize("proxied", [True, False])
def test_the_node_and_its_balancers_agree_about_headers(tmp_path: Path, proxied: bool) -> None:
    settings = understood(tmp_path, deployment(proxy_protocol=proxied), node(1))
    assert settings.without_effect == []
    for balancers in (settings.balancers, settings.http.balancers):
        assert (balancers is not None and balancers.include("10.0.0.12")) == proxied
        assert balancers is None or not balancers.include("10.9.0.1")


def test_the_node_listens_where_the_balancers_look_for_it(tmp_path: Path) -> None:
    ports = {"amqp": 5673, "http": 15673, "peer": 25672}
    settings = understood(tmp_path, deployment(), node(1, ports=ports))
    assert [listener.port for listener in settings.tcp_listeners] == [5673]
    assert [listener.port for listener in settings.http.tcp_listeners] == [15673]


def test_the_cluster_is_founded_by_a_disc_node(tmp_path: Path) -> None:
    told = deployment(nodes=(node(1, "ram"), node(2, "witness"), node(3, ports={**NODE_PORTS, "peer": 25700})))
    cluster = understood(tmp_path, told, told.nodes[0]).cluster
    assert [str(each.address) for each in cluster.discovery_nodes] == ["n3:25700", "n1:25672", "n2:25672"]
    assert (cluster.ram, cluster.partition_handling) == (True, "pause_minority")
    assert understood(tmp_path, told, told.nodes[1]).cluster.witness


def test_a_node_alone_is_no_cluster(tmp_path: Path) -> None:
    told = deployment(nodes=(node(1),))
    assert understood(tmp_path, told, told.nodes[0]).cluster.discovery_nodes == []


def test_a_host_of_ipv6_is_separated_from_its_port(tmp_path: Path) -> None:
    odd = BrokerNode("warren@fd00::22", "fd00::22", "disc", {**NODE_PORTS, "peer": 25700})
    told = deployment(nodes=(BrokerNode("warren@fd00::21", "fd00::21", "disc", NODE_PORTS), odd))
    found = understood(tmp_path, told, odd).cluster.discovery_nodes
    assert [(each.name, each.address.host, each.address.port) for each in found] == [
        ("warren@fd00::21", "fd00::21", 25672),
        ("warren@fd00::22", "fd00::22", 25700),
    ]


def test_the_lines_for_certificates_are_those_of_the_listeners(tmp_path: Path) -> None:
    """They are comments until there are certificates; HTTP has its own."""
    told = deployment()
    text = node_config(told, node(1, ports={"amqps": 5671, "https": 15671}))
    file = tmp_path / "warren.conf"
    file.write_text(text.replace("\n#ssl_options", "\nssl_options").replace("\n#management", "\nmanagement"))
    settings = read_settings(NodeFlags(config=str(file)), {})
    assert (settings.tls.certfile, settings.http.tls.certfile) == ("/etc/warren/node.pem", "/etc/warren/node.pem")
    assert settings.http.tcp_listeners == []
    for ports, absent in (({"amqps": 5671, "http": 1}, "management.ssl"), ({"amqp": 1, "https": 2}, "ssl_options")):
        assert absent not in node_config(told, node(1, ports=ports))
