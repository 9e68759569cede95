"""Messages of the sink are confirmed, or sent again: on real nodes that are killed, and without Spark."""

import signal
import threading
import time
import uuid

import pyarrow as pa
import pytest

from tests.support.node_process import NodeProcess
from warren.client import blocking
from warren.spark.encoder import RowEncoder
from warren.spark.options import WriteOptions, write_options
from warren.spark.publisher import ConfirmedPublisher, SinkError
from warren.spark.publishing_ids import TaskPublisher


def sent(options: WriteOptions, batches: list[pa.RecordBatch], author: TaskPublisher) -> None:
    with ConfirmedPublisher(options.broker, "test") as publisher:
        encoder = RowEncoder(options, author, publisher.payload_max)
        for batch in batches:
            for piece in encoder.pieces(batch):
                publisher.send(piece)
        publisher.finish()


def batches_of(count: int, size: int) -> list[pa.RecordBatch]:
    return [
        pa.RecordBatch.from_pydict({"body": [b"%0*d" % (size, number) for number in range(first, first + 1000)]})
        for first in range(0, count, 1000)
    ]


@pytest.fixture
def author() -> TaskPublisher:
    return TaskPublisher(uuid.uuid4().hex)


def test_rows_arrive_once_though_the_node_is_killed_while_they_are_sent(
    node: NodeProcess, url: str, queue: str, author: TaskPublisher
) -> None:
    killer = threading.Timer(0.5, node.crash)
    killer.start()
    options = write_options({"url": url, "routingKey": queue})
    for _ in range(3):
        sent(options, batches_of(20_000, 1024), author)
    killer.join()
    with blocking.connect(url) as connection:
        channel = connection.channel()
        assert channel.declare_queue(queue, passive=True).messages == 20_000


def test_rows_are_known_again_though_they_are_many_times_what_is_remembered_of_a_publisher(
    url: str, broker: blocking.Channel, author: TaskPublisher
) -> None:
    name = f"forgetful-{author.publisher}"
    broker.declare_queue(name, durable=True, arguments={"x-warren-dedup-window": 1000})
    options = write_options({"url": url, "routingKey": name})
    for batches in (batches_of(10_000, 10), batches_of(10_000, 10)[::-1]):
        sent(options, batches, author)
    assert broker.declare_queue(name, passive=True).messages == 10_000


def test_the_first_host_that_answers_is_taken(
    node: NodeProcess, broker: blocking.Channel, queue: str, author: TaskPublisher
) -> None:
    host, port = node.amqp
    options = write_options({"url": f"amqp://{host}:1,{host}:{port}", "routingKey": queue})
    sent(options, batches_of(1000, 10), author)
    assert broker.declare_queue(queue, passive=True).messages == 1000


def test_a_queue_that_stays_full_is_an_error_after_the_deadline(
    url: str, broker: blocking.Channel, author: TaskPublisher
) -> None:
    name = f"small-{author.publisher}"
    broker.declare_queue(name, arguments={"x-max-length": 10, "x-overflow": "reject-publish"})
    options = write_options({"url": url, "routingKey": name, "timeout": "1"})
    with pytest.raises(SinkError, match="1000 messages are not confirmed: "):
        sent(options, batches_of(1000, 10), author)


class LaterClock:
    """The module `time`, with a clock that runs faster."""

    def __init__(self) -> None:
        self.passed_s = 0.0
        self.sleep = time.sleep

    def monotonic(self) -> float:
        return time.monotonic() + self.passed_s


def test_rows_that_take_longer_than_the_timeout_to_be_made_have_all_of_it_to_be_confirmed(
    node: NodeProcess,
    url: str,
    broker: blocking.Channel,
    queue: str,
    author: TaskPublisher,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = LaterClock()
    monkeypatch.setattr("warren.spark.publisher.time", clock)
    options = write_options({"url": url, "routingKey": queue, "timeout": "30"})
    with ConfirmedPublisher(options.broker, "test") as publisher:
        (piece,) = RowEncoder(options, author, publisher.payload_max).pieces(batches_of(1000, 10)[0])
        clock.passed_s = 31.0
        node.process.send_signal(signal.SIGSTOP)
        waker = threading.Timer(0.7, node.process.send_signal, [signal.SIGCONT])
        waker.start()
        publisher.send(piece)
        publisher.finish()
    waker.join()
    assert broker.declare_queue(queue, passive=True).messages == 1000


def test_a_wrong_password_is_an_error_at_once(node: NodeProcess) -> None:
    host, port = node.amqp
    options = write_options({"url": f"amqp://guest:wrong@{host}:{port}", "routingKey": "k"})
    with pytest.raises(SinkError, match="ACCESS_REFUSED"):
        sent(options, [], TaskPublisher("p"))
