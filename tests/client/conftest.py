"""Brokers for the client to talk to: one that all tests share, and nodes of a test's own.

The client works with Warren and with RabbitMQ. In a module with `ON_EITHER_BROKER = True` each test that uses `url`
runs on both; tests of other modules run on Warren, or with `WARREN_TEST_BROKER=rabbitmq` on RabbitMQ.
`WARREN_TEST_AMQP=HOST:PORT` replaces Warren by another broker. Tests in files that begin with `test_warren_` start
nodes of their own and kill them.
"""

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from tests.client.databases import opened, postgres_url, sqlite_url
from tests.client.seam import Brokers
from tests.node.certificate_files import Authority
from tests.node.serving import Serving
from tests.support.node_process import NodeProcess
from tests.support.postgres import Postgres
from tests.support.rabbitmq import RabbitMQ
from warren.client import blocking, recovering
from warren.client.tables import create_tables
from warren.client.testing import FaultProxy, MemoryBroker
from warren.client.transport import Transport


def url_of(address: tuple[str, int], query: str = "") -> str:
    return f"amqp://guest:guest@{address[0]}:{address[1]}/%2F{query}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if getattr(metafunc.module, "ON_EITHER_BROKER", False) and "url" in metafunc.fixturenames:
        metafunc.parametrize("url", ["warren", "rabbitmq"], indirect=True, scope="session")


@pytest.fixture(scope="session")
def url(request: pytest.FixtureRequest) -> str:
    """The broker that all tests share, of the kind that this one is run on."""
    if getattr(request, "param", os.environ.get("WARREN_TEST_BROKER", "warren")) == "warren":
        return str(request.getfixturevalue("warren_url"))
    server: RabbitMQ = request.getfixturevalue("rabbitmq")
    return server.url


@pytest.fixture(scope="session")
def warren_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    host, _, port = os.environ.get("WARREN_TEST_AMQP", "").rpartition(":")
    if port:
        yield url_of((host, int(port)))
        return
    node = NodeProcess(tmp_path_factory.mktemp("node"))
    try:
        yield url_of(node.amqp)
    except BaseException:
        node.kill()
        raise
    node.stop()


@pytest.fixture
def unique(url: str) -> Iterator[Callable[[str], str]]:
    """Unique names; queues and exchanges with them are deleted after the test."""
    given: list[str] = []

    def name(purpose: str) -> str:
        given.append(f"client-{purpose}-{uuid.uuid4().hex[:10]}")
        return given[-1]

    yield name
    with blocking.connect(url) as connection, connection.channel() as channel:
        for each in given:
            channel.delete_queue(each)
            channel.delete_exchange(each)


@pytest.fixture
def queue(unique: Callable[[str], str]) -> str:
    return unique("queue")


@pytest.fixture
def proxy(url: str) -> Iterator[FaultProxy]:
    """A fault proxy between a test and the shared broker."""
    with FaultProxy(url) as between:
        yield between


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., NodeProcess]]:
    """Nodes of the test's own; none is left when it is over."""
    started: list[NodeProcess] = []

    def start_one(**settings: Any) -> NodeProcess:
        started.append(NodeProcess(tmp_path / f"node{len(started)}", **settings))
        return started[-1]

    yield start_one
    for node in started:
        node.kill()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[str], Serving]]:
    """A node with a configuration of the test's own making, listeners included."""
    started: list[Serving] = []

    def serve_one(configuration: str) -> Serving:
        directory = tmp_path / f"serving{len(started)}"
        directory.mkdir()
        started.append(Serving(directory, "--http", "127.0.0.1:0", configuration=configuration))
        return started[-1]

    yield serve_one
    for node in started:
        node.end()


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[RabbitMQ]:
    """One that all tests of a process share: a test that stops or kills it starts it again."""
    server = RabbitMQ()
    yield server
    server.close()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """A PostgreSQL that all tests share; each test leaves it empty."""
    server = Postgres()
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """One of either kind."""
    is_file = request.param == "sqlite"
    with opened(sqlite_url(tmp_path) if is_file else postgres_url(request.getfixturevalue("postgres_server"))) as found:
        yield found


@pytest.fixture
def database(empty_database: Engine) -> Engine:
    """One with the tables in it."""
    create_tables(empty_database)
    return empty_database


@pytest.fixture(params=["memory", "warren", "rabbitmq"])
def broker(request: pytest.FixtureRequest) -> Iterator[Brokers]:
    """Each broker that a transport can use; the test's queues are deleted afterwards."""
    if request.param == "memory":
        memory = MemoryBroker()

        async def connect_to_memory() -> Transport:
            return memory.transport()

        yield Brokers(connect_to_memory)
        return
    shared = request.getfixturevalue("url") if request.param == "warren" else request.getfixturevalue("rabbitmq").url

    async def connect() -> Transport:
        return await recovering.open(shared)

    made = Brokers(connect)
    yield made
    with blocking.connect(shared) as connection, connection.channel() as channel:
        for name in made.named:
            channel.delete_queue(name)
            channel.delete_exchange(name)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))
