"""pytest's fixtures, for a test suite that enables them: `pytest_plugins = ["warren.client.testing.fixtures"]`.

Each test has a broker of its own; what a test leaves open is closed behind it.

Not here: anything that needs no pytest (`client.testing`).
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
    """Called with a broker's URL: a proxy to it that listens, and is closed when the test is over."""
    with contextlib.ExitStack() as started:
        yield lambda url: started.enter_context(FaultProxy(url))
