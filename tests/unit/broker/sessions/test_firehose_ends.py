"""Copies of acks, rejects and dead letters of a traced virtual host."""

import pytest

from tests.support.core_driver import published
from tests.unit.broker.sessions.traced import TRACE, Traced, headers_of, key_of
from warren.wire.field_tables import Table
from warren.wire.method_stream import ReceivedMethod
from warren.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicQos,
    BasicRecover,
    BasicReject,
    TxCommit,
    TxRollback,
    TxSelect,
)
from warren.wire.properties import Properties


@pytest.fixture
def traced() -> Traced:
    return Traced()


def test_an_ack_is_traced_with_the_fields_of_its_delivery(traced: Traced) -> None:
    traced.client.consume("q")
    traced.client.read(published("q", b"m", properties=Properties(message_id="1")))
    _published, delivered_copy = traced.listener.heard()
    traced.client.say(BasicAck(delivery_tag=1))
    (acked_copy,) = traced.listener.heard()
    assert (key_of(acked_copy), acked_copy.body) == ("ack.q", b"m")
    assert headers_of(acked_copy) == headers_of(delivered_copy)
    assert headers_of(acked_copy)["properties"] == {"message_id": "1"}


def test_an_ack_of_many_is_copied_for_each_in_order(traced: Traced) -> None:
    traced.client.consume("q")
    traced.client.publish("q", b"1", b"2", b"3", b"4")
    traced.listener.heard()
    traced.client.say(BasicAck(delivery_tag=2))
    traced.client.say(BasicAck(delivery_tag=3, multiple=True))
    assert traced.traces() == [("ack.q", b"2"), ("ack.q", b"1"), ("ack.q", b"3")]
    traced.client.say(BasicAck(delivery_tag=0, multiple=True))
    assert traced.traces() == [("ack.q", b"4")]
    assert traced.vhost.topology.queues["q"].unacked_count() == 0


def test_a_wrong_tag_is_refused_as_ever(traced: Traced) -> None:
    traced.client.heard()
    traced.client.say(BasicAck(delivery_tag=1))
    assert traced.client.names() == ["channel.close"]
    assert traced.traces() == []


def test_an_ack_of_a_get_is_traced_too(traced: Traced) -> None:
    traced.client.publish("q", b"m")
    traced.client.say(BasicGet(queue="q"), BasicAck(delivery_tag=1))
    assert traced.traces() == [("publish.", b"m"), ("deliver.q", b"m"), ("ack.q", b"m")]


def test_the_copy_of_a_reject_says_whether_the_message_is_requeued(traced: Traced) -> None:
    traced.client.publish("q", b"1", b"2", b"3")
    traced.client.say(BasicGet(queue="q"), BasicGet(queue="q"), BasicGet(queue="q"))
    traced.listener.heard()
    traced.client.say(BasicReject(delivery_tag=1, requeue=False))
    traced.client.say(BasicNack(delivery_tag=2, requeue=True))
    traced.client.say(BasicRecover(requeue=True))
    told = [(key_of(one), one.body, headers_of(one)["requeue"], headers_of(one)["reason"]) for one in refusals(traced)]
    assert told == [
        ("reject.q", b"1", 0, "rejected"),
        ("reject.q", b"2", 1, "requeued"),
        ("reject.q", b"3", 1, "requeued"),
    ]


def refusals(traced: Traced) -> list[ReceivedMethod]:
    return [one for one in traced.listener.heard() if key_of(one).startswith("reject.")]


def test_unacked_deliveries_of_a_lost_client_are_neither_traced_as_acked_nor_as_rejected(traced: Traced) -> None:
    traced.client.consume("q")
    traced.client.publish("q", b"m")
    traced.listener.heard()
    traced.client.lose()
    assert traced.traces() == []


def test_acks_of_a_transaction_are_traced_at_its_commit(traced: Traced) -> None:
    traced.client.publish("q", b"1", b"2")
    traced.client.say(TxSelect(), BasicGet(queue="q"), BasicGet(queue="q"))
    traced.listener.heard()
    traced.client.say(BasicAck(delivery_tag=1), BasicReject(delivery_tag=2, requeue=False))
    assert traced.traces() == []
    traced.client.say(TxRollback())
    traced.client.say(BasicAck(delivery_tag=1), BasicReject(delivery_tag=2, requeue=False), TxCommit())
    assert traced.traces() == [("ack.q", b"1"), ("reject.q", b"2")]


