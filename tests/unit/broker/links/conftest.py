"""Two nodes with a link, and a client of the first."""

import pytest

from tests.support.core_driver import Client
from tests.unit.broker.links.linked import Together


@pytest.fixture
def nodes() -> Together:
    return Together("here", "there")


@pytest.fixture
def client(nodes: Together) -> Client:
    return nodes.client("here")
