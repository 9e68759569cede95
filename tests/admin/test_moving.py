"""Moving a queue's messages to another queue: in order, each once, to no other queue; messages that cannot go stay."""

from collections.abc import Iterator
from contextlib import contextmanager

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.admin.calling import Api, connected
from tests.support.node_process import NodeProcess

SOURCE, DESTINATION, COPIES = "moving.from", "moving.to", "moving.copies"


@pytest.fixture
def channel(node: NodeProcess) -> Iterator[BlockingChannel]:
    with connected(node) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel


@contextmanager
def queues(channel: BlockingChannel, **arguments: object) -> Iterator[None]:
    """Three, of which the destination has these arguments."""
    for name in (SOURCE, DESTINATION, COPIES):
        given = {key.replace("_", "-"): value for key, value in arguments.items()} if name == DESTINATION else {}
        channel.queue_declare(name, durable=True, arguments=given)
    yield
    for name in (SOURCE, DESTINATION, COPIES):
        channel.queue_delete(name)


def publish(channel: BlockingChannel, count: int, **properties: object) -> list[bytes]:
    bodies = [b"%d" % number for number in range(count)]
    for body in bodies:
        channel.basic_publish("", SOURCE, body, pika.BasicProperties(delivery_mode=2, **properties))
    return bodies


def taken(channel: BlockingChannel, queue: str) -> list[bytes]:
    bodies = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        bodies.append(got[2])
    return bodies


def moved(api: Api, **asked: object) -> int:
    heard = api.call("POST", f"queues/%2F/{SOURCE}/move", {"destination": DESTINATION, **asked})
    assert heard.status == 200, heard.body
    return int(heard.json["moved"])


def test_everything_goes_in_order(api: Api, channel: BlockingChannel) -> None:
    with queues(channel):
        bodies = publish(channel, 450)
        assert moved(api) == 450
        assert taken(channel, DESTINATION) == bodies
        assert taken(channel, SOURCE) == []


def test_as_many_go_as_were_asked_for(api: Api, channel: BlockingChannel) -> None:
    with queues(channel):
        bodies = publish(channel, 5)
        assert moved(api, count=2) == 2
        assert (taken(channel, DESTINATION), taken(channel, SOURCE)) == (bodies[:2], bodies[2:])


def test_messages_that_the_other_queue_refuses_stay(api: Api, channel: BlockingChannel) -> None:
    with queues(channel, x_max_length=3, x_overflow="reject-publish"):
        bodies = publish(channel, 5)
        assert moved(api) == 3
        assert (taken(channel, DESTINATION), taken(channel, SOURCE)) == (bodies[:3], bodies[3:])


def test_copies_are_not_made_again(api: Api, channel: BlockingChannel) -> None:
    with queues(channel):
        bodies = publish(channel, 2, headers={"CC": [COPIES], "kept": 1})
        assert taken(channel, COPIES) == bodies
        assert moved(api) == 2
        _got, properties, _body = channel.basic_get(DESTINATION)
        assert properties.headers == {"kept": 1}
        assert taken(channel, COPIES) == []
