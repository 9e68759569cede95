"""Nodes as real processes."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.node.certificate_files import Authority
from tests.node.serving import Serving
from tests.support.amqp_client import Connection

Serve = Callable[..., Serving]
Connect = Callable[..., Connection]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start nodes; all of them are gone when the test is over."""
    started: list[Serving] = []

    def start(*options: str, **settings: Any) -> Serving:
        directory = tmp_path / f"node{len(started)}"
        directory.mkdir()
        listen = [] if "listeners." in settings.get("configuration", "") else ["--amqp", "127.0.0.1:0"]
        if "--http" not in options and "management." not in settings.get("configuration", ""):
            listen += ["--http", "127.0.0.1:0"]
        started.append(Serving(directory, *listen, *options, **settings))
        return started[-1]

    yield start
    for node in started:
        node.end()


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Connect to nodes; every socket is closed when the test is over."""
    made: list[Connection] = []

    def connected(node: Serving, protocol: str = "amqp", opened: bool = False, **settings: Any) -> Connection:
        address = node.address(protocol)
        made.append(Connection.opened(address, **settings) if opened else Connection(address))
        return made[-1]

    yield connected
    for connection in made:
        connection.socket.close()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))
