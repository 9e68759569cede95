"""Both brokers: one RabbitMQ for all tests, a node of its own for each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.migrating.moving import Moving
from tests.support.node_process import NodeProcess
from tests.support.rabbitmq import RabbitMQ

PLUGINS = (
    "rabbitmq_management",
    "rabbitmq_shovel_management",
    "rabbitmq_federation_management",
    "rabbitmq_random_exchange",
)


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[RabbitMQ]:
    server = RabbitMQ(plugins=PLUGINS)
    yield server
    server.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    process = NodeProcess(tmp_path)
    yield process
    process.stop()


@pytest.fixture
def moving(rabbitmq: RabbitMQ, node: NodeProcess) -> Iterator[Moving]:
    with Moving(rabbitmq, node) as prepared:
        yield prepared
