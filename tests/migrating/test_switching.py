"""Publishers and consumers are switched over while they work, led by `--first`: nothing is lost, and order is kept."""

from tests.migrating.moving import Moving
from tests.migrating.numbers import Consumer, Publisher

BACKLOG = 2000


def prepared(moving: Moving) -> tuple[Publisher, Consumer]:
    """A backlog at RabbitMQ, with a publisher and a consumer."""
    publisher, consumer = Publisher("orders", BACKLOG), Consumer("orders")
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
