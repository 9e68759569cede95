"""Keepalived's configuration and the script that checks HAProxy."""

from tests.unit.cli.ha.deployments import deployment
from warren.cli.ha.deployment import Balancer, HaproxySettings, KeepalivedSettings
from warren.cli.ha.keepalived import keepalived_config


def config(balancer: int = 0, **changes: object) -> str:
    told = deployment(**changes)
    return keepalived_config(told, told.balancers[balancer])


def test_neither_balancer_is_preferred() -> None:
    """An address that returned to a preferred balancer would cost every client its connection a second time."""
    both = [config(0), config(1)]
    for line in ("priority 100", "state BACKUP"):
        assert all(f"    {line}\n" in text for text in both)
    assert "nopreempt" not in both[0], "a balancer without nodes could keep the address"


def test_each_balancer_speaks_to_all_others_and_to_them_alone() -> None:
    third = (*deployment().balancers, Balancer("lb3", "10.0.0.13", "bond0"))
    text = config(1, balancers=third)
    assert "unicast_src_ip 10.0.0.12\n" in text
    assert "unicast_peer {\n        10.0.0.11\n        10.0.0.13\n    }" in text


def test_the_address_goes_to_the_interface_of_the_balancer() -> None:
    assert "10.0.0.10/24 dev eth0\n" in config(0)
    assert "10.0.0.10/24 dev eth1\n" in config(1)


def test_the_script_is_where_the_configuration_is_and_asks_haproxys_port() -> None:
    text = config(keepalived=KeepalivedSettings(directory="/etc/k/"), haproxy=HaproxySettings(health_port=9000))
    assert 'script "/etc/k/warren-check 9000 /alive"' in text
    assert 'script "/etc/k/warren-check 9000 /working"' in text


def test_a_rehearsal_wants_nothing_of_the_balancer() -> None:
    told = deployment()
    text = keepalived_config(told, told.balancers[0], rehearsed_by="me")
    assert "warren-check" not in text
    assert "script_user me\n" in text
    assert "dynamic_interfaces" in text
    assert "dynamic_interfaces" not in config()
