"""Who has to send a PROXY header, and what of it is believed."""

import ipaddress

import pytest

from warren.node.proxy.balancers import Balancers, believed
from warren.node.proxy.header import Ends

NAMED = Balancers(
    (ipaddress.ip_network("10.0.0.11"), ipaddress.ip_network("10.0.1.0/24"), ipaddress.ip_network("fd00::/64"))
)
CLIENT = Ends(("192.0.2.7", 50112), ("198.51.100.1", 5672))


@pytest.mark.parametrize("host", ["10.0.0.11", "10.0.1.200", "fd00::5", "::ffff:10.0.0.11", "fd00::5%eth0"])
def test_a_balancer_that_is_named_has_to_send_a_header(host: str) -> None:
    assert NAMED.include(host)


@pytest.mark.parametrize("host", ["10.0.0.12", "127.0.0.1", "fd01::5", ""])
def test_nobody_else_has_to_then(host: str) -> None:
    assert not NAMED.include(host)


def test_if_nobody_is_named_everybody_has_to() -> None:
    assert Balancers().include("127.0.0.1")
    assert Balancers().include("")


def test_a_balancer_is_believed() -> None:
    assert believed(CLIENT, "10.0.0.11") == CLIENT
    assert believed(None, "10.0.0.11") is None


@pytest.mark.parametrize("claimed", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_a_loopback_address_of_another_machine_is_not_one_of_this(claimed: str) -> None:
    claim = Ends((claimed, 50112), ("198.51.100.1", 5672))
    assert believed(claim, "10.0.0.11") is None
    assert believed(claim, "127.0.0.1") == claim
