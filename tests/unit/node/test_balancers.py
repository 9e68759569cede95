"""Which clients must send a PROXY header, and which of its fields count."""

import ipaddress

import pytest

from warren.node.proxy_protocol import LoadBalancers, ProxiedAddresses, trusted_addresses

NAMED = LoadBalancers(
    (ipaddress.ip_network("10.0.0.11"), ipaddress.ip_network("10.0.1.0/24"), ipaddress.ip_network("fd00::/64"))
)
CLIENT = ProxiedAddresses(("192.0.2.7", 50112), ("198.51.100.1", 5672))


@pytest.mark.parametrize("host", ["10.0.0.11", "10.0.1.200", "fd00::5", "::ffff:10.0.0.11", "fd00::5%eth0"])
def test_a_balancer_that_is_named_has_to_send_a_header(host: str) -> None:
    assert NAMED.include(host)


@pytest.mark.parametrize("host", ["10.0.0.12", "127.0.0.1", "fd01::5", ""])
def test_other_clients_need_no_header_then(host: str) -> None:
    assert not NAMED.include(host)


def test_without_named_balancers_every_client_needs_a_header() -> None:
    assert LoadBalancers().include("127.0.0.1")
    assert LoadBalancers().include("")


def test_a_balancer_is_believed() -> None:
    assert trusted_addresses(CLIENT, "10.0.0.11") == CLIENT
    assert trusted_addresses(None, "10.0.0.11") is None


@pytest.mark.parametrize("claimed", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_a_loopback_address_of_another_machine_is_not_one_of_this(claimed: str) -> None:
    claim = ProxiedAddresses((claimed, 50112), ("198.51.100.1", 5672))
    assert trusted_addresses(claim, "10.0.0.11") is None
    assert trusted_addresses(claim, "127.0.0.1") == claim
