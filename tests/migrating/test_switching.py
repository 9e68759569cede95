"""Publishers and consumers are switched over while they work, led by `--first`: nothing is lost, and order is kept."""

import threading
from typing import final

from tests.migrating.moving import Moving
from warren.client import Message, Properties, blocking

BACKLOG = 2000


@final
class Publisher:
    """Sends numbers, each confirmed before it counts as sent."""

    def __init__(self) -> None:
        self.sent = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, url: str) -> None:
        self._stop.clear()
        self._thread = threading.Thread(target=self._work, args=(url,))
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join()

    def _work(self, url: str) -> None:
        with blocking.connect(url) as connection:
            channel = connection.channel(confirms=True)
            while not self._stop.is_set():
                channel.publish(Message(b"%d" % self.sent, Properties(delivery_mode=2)), "", "orders", mandatory=True)
                self.sent += 1


@final
class Consumer:
    """Keeps the numbers it has acked, in order."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, url: str) -> None:
        self._stop.clear()
        self._thread = threading.Thread(target=self._work, args=(url,))
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join()

    def await_number(self, number: int) -> None:
        """Until it has come."""
        assert self._thread is not None
        while not self.taken or self.taken[-1] < number:
            assert self._thread.is_alive()
            self._stop.wait(0.01)

    def _work(self, url: str) -> None:
        with blocking.connect(url) as connection:
            channel = connection.channel()
            channel.prefetch(50)
            consumer = channel.consume("orders")
            while not self._stop.is_set():
                batch = consumer.batch(0.1)
                for delivery in batch:
                    channel.ack(delivery)
                    self.taken.append(int(delivery.body))


def prepared(moving: Moving) -> tuple[Publisher, Consumer]:
    """A backlog, one who adds to it and one who takes from it, at RabbitMQ."""
    publisher, consumer = Publisher(), Consumer()
    publisher.sent = BACKLOG
    moving.fill("orders", [b"%d" % number for number in range(BACKLOG)])
    publisher.start(moving.source_url)
    return publisher, consumer


def in_order_of_their_first_coming(taken: list[int]) -> list[int]:
    """What a consumer was given again because its connection ended before its ack had come is left out."""
    return list(dict.fromkeys(taken))


def test_consumers_first_loses_nothing_and_keeps_the_order(moving: Moving) -> None:
    publisher, consumer = prepared(moving)
    consumer.start(moving.source_url)
    consumer.await_number(100)
    command = moving.begin("--first", "consumers")
    command.await_line("step 1: stop the consumers at RabbitMQ")
    consumer.stop()
    command.press_enter()
    command.await_line("step 2: start the consumers at Warren")
    consumer.start(moving.url)
    consumer.await_number(BACKLOG + 100)
    command.press_enter()
    command.await_line("step 3: stop the publishers at RabbitMQ")
    publisher.stop()
    command.press_enter()
    command.await_line("everything has arrived: start the publishers at Warren")
    code, err = command.end()
    assert code == 0, (command.out, err)
    publisher.start(moving.url)
    consumer.await_number(publisher.sent + 10)
    publisher.stop()
    consumer.await_number(publisher.sent - 1)
    consumer.stop()
    assert in_order_of_their_first_coming(consumer.taken) == list(range(publisher.sent))
    assert "it matches" in command.out


def test_publishers_first_loses_nothing(moving: Moving) -> None:
    publisher, consumer = prepared(moving)
    command = moving.begin("--first", "publishers")
    command.await_line("step 1: stop the publishers at RabbitMQ and start them at Warren")
    publisher.stop()
    at_rabbitmq = publisher.sent
    publisher.start(moving.url)
    command.press_enter()
    command.await_line("step 2: wait until the consumers have emptied RabbitMQ's queues")
    consumer.start(moving.source_url)
    consumer.await_number(1000)
    consumer.stop()
    command.press_enter()
    command.await_line("everything has arrived: start the consumers at Warren")
    assert command.end()[0] == 0, command.out
    publisher.stop()
    consumer.start(moving.url)
    while len(set(consumer.taken)) < publisher.sent:
        consumer.await_number(0)
    consumer.stop()
    assert sorted(set(consumer.taken)) == list(range(publisher.sent))
    carried = [number for number in consumer.taken if number < at_rabbitmq]
    assert in_order_of_their_first_coming(carried) == list(range(at_rabbitmq))
