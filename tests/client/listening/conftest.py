"""Every test of listening runs on a broker in memory, on Warren and on RabbitMQ, unless it asks for one of them."""

import logging
from collections.abc import Iterator

import pytest

from tests.client.listening.worlds import World


@pytest.fixture(params=["memory", "warren", "rabbitmq"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "memory":
        yield World()
        return
    url = request.getfixturevalue("url") if request.param == "warren" else request.getfixturevalue("rabbitmq").url
    world = World(url)
    yield world
    world.tidy()


@pytest.fixture(autouse=True)
def silent(caplog: pytest.LogCaptureFixture) -> None:
    """Handlers fail on purpose here."""
    caplog.set_level(logging.CRITICAL, "warren.client.listening")
