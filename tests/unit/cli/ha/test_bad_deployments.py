"""Deployments that could be rendered but would not work are refused with a sentence."""

import pytest

from tests.unit.cli.ha.deployments import FILE
from tests.unit.cli.ha.test_deployment_file import refusal_of
from warren.cli.ha.deployment import PROGRAM, remarks
from warren.cli.ha.deployment_file import deployment_text, parse_deployment

WITH_IPV6 = (
    FILE.replace("10.0.0.10/24", "FD00::0010/64")
    .replace("10.0.0.11", "fd00:0::11")
    .replace("10.0.0.1", "fd00::1")
    .replace("10.0.0.2", "fd00::2")
)


@pytest.mark.parametrize(
    ("was", "is_now", "sentence"),
    [
        ('"10.0.0.23"', '"10.0.0.256"', "must be an IP address or a host name, not '10.0.0.256'"),
        ('"10.0.0.23"', '"n3..example.com"', "must be an IP address or a host name"),
        ('"10.0.0.23"', f'"{"n" * 64}.example.com"', "must be an IP address or a host name"),
        ('"10.0.0.23"', '"0.0.0.0"', "must be an IP address or a host name, not '0.0.0.0'"),
        ('"10.0.0.12"', '"0.0.0.0"', "the address of balancer lb2 must be an IP address, not '0.0.0.0'"),
        ('"10.0.0.12"', '"224.0.0.18"', "the address of balancer lb2 must be an IP address, not '224.0.0.18'"),
        ('"10.0.0.10/24"', '"0.0.0.0/24"', "virtual_address must be an IP address"),
        ('"10.0.0.10/24"', '"10.0.0.0/24"', "it is the first or last of 10.0.0.0/24"),
        ('"10.0.0.10/24"', '"10.0.0.255/24"', "it is the first or last of 10.0.0.0/24"),
        ('"10.0.0.22"', '"10.0.0.21"', "the amqp port of warren@n1 and the amqp port of warren@n2 are the same"),
        ('"10.0.0.23"', '"10.0.0.23"\namqp = 15672', "the amqp port of warren@n3 and the http port of warren@n3 are"),
        ('"warren@n3"', '"warren@n3:25672"', "a node's name must be like warren@HOST, not 'warren@n3:25672'"),
        ('name = "lb2"', 'name = "warren-at-n1"', "would both be called warren-at-n1: give one of them another name"),
        ('name = "lb2"', 'name = "deployment.toml"', "the file deployment.toml and balancer deployment.toml would"),
    ],
)
def test_a_deployment_that_cannot_work_is_refused(was: str, is_now: str, sentence: str) -> None:
    assert was in FILE
    assert sentence in refusal_of(FILE.replace(was, is_now, 1))


def test_two_nodes_whose_names_differ_must_differ_in_configurations() -> None:
    alike = FILE.replace("warren@n1", "warren@n-at-1").replace("warren@n2", "warren-at-n@1")
    assert "node warren@n-at-1 and node warren-at-n@1 would both be called warren-at-n-at-1" in refusal_of(alike)


@pytest.mark.parametrize("others", ["ram", "witness"])
def test_some_disc_node_must_be_the_first(others: str) -> None:
    text = FILE.replace('address = "10.0.0.2', 'kind = "ram"\naddress = "10.0.0.2').replace('"ram"', f'"{others}"', 1)
    assert "there must be a disc node that is no witness" in refusal_of(text)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ("[haproxy]\nhealth_port = 70000\n", "haproxy.health_port must be from 1 to 65535, not 70000"),
        ("[haproxy]\nhealth_port = 0\n", "haproxy.health_port must be from 1 to 65535, not 0"),
        ("[haproxy]\nuser = 'ha/proxy'\n", "haproxy.user must be the name of a user, not 'ha/proxy'"),
        ("[keepalived]\nscript_user = ''\n", "keepalived.script_user must be the name of a user, not ''"),
    ],
)
def test_settings_that_no_rehearsal_would_show_are_refused(more: str, sentence: str) -> None:
    """Users exist on the balancers, so they are not looked up where the files are rendered."""
    assert sentence in refusal_of(f"{FILE}\n{more}")


@pytest.mark.parametrize("path", ["warren", "/opt/../warren", "/opt/my warren", "/opt/warren\\n[Install]"])
def test_the_program_is_a_whole_path(path: str) -> None:
    assert "program must be" in refusal_of(f'program = "{path}"\n{FILE}')


def test_the_program_may_lie_anywhere() -> None:
    assert parse_deployment(FILE, "ours.toml").program == PROGRAM
    told = parse_deployment(f'program = "/usr/bin/warren"\n{FILE}', "ours.toml")
    assert told.program == "/usr/bin/warren"
    assert parse_deployment(deployment_text(told), "ours.toml") == told


def test_addresses_are_known_by_the_way_that_systems_write_them() -> None:
    told = parse_deployment(WITH_IPV6, "ours.toml")
    assert told.virtual_address == "fd00::10"
    assert [each.address for each in told.balancers] == ["fd00::11", "fd00::12"]
    assert "two of the balancers have the address fd00::11" in refusal_of(WITH_IPV6.replace("fd00::12", "FD00::11"))


def test_networks_have_lengths_however_they_were_given() -> None:
    told = parse_deployment(f'clients = ["10.1.0.0/255.255.0.0", "10.1.0.0/16", "FD00::/8"]\n{FILE}', "ours.toml")
    assert told.clients == ("10.1.0.0/16", "fd00::/8")


def test_a_virtual_address_in_a_network_of_its_own_is_remarked_upon() -> None:
    """It may be intended, if routers know it."""
    assert remarks(parse_deployment(FILE, "ours.toml")) == []
    assert remarks(parse_deployment(FILE.replace("10.0.0.10/24", "10.9.0.10/32"), "ours.toml")) == []
    [said] = remarks(parse_deployment(FILE.replace("10.0.0.10/24", "10.9.0.10/24"), "ours.toml"))
    assert said == "virtual_address 10.9.0.10/24 is in another network than lb1 and lb2: is that meant?"
