"""HAProxy's configuration as sections of lines."""

from tests.unit.cli.ha.deployments import NODE_PORTS, deployment, node
from warren.cli.ha.deployment import BrokerNode, Deployment, HaproxySettings
from warren.cli.ha.haproxy import haproxy_config


def sections(told: Deployment, balancer: int = 0) -> dict[str, list[str]]:
    """The lines of each section, without comments."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in haproxy_config(told, told.balancers[balancer]).splitlines():
        if line and not line.lstrip().startswith("#"):
            if line.startswith(" "):
                found[heading].append(line.strip())
            else:
                heading = line
                found[heading] = []
    return found


def servers(lines: list[str]) -> dict[str, str]:
    """The options of each server by its name."""
    return {line.split()[1]: line for line in lines if line.startswith("server ")}


def test_every_node_has_an_http_health_check_and_gets_the_clients_address() -> None:
    lines = sections(deployment())["backend amqp_fit"]
    assert "http-check send meth GET uri /api/warren/fitness?reluctant=404" in lines
    assert "http-check disable-on-404" in lines
    assert servers(lines)["warren-at-n2"] == (
        "server warren-at-n2 10.0.0.22:5672 source 10.0.0.11 check port 15672 check-send-proxy send-proxy-v2 "
        "on-marked-down shutdown-sessions"
    )


def test_without_the_proxy_protocol_no_header_is_sent() -> None:
    assert "send-proxy" not in haproxy_config(deployment(proxy_protocol=False), deployment().balancers[0])


def test_clients_go_to_serving_nodes_when_none_is_fit() -> None:
    found = sections(deployment())
    assert found["frontend amqp_in"][-2:] == [
        "use_backend amqp_serving if { nbsrv(amqp_fit) eq 0 }",
        "default_backend amqp_fit",
    ]
    assert "http-check send meth GET uri /api/warren/fitness?reluctant=200" in found["backend amqp_serving"]
    assert "http-check disable-on-404" not in found["backend amqp_serving"]


def test_servers_of_other_kinds_follow_those_that_ask() -> None:
    told = deployment(
        ports={"amqp": 5672, "amqps": 5671, "http": 15672},
        nodes=tuple(node(number, ports={**NODE_PORTS, "amqps": 5671}) for number in (1, 2)),
    )
    found = sections(told)
    assert " track amqp_fit/warren-at-n1 " in servers(found["backend amqps_fit"])["warren-at-n1"]
    assert " track amqp_serving/warren-at-n1 " in servers(found["backend http_serving"])["warren-at-n1"]
    assert {"option httpchk", "http-check disable-on-404"} <= set(found["backend amqps_fit"])
    assert not [line for line in found["backend amqps_fit"] if line.startswith("http-check send")]


def test_a_node_that_takes_only_tls_is_asked_there() -> None:
    told = deployment(
        ports={"amqp": 5672, "amqps": 5671, "http": 15672},
        nodes=(node(1, ports={**NODE_PORTS, "amqps": 5671}), node(2, ports={"amqps": 5671, "http": 15672})),
    )
    found = sections(told)
    assert list(servers(found["backend amqp_fit"])) == ["warren-at-n1"]
    assert " check port 15672 " in servers(found["backend amqps_fit"])["warren-at-n2"]
    assert "option httpchk" in found["backend amqps_fit"]


def test_nodes_with_https_alone_are_asked_over_tls_and_it_is_passed_on() -> None:
    ports = {"amqps": 5671, "https": 15671}
    told = deployment(ports=ports, nodes=tuple(node(number, ports=ports) for number in (1, 2)))
    found = sections(told)
    assert " check port 15671 check-ssl verify none " in servers(found["backend amqps_fit"])["warren-at-n1"]
    assert "mode tcp" in found["frontend https_in"]
    assert "mode http" not in found["backend https_serving"]


def test_each_node_is_asked_where_it_listens() -> None:
    told = deployment(
        ports={"amqp": 5672, "http": 15672, "https": 15671},
        nodes=(node(1), node(2, ports={"amqp": 5672, "https": 15671})),
    )
    found = servers(sections(told)["backend amqp_fit"])
    assert " check port 15672 check-send-proxy " in found["warren-at-n1"]
    assert " check port 15671 check-ssl verify none check-send-proxy " in found["warren-at-n2"]


def test_a_witness_is_never_fit_and_serves_as_a_backup() -> None:
    """Otherwise it would get all new clients while the other nodes have an alarm."""
    found = sections(deployment(nodes=(node(1), node(2), node(3, "witness"))))
    assert list(servers(found["backend amqp_fit"])) == ["warren-at-n1", "warren-at-n2"]
    for backend in ("backend amqp_serving", "backend http_serving"):
        lines = servers(found[backend])
        assert [name for name, line in lines.items() if line.endswith(" backup")] == ["warren-at-n3"]


def test_each_balancer_speaks_from_the_address_that_nodes_know() -> None:
    for number, address in enumerate(("10.0.0.11", "10.0.0.12")):
        found = sections(deployment(), number)
        for backend in ("backend amqp_fit", "backend amqp_serving", "backend http_serving"):
            assert all(f" source {address} " in line for line in servers(found[backend]).values())


def test_a_name_is_looked_up_in_the_family_of_the_address_that_is_spoken_from() -> None:
    by_name = BrokerNode("warren@n1", "n1.example.com", "disc", NODE_PORTS)
    for virtual, family in (("10.0.0.10", "ipv4"), ("fd00::10", "ipv6")):
        lines = sections(deployment(virtual_address=virtual, nodes=(by_name,)))["backend amqp_fit"]
        assert f" {family}@n1.example.com:5672 " in servers(lines)["warren-at-n1"]


def test_ipv6_addresses_have_brackets() -> None:
    told = deployment(virtual_address="fd00::10", nodes=(BrokerNode("warren@n1", "fd00::21", "disc", NODE_PORTS),))
    found = sections(told)
    assert " [fd00::21]:5672 " in servers(found["backend amqp_fit"])["warren-at-n1"]
    assert "bind :::5672 v4v6" in found["frontend amqp_in"]


def test_each_balancer_has_its_own_name() -> None:
    for number, name in enumerate(("lb1", "lb2")):
        lines = sections(deployment(), number)["frontend http_in"]
        assert f"http-after-response set-header x-balancer {name}" in lines


def test_a_haproxy_without_a_user_of_its_own_is_in_no_cage() -> None:
    lines = sections(deployment(haproxy=HaproxySettings(user="")))["global"]
    assert not [line for line in lines if line.split()[0] in ("user", "group", "chroot")]
    assert "user haproxy" in sections(deployment())["global"]


def test_no_kind_of_clients_can_take_the_connections_of_another_or_of_the_check_script() -> None:
    """Without an answer to the script, Keepalived would move the address back and forth."""
    ports = {"amqp": 5672, "amqps": 5671, "http": 15672}
    nodes = tuple(node(number, ports={**NODE_PORTS, "amqps": 5671}) for number in (1, 2))
    found = sections(deployment(ports=ports, nodes=nodes, haproxy=HaproxySettings(maxconn=500)))
    limits = {heading: line for heading, lines in found.items() for line in lines if line.startswith("maxconn ")}
    assert limits == {
        "global": "maxconn 2100",
        "frontend amqp_in": "maxconn 500",
        "frontend amqps_in": "maxconn 500",
        "frontend http_in": "maxconn 1000",
    }


def test_a_consumer_without_heartbeats_may_wait_for_days() -> None:
    found = sections(deployment())
    assert "timeout client 7d" in found["frontend amqp_in"]
    for backend in ("backend amqp_fit", "backend amqp_serving"):
        assert {"timeout server 7d", "option srvtcpka"} <= set(found[backend])
