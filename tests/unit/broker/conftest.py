"""A node in memory, for tests that drive the core by events."""

import pytest

from tests.support.core_driver import Core
from tests.unit.broker.sessions.journalled import JournalledCore
from warren.broker.model.settings import BrokerSettings


@pytest.fixture
def core() -> Core:
    """Without consumer timeouts, so that it sets no timers of its own."""
    return Core(BrokerSettings(consumer_timeout_ms=0))


@pytest.fixture
def journalled() -> JournalledCore:
    """Over a disk that flushes and reads when the test says so."""
    return JournalledCore()
