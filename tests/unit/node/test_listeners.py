"""Binding and listening."""

import socket
from itertools import count

import pytest

from tests.unit.node.shell import LOOPS, ScriptedCore, Shell, run_on
from warren.broker.model.events import ConnectionOpened
from warren.errors import ConfigError
from warren.node.client_sockets import ClientSockets
from warren.node.listeners import BACKLOG, ListenAddress, bind, bound_address, listen


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (ListenAddress("127.0.0.1", 5672), "127.0.0.1:5672"),
        (ListenAddress("::1", 5672), "[::1]:5672"),
        (ListenAddress("", 5672), "0.0.0.0:5672"),
    ],
)
def test_an_address_is_shown_as_a_client_would_write_it(address: ListenAddress, text: str) -> None:
    assert str(address) == text


def test_a_port_without_a_host_is_bound_for_both_families_of_addresses() -> None:
    sockets = bind(ListenAddress("", 0), "")
    try:
        assert [bound.family for bound in sockets] == [socket.AF_INET, socket.AF_INET6]
        assert len({bound_address(bound).port for bound in sockets}) == 1
    finally:
        for bound in sockets:
            bound.close()


def test_a_port_in_use_is_named_with_the_way_to_choose_another() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError) as refusal:
            bind(ListenAddress("127.0.0.1", port), "choose another")
        assert str(refusal.value) == f"port {port} of 127.0.0.1 is in use; choose another"
        with pytest.raises(ConfigError, match=f"port {port} of this machine is in use"):
            bind(ListenAddress("", port), "choose another")


def test_two_nodes_that_start_at_once_cannot_share_a_port() -> None:
    [first] = bind(ListenAddress("127.0.0.1", 0), "")
    with first, pytest.raises(ConfigError, match="is in use"):
        bind(bound_address(first), "")


@pytest.mark.parametrize(
    ("host", "sentence"),
    [
        ("nowhere.invalid", "the host of nowhere.invalid:0 is unknown"),
        ("192.0.2.1", "192.0.2.1 is not an address of this"),
    ],
)
def test_a_host_that_is_not_here_is_refused(host: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        bind(ListenAddress(host, 0), "")


def test_a_whole_fleet_may_knock_at_once() -> None:
    assert BACKLOG >= 4096


@pytest.mark.parametrize("loop_name", LOOPS)
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_client_of_either_family_is_accepted_and_described(loop_name: str, host: str) -> None:
    async def conversation() -> None:
        shell = Shell(ScriptedCore())
        sockets = bind(ListenAddress("", 0), "")
        port = bound_address(sockets[0]).port
        links = ClientSockets(shell.turns, count(1))
        servers = await listen(sockets, links.accept)
        client = socket.create_connection((host, port))
        await shell.core.until(lambda: shell.core.of(ConnectionOpened))
        opened = shell.core.of(ConnectionOpened)[0]
        assert (opened.peer_host, opened.peer_port) == client.getsockname()[:2]
        assert (opened.local_host, opened.local_port) == (host, port)
        client.close()
        for server in servers:
            server.close()
        await shell.hang_up()

    run_on(loop_name, conversation())
