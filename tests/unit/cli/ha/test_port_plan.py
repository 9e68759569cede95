"""Open ports and their users, as text and as rules."""

import pytest

from tests.unit.cli.ha.deployments import NODE_PORTS, deployment, node
from warren.cli.ha.deployment import BrokerNode, Deployment
from warren.cli.ha.port_plan import machines, plan_text, rules_of
from warren.errors import ConfigError


def opened(told: Deployment, address: str) -> set[tuple[int, tuple[str, ...]]]:
    [machine] = [each for each in machines(told) if each.address == address]
    return {(opening.port, opening.users.sources) for opening in machine.openings}


def test_only_balancers_bring_clients_to_a_node() -> None:
    balancers = ("10.0.0.11", "10.0.0.12")
    found = opened(deployment(), "10.0.0.21")
    assert (5672, balancers) in found
    assert {sources for port, sources in found if port == 5672} == {balancers}


def test_only_nodes_reach_the_ports_between_nodes() -> None:
    found = opened(deployment(), "10.0.0.22")
    others = ("10.0.0.21", "10.0.0.23")
    assert {(25672, others), (26672, others), (27672, others)} <= found


def test_a_ram_node_has_no_member_of_etcd_and_is_none() -> None:
    told = deployment(nodes=(node(1), node(2, "ram"), node(3)))
    assert {port for port, _ in opened(told, "10.0.0.22")} == {5672, 15672, 15692, 25672}
    assert (26672, ("10.0.0.22", "10.0.0.23")) in opened(told, "10.0.0.21")
    assert (27672, ("10.0.0.23",)) in opened(told, "10.0.0.21")


def test_clients_and_operators_come_from_their_networks() -> None:
    found = opened(deployment(clients=("10.1.0.0/16",), operators=("10.2.0.0/16",)), "10.0.0.11")
    assert found == {(5672, ("10.1.0.0/16",)), (15672, ("10.2.0.0/16",)), (0, ("10.0.0.12",))}


def test_nodes_with_one_address_are_one_machine() -> None:
    shared = (
        node(1),
        BrokerNode("warren@n4", "10.0.0.21", "disc", {kind: port + 1 for kind, port in NODE_PORTS.items()}),
    )
    [*_, machine] = machines(deployment(nodes=shared))
    assert machine.names == ("warren@n1, disc node", "warren@n4, disc node")


def test_the_plan_has_every_machine() -> None:
    text = plan_text(deployment())
    for title in ("lb1 at 10.0.0.11", "lb2 at 10.0.0.12", "warren@n1, disc node at 10.0.0.21"):
        assert f"{title}\n{'-' * len(title)}\n" in text
    assert "protocol 112  from lb2 (10.0.0.12)       VRRP: who has 10.0.0.10\n" in text


def test_rules_are_found_by_name_and_by_address() -> None:
    assert rules_of(deployment(), "lb1") == rules_of(deployment(), "10.0.0.11")
    assert rules_of(deployment(), "warren@n2") == rules_of(deployment(), "10.0.0.22")
    with pytest.raises(ConfigError, match="there is no machine lb9 in this deployment; there are lb1, lb2, warren@n1"):
        rules_of(deployment(), "lb9")


def test_a_source_of_each_family_has_a_rule_of_its_own() -> None:
    text = rules_of(deployment(clients=("10.1.0.0/16", "fd00::/8", "10.3.0.0/16")), "lb1")
    assert "ip saddr { 10.1.0.0/16, 10.3.0.0/16 } tcp dport 5672 accept" in text
    assert "ip6 saddr { fd00::/8 } tcp dport 5672 accept" in text
    assert "        tcp dport { 5672, 15672 } counter drop\n" in text


def test_metrics_are_open_where_the_node_serves_them() -> None:
    told = deployment(nodes=(node(1, ports={**NODE_PORTS, "metrics": 9100}), node(2)))
    assert (9100, ()) in opened(told, "10.0.0.21")
    assert 15692 not in {port for port, _ in opened(told, "10.0.0.21")}
    assert (15692, ()) in opened(told, "10.0.0.22")


def test_a_name_is_nothing_for_a_firewall() -> None:
    told = deployment(nodes=(node(1), BrokerNode("warren@n2", "n2.example.com", "disc", NODE_PORTS)))
    with pytest.raises(ConfigError, match=r"a firewall needs addresses, and n2\.example\.com is a name"):
        rules_of(told, "warren@n1")
