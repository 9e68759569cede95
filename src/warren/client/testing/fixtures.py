"""Fixtures for pytest. A test suite enables them with `pytest_plugins = ["warren.client.testing.fixtures"]`.

Each test has its own broker. The fixtures close what a test leaves open.

Not here: the tools that need no pytest (`client.testing`).
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator

import pytest

from warren.client.testing.broker import MemoryBroker
from warren.client.testing.proxy import FaultProxy
from warren.client.testing.transport import MemoryTransport

__all__ = ["fault_proxy", "memory_broker", "transport"]


@pytest.fixture
def memory_broker() -> MemoryBroker:
    """An empty broker in memory."""
    return MemoryBroker()


@pytest.fixture
def transport(memory_broker: MemoryBroker) -> Iterator[MemoryTransport]:
    """A connection to the test's `memory_broker`."""
    made = memory_broker.transport()
    yield made
    asyncio.run(made.close(deadline_s=0))


@pytest.fixture
def fault_proxy() -> Iterator[Callable[[str], FaultProxy]]:
    """A function from a broker's URL to a listening proxy, which is closed after the test."""
    with contextlib.ExitStack() as started:
        yield lambda url: started.enter_context(FaultProxy(url))
