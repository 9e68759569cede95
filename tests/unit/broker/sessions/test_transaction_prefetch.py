"""The prefetch limit of a channel counts deliveries acked in an open transaction, as RabbitMQ's does."""

from tests.support.core_driver import Client, Core
from warren.broker.model.settings import BrokerSettings
from warren.wire.methods import BasicAck, BasicNack, BasicQos, Method, TxCommit, TxRollback, TxSelect


def limited_to_one() -> Client:
    """A consumer in a transaction that was sent the first of three messages."""
    client = Core(BrokerSettings(consumer_timeout_ms=0)).client()
    client.declare("q")
    client.publish("q", b"1", b"2", b"3")
    client.say(TxSelect(), BasicQos(prefetch_count=1, global_=True))
    client.consume("q")
    assert client.names()[-1:] == ["basic.deliver"]
    return client


def test_an_ack_makes_room_at_commit() -> None:
    client = limited_to_one()
    client.say(BasicAck(1))
    assert client.heard() == []
    client.say(TxCommit())
    assert client.names() == ["tx.commit-ok", "basic.deliver"]


def test_a_refusal_makes_room_at_commit() -> None:
    client = limited_to_one()
    client.say(BasicNack(delivery_tag=1, requeue=False))
    assert client.heard() == []
    client.say(TxCommit())
    assert client.names() == ["tx.commit-ok", "basic.deliver"]


def test_an_ack_rolled_back_makes_no_room() -> None:
    client = limited_to_one()
    methods: list[Method] = [BasicAck(1), TxRollback()]
    for method in methods:
        client.say(method)
    assert client.names() == ["tx.rollback-ok"]
