"""Brokers that federate with each other."""

from collections.abc import Iterator

import pytest

from tests.bridges.conftest import url_of
from tests.bridges.federation.broker_api import BrokerApi
from tests.support.node_process import NodeProcess
from tests.support.rabbitmq import RabbitMQ


@pytest.fixture(scope="session")
def federating_rabbitmq() -> Iterator[RabbitMQ]:
    broker = RabbitMQ(plugins=["rabbitmq_federation_management"])
    yield broker
    broker.close()


@pytest.fixture(params=["warren", "rabbitmq"])
def upstream_url(request: pytest.FixtureRequest) -> str:
    if request.param == "warren":
        return url_of(request.getfixturevalue("far"))
    broker: RabbitMQ = request.getfixturevalue("rabbitmq")
    return broker.url


def api_of(node: NodeProcess) -> BrokerApi:
    host, port = node.addresses["http"]
    return BrokerApi(f"http://{host}:{port}", url_of(node))


@pytest.fixture
def here(near: NodeProcess) -> BrokerApi:
    return api_of(near)


@pytest.fixture
def there(far: NodeProcess) -> BrokerApi:
    return api_of(far)


@pytest.fixture
def rabbit(federating_rabbitmq: RabbitMQ) -> BrokerApi:
    return BrokerApi(federating_rabbitmq.http_url, federating_rabbitmq.url)


@pytest.fixture(params=["warren to warren", "warren to rabbitmq", "rabbitmq to warren"])
def pair(request: pytest.FixtureRequest) -> tuple[BrokerApi, BrokerApi]:
    """The downstream broker, and its upstream."""
    fixtures = {"warren to warren": ("there", "here"), "warren to rabbitmq": ("here", "rabbit")}
    upstream, downstream = fixtures.get(request.param, ("rabbit", "here"))
    return request.getfixturevalue(downstream), request.getfixturevalue(upstream)
