"""A query's reader of a queue, interrupted at each of its steps; on a real node, and without Spark.

A reader is interrupted by closing its connection and its folder, as the end of its process does.
"""

import time
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.spark.streams import DEADLINE_S
from warren.client import Message, Properties, blocking
from warren.client.testing import FaultProxy
from warren.spark.options import OptionError, QueueOptions, read_options
from warren.spark.queue_consumer import IntakeError
from warren.spark.queue_source import QueueBrowser, QueueStreamReader, stream_reader
from warren.spark.queue_staging import StagingError

START = {"next": 0}
ALL = ReadAllAvailable()


@pytest.fixture
def options(url: str, queue: str, folder: Path) -> QueueOptions:
    given = read_options({"url": url, "queue": queue, "stagingDir": str(folder), "timeout": "20"})
    assert isinstance(given, QueueOptions)
    return given


def reader_of(options: QueueOptions) -> QueueStreamReader:
    assert options.staging_dir is not None
    return QueueStreamReader(options, options.staging_dir)


def fill(broker: blocking.Channel, queue: str, *bodies: str) -> None:
    persistent = Properties(delivery_mode=2)
    broker.send_many([body.encode() for body in bodies], routing_key=queue, properties=persistent)
    broker.wait_for_confirms()


def latest(reader: QueueStreamReader, start: dict[str, int], end: int) -> dict[str, int]:
    """Ask for the latest offset until so many messages are staged."""
    deadline = time.monotonic() + DEADLINE_S
    while (offset := reader.latestOffset(start, ALL))["next"] < end:
        assert time.monotonic() < deadline, f"only {offset} of {end} are staged"
    return offset


def bodies(reader: QueueStreamReader, start: dict[str, int], end: dict[str, int]) -> list[str]:
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    return [body.decode() for batch in batches for body in batch.column("body").to_pylist()]


def is_empty(broker: blocking.Channel, queue: str) -> bool:
    """The queue has no ready and no unacked messages, as its deletion shows."""
    return broker.delete_queue(queue) == 0


def test_messages_staged_before_a_crash_are_read_and_not_staged_again(
    options: QueueOptions, broker: blocking.Channel, queue: str
) -> None:
    fill(broker, queue, "a", "b")
    first = reader_of(options)
    latest(first, first.initialOffset(), 2)
    first.stop()
    fill(broker, queue, "c")
    second = reader_of(options)
    assert second.initialOffset() == START
    end = latest(second, START, 2)
    assert bodies(second, START, end) == ["a", "b"]
    further = latest(second, end, 3)
    assert (further, bodies(second, end, further)) == ({"next": 3}, ["c"])
    second.commit(further)
    second.stop()
    assert is_empty(broker, queue)


def test_a_commit_that_was_recorded_and_not_acked_is_acked_later(
    options: QueueOptions, broker: blocking.Channel, queue: str, folder: Path
) -> None:
    fill(broker, queue, "a", "b")
    first = reader_of(options)
    end = latest(first, START, 2)
    first._open().commit(2)
    first.stop()
    second = reader_of(options)
    assert second.initialOffset() == end
    fill(broker, queue, "c")
    further = latest(second, end, 3)
    assert bodies(second, end, further) == ["c"]
    second.commit(further)
    second.stop()
    assert list(folder.glob("*.arrow")) == []
    assert is_empty(broker, queue)


def test_an_equal_message_that_was_not_staged_is_not_taken_for_one_that_was(
    options: QueueOptions, broker: blocking.Channel, queue: str
) -> None:
    """Both have been delivered before; one was staged, and its ack was lost."""
    fill(broker, queue, "same")
    first = reader_of(options)
    end = latest(first, START, 1)
    first._open().commit(1)
    first._intake.commit(1)
    first.stop()
    fill(broker, queue, "same")
    with blocking.connect(options.broker.url) as connection:
        # delivered to a consumer that did not ack it
        assert connection.channel().consume(queue).batch(10.0)
    second = reader_of(options)
    further = latest(second, end, 2)
    assert bodies(second, end, further) == ["same"]
    second.stop()


