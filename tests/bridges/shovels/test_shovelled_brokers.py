"""Messages from one broker to another by shovels: of Warren and of RabbitMQ, either way round."""

import pytest

from tests.bridges.queue_pair import Unique
from tests.bridges.shovels.conftest import Shoveller
from tests.support.deadlines import eventually

COUNT = 1000
WAYS = {
    "warren to warren": ("here", "here", "there"),
    "warren fetches from warren": ("here", "there", "here"),
    "warren fetches from rabbitmq": ("here", "rabbit", "here"),
    "warren sends to rabbitmq": ("here", "here", "rabbit"),
    "rabbitmq fetches from warren": ("rabbit", "here", "rabbit"),
    "rabbitmq sends to warren": ("rabbit", "rabbit", "here"),
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> tuple[Shoveller, Shoveller, Shoveller]:
    """The broker with the shovel, its source, and its destination."""
    who, source, destination = (request.getfixturevalue(name) for name in WAYS[request.param])
    return who, source, destination


def uri(who: Shoveller, end: Shoveller) -> str:
    """Its own broker has no host."""
    return "amqp://" if who is end else end.amqp


@pytest.mark.parametrize("ack_mode", ["on-confirm", "on-publish", "no-ack"])
def test_messages_arrive_whole_and_in_order(
    way: tuple[Shoveller, Shoveller, Shoveller], ack_mode: str, unique: Unique
) -> None:
    who, source, destination = way
    name, copy = unique("from"), unique("to")
    source.fill(name, COUNT)
    ends = {"src_uri": uri(who, source), "dest_uri": uri(who, destination), "src_queue": name, "dest_queue": copy}
    with who.shovel(name, ack_mode=ack_mode, src_prefetch_count=300, **ends):
        row = who.until_state(name, "running")
        assert (row["src_queue"], row["dest_queue"], row["type"]) == (name, copy, "dynamic")
        assert "guest" not in row["src_uri"] + row["dest_uri"]
        arrived = destination.take(copy, COUNT)
    assert [delivery.body for delivery in arrived] == [b"%d" % at for at in range(COUNT)]
    assert [delivery.properties.message_id for delivery in arrived] == [f"m{at}" for at in range(COUNT)]
    eventually(lambda: source.length(name) == 0)
    source.forget_queues(name)
    destination.forget_queues(copy)


def test_the_status_of_a_shovel_has_the_fields_of_rabbitmq(here: Shoveller, rabbit: Shoveller, unique: Unique) -> None:
    told = []
    name, copy = unique("from"), unique("to")
    for who in (here, rabbit):
        who.fill(name, 1)
        with who.shovel(
            name,
            src_uri="amqp://",
            src_queue=name,
            dest_uri="amqp://",
            dest_queue=copy,
            dest_add_forward_headers=True,
            dest_add_timestamp_header=True,
            dest_publish_properties={"content_type": "text/plain", "priority": 3},
        ):
            (arrived,) = who.take(copy, 1)
        properties = arrived.properties
        assert (properties.content_type, properties.priority, properties.message_id) == ("text/plain", 3, "m0")
        headers = dict(arrived.headers)
        assert isinstance(headers.pop("x-shovelled-timestamp"), int)
        way = headers["x-shovelled"]
        assert isinstance(way, list)
        assert way[0].pop("shovelled-by")
        told.append((headers, list(way[0])))
        who.forget_queues(name, copy)
    assert told[0] == told[1]
