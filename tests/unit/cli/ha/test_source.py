"""Nodes as a running cluster reports them."""

from typing import Any

import pytest

from warren.cli.ha.deployment import BrokerNode
from warren.cli.ha.source import nodes_of
from warren.errors import ConfigError


def row(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "running": True, "type": "disc", "cluster_links": [], **more}


def listener(node: str, protocol: str, port: int, address: str = "0.0.0.0") -> dict[str, Any]:
    return {"node": node, "protocol": protocol, "ip_address": address, "port": port}


def test_ports_and_kinds_are_those_that_nodes_report() -> None:
    nodes = [row("warren@b", type="ram"), row("warren@a"), row("warren@c", witness=True)]
    listeners = [
        listener("warren@a", "amqp", 5673, "10.0.0.1"),
        listener("warren@a", "amqp/ssl", 5671, "10.0.0.1"),
        listener("warren@a", "http", 15673, "10.0.0.1"),
        listener("warren@a", "http/prometheus", 15692),
        listener("warren@a", "clustering", 25673, "10.0.0.1"),
    ]
    found = nodes_of(nodes, listeners)
    ports = {"amqp": 5673, "amqps": 5671, "http": 15673, "peer": 25673}
    assert found[0] == BrokerNode("warren@a", "10.0.0.1", "disc", ports)
    assert [node.kind for node in found] == ["disc", "ram", "witness"]


def test_a_node_on_every_interface_is_where_the_others_dial_it_or_where_its_name_says() -> None:
    links = [{"name": "warren@b", "peer_addr": "10.0.0.2"}]
    nodes = [row("warren@a", cluster_links=links), row("warren@b")]
    listeners = [
        listener(name, "http", 15672, address) for name in ("warren@a", "warren@b") for address in ("0.0.0.0", "::")
    ]
    assert [node.address for node in nodes_of(nodes, listeners)] == ["a", "10.0.0.2"]


def test_a_node_that_is_down_cannot_be_described() -> None:
    with pytest.raises(ConfigError, match="do not run, so their listeners are unknown: warren@b; start them"):
        nodes_of([row("warren@a"), row("warren@b", running=False)], [])


def test_an_address_with_a_scope_is_none_that_others_could_use() -> None:
    [found] = nodes_of([row("warren@a")], [listener("warren@a", "amqp", 5672, "fe80::1%x\nanything")])
    assert found.address == "a"


def test_where_a_node_serves_metrics_is_not_where_clients_reach_it() -> None:
    listeners = [
        listener("warren@a", "http/prometheus", 9100, "127.0.0.1"),
        listener("warren@a", "http", 15672, "127.0.0.1"),
        listener("warren@a", "amqp", 5672, "10.0.0.1"),
    ]
    [found] = nodes_of([row("warren@a")], listeners)
    assert found == BrokerNode("warren@a", "10.0.0.1", "disc", {"http": 15672, "amqp": 5672, "metrics": 9100})


def test_a_loopback_address_is_none_if_the_node_listens_everywhere_else() -> None:
    listeners = [listener("warren@a", "http", 15672, "127.0.0.1"), listener("warren@a", "amqp", 5672)]
    assert nodes_of([row("warren@a")], listeners)[0].address == "a"
    assert nodes_of([row("warren@a")], listeners[:1])[0].address == "127.0.0.1"