def test_acks_of_committed_messages_do_not_ack_messages_that_are_not_staged(
    options: QueueOptions, broker: blocking.Channel
) -> None:
    """A message of a higher priority is delivered before the staged one, and is not staged yet."""
    name = f"{options.queue}-priorities"
    broker.declare_queue(name, durable=True, arguments={"x-max-priority": 5})
    options = replace(options, queue=name)
    fill(broker, name, "known")
    first = reader_of(options)
    end = latest(first, START, 1)
    first._open().commit(1)
    first.stop()
    broker.publish(Message(b"urgent", Properties(delivery_mode=2, priority=5)), routing_key=name)
    second = reader_of(options)
    assert second.initialOffset() == end
    taken: list[bytes] = []
    while second._intake.pending or not taken:
        taken += [each.delivery.body for each in second._intake.take(10, 1000, 0.1, 1.0)]
    second.stop()
    assert taken == [b"urgent"]
    third = reader_of(options)
    assert bodies(third, end, latest(third, end, 2)) == ["urgent"]
    third.stop()


def test_a_broker_that_is_slow_to_deliver_is_not_taken_for_an_empty_queue(
    options: QueueOptions, broker: blocking.Channel, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warren.spark.queue_source.LAST_WAIT_S", 0.01)
    fill(broker, queue, "a", "b")
    with FaultProxy(options.broker.url) as proxy:
        reader = reader_of(replace(options, broker=replace(options.broker, url=proxy.url)))
        reader.prepareForTriggerAvailableNow()
        broker.purge_queue(queue)
        assert reader._intake.take(1, 1000, 0.0, 1.0) == []
        proxy.delay(0.3, "to_client")
        fill(broker, queue, "a", "b")
        assert reader.latestOffset(START, ALL) == {"next": 2}
        reader.stop()


def test_files_whose_messages_do_not_come_again_are_forgotten_when_the_queue_is_empty(
    options: QueueOptions, broker: blocking.Channel, queue: str, folder: Path
) -> None:
    fill(broker, queue, "a")
    first = reader_of(options)
    end = latest(first, START, 1)
    first._open().commit(1)
    first.stop()
    while not broker.purge_queue(queue):
        pass
    second = reader_of(options)
    second.initialOffset()
    while list(folder.glob("*.arrow")):
        second.latestOffset(end, ALL)
    second.stop()


def test_a_folder_belongs_to_one_query_and_one_queue(
    options: QueueOptions, broker: blocking.Channel, queue: str, folder: Path
) -> None:
    first = reader_of(options)
    first.initialOffset()
    short = QueueOptions(type(options.broker)(options.broker.url, 0.1), queue, options.columns, None, str(folder))
    with pytest.raises(StagingError, match="another query uses"):
        reader_of(short).initialOffset()
    first.stop()
    other = QueueOptions(options.broker, "other", options.columns, None, str(folder))
    with pytest.raises(StagingError, match="messages of another queue"):
        reader_of(other).initialOffset()


def test_staged_messages_that_are_gone_are_missed(options: QueueOptions, folder: Path) -> None:
    with pytest.raises(StagingError, match=r"staged messages 3 to 4 are not in"):
        reader_of(options).partitions({"next": 3}, {"next": 5})


def test_a_browser_that_is_given_nothing_says_so(url: str, broker: blocking.Channel, queue: str) -> None:
    alone = f"{queue}-alone"
    broker.declare_queue(alone, arguments={"x-single-active-consumer": True})
    fill(broker, alone, *"abc")
    broker.prefetch(1)
    other = broker.consume(alone)
    other.batch(10.0)
    options = read_options({"url": url, "queue": alone, "timeout": "1"})
    assert isinstance(options, QueueOptions)
    (partition,) = QueueBrowser(options).partitions()
    with pytest.raises(IntakeError, match="has 2 messages and delivers none of them"):
        list(QueueBrowser(options).read(partition))
    broker.delete_queue(alone)


@pytest.mark.parametrize("folder", ["s3a://bucket/staged", "hdfs:/staged"])
def test_a_folder_that_is_not_mounted_is_refused(url: str, queue: str, folder: str) -> None:
    options = read_options({"url": url, "queue": queue, "stagingDir": folder})
    assert isinstance(options, QueueOptions)
    with pytest.raises(OptionError, match="stagingDir is a folder of a file system that all machines mount"):
        stream_reader(options)
