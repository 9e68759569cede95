"""Where a node looks for its cluster."""

import asyncio

import pytest

from warren.cluster.addresses import PeerAddress
from warren.node.config.cluster_settings import DNS, ClusterSettings
from warren.node.listeners import ListenAddress
from warren.node.peers.discovery import NothingFound, discover, resolve

ANT, BEE = PeerAddress("ant", 25672), PeerAddress("bee", 25673)


def test_whom_to_join_goes_before_the_list_and_nobody_is_named_twice() -> None:
    settings = ClusterSettings(join=[BEE], discovery_nodes=[ANT, BEE])
    assert asyncio.run(discover(settings)) == [BEE, ANT]


def test_a_name_stands_for_all_its_addresses_on_the_port_of_this_node() -> None:
    settings = ClusterSettings(
        peer_listener=ListenAddress("", 25700), discovery=DNS, discovery_hostname="127.0.0.1", discovery_nodes=[ANT]
    )
    assert asyncio.run(discover(settings)) == [PeerAddress("127.0.0.1", 25700)]


def test_a_name_that_leads_nowhere_is_said_so() -> None:
    with pytest.raises(NothingFound, match=r"the host nobody\.invalid is unknown"):
        asyncio.run(resolve("nobody.invalid", 25672))


def test_nothing_configured_is_nowhere_to_look() -> None:
    assert asyncio.run(discover(ClusterSettings())) == []
