"""Fixtures of the conversations: a broker, connections that are closed afterwards, names that are cleaned up."""

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.amqp_client import Channel, Connection, ServerHungUp
from tests.support.node_process import NodeProcess
from tests.support.operator import Operator

Address = tuple[str, int]
Connect = Callable[..., Connection]
Unique = Callable[[str], str]
ABOUT_USERS = ("test_firehose.py", "test_permissions.py", "test_virtual_hosts.py")


def given_address(variable: str = "WARREN_TEST_AMQP") -> Address | None:
    host, _, port = os.environ.get(variable, "").rpartition(":")
    return (host, int(port)) if port else None


@cache
def judged_by_rabbitmq() -> bool:
    address = given_address()
    if address is None:
        return False
    connection = Connection(address)
    product: str = connection.start().server_properties["product"]
    connection.cut()
    return product == "RabbitMQ"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Skip tests of Warren's own features on RabbitMQ, and tests of users at a broker without a known HTTP API."""
    if collection_path.name in ABOUT_USERS:
        return True if given_address() and not given_address("WARREN_TEST_HTTP") else None
    return True if collection_path.name.startswith("test_warren_") and judged_by_rabbitmq() else None


@pytest.fixture(scope="session")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Address | None]]:
    """The broker's AMQP and HTTP addresses."""
    address = given_address()
    if address is not None:
        yield {"amqp": address, "http": given_address("WARREN_TEST_HTTP")}
        return
    node = NodeProcess(tmp_path_factory.mktemp("node"))
    try:
        yield dict(node.addresses)
    except BaseException:
        node.kill()
        raise
    node.stop()


@pytest.fixture(scope="session")
def broker(addresses: dict[str, Address | None]) -> Address:
    address = addresses["amqp"]
    assert address is not None
    return address


@pytest.fixture(scope="session")
def operator(addresses: dict[str, Address | None]) -> Operator:
    """An operator who may change users and virtual hosts there."""
    address = addresses["http"]
    assert address is not None
    return Operator(address)


@pytest.fixture
def dial(broker: Address) -> Iterator[Callable[[], Connection]]:
    """Sockets on which nothing has been said."""
    dialled: list[Connection] = []

    def dial_one() -> Connection:
        dialled.append(Connection(broker))
        return dialled[-1]

    yield dial_one
    for connection in dialled:
        connection.cut()


@pytest.fixture
def connect(broker: Address) -> Iterator[Connect]:
    """Open connections, closed in good order when the test ends."""
    opened: list[Connection] = []

    def connect_one(**settings: Any) -> Connection:
        opened.append(Connection.opened(broker, **settings))
        return opened[-1]

    yield connect_one
    for connection in opened:
        connection.close()


@pytest.fixture
def connection(connect: Connect) -> Connection:
    return connect()


@pytest.fixture
def channel(connection: Connection) -> Channel:
    return connection.channel()


@pytest.fixture
def unique(broker: Address) -> Iterator[Unique]:
    """Unique names; a queue or an exchange that still bears one when the test ends is deleted."""
    given: list[str] = []

    def name(purpose: str) -> str:
        given.append(f"wire-{purpose}-{uuid.uuid4().hex[:10]}")
        return given[-1]

    yield name
    if given:
        _delete(broker, given)


def _delete(broker: Address, names: list[str]) -> None:
    connection = Connection.opened(broker)
    for number, name in enumerate(names, start=1):
        # An exclusive queue of a connection that is just ending may refuse; it goes with its connection.
        with contextlib.suppress(AssertionError, ServerHungUp):
            channel = connection.channel(number)
            channel.call("exchange.delete", exchange=name)
            channel.call("queue.delete", queue=name)
    connection.close()
