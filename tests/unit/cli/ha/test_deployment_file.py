"""A deployment as a TOML file."""

import pytest

from tests.unit.cli.ha.deployments import FILE, deployment, node
from warren.cli.ha.deployment import BrokerNode, HaproxySettings, KeepalivedSettings
from warren.cli.ha.deployment_file import deployment_text, parse_deployment
from warren.errors import ConfigError


def refusal_of(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_deployment(text, "ours.toml")
    return str(caught.value)


def test_a_short_file_is_a_whole_deployment() -> None:
    assert parse_deployment(FILE, "ours.toml") == deployment()


def test_a_written_deployment_is_read_back_unchanged() -> None:
    told = deployment(
        nodes=(
            node(1, ports={"amqp": 5673, "amqps": 5671, "http": 15673, "peer": 25673, "metrics": 9100}),
            node(2, "ram"),
            node(3, "witness"),
        ),
        ports={"amqp": 5000, "amqps": 5001, "http": 8080},
        proxy_protocol=False,
        clients=("10.1.0.0/16", "fd00::/8"),
        operators=("10.2.0.0/24",),
        haproxy=HaproxySettings("", "/run/x", 100, 9000),
        keepalived=KeepalivedSettings(7, "/etc/k", "nobody", 0.25),
    )
    # a node's amqps listener without a frontend is kept as well
    assert parse_deployment(deployment_text(told), "ours.toml").nodes[0] == told.nodes[0]
    assert parse_deployment(deployment_text(told), "ours.toml").ports == told.ports
    assert parse_deployment(deployment_text(deployment()), "ours.toml") == deployment()


def test_a_node_listens_where_the_virtual_address_does_unless_it_says_otherwise() -> None:
    text = FILE + 'amqp = 5673\nkind = "ram"\n\n[ports]\namqp = 5000\namqps = 5001\nhttp = 8080\n'
    found = parse_deployment(text, "ours.toml").nodes
    assert found[0].ports == {"amqp": 5000, "amqps": 5001, "http": 8080, "peer": 25672}
    assert found[2] == BrokerNode("warren@n3", "10.0.0.23", "ram", {**found[0].ports, "amqp": 5673})


def test_a_port_of_zero_is_none() -> None:
    found = parse_deployment(FILE + "amqp = 0\n", "ours.toml").nodes
    assert "amqp" not in found[2].ports


@pytest.mark.parametrize(
    ("was", "is_now", "sentence"),
    [
        ("virtual_address", "virtual_adress", "there is no virtual_adress; is virtual_address meant?"),
        ('"10.0.0.10/24"', '"10.0.0.10"', "virtual_address must be an address with the length of its network"),
        ('"10.0.0.10/24"', '"10.0.0.10/33"', "must have a length from 1 to 32, not 33"),
        ('"10.0.0.10/24"', '"vip/24"', "virtual_address must be an IP address"),
        ('"10.0.0.10/24"', '"10.0.0.11/24"', "10.0.0.11 is the virtual address, and cannot be the address of lb1, too"),
        ('"10.0.0.10/24"', '"fd00::1/64"', "must both be IPv4, or both IPv6"),
        ('name = "lb2"', 'name = "lb1"', "two of the balancers have the name lb1"),
        ('name = "lb2"', 'name = "l b"', "letters, digits, dots and dashes, not 'l b'"),
        ('name = "lb2"', "name = 2", "balancers.2.name must be a string, not 2"),
        ('interface = "eth1"', "", "balancers.2.interface is missing"),
        ('interface = "eth1"', 'interface = "e\\nx"', "must be a network interface like eth0, not 'e\\nx'"),
        ('"10.0.0.12"', '"lb2.example.com"', "the address of balancer lb2 must be an IP address"),
        ('"warren@n3"', '"warren@n2"', "two nodes have the same name"),
        ('"warren@n3"', '"n3"', "a node's name must be like warren@HOST, not 'n3'"),
        ('"10.0.0.23"', '"10.0.0.23\\n    bind :80"', "must be an IP address or a host name"),
        ('"10.0.0.23"', '"fe80::1%x\\n    bind :80"', "must be an IP address or a host name"),
        ('"10.0.0.23"', '"fe80::1%eth0"', "must be an IP address or a host name"),
        ('"10.0.0.23"', '"fd00::23"', "must both be IPv4, or both IPv6: nodes know the balancers by their addresses"),
        ('"10.0.0.10/24"', '"fe80::1%x\\ny/64"', "virtual_address must be an IP address"),
        ('"10.0.0.12"', '"fe80::1%x\\ny"', "the address of balancer lb2 must be an IP address"),
        ('"10.0.0.23"', '"10.0.0.23"\nkind = "disk"', "must be disc, ram or witness, not 'disk'"),
        ('"10.0.0.23"', '"10.0.0.23"\namqp = 70000', "the amqp port of warren@n3 must be from 1 to 65535, not 70000"),
        ('"10.0.0.23"', '"10.0.0.23"\nhttp = 0', "must listen for http or https, or its health cannot be checked"),
        ('"10.0.0.23"', '"10.0.0.23"\npeer = 64000', "must be at most 63535: its etcd member is above it"),
        ('"10.0.0.23"', '"127.0.0.1"', "is at 127.0.0.1, where only its own machine can reach it, not the balancers"),
        ('"10.0.0.23"', '"10.0.0.11"', "share the machine 10.0.0.11, and port 5672"),
        ('"10.0.0.23"', '"10.0.0.23"\nport = 1', "there is no nodes.3.port; known are name, address, kind"),
    ],
)
def test_an_error_in_a_file_is_one_sentence(was: str, is_now: str, sentence: str) -> None:
    assert was in FILE
    said = refusal_of(FILE.replace(was, is_now, 1))
    assert said.startswith("ours.toml: ")
    assert sentence in said


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ("[ports]\nhttp = 15672\n", "ports must have amqp or amqps"),
        ("[ports]\namqp = 5672\nhttps = true\n", "ports.https must be a whole number, not True"),
        ("[ports]\namqp = 8404\nhttp = 15672\n", "two ports of the balancers are the same"),
        ("[haproxy]\nuser = 'a b'\n", "with no spaces and no quotes, not 'a b'"),
        ("[haproxy]\nmaxcon = 5\n", "there is no haproxy.maxcon; is haproxy.maxconn meant?"),
        ("[haproxy]\nmaxconn = 0\n", "haproxy.maxconn must be 1 or more"),
        ("[keepalived]\nrouter_id = 300\n", "keepalived.router_id must be from 1 to 255"),
        (
            "[keepalived]\ndirectory = '/etc/../root'\n",
            "keepalived.directory must be a whole path like /etc/keepalived",
        ),
        ("[keepalived]\ndirectory = 'etc'\n", "without .. in it, not 'etc'"),
        ("[keepalived]\nscript_user = 'a;b'\n", "keepalived.script_user must be letters, digits, slashes, dots"),
        ("[haproxy]\nrun_directory = '../run'\n", "haproxy.run_directory must be a whole path"),
        ("[keepalived]\nadvert_s = 0\n", "keepalived.advert_s must be from 0.01 to 40 seconds"),
        ("[[balancers]]\n", "balancers.3.name is missing"),
        ("nonsense", "ours.toml: "),
    ],
)
def test_an_error_in_a_table_is_one_sentence(more: str, sentence: str) -> None:
    assert sentence in refusal_of(f"{FILE}\n{more}")


def test_networks_must_be_networks() -> None:
    assert "must be networks like 10.1.0.0/16, not '10.1.0.1/16'" in refusal_of(f'clients = ["10.1.0.1/16"]\n{FILE}')
    assert "must be networks like" in refusal_of(f'clients = ["fe80::1%x\\\\ny"]\n{FILE}')
    assert "operators must be a list of networks" in refusal_of(f'operators = "all"\n{FILE}')


def test_one_balancer_is_not_enough() -> None:
    text = FILE.replace('[[balancers]]\nname = "lb2"\naddress = "10.0.0.12"\ninterface = "eth1"\n', "")
    assert "there must be at least two balancers" in refusal_of(text)


def test_there_must_be_a_node_that_holds_queues() -> None:
    assert "all nodes are witnesses" in refusal_of(
        FILE.replace('address = "10.0.0.2', 'kind = "witness"\naddress = "10.0.0.2')
    )
    assert "there must be at least one node" in refusal_of(FILE.partition("[[nodes]]")[0])
