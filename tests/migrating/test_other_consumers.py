"""Other consumers at RabbitMQ during the move: their acks explain a difference of counts, and prove no loss."""

import pytest

from tests.migrating.moving import Moving
from tests.support.deadlines import eventually
from warren.cli.migrate.brokers import RabbitMQ
from warren.cli.migrate.queues import MARK, QueueName

MANY, TAKEN = 100, 10


def test_the_consumers_of_shovels_do_not_count_as_other_consumers(moving: Moving) -> None:
    moving.fill("orders", [])
    channel, queue = moving.at_source(), QueueName(moving.vhost, "orders")
    host, port = moving.rabbitmq.http
    source = RabbitMQ(f"http://guest:guest@{host}:{port}", "", "")

    def counted() -> tuple[int, int]:
        return source.others(moving.vhost)["orders"], source.sides([queue])[queue].consumers

    channel.consume("orders", arguments=dict(MARK))
    # RabbitMQ knows of the second one when it tells of it, and knew of the first before
    other = channel.consume("orders", arguments={"x-priority": 1})
    eventually(lambda: counted() == (1, 1), lambda: str(counted()))
    other.cancel()
    eventually(lambda: counted() == (0, 0), lambda: str(counted()))
    found = source.count(queue)
    assert found is not None
    assert found.consumers == 1
    source.close()


@pytest.mark.parametrize("is_shovel", [False, True], ids=["another client", "a shovel that has lost its connection"])
def test_a_message_acked_at_rabbitmq_that_did_not_arrive_is_never_a_match(is_shovel: bool, moving: Moving) -> None:
    moving.fill("orders", [b"%d" % number for number in range(MANY)])
    channel = moving.at_source()
    channel.prefetch(TAKEN)
    consumer = channel.consume("orders", arguments=dict(MARK) if is_shovel else None)
    held = consumer.batch(20.0)
    while len(held) < TAKEN:
        held += consumer.batch(20.0)
    command = moving.begin()
    command.await_line("definitions imported")
    eventually(lambda: length_at_warren(moving) == MANY - TAKEN, lambda: str(length_at_warren(moving)))
    consumer.cancel()
    channel.ack(held[-1], multiple=True)
    code, err = command.end()
    if is_shovel:
        assert code == 1, (command.out, err)
        assert f"{TAKEN} have not arrived" in command.out
    else:
        assert code == 3, (command.out, err)
        assert f"{TAKEN} did not arrive: other consumers at RabbitMQ may have received them" in command.out
        assert "not proven" in command.out


@pytest.mark.parametrize("how", ["got", "consumed"])
def test_an_unacked_message_of_a_client_without_a_consumer_is_still_at_rabbitmq(how: str, moving: Moving) -> None:
    moving.fill("orders", [b"%d" % number for number in range(MANY)])
    channel = moving.at_source()
    if how == "got":
        channel.get("orders")
    else:
        channel.prefetch(1)
        consumer = channel.consume("orders")
        assert consumer.batch(20.0)
        consumer.cancel()
    code, out, err = moving.run()
    assert code == 1, (out, err)
    assert f"{MANY - 1} arrived" in out
    assert "1 are still at RabbitMQ" in out


def length_at_warren(moving: Moving) -> int:
    rows = moving.operator.read("queues", moving.vhost)
    return sum(row["messages"] for row in rows if row["name"] == "orders")