def test_a_dead_letter_is_copied_with_where_it_goes() -> None:
    traced = Traced()
    traced.client.declare("grave")
    traced.client.declare("short", {"x-message-ttl": 5, "x-dead-letter-exchange": "amq.topic"})
    traced.client.bind("grave", "amq.topic", "short")
    traced.client.read(published("short", b"m", properties=Properties(message_id="1")))
    traced.listener.heard()
    traced.core.pass_ms(10)
    (copy,) = traced.listener.heard()
    assert (key_of(copy), copy.body) == ("dead.short", b"m")
    assert headers_of(copy) == {
        "exchange_name": "",
        "routing_keys": ["short"],
        "properties": {"message_id": "1"},
        "node": "warren@localhost",
        "vhost": "/",
        "reason": "expired",
        "dead_letter_exchange": "amq.topic",
        "dead_letter_routing_keys": ["short"],
        "routed_queues": ["grave"],
    }


@pytest.mark.parametrize("exchange", ["amq.direct", "unknown"])
def test_a_dead_letter_that_leads_nowhere_is_copied_too(exchange: str) -> None:
    traced = Traced()
    arguments: Table = {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": "k", "x-max-length": 1}
    traced.client.declare("last", arguments)
    traced.client.publish("last", b"1", b"2")
    (headers,) = [headers_of(one) for one in traced.listener.heard() if key_of(one) == "dead.last"]
    assert (headers["reason"], headers["dead_letter_routing_keys"], headers["routed_queues"]) == ("maxlen", ["k"], [])


def test_a_dead_letter_that_goes_round_goes_nowhere() -> None:
    traced = Traced()
    arguments: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "round", "x-message-ttl": 5}
    traced.client.declare("round", arguments)
    traced.client.publish("round", b"m")
    traced.core.pass_ms(60)
    told = [headers_of(one)["routed_queues"] for one in traced.listener.heard() if key_of(one) == "dead.round"]
    assert told == [[]]


def test_messages_dropped_without_a_dead_letter_exchange_are_not_traced(traced: Traced) -> None:
    traced.client.declare("short", {"x-message-ttl": 5})
    traced.client.publish("short", b"m")
    traced.core.pass_ms(10)
    assert traced.traces() == [("publish.", b"m")]


def test_acks_of_copies_are_not_copied(traced: Traced) -> None:
    traced.client.declare("also traces")
    traced.client.bind("also traces", TRACE, "publish.#")
    traced.client.publish("q", b"m")
    traced.client.say(BasicGet(queue="also traces"), BasicAck(delivery_tag=1))
    assert traced.traces() == [("publish.", b"m")]


def test_acks_of_a_streams_readers_are_not_copied(traced: Traced) -> None:
    traced.client.declare("s", {"x-queue-type": "stream"}, durable=True)
    traced.client.say(BasicQos(prefetch_count=10), BasicConsume(queue="s", arguments={"x-stream-offset": "first"}))
    traced.client.publish("s", b"m")
    traced.core.settle()
    assert traced.traces() == [("publish.", b"m"), ("deliver.s", b"m")]
    traced.client.say(BasicAck(delivery_tag=1))
    assert traced.traces() == []


@pytest.mark.parametrize("argument", ["x-stream-chunks", "x-stream-probe"])
def test_chunks_and_probes_of_stream_readers_are_not_traced(traced: Traced, argument: str) -> None:
    traced.client.declare("s", {"x-queue-type": "stream"}, durable=True)
    traced.client.publish("s", b"m")
    traced.core.settle()
    arguments: Table = {"x-stream-offset": "first", argument: True}
    traced.client.heard()
    traced.client.say(BasicQos(prefetch_count=10), BasicConsume(queue="s", consumer_tag="c", arguments=arguments))
    traced.core.settle()
    assert "basic.deliver" in traced.client.names()
    traced.vhost.set_tracing(False)
    traced.vhost.set_tracing(True)
    traced.client.publish("s", b"n")
    traced.core.settle()
    assert traced.traces() == [("publish.", b"m"), ("publish.", b"n")]


def test_a_binding_to_one_direction_gets_no_other_traces() -> None:
    traced = Traced()
    traced.client.declare("one direction")
    traced.client.bind("one direction", TRACE, "deliver.#")
    traced.client.publish("q", b"m")
    traced.client.say(BasicGet(queue="q"), BasicAck(delivery_tag=1))
    assert traced.vhost.topology.queues["one direction"].ready_count() == 1


def test_without_tracing_acks_take_the_short_road() -> None:
    traced = Traced()
    traced.vhost.set_tracing(False)
    traced.client.publish("q", b"m")
    traced.client.say(BasicGet(queue="q"), BasicAck(delivery_tag=1))
    assert traced.traces() == []
    assert traced.vhost.topology.queues["q"].unacked_count() == 0
