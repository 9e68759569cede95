"""One test suite for all transports: every claim holds for each broker.

Where the memory broker and RabbitMQ differ, the memory broker is wrong. Here: publishing, routing, declaring; its other
parts are `test_transports_consuming` and `test_transports_dead_letters`.
"""

import contextlib
from typing import Any

import pytest

from tests.client.seam import Brokers, bodies, bodies_in, fetched, taken, to, with_queue
from tests.support.deadlines import in_event_loop
from warren.client import CannotConvert, ChannelClosed, Message, Properties, PublishFailed
from warren.client.transport import BindingLayout, ExchangeLayout, Layout, Outgoing, QueueLayout
from warren.wire.field_tables import Table

# publishing


@in_event_loop
async def test_a_published_message_is_confirmed_and_arrives_unchanged(broker: Brokers) -> None:
    queue, exchange = broker.name("queue"), broker.name("exchange")
    layout = Layout(
        (ExchangeLayout(exchange, "topic"),),
        (QueueLayout(queue),),
        (BindingLayout(exchange, queue, "orders.#"),),
    )
    properties = Properties(
        content_type="text/plain", headers={"n": 7, "deep": {"er": ["x", True, None]}}, message_id="m1", priority=3
    )
    async with broker.transport() as transport:
        await transport.declare(layout)
        outgoing = Outgoing(Message(b"tea", properties), exchange, "orders.tea")
        assert await transport.publish([outgoing]) == [None]
        incoming = await transport.get(queue)
        assert incoming is not None
        assert (incoming.body, incoming.properties) == (b"tea", properties)
        assert incoming.headers == properties.headers
        assert (incoming.exchange, incoming.routing_key) == (exchange, "orders.tea")
        assert not incoming.redelivered
        incoming.ack()


@in_event_loop
async def test_a_key_of_the_messages_own_takes_the_place_of_the_calls(broker: Brokers) -> None:
    queue = broker.name("queue")
    async with broker.transport() as transport:
        await transport.declare(with_queue(queue))
        assert await transport.publish([Outgoing(Message(b"own", None, queue), routing_key="elsewhere")]) == [None]
        assert await bodies_in(transport, queue) == [b"own"]


@in_event_loop
async def test_a_mandatory_message_without_a_queue_comes_back(broker: Brokers) -> None:
    queue, nowhere = broker.name("queue"), broker.name("nowhere")
    async with broker.transport() as transport:
        await transport.declare(with_queue(queue))
        lost = Outgoing(Message(b"lost", Properties(message_id="m2")), routing_key=nowhere)
        dropped = Outgoing(Message(b"dropped"), routing_key=nowhere, mandatory=False)
        [fine], [failed], [silent] = [await transport.publish(each) for each in (to(queue, b"fine"), [lost], [dropped])]
        assert (fine, silent) == (None, None)
        assert isinstance(failed, PublishFailed)
        [returned] = failed.returned
        assert (failed.outcome, failed.refused) == ("rejected", ())
        assert (returned.code, returned.text, returned.routing_key) == (312, "NO_ROUTE", nowhere)
        assert (returned.exchange, returned.body, returned.properties.message_id) == ("", b"lost", "m2")


@in_event_loop
async def test_each_message_of_a_call_has_its_own_fate(broker: Brokers) -> None:
    queue, nowhere = broker.name("queue"), broker.name("nowhere")
    async with broker.transport() as transport:
        await transport.declare(with_queue(queue))
        decided = await transport.publish([*to(queue, b"1"), *to(nowhere, b"2"), *to(queue, b"3")])
        assert [type(each) for each in decided] == [type(None), PublishFailed, type(None)]
        assert await bodies_in(transport, queue) == [b"1", b"3"]


def misfits() -> list[Outgoing]:
    """Messages with values of wrong types; compiled classes refuse most of them."""
    number: Any = 7
    made = [Outgoing(Message(b"x"), "", number), number]
    for wrong in ({"message_id": 7}, {"priority": "high"}, {"headers": {1: "name"}}):
        with contextlib.suppress(TypeError):
            made += to("queue", b"x", **wrong)
    return made


@in_event_loop
async def test_a_message_that_cannot_be_encoded_is_not_sent(broker: Brokers) -> None:
    queue = broker.name("queue")
    async with broker.transport() as transport:
        await transport.declare(with_queue(queue))
        decided = await transport.publish(
            [*to(queue, b"fine"), *to(queue, b"odd", headers={"x": object()}), *to("k" * 256, b"long"), *misfits()]
        )
        assert [type(each) for each in decided] == [type(None)] + [CannotConvert] * (len(decided) - 1)
        assert {each.outcome for each in decided if each} == {"not_sent"}
        assert await bodies_in(transport, queue) == [b"fine"]


