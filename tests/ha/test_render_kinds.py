"""Deployments with every mixture of ports, each rendered and shown to the real HAProxy and Keepalived."""

import itertools

import pytest

from tests.support.debian import environment
from tests.unit.cli.ha.deployments import deployment, node
from warren.cli.ha import bundle
from warren.cli.ha.deployment import FRONT_KINDS, USUAL_PORTS, Balancer, BrokerNode, Deployment, problem

PORTS = {kind: USUAL_PORTS[kind] for kind in FRONT_KINDS}


@pytest.fixture(autouse=True)
def with_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process finds Debian's programs."""
    for name, value in environment().items():
        monkeypatch.setenv(name, value)


def chosen(*kinds: str) -> dict[str, int]:
    return {kind: PORTS[kind] for kind in kinds}


def assert_fine(told: Deployment) -> None:
    assert problem(told) is None
    bundle.check_configurations(told)


MIXTURES = [
    (*amqp, *http)
    for amqp in (("amqp",), ("amqps",), ("amqp", "amqps"))
    for http in (("http",), ("https",), ("http", "https"))
]


@pytest.mark.parametrize("kinds", MIXTURES, ids="-".join)
def test_all_kinds_of_ports_go_together(kinds: tuple[str, ...]) -> None:
    nodes = tuple(node(number, ports=chosen(*kinds)) for number in (1, 2, 3))
    assert_fine(deployment(ports=chosen(*kinds), nodes=nodes))


@pytest.mark.parametrize(
    ("first", "second"), list(itertools.combinations(MIXTURES, 2)), ids=lambda kinds: "-".join(kinds)
)
def test_nodes_need_not_have_the_same_ports(first: tuple[str, ...], second: tuple[str, ...]) -> None:
    ports = chosen(*(kind for kind in FRONT_KINDS if kind in {*first, *second}))
    assert_fine(deployment(ports=ports, nodes=(node(1, ports=chosen(*first)), node(2, ports=chosen(*second)))))


def test_a_kind_that_only_a_witness_takes_goes_to_it() -> None:
    nodes = (node(1, ports=chosen("amqp", "http")), node(2, "witness", chosen("amqps", "http")))
    assert_fine(deployment(ports=chosen("amqp", "amqps", "http"), nodes=nodes))


def test_everything_may_be_ipv6() -> None:
    balancers = (Balancer("lb1", "fd00::11", "eth0"), Balancer("lb2", "fd00::12", "eth0"))
    nodes = (BrokerNode("warren@n1", "fd00::21", "disc", chosen("amqp", "http")),)
    assert_fine(deployment(virtual_address="fd00::10", prefix=64, balancers=balancers, nodes=nodes))


def test_a_node_may_be_known_by_its_name() -> None:
    assert_fine(deployment(nodes=(BrokerNode("warren@n1", "localhost", "disc", chosen("amqp", "http")),)))
