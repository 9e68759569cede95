"""The cache of basic.publish frames is valid until the topology changes, and no longer.

Each test publishes the same frame before and after a change: the second publish must see the change.
"""

import pytest

from tests.support.core_driver import Client, Core, published, spoken
from warren.broker.sessions.publishes import CACHED_PUBLISH_BYTES, PUBLISH_CACHE_BYTES_MAX
from warren.wire.methods import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
)

FRAME = published("k", b"body", exchange="e", mandatory=True)


@pytest.fixture
def client() -> Client:
    """Of a node with an exchange `e` and the queues `one` and `two`."""
    client = Core().client()
    client.declare_exchange("e")
    client.declare("one")
    client.declare("two")
    return client


def counts(client: Client) -> tuple[int, int]:
    queues = client.core.broker.vhosts["/"].topology.queues
    return queues["one"].ready_count(), queues["two"].ready_count()


def test_the_same_frame_goes_the_same_way(client: Client) -> None:
    client.bind("one", "e")
    client.read(FRAME * 3)
    assert counts(client) == (3, 0)


def test_a_binding_made_meanwhile_is_followed(client: Client) -> None:
    client.bind("one", "e")
    client.read(FRAME + spoken(QueueBind(queue="two", exchange="e", routing_key="k")) + FRAME)
    assert counts(client) == (2, 1)


def test_a_binding_undone_meanwhile_is_not_followed(client: Client) -> None:
    client.bind("one", "e")
    client.read(FRAME + spoken(QueueUnbind(queue="one", exchange="e", routing_key="k")) + FRAME)
    assert counts(client) == (1, 0)
    assert client.names() == ["queue.unbind-ok", "basic.return"]


def test_a_binding_of_exchanges_counts_as_well(client: Client) -> None:
    client.declare_exchange("inner", "fanout")
    client.bind("two", "inner")
    client.read(FRAME + spoken(ExchangeBind("inner", "e", "k")) + FRAME)
    assert counts(client) == (0, 1)
    client.read(spoken(ExchangeUnbind("inner", "e", "k")) + FRAME)
    assert counts(client) == (0, 1)


def test_another_clients_changes_count_as_well(client: Client) -> None:
    client.bind("one", "e")
    client.read(FRAME)
    client.core.client().bind("two", "e")
    client.read(FRAME)
    assert counts(client) == (2, 1)


def test_a_queue_declared_meanwhile_is_found_by_its_name(client: Client) -> None:
    frame = published("late", mandatory=True)
    client.read(frame + spoken(QueueDeclare(queue="late")) + frame)
    assert client.names() == ["basic.return", "queue.declare-ok"]
    assert client.core.broker.vhosts["/"].topology.queues["late"].ready_count() == 1


def test_a_queue_deleted_and_declared_again_is_the_later_one(client: Client) -> None:
    frame = published("one")
    client.read(frame + spoken(QueueDelete(queue="one"), QueueDeclare(queue="one")) + frame)
    assert counts(client) == (1, 0)


def test_a_deleted_queue_gets_nothing_more(client: Client) -> None:
    client.bind("one", "e")
    client.bind("two", "e")
    client.read(FRAME + spoken(QueueDelete(queue="one")) + FRAME)
    assert client.core.broker.vhosts["/"].topology.queues["two"].ready_count() == 2
    assert client.names() == ["queue.delete-ok"]


def test_an_exchange_deleted_meanwhile_is_missed(client: Client) -> None:
    client.bind("one", "e")
    client.read(FRAME + spoken(ExchangeDelete(exchange="e")) + FRAME)
    assert counts(client) == (1, 0)
    assert client.names() == ["exchange.delete-ok", "channel.close"]


def test_an_exchange_of_another_type_under_the_same_name_routes_by_its_own_rules(client: Client) -> None:
    client.bind("one", "e")
    fanout = spoken(
        ExchangeDelete(exchange="e"),
        ExchangeDeclare(exchange="e", type="fanout"),
        QueueBind(queue="two", exchange="e", routing_key="other"),
    )
    client.read(FRAME + fanout + FRAME)
    assert counts(client) == (1, 1)


def test_frames_of_two_channels_are_kept_apart() -> None:
    core = Core()
    client = core.client(channels=2)
    client.declare("q")
    client.confirm(2)
    client.read(published("q") + published("q", channel=2) + published("q", channel=2))
    assert [(heard.channel, heard.method.name) for heard in client.heard()] == [(2, "basic.ack")]


def test_no_more_frames_are_remembered_than_a_connection_may_cost() -> None:
    core = Core()
    client = core.client()
    client.declare("q")
    remembered = core.broker.connections[client.number].cached_publishes
    most = 0
    for number in range(100):
        client.publish("q", b"found")
        client.read(b"".join(published(f"{number}.{other}") for other in range(100)))
        most = max(most, len(remembered))
    assert 0 < most * CACHED_PUBLISH_BYTES <= PUBLISH_CACHE_BYTES_MAX
    assert core.broker.vhosts["/"].topology.queues["q"].ready_count() == 100


def test_a_connection_that_is_lost_takes_its_memory_of_frames_along() -> None:
    core = Core()
    client = core.client()
    client.publish("q", b"1")
    client.lose()
    assert core.broker.connections == {}
