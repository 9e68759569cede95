"""The requests of tasks and drivers to a real node, without Spark: chunks by offsets, end offsets, a lost broker."""

import logging
import pickle
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.spark.streams import declare, number_in, publish, until_expired, until_first_is
from tests.support.node_process import NodeProcess
from warren.client import blocking
from warren.spark.options import BrokerOptions, OptionError
from warren.spark.stream_chunks import ChunkProjection
from warren.spark.stream_client import ChunkFeed, ChunkRequest, OffsetBounds, ReadError, StreamOffsetReader

PATIENT_S = 5.0
SMALL_SEGMENTS = {"x-max-length-bytes": 2_000_000, "x-stream-max-segment-size-bytes": 1_000_000}


@pytest.fixture
def channel(broker: blocking.Channel) -> blocking.Channel:
    broker.prefetch(10)
    return broker


def numbers_of(wanted: ChunkRequest) -> list[int]:
    return list(each_number(wanted))


def each_number(wanted: ChunkRequest) -> Iterator[int]:
    shape = ChunkProjection(("body",), 0)
    for start, chunk in ChunkFeed(wanted).chunks():
        for body in shape.batch(chunk, start, wanted.end).column("body").to_pylist():
            yield number_in(body)


def test_a_range_of_offsets_is_read_exactly(url: str, channel: blocking.Channel) -> None:
    stream = declare(channel)
    publish(channel, stream, range(5000), 1000)
    broker = BrokerOptions(url)
    assert numbers_of(ChunkRequest(broker, stream, 0, 5000)) == list(range(5000))
    assert numbers_of(ChunkRequest(broker, stream, 1234, 4321)) == list(range(1234, 4321))
    assert numbers_of(ChunkRequest(broker, stream, 4999, 5000)) == [4999]
    assert numbers_of(ChunkRequest(broker, stream, 70, 70)) == []


def test_a_stream_that_is_shorter_than_it_was_is_data_lost_and_what_is_left_is_read_if_that_may_be(
    url: str, channel: blocking.Channel, caplog: pytest.LogCaptureFixture
) -> None:
    stream = declare(channel)
    publish(channel, stream, range(3000), 1000)
    with pytest.raises(ReadError, match=r"offsets 3000 to 4999 of .* are gone"):
        numbers_of(ChunkRequest(BrokerOptions(url, 1.0), stream, 100, 5000))
    # the reader waits for the remaining messages until its timeout
    with caplog.at_level(logging.WARNING, "warren.spark"):
        assert numbers_of(
            ChunkRequest(BrokerOptions(url, PATIENT_S), stream, 100, 5000, fail_on_data_loss=False)
        ) == list(range(100, 3000))
    assert "offsets 3000 to 4999" in caplog.text


def test_bodies_do_not_travel_unless_they_are_wanted(url: str, channel: blocking.Channel) -> None:
    stream = declare(channel)
    publish(channel, stream, range(3000), 1000)
    shape = ChunkProjection(("message_id",), 0)
    feed = ChunkFeed(ChunkRequest(BrokerOptions(url), stream, 10, 2500, bodies=False))
    ids: list[str] = []
    for start, chunk in feed.chunks():
        assert not chunk.whole
        ids += shape.batch(chunk, start, 2500).column("message_id").to_pylist()
    assert ids == [str(number) for number in range(10, 2500)]


def test_a_queue_that_is_no_stream_is_refused_at_once(url: str, channel: blocking.Channel, queue: str) -> None:
    publish(channel, queue, range(1))
    places = StreamOffsetReader(BrokerOptions(url), queue)
    # a reader that waited for an answer would report that it timed out
    with pytest.raises(ReadError, match=f"'{queue}' is no stream: it cannot be asked for its offsets"):
        places.bounds()
    places.close()
    got = channel.get(queue)
    assert got is not None
    assert not got.redelivered


def test_bounds_and_times_are_found(url: str, channel: blocking.Channel) -> None:
    stream = declare(channel)
    for start in range(0, 3000, 300):
        publish(channel, stream, range(start, start + 300), 1000)
    feed = ChunkFeed(ChunkRequest(BrokerOptions(url), stream, 0, 3000))
    arrived_us = [at for _, chunk in feed.chunks() for at in chunk.times().cast("int64").to_pylist()]
    places = StreamOffsetReader(BrokerOptions(url), stream)
    bounds = places.bounds()
    assert bounds == {0: OffsetBounds(0, 3000)}
    # a millisecond that begins with a message, in the midst
    first = next(index for index in range(1200, 3000) if arrived_us[index] > arrived_us[index - 1])
    assert places.resolve("startingOffsets", f"timestamp:{arrived_us[first] // 1000}", bounds) == {"0": first}
    assert places.resolve("startingOffsets", f"timestamp:{arrived_us[-1] // 1000 + 5000}", bounds) == {"0": 3000}
    assert places.resolve("startingOffsets", "2001-01-01", bounds) == {"0": 0}
    assert places.resolve("startingOffsets", "17", bounds) == {"0": 17}
    with pytest.raises(OptionError, match="ends at 3000, before 3001"):
        places.resolve("endingOffsets", "3001", bounds)
    assert 1000 <= places.body_bytes(0, 0, 3000) <= 1010
    places.close()


