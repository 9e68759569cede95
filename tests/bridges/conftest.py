"""Brokers at both ends: nodes of Warren, and a RabbitMQ."""

import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.support.node_process import NodeProcess
from tests.support.rabbitmq import RabbitMQ


def url_of(node: NodeProcess) -> str:
    return f"amqp://guest:guest@{node.amqp[0]}:{node.amqp[1]}/%2F"


def running(folder: pytest.TempPathFactory, name: str) -> Iterator[NodeProcess]:
    node = NodeProcess(folder.mktemp(name), "--name", f"{name}@localhost")
    try:
        yield node
    except BaseException:
        node.kill()
        raise
    node.stop()


@pytest.fixture(scope="session")
def near(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    yield from running(tmp_path_factory, "near")


@pytest.fixture(scope="session")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    yield from running(tmp_path_factory, "far")


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[RabbitMQ]:
    broker = RabbitMQ()
    yield broker
    broker.close()


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Names that no other test uses."""

    def name(purpose: str) -> str:
        return f"bridged-{purpose}-{uuid.uuid4().hex[:10]}"

    return name