@in_event_loop
async def test_a_missing_exchange_is_reported(broker: Brokers) -> None:
    queue, missing = broker.name("queue"), broker.name("missing")
    async with broker.transport() as transport:
        await transport.declare(with_queue(queue))
        [failed] = await transport.publish([Outgoing(Message(b"x"), missing, "key")])
        assert isinstance(failed, ChannelClosed)
        assert (failed.code, failed.text) == (404, f"NOT_FOUND - no exchange '{missing}' in vhost '/'")
        assert await transport.publish(to(queue, b"after")) == [None]
        assert await bodies_in(transport, queue) == [b"after"]


@in_event_loop
async def test_a_full_queue_that_refuses_publishes_says_so(broker: Brokers) -> None:
    queue = broker.name("queue")
    async with broker.transport() as transport:
        await transport.declare(with_queue(queue, x_max_length=2, x_overflow="reject-publish"))
        decided = [(await transport.publish(to(queue, body)))[0] for body in (b"1", b"2", b"3")]
        assert decided[:2] == [None, None]
        refused = decided[2]
        assert isinstance(refused, PublishFailed)
        assert (refused.outcome, refused.returned, len(refused.refused)) == ("rejected", (), 1)
        assert await bodies_in(transport, queue) == [b"1", b"2"]


@in_event_loop
async def test_one_queue_that_refuses_makes_the_publish_fail_and_another_has_it(broker: Brokers) -> None:
    small, large, exchange = broker.name("small"), broker.name("large"), broker.name("exchange")
    layout = Layout(
        (ExchangeLayout(exchange, "fanout"),),
        (QueueLayout(small, arguments={"x-max-length": 0, "x-overflow": "reject-publish"}), QueueLayout(large)),
        (BindingLayout(exchange, small), BindingLayout(exchange, large)),
    )
    async with broker.transport() as transport:
        await transport.declare(layout)
        [failed] = await transport.publish([Outgoing(Message(b"x"), exchange)])
        assert isinstance(failed, PublishFailed)
        assert await bodies_in(transport, large) == [b"x"]


@in_event_loop
async def test_a_message_sent_without_confirms_arrives(broker: Brokers) -> None:
    queue = broker.name("queue")
    async with broker.transport() as transport:
        await transport.declare(with_queue(queue))
        await transport.send([*to(queue, b"1"), *to(broker.name("nowhere"), b"lost"), *to(queue, b"2")])
        subscription = await transport.subscribe(queue, no_ack=True)
        assert bodies(await taken(subscription, 2)) == [b"1", b"2"]


# routing


@in_event_loop
async def test_topics_match_word_by_word(broker: Brokers) -> None:
    keys = ["a", "a.b", "a.b.c", "b", "", "a."]
    patterns = {
        "a.*": ["a.b", "a."],
        "a.#": ["a", "a.b", "a.b.c", "a."],
        "#": keys,
        "*": ["a", "b"],
        "#.b": ["a.b", "b"],
    }
    exchange = broker.name("exchange")
    queues = {pattern: broker.name(f"queue{number}") for number, pattern in enumerate(patterns)}
    layout = Layout(
        (ExchangeLayout(exchange, "topic"),),
        tuple(QueueLayout(queue) for queue in queues.values()),
        tuple(BindingLayout(exchange, queue, pattern) for pattern, queue in queues.items()),
    )
    async with broker.transport() as transport:
        await transport.declare(layout)
        await transport.publish([Outgoing(Message(key.encode()), exchange, key) for key in keys])
        found = {pattern: await bodies_in(transport, queue) for pattern, queue in queues.items()}
        assert found == {pattern: [key.encode() for key in expected] for pattern, expected in patterns.items()}


@in_event_loop
async def test_headers_match_all_or_any_of_them(broker: Brokers) -> None:
    bindings: dict[str, Table] = {
        "all": {"x-match": "all", "shape": "round", "size": 2},
        "any": {"x-match": "any", "shape": "round", "size": 2},
        "there": {"shape": None},
        "private": {"x-match": "any-with-x", "x-own": "yes"},
        "public": {"x-match": "any", "x-own": "yes"},
    }
    messages: dict[bytes, Table] = {
        b"both": {"shape": "round", "size": 2},
        b"one": {"shape": "round", "size": 3},
        b"type": {"size": True, "shape": 1},
        b"none": {},
        b"own": {"x-own": "yes"},
    }
    expected = {"all": [b"both"], "any": [b"both", b"one"], "there": [b"both", b"one", b"type"], "private": [b"own"]}
    exchange = broker.name("exchange")
    queues = {name: broker.name(name) for name in bindings}
    layout = Layout(
        (ExchangeLayout(exchange, "headers"),),
        tuple(QueueLayout(queue) for queue in queues.values()),
        tuple(BindingLayout(exchange, queues[name], arguments=bindings[name]) for name in bindings),
    )
    async with broker.transport() as transport:
        await transport.declare(layout)
        await transport.publish(
            [
                Outgoing(Message(body, Properties(headers=headers)), exchange, mandatory=False)
                for body, headers in messages.items()
            ]
        )
        assert {name: await bodies_in(transport, queue) for name, queue in queues.items()} == expected | {"public": []}


