"""Where a node looks for its cluster."""

import asyncio

import pytest

from warren.broker.cluster.addresses import PeerAddress, parse_node
from warren.errors import ConfigError
from warren.node.cluster import agent
from warren.node.cluster.agent import discover, is_first_configured, resolve
from warren.node.config.cluster_settings import DNS, ClusterSettings
from warren.node.listeners import ListenAddress

ANT, BEE = PeerAddress("ant", 25672), PeerAddress("bee", 25673)
NODES = [parse_node("warren@ant"), parse_node("warren@bee:25673")]


def found(settings: ClusterSettings, own_name: str = "warren@cat") -> list[PeerAddress]:
    return asyncio.run(discover(settings, own_name))


def test_the_node_to_join_goes_before_the_list_and_no_node_is_named_twice() -> None:
    assert found(ClusterSettings(join=[BEE], discovery_nodes=NODES)) == [BEE, ANT]


def test_a_node_does_not_look_for_itself_in_the_list() -> None:
    assert found(ClusterSettings(discovery_nodes=NODES), "warren@ant") == [BEE]


def test_a_name_stands_for_its_addresses_on_the_port_of_this_node() -> None:
    settings = ClusterSettings(
        peer_listener=ListenAddress("127.0.0.1", 25700),
        discovery=DNS,
        discovery_hostname="192.0.2.7",
        discovery_nodes=NODES,
    )
    assert found(settings) == [PeerAddress("192.0.2.7", 25700)]


@pytest.mark.parametrize(("listens", "leads_back"), [("", True), ("127.0.0.2", True), ("127.0.0.1", False)])
def test_a_node_does_not_look_for_itself_among_addresses(listens: str, leads_back: bool) -> None:
    settings = ClusterSettings(
        peer_listener=ListenAddress(listens, 25700), discovery=DNS, discovery_hostname="127.0.0.2"
    )
    assert found(settings) == ([] if leads_back else [PeerAddress("127.0.0.2", 25700)])


def test_a_name_that_leads_nowhere_is_asked_for_again_and_then_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "DNS_PAUSE_S", 0.0)
    with pytest.raises(ConfigError, match=r"the host nobody\.invalid is unknown"):
        asyncio.run(resolve("nobody.invalid"))


def test_nothing_configured_is_nowhere_to_look() -> None:
    assert found(ClusterSettings()) == []


def test_the_first_of_the_list_is_the_one_to_wait_for() -> None:
    settings = ClusterSettings(discovery_nodes=NODES)
    assert [asyncio.run(is_first_configured(settings, name)) for name in ("warren@ant", "warren@bee")] == [True, False]
    assert not asyncio.run(is_first_configured(ClusterSettings(), "warren@ant"))


@pytest.mark.parametrize(("hostname", "first"), [("127.0.0.1", True), ("192.0.2.7", False)])
def test_the_first_address_is_the_one_to_wait_for(hostname: str, first: bool) -> None:
    settings = ClusterSettings(
        peer_listener=ListenAddress("127.0.0.1", 25700), discovery=DNS, discovery_hostname=hostname
    )
    assert asyncio.run(is_first_configured(settings, "warren@ant")) is first