def test_each_partition_of_a_partitioned_stream_is_found(url: str, channel: blocking.Channel) -> None:
    stream = declare(channel, {"x-stream-partitions": 3})
    for number in range(30):
        channel.publish(b"%d" % number, routing_key=f"{stream}-{number % 3}")
    places = StreamOffsetReader(BrokerOptions(url), stream)
    assert places.queues() == [f"{stream}-{index}" for index in range(3)]
    assert places.bounds() == {index: OffsetBounds(0, 10) for index in range(3)}
    assert places.resolve("startingOffsets", '{"0": 5, "1": "latest", "2": "earliest"}', places.bounds()) == {
        "0": 5,
        "1": 10,
        "2": 0,
    }
    places.close()


def test_no_connection_is_pickled(url: str, channel: blocking.Channel) -> None:
    stream = declare(channel)
    places = StreamOffsetReader(BrokerOptions(url), stream)
    places.bounds()
    again = pickle.loads(pickle.dumps(places))
    assert again.bounds() == {0: OffsetBounds(0, 0)}
    again.close()
    places.close()


def test_a_queue_that_is_no_stream_is_reported_in_a_sentence(url: str, channel: blocking.Channel) -> None:
    with pytest.raises(ReadError, match="no queue 'missing' in vhost '/'"):
        StreamOffsetReader(BrokerOptions(url), "missing").queues()


def test_a_missing_broker_is_reported_at_once() -> None:
    with pytest.raises(ReadError, match=r"cannot connect to 127\.0\.0\.1:1: connection refused"):
        StreamOffsetReader(BrokerOptions("amqp://127.0.0.1:1"), "any").queues()


def test_messages_that_expired_fail_a_read_or_are_passed_over(
    url: str, channel: blocking.Channel, caplog: pytest.LogCaptureFixture
) -> None:
    stream = declare(channel, dict(SMALL_SEGMENTS))
    published = count()
    first = until_expired(channel, stream, published, 1000)
    end = next(published)
    with pytest.raises(ReadError, match=rf"offsets 5 to \d+ of '{stream}' are gone; option failOnDataLoss"):
        numbers_of(ChunkRequest(BrokerOptions(url), stream, 5, end))
    with caplog.at_level(logging.WARNING, "warren.spark"):
        found = numbers_of(ChunkRequest(BrokerOptions(url), stream, 5, end, fail_on_data_loss=False))
    # more may have expired meanwhile
    assert first <= found[0]
    assert found == list(range(found[0], end))
    assert f"offsets 5 to {found[0] - 1} of '{stream}' are gone" in caplog.text
    assert numbers_of(ChunkRequest(BrokerOptions(url), stream, 5, first, fail_on_data_loss=False)) == []


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_messages_may_expire_while_they_are_read(
    url: str, channel: blocking.Channel, fail_on_data_loss: bool, caplog: pytest.LogCaptureFixture
) -> None:
    stream = declare(channel, {"x-max-length-bytes": 25_000_000, "x-stream-max-segment-size-bytes": 1_000_000})
    publish(channel, stream, range(200), 100_000)
    numbers = each_number(ChunkRequest(BrokerOptions(url), stream, 0, 200, fail_on_data_loss=fail_on_data_loss))
    assert next(numbers) == 0
    publish(channel, stream, range(200, 700), 100_000)
    until_first_is(channel, stream, 200)
    if fail_on_data_loss:
        with pytest.raises(ReadError, match=f"to 199 of '{stream}' are gone"):
            list(numbers)
    else:
        # some chunks were on their way
        found = list(numbers)
        assert found == list(range(1, len(found) + 1))
        assert len(found) < 199
        assert f"offsets {len(found) + 1} to 199 of '{stream}' are gone" in caplog.text


def test_a_broker_that_is_killed_in_mid_read_costs_nothing_but_time(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path)
    address = f"{node.amqp[0]}:{node.amqp[1]}"
    # the first host is down, and is skipped every time
    url = f"amqp://guest:guest@127.0.0.1:1,{address}/%2F"
    with blocking.connect(url) as connection:
        channel = connection.channel(confirms=True)
        stream = declare(channel)
        publish(channel, stream, range(30_000), 1000)
    found: list[int] = []
    kill_at = [3000, 15_000]
    for number in each_number(ChunkRequest(BrokerOptions(url), stream, 0, 30_000)):
        found.append(number)
        if kill_at and number == kill_at[0]:
            kill_at.pop(0)
            node.crash()
    assert found == list(range(30_000))
    node.stop()


def test_a_broker_that_stays_away_ends_a_read_with_a_sentence(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path)
    url = f"amqp://guest:guest@{node.amqp[0]}:{node.amqp[1]}/%2F"
    with blocking.connect(url) as connection:
        channel = connection.channel(confirms=True)
        stream = declare(channel)
        publish(channel, stream, range(30_000), 1000)
    numbers = each_number(ChunkRequest(BrokerOptions(url, PATIENT_S), stream, 0, 30_000))
    assert next(numbers) == 0
    node.kill()
    with pytest.raises(ReadError, match="cannot connect to"):
        list(numbers)