@in_event_loop
async def test_an_exchange_without_a_matching_binding_uses_its_alternate(broker: Brokers) -> None:
    exchange, other, inner = broker.name("exchange"), broker.name("other"), broker.name("inner")
    queue, rest = broker.name("queue"), broker.name("rest")
    layout = Layout(
        (
            ExchangeLayout(other, "fanout"),
            ExchangeLayout(inner, "direct"),
            ExchangeLayout(exchange, arguments={"alternate-exchange": other}),
        ),
        (QueueLayout(queue), QueueLayout(rest)),
        (
            BindingLayout(exchange, inner, "known", to_exchange=True),
            BindingLayout(inner, queue, "known"),
            BindingLayout(other, rest),
        ),
    )
    async with broker.transport() as transport:
        await transport.declare(layout)
        outgoing = [Outgoing(Message(key.encode()), exchange, key) for key in ("known", "unknown")]
        assert await transport.publish(outgoing) == [None, None]
        assert await bodies_in(transport, queue) == [b"known"]
        assert await bodies_in(transport, rest) == [b"unknown"]


@in_event_loop
async def test_copies_go_to_further_keys(broker: Brokers) -> None:
    queues = [broker.name(purpose) for purpose in ("first", "copy", "blind")]
    async with broker.transport() as transport:
        await transport.declare(Layout(queues=tuple(map(QueueLayout, queues))))
        headers: Table = {"CC": [queues[1]], "BCC": [queues[2]]}
        assert await transport.publish(to(queues[0], b"x", headers=headers)) == [None]
        got = [await fetched(transport, queue) for queue in queues]
        assert [each.headers for each in got] == [{"CC": [queues[1]]}] * 3
        assert [each.routing_key for each in got] == [queues[0]] * 3


# declaring


@in_event_loop
async def test_the_same_may_be_declared_again_and_something_else_may_not(broker: Brokers) -> None:
    queue, exchange = broker.name("queue"), broker.name("exchange")
    layout = Layout((ExchangeLayout(exchange),), (QueueLayout(queue),), (BindingLayout(exchange, queue, "k"),))
    async with broker.transport() as transport:
        await transport.declare(layout)
        await transport.declare(layout)
        other_queue = Layout(queues=(QueueLayout(queue, durable=False),))
        told = f"PRECONDITION_FAILED - inequivalent arg 'durable' for queue '{queue}' in vhost '/': "
        with pytest.raises(ChannelClosed) as refused:
            await transport.declare(other_queue)
        assert (refused.value.code, refused.value.text) == (406, told + "received 'false' but current is 'true'")
        with pytest.raises(ChannelClosed) as refused:
            await transport.declare(with_queue(queue, x_message_ttl=5))
        assert refused.value.code == 406
        assert refused.value.text.startswith("PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue")
        with pytest.raises(ChannelClosed) as refused:
            await transport.declare(Layout(exchanges=(ExchangeLayout(exchange, "fanout"),)))
        told = f"PRECONDITION_FAILED - inequivalent arg 'type' for exchange '{exchange}' in vhost '/': "
        assert refused.value.text == told + "received 'fanout' but current is 'direct'"
        await transport.publish([Outgoing(Message(b"once"), exchange, "k")])
        assert await bodies_in(transport, queue) == [b"once"]


@in_event_loop
async def test_missing_objects_cannot_be_bound_or_read(broker: Brokers) -> None:
    missing = broker.name("missing")
    async with broker.transport() as transport:
        with pytest.raises(ChannelClosed) as refused:
            await transport.declare(Layout(bindings=(BindingLayout("amq.direct", missing),)))
        assert refused.value.text == f"NOT_FOUND - no queue '{missing}' in vhost '/'"
        with pytest.raises(ChannelClosed) as refused:
            await transport.get(missing)
        assert refused.value.code == 404
        with pytest.raises(ChannelClosed) as refused:
            await transport.subscribe(missing)
        assert refused.value.code == 404
