"""The two fixtures that the suite's source distribution leaves to a file it does not carry."""

from types import SimpleNamespace

import pytest
from yarl import URL


@pytest.fixture(scope="session")
def rabbitmq_container() -> SimpleNamespace:
    # Port 1 has no listener: there is no TLS in the jail.
    return SimpleNamespace(host="127.0.0.1", ports={"5672/tcp": 5672, "5671/tcp": 1})


@pytest.fixture(scope="session")
def amqp_direct_url() -> URL:
    return URL("amqp://guest:guest@127.0.0.1:5672//")
