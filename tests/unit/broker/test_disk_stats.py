"""The stats of a queue's messages on disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.broker.durable_life import Life
from tests.unit.broker.queues.world import message_of
from warren.broker.queues.queue import Queue
from warren.node.disk.sqlite_store import SqliteStore


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    store = SqliteStore(str(tmp_path / "metadata.db"))
    yield Life(store)
    store.close()


def queue_of(life: Life, durable: bool) -> Queue:
    queue = life.queue("q", durable=durable)
    assert isinstance(queue, Queue)
    return queue


def test_persistent_messages_of_a_durable_queue_are_counted_until_they_are_removed(life: Life) -> None:
    queue = queue_of(life, durable=True)
    for body in ("1", "22", "333"):
        queue.publish(message_of(body, persistent=True))
    queue.publish(message_of("4444"))
    report = queue.report()
    assert (report.ready, report.persistent, report.persistent_bytes) == (4, 3, 6)
    taken = queue.get(False)
    assert taken is not None
    assert queue.report().persistent == 3
    queue.ack(taken)
    report = queue.report()
    assert (report.persistent, report.persistent_bytes) == (2, 5)
    assert queue.stats.disk_writes == 3


def test_a_transient_queue_has_no_persistent_messages(life: Life) -> None:
    queue = queue_of(life, durable=False)
    queue.publish(message_of("1", persistent=True))
    assert (queue.report().persistent, queue.stats.disk_writes) == (0, 0)
