"""One suite for the seam, on every transport there is: what holds for one broker holds for all.

Where the memory broker and RabbitMQ differ, the memory broker is wrong.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager

import pytest

from tests.client.conftest import run
from tests.support.rabbitmq import RabbitMQ
from warren.client import (
    CannotConvert,
    ChannelClosed,
    ConnectionClosed,
    Message,
    Properties,
    PublishFailed,
    blocking,
    recovering,
)
from warren.client.testing import MemoryBroker
from warren.client.transport import (
    BindingLayout,
    ExchangeLayout,
    Incoming,
    Layout,
    Outgoing,
    QueueLayout,
    Subscription,
    Transport,
)
from warren.wire.values import Table

TTL_S = 0.15
PATIENCE_S = 20.0
CLOSE_S = 0.5
QUIET_S = 0.2


class Brokers:
    """One of the brokers: transports to it, and names that nobody else uses."""

    def __init__(self, connect: Callable[[], Awaitable[Transport]]) -> None:
        self._connect = connect
        self._suffix = uuid.uuid4().hex[:10]
        self.named: list[str] = []

    def name(self, purpose: str) -> str:
        self.named.append(f"seam-{purpose}-{self._suffix}")
        return self.named[-1]

    @asynccontextmanager
    async def transport(self) -> AsyncIterator[Transport]:
        transport = await self._connect()
        try:
            yield transport
        finally:
            # what tests leave in hand is not waited for
            await transport.close(CLOSE_S)


@pytest.fixture(params=["memory", "warren", "rabbitmq"])
def broker(request: pytest.FixtureRequest) -> Iterator[Brokers]:
    if request.param == "memory":
        memory = MemoryBroker()

        async def connect_to_memory() -> Transport:
            return memory.transport()

        yield Brokers(connect_to_memory)
        return
    if request.param == "warren":
        url: str = request.getfixturevalue("url")
    else:
        server: RabbitMQ = request.getfixturevalue("rabbitmq")
        url = server.url

    async def connect() -> Transport:
        return await recovering.open(url)

    made = Brokers(connect)
    yield made
    with blocking.connect(url) as connection, connection.channel() as channel:
        for name in made.named:
            channel.delete_queue(name)
            channel.delete_exchange(name)


def to(queue: str, *bodies: bytes, **properties: object) -> list[Outgoing]:
    """Messages for a queue, by the default exchange."""
    made = Properties(**properties) if properties else None  # type: ignore[arg-type]
    return [Outgoing(Message(body, made), routing_key=queue) for body in bodies]


def with_queue(name: str, **arguments: object) -> Layout:
    return Layout(queues=(QueueLayout(name, arguments={key.replace("_", "-"): arguments[key] for key in arguments}),))


def with_dead_letters(name: str, grave: str, **arguments: object) -> Layout:
    """A queue whose dead letters go to another."""
    dead: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": grave}
    given = {key.replace("_", "-"): arguments[key] for key in arguments}
    return Layout(queues=(QueueLayout(name, arguments=dead | given), QueueLayout(grave)))


async def taken(subscription: Subscription, count: int) -> list[Incoming]:
    """So many messages, in the order in which they come."""
    got: list[Incoming] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(got) < count:
        assert time.monotonic() < deadline, f"{len(got)} of {count} messages came"
        got += await subscription.batch(1.0)
    return got


async def fetched(transport: Transport, queue: str) -> Incoming:
    """The next message of a queue, which may take a while to get there."""
    deadline = time.monotonic() + PATIENCE_S
    while (incoming := await transport.get(queue)) is None:
        assert time.monotonic() < deadline, f"nothing came to {queue}"
        await asyncio.sleep(0.01)
    return incoming


async def bodies_in(transport: Transport, queue: str) -> list[bytes]:
    """What is ready there, which is taken out."""
    found = []
    while (incoming := await transport.get(queue, no_ack=True)) is not None:
        found.append(incoming.body)
    return found


def bodies(messages: Sequence[Incoming]) -> list[bytes]:
    return [message.body for message in messages]


# publishing


def test_what_is_published_is_confirmed_and_comes_as_it_was_sent(broker: Brokers) -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_a_key_of_the_messages_own_takes_the_place_of_the_calls(broker: Brokers) -> None:
    async def scenario() -> None:
        queue = broker.name("queue")
        async with broker.transport() as transport:
            await transport.declare(with_queue(queue))
            assert await transport.publish([Outgoing(Message(b"own", None, queue), routing_key="elsewhere")]) == [None]
            assert await bodies_in(transport, queue) == [b"own"]

    run(scenario())


def test_what_no_queue_wants_comes_back_if_it_is_mandatory(broker: Brokers) -> None:
    async def scenario() -> None:
        queue, nowhere = broker.name("queue"), broker.name("nowhere")
        async with broker.transport() as transport:
            await transport.declare(with_queue(queue))
            lost = Outgoing(Message(b"lost", Properties(message_id="m2")), routing_key=nowhere)
            dropped = Outgoing(Message(b"dropped"), routing_key=nowhere, mandatory=False)
            [fine], [failed], [silent] = [
                await transport.publish(each) for each in (to(queue, b"fine"), [lost], [dropped])
            ]
            assert (fine, silent) == (None, None)
            assert isinstance(failed, PublishFailed)
            [returned] = failed.returned
            assert (failed.outcome, failed.refused) == ("rejected", ())
            assert (returned.code, returned.text, returned.routing_key) == (312, "NO_ROUTE", nowhere)
            assert (returned.exchange, returned.body, returned.properties.message_id) == ("", b"lost", "m2")

    run(scenario())


def test_each_message_of_a_call_has_its_own_fate(broker: Brokers) -> None:
    async def scenario() -> None:
        queue, nowhere = broker.name("queue"), broker.name("nowhere")
        async with broker.transport() as transport:
            await transport.declare(with_queue(queue))
            decided = await transport.publish([*to(queue, b"1"), *to(nowhere, b"2"), *to(queue, b"3")])
            assert [type(each) for each in decided] == [type(None), PublishFailed, type(None)]
            assert await bodies_in(transport, queue) == [b"1", b"3"]

    run(scenario())


def test_what_has_no_encoding_is_not_sent(broker: Brokers) -> None:
    async def scenario() -> None:
        queue = broker.name("queue")
        async with broker.transport() as transport:
            await transport.declare(with_queue(queue))
            decided = await transport.publish(
                [*to(queue, b"fine"), *to(queue, b"odd", headers={"x": object()}), *to("k" * 256, b"long")]
            )
            assert [type(each) for each in decided] == [type(None), CannotConvert, CannotConvert]
            assert [each.outcome for each in decided if each] == ["not_sent", "not_sent"]
            assert await bodies_in(transport, queue) == [b"fine"]

    run(scenario())


def test_an_exchange_that_is_not_there_is_told(broker: Brokers) -> None:
    async def scenario() -> None:
        queue, missing = broker.name("queue"), broker.name("missing")
        async with broker.transport() as transport:
            await transport.declare(with_queue(queue))
            [failed] = await transport.publish([Outgoing(Message(b"x"), missing, "key")])
            assert isinstance(failed, ChannelClosed)
            assert (failed.code, failed.text) == (404, f"NOT_FOUND - no exchange '{missing}' in vhost '/'")
            assert await transport.publish(to(queue, b"after")) == [None]
            assert await bodies_in(transport, queue) == [b"after"]

    run(scenario())


def test_a_full_queue_that_refuses_publishes_says_so(broker: Brokers) -> None:
    async def scenario() -> None:
        queue = broker.name("queue")
        async with broker.transport() as transport:
            await transport.declare(with_queue(queue, x_max_length=2, x_overflow="reject-publish"))
            decided = [(await transport.publish(to(queue, body)))[0] for body in (b"1", b"2", b"3")]
            assert decided[:2] == [None, None]
            refused = decided[2]
            assert isinstance(refused, PublishFailed)
            assert (refused.outcome, refused.returned, len(refused.refused)) == ("rejected", (), 1)
            assert await bodies_in(transport, queue) == [b"1", b"2"]

    run(scenario())


def test_one_queue_that_refuses_makes_the_publish_fail_and_another_has_it(broker: Brokers) -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_what_is_sent_one_way_arrives(broker: Brokers) -> None:
    async def scenario() -> None:
        queue = broker.name("queue")
        async with broker.transport() as transport:
            await transport.declare(with_queue(queue))
            await transport.send([*to(queue, b"1"), *to(broker.name("nowhere"), b"lost"), *to(queue, b"2")])
            subscription = await transport.subscribe(queue, no_ack=True)
            assert bodies(await taken(subscription, 2)) == [b"1", b"2"]

    run(scenario())


# routing


def test_topics_match_word_by_word(broker: Brokers) -> None:
    keys = ["a", "a.b", "a.b.c", "b", "", "a."]
    patterns = {
        "a.*": ["a.b", "a."],
        "a.#": ["a", "a.b", "a.b.c", "a."],
        "#": keys,
        "*": ["a", "b"],
        "#.b": ["a.b", "b"],
    }

    async def scenario() -> None:
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

    run(scenario())


def test_headers_match_all_or_any_of_them(broker: Brokers) -> None:
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

    async def scenario() -> None:
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
            assert {name: await bodies_in(transport, queue) for name, queue in queues.items()} == expected | {
                "public": []
            }

    run(scenario())


def test_an_exchange_that_finds_nobody_hands_on_to_its_alternate(broker: Brokers) -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_copies_go_to_further_keys(broker: Brokers) -> None:
    async def scenario() -> None:
        queues = [broker.name(purpose) for purpose in ("first", "copy", "blind")]
        async with broker.transport() as transport:
            await transport.declare(Layout(queues=tuple(map(QueueLayout, queues))))
            headers: Table = {"CC": [queues[1]], "BCC": [queues[2]]}
            assert await transport.publish(to(queues[0], b"x", headers=headers)) == [None]
            got = [await fetched(transport, queue) for queue in queues]
            assert [each.headers for each in got] == [{"CC": [queues[1]]}] * 3
            assert [each.routing_key for each in got] == [queues[0]] * 3

    run(scenario())


# declaring


def test_the_same_may_be_declared_again_and_something_else_may_not(broker: Brokers) -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_what_is_not_there_cannot_be_bound_or_read(broker: Brokers) -> None:
    async def scenario() -> None:
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

    run(scenario())


# consuming


def test_messages_come_in_the_order_in_which_they_were_published(broker: Brokers) -> None:
    async def scenario() -> None:
        queue = broker.name("queue")
        numbered = [b"%d" % number for number in range(500)]
        async with broker.transport() as transport:
            await transport.declare(with_queue(queue))
            subscription = await transport.subscribe(queue, prefetch=50)
            assert await transport.publish(to(queue, *numbered)) == [None] * 500
            got: list[bytes] = []
            async for incoming in subscription:
                got.append(incoming.body)
                incoming.ack()
                if len(got) == 500:
                    break
            assert got == numbered

    run(scenario())


def test_a_consumer_has_no_more_in_hand_than_its_prefetch(broker: Brokers) -> None:
    async def scenario() -> None:
        queue = broker.name("queue")
        async with broker.transport() as transport:
            await transport.declare(with_queue(queue))
            await transport.publish(to(queue, b"1", b"2", b"3", b"4"))
            subscription = await transport.subscribe(queue, prefetch=2)
            first, second = await taken(subscription, 2)
            assert list(await subscription.batch(QUIET_S)) == []
            second.ack()
            [third] = await taken(subscription, 1)
            assert third.body == b"3"
            first.nack(requeue=False)
            third.ack()
            assert bodies(await taken(subscription, 1)) == [b"4"]

    run(scenario())


def test_what_needs_no_ack_is_gone_when_it_is_delivered(broker: Brokers) -> None:
    async def scenario() -> None:
        queue = broker.name("queue")
        async with broker.transport() as transport:
            await transport.declare(with_queue(queue))
            await transport.publish(to(queue, b"1", b"2", b"3"))
            subscription = await transport.subscribe(queue, prefetch=1, no_ack=True)
            assert bodies(await taken(subscription, 3)) == [b"1", b"2", b"3"]
        async with broker.transport() as transport:
            assert await transport.get(queue) is None

    run(scenario())


def test_what_is_put_back_comes_again_where_it_was(broker: Brokers) -> None:
    async def scenario() -> None:
        queue = broker.name("queue")
        async with broker.transport() as transport:
            await transport.declare(with_queue(queue))
            await transport.publish(to(queue, b"1", b"2", b"3", b"4"))
            first, second, third = [await fetched(transport, queue) for _ in range(3)]
            third.nack()
            first.nack()
            again = await fetched(transport, queue)
            assert (again.body, again.redelivered) == (b"1", True)
            second.nack()
            assert [await fetched_with_flag(transport, queue) for _ in range(3)] == [
                (b"2", True),
                (b"3", True),
                (b"4", False),
            ]

    run(scenario())


async def fetched_with_flag(transport: Transport, queue: str) -> tuple[bytes, bool]:
    incoming = await fetched(transport, queue)
    incoming.ack()
    return incoming.body, incoming.redelivered


def test_a_message_is_settled_once(broker: Brokers) -> None:
    async def scenario() -> None:
        queue = broker.name("queue")
        async with broker.transport() as transport:
            await transport.declare(with_queue(queue))
            await transport.publish(to(queue, b"1"))
            incoming = await fetched(transport, queue)
            incoming.ack()
            with pytest.raises(ValueError):
                incoming.ack()
            with pytest.raises(ValueError):
                incoming.nack()

    run(scenario())


def test_consumers_of_one_queue_share_it(broker: Brokers) -> None:
    async def scenario() -> None:
        queue = broker.name("queue")
        async with broker.transport() as one, broker.transport() as other:
            await one.declare(with_queue(queue))
            subscriptions = [await one.subscribe(queue), await other.subscribe(queue), await one.subscribe(queue)]
            await one.publish(to(queue, *[b"%d" % number for number in range(9)]))
            shares = [bodies(await taken(subscription, 3)) for subscription in subscriptions]
            assert sorted(body for share in shares for body in share) == [b"%d" % number for number in range(9)]
            assert all(share == sorted(share) for share in shares)

    run(scenario())


def test_a_consumer_of_higher_priority_is_served_first(broker: Brokers) -> None:
    async def scenario() -> None:
        queue = broker.name("queue")
        async with broker.transport() as transport:
            await transport.declare(with_queue(queue))
            low = await transport.subscribe(queue, prefetch=10)
            high = await transport.subscribe(queue, prefetch=2, arguments={"x-priority": 5})
            await transport.publish(to(queue, b"1", b"2", b"3"))
            assert bodies(await taken(high, 2)) == [b"1", b"2"]
            assert bodies(await taken(low, 1)) == [b"3"]

    run(scenario())


def test_an_exclusive_consumer_is_alone(broker: Brokers) -> None:
    async def scenario() -> None:
        queue = broker.name("queue")
        async with broker.transport() as one, broker.transport() as other:
            await one.declare(with_queue(queue))
            await one.subscribe(queue, exclusive=True)
            with pytest.raises(ChannelClosed) as refused:
                await other.subscribe(queue)
            assert refused.value.text == f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"

    run(scenario())


def test_only_one_of_the_consumers_of_a_single_active_queue_gets_messages(broker: Brokers) -> None:
    async def scenario() -> None:
        queue = broker.name("queue")
        async with broker.transport() as transport:
            await transport.declare(with_queue(queue, x_single_active_consumer=True))
            active = await transport.subscribe(queue, prefetch=1)
            waiting = await transport.subscribe(queue)
            await transport.publish(to(queue, b"1", b"2"))
            [first] = await taken(active, 1)
            assert first.body == b"1"
            assert list(await waiting.batch(QUIET_S)) == []
            await active.cancel()
            first.ack()
            assert bodies(await taken(waiting, 1)) == [b"2"]

    run(scenario())


def test_a_cancelled_subscription_gets_no_more(broker: Brokers) -> None:
    async def scenario() -> None:
        queue = broker.name("queue")
        async with broker.transport() as transport:
            await transport.declare(with_queue(queue))
            subscription = await transport.subscribe(queue, prefetch=1)
            await transport.publish(to(queue, b"1", b"2"))
            [first] = await taken(subscription, 1)
            await subscription.cancel()
            assert list(await subscription.batch(PATIENCE_S)) == []
            assert [incoming async for incoming in subscription] == []
            first.ack()
            assert await fetched_with_flag(transport, queue) == (b"2", False)
            assert await transport.get(queue) is None

    run(scenario())


def test_what_a_cancelled_subscription_has_not_handed_out_is_the_queues_again(broker: Brokers) -> None:
    async def scenario() -> None:
        queue = broker.name("queue")
        async with broker.transport() as transport:
            await transport.declare(with_queue(queue))
            await transport.publish(to(queue, b"1", b"2", b"3"))
            subscription = await transport.subscribe(queue)
            async for first in subscription:
                assert first.body == b"1"
                break
            await subscription.cancel()
            assert [(await fetched(transport, queue)).body for _ in range(2)] == [b"2", b"3"]
            first.ack()

    run(scenario())


def test_waiting_for_messages_ends_with_the_time(broker: Brokers) -> None:
    async def scenario() -> None:
        queue = broker.name("queue")
        async with broker.transport() as transport:
            await transport.declare(with_queue(queue))
            subscription = await transport.subscribe(queue)
            began = time.monotonic()
            assert list(await subscription.batch(QUIET_S)) == []
            assert time.monotonic() - began >= QUIET_S * 0.9
            await transport.publish(to(queue, b"1"))
            assert bodies(await taken(subscription, 1)) == [b"1"]

    run(scenario())


def test_an_empty_queue_has_nothing_to_fetch(broker: Brokers) -> None:
    async def scenario() -> None:
        queue = broker.name("queue")
        async with broker.transport() as transport:
            await transport.declare(with_queue(queue))
            assert await transport.get(queue) is None

    run(scenario())


# the end of a connection


def test_what_a_closed_transport_had_not_settled_is_the_queues_again(broker: Brokers) -> None:
    async def scenario() -> None:
        queue = broker.name("queue")
        async with broker.transport() as other:
            async with broker.transport() as transport:
                await transport.declare(with_queue(queue))
                await transport.publish(to(queue, b"1", b"2"))
                subscription = await transport.subscribe(queue)
                first, _ = await taken(subscription, 2)
                first.ack()
            assert await fetched_with_flag(other, queue) == (b"2", True)
            assert await other.get(queue) is None

    run(scenario())


def test_closing_waits_for_what_is_in_hand(broker: Brokers) -> None:
    async def scenario() -> None:
        queue = broker.name("queue")
        async with broker.transport() as other, broker.transport() as transport:
            await transport.declare(with_queue(queue))
            await transport.publish(to(queue, b"1", b"2"))
            subscription = await transport.subscribe(queue, prefetch=1)
            [incoming], got = await taken(subscription, 1), await fetched(transport, queue)
            closing = asyncio.create_task(transport.close(PATIENCE_S))
            assert list(await subscription.batch(PATIENCE_S)) == []
            incoming.ack()
            done, _ = await asyncio.wait([closing], timeout=QUIET_S)
            assert not done
            got.ack()
            await closing
            assert await other.get(queue) is None

    run(scenario())


def test_a_closed_transport_takes_no_more(broker: Brokers) -> None:
    async def scenario() -> None:
        queue = broker.name("queue")
        async with broker.transport() as other:
            async with broker.transport() as transport:
                await transport.declare(with_queue(queue))
                subscription = await transport.subscribe(queue)
            await transport.close()
            [refused] = await transport.publish(to(queue, b"late"))
            assert isinstance(refused, ConnectionClosed)
            assert refused.outcome == "not_sent"
            with pytest.raises(ConnectionClosed):
                await transport.get(queue)
            with pytest.raises(ConnectionClosed):
                await transport.declare(with_queue(queue))
            assert list(await subscription.batch(PATIENCE_S)) == []
            assert await other.get(queue) is None

    run(scenario())


def test_an_exclusive_queue_is_its_connections_and_goes_with_it(broker: Brokers) -> None:
    async def scenario() -> None:
        queue = broker.name("queue")
        async with broker.transport() as other:
            async with broker.transport() as transport:
                await transport.declare(Layout(queues=(QueueLayout(queue, durable=False, exclusive=True),)))
                await transport.publish(to(queue, b"mine"))
                assert (await fetched(transport, queue)).body == b"mine"
                with pytest.raises(ChannelClosed) as refused:
                    await other.get(queue)
                assert refused.value.code == 405
            assert await is_gone(other, queue)

    run(scenario())


def test_a_queue_that_deletes_itself_goes_with_its_last_consumer(broker: Brokers) -> None:
    async def scenario() -> None:
        queue = broker.name("queue")
        async with broker.transport() as other:
            async with broker.transport() as transport:
                await transport.declare(Layout(queues=(QueueLayout(queue, auto_delete=True),)))
                assert await other.get(queue) is None
                one, two = await transport.subscribe(queue), await transport.subscribe(queue)
                await one.cancel()
                assert await other.get(queue) is None
                await two.cancel()
            assert await is_gone(other, queue)

    run(scenario())


async def is_gone(transport: Transport, queue: str) -> bool:
    """A connection that was closed takes its queues along soon after."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            await transport.get(queue)
        except ChannelClosed as refused:
            if refused.code == 404:
                return True
        await asyncio.sleep(0.01)
    return False


# dead letters


def death(incoming: Incoming) -> Table:
    """The latest entry of `x-death`, without the time."""
    deaths = incoming.headers["x-death"]
    assert isinstance(deaths, list)
    latest: Table = dict(deaths[0])
    told = latest.pop("time")
    assert abs(told.seconds - time.time()) < 60  # type: ignore[attr-defined]
    return latest


def test_what_is_refused_is_a_dead_letter(broker: Brokers) -> None:
    async def scenario() -> None:
        queue, grave = broker.name("queue"), broker.name("grave")
        async with broker.transport() as transport:
            await transport.declare(with_dead_letters(queue, grave))
            await transport.publish(to(queue, b"bad", message_id="m3", headers={"own": 1}))
            (await fetched(transport, queue)).nack(requeue=False)
            dead = await fetched(transport, grave)
            assert death(dead) == {
                "count": 1,
                "reason": "rejected",
                "queue": queue,
                "exchange": "",
                "routing-keys": [queue],
            }
            assert {name: value for name, value in dead.headers.items() if name != "x-death"} == {
                "own": 1,
                "x-first-death-reason": "rejected",
                "x-first-death-queue": queue,
                "x-first-death-exchange": "",
            }
            assert (dead.exchange, dead.routing_key, dead.redelivered) == ("", grave, False)
            assert (dead.body, dead.properties.message_id) == (b"bad", "m3")

    run(scenario())


def test_a_message_that_dies_twice_in_a_queue_is_counted(broker: Brokers) -> None:
    async def scenario() -> None:
        queue, retry = broker.name("queue"), broker.name("retry")
        back: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue, "x-message-ttl": 1}
        away: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": retry}
        layout = Layout(queues=(QueueLayout(queue, arguments=away), QueueLayout(retry, arguments=back)))
        async with broker.transport() as transport:
            await transport.declare(layout)
            await transport.publish(to(queue, b"again"))
            for _ in range(2):
                (await fetched(transport, queue)).nack(requeue=False)
            last = await fetched(transport, queue)
            deaths = last.headers["x-death"]
            assert isinstance(deaths, list)
            assert [(each["queue"], each["reason"], each["count"]) for each in deaths] == [
                (retry, "expired", 2),
                (queue, "rejected", 2),
            ]
            assert last.headers["x-first-death-reason"] == "rejected"

    run(scenario())


def test_what_is_too_old_for_its_queue_is_a_dead_letter(broker: Brokers) -> None:
    async def scenario() -> None:
        queue, grave = broker.name("queue"), broker.name("grave")
        async with broker.transport() as transport:
            await transport.declare(with_dead_letters(queue, grave, x_message_ttl=int(TTL_S * 1000)))
            subscription = await transport.subscribe(grave)
            await transport.publish(to(queue, b"1", b"2"))
            first, second = await taken(subscription, 2)
            assert bodies([first, second]) == [b"1", b"2"]
            assert death(first) == {
                "count": 1,
                "reason": "expired",
                "queue": queue,
                "exchange": "",
                "routing-keys": [queue],
            }
            assert await transport.get(queue) is None

    run(scenario())


def test_a_message_may_have_its_own_time_and_holds_up_those_behind_it(broker: Brokers) -> None:
    async def scenario() -> None:
        queue, grave = broker.name("queue"), broker.name("grave")
        async with broker.transport() as transport:
            await transport.declare(with_dead_letters(queue, grave))
            await transport.publish([*to(queue, b"long"), *to(queue, b"short", expiration="1")])
            subscription = await transport.subscribe(grave)
            assert list(await subscription.batch(QUIET_S)) == []
            held = await fetched(transport, queue)
            assert held.body == b"long"
            [dead] = await taken(subscription, 1)
            assert dead.properties.expiration is None
            assert death(dead) == {
                "count": 1,
                "reason": "expired",
                "queue": queue,
                "exchange": "",
                "routing-keys": [queue],
                "original-expiration": "1",
            }
            held.ack()

    run(scenario())


def test_the_oldest_makes_room_in_a_queue_that_is_full(broker: Brokers) -> None:
    async def scenario() -> None:
        queue, grave = broker.name("queue"), broker.name("grave")
        async with broker.transport() as transport:
            await transport.declare(with_dead_letters(queue, grave, x_max_length=2))
            assert await transport.publish(to(queue, b"1", b"2", b"3")) == [None] * 3
            dead = await fetched(transport, grave)
            assert (dead.body, death(dead)["reason"]) == (b"1", "maxlen")
            held = await fetched(transport, queue)
            await transport.publish(to(queue, b"4"))
            held.nack()
            assert (await fetched(transport, grave)).body == b"2"
            assert await bodies_in(transport, queue) == [b"3", b"4"]

    run(scenario())


def test_a_queue_may_be_full_by_bytes_and_bury_what_it_refuses(broker: Brokers) -> None:
    async def scenario() -> None:
        queue, grave = broker.name("queue"), broker.name("grave")
        layout = with_dead_letters(queue, grave, x_max_length_bytes=10, x_overflow="reject-publish-dlx")
        async with broker.transport() as transport:
            await transport.declare(layout)
            assert await transport.publish(to(queue, b"12345678")) == [None]
            [refused] = await transport.publish(to(queue, b"abc"))
            assert isinstance(refused, PublishFailed)
            dead = await fetched(transport, grave)
            assert (dead.body, death(dead)["reason"]) == (b"abc", "maxlen")
            assert await transport.publish(to(queue, b"ab")) == [None]
            assert await bodies_in(transport, queue) == [b"12345678", b"ab"]

    run(scenario())


def test_what_would_go_round_for_ever_is_dropped(broker: Brokers) -> None:
    async def scenario() -> None:
        one, two, witness = broker.name("one"), broker.name("two"), broker.name("witness")
        exchange = broker.name("exchange")
        dying: Table = {"x-message-ttl": 1, "x-dead-letter-exchange": exchange}
        layout = Layout(
            (ExchangeLayout(exchange),),
            (
                QueueLayout(one, arguments=dying | {"x-dead-letter-routing-key": "to-two"}),
                QueueLayout(two, arguments=dying | {"x-dead-letter-routing-key": "to-one"}),
                QueueLayout(witness),
            ),
            (
                BindingLayout(exchange, two, "to-two"),
                BindingLayout(exchange, one, "to-one"),
                BindingLayout(exchange, witness, "to-one"),
            ),
        )
        async with broker.transport() as transport:
            await transport.declare(layout)
            await transport.publish(to(one, b"round"))
            seen = await fetched(transport, witness)
            assert death(seen)["queue"] == two
            subscription = await transport.subscribe(witness)
            assert list(await subscription.batch(QUIET_S)) == []

    run(scenario())


def test_a_message_that_expires_at_once_reaches_a_consumer_that_waits(broker: Brokers) -> None:
    async def scenario() -> None:
        queue, grave = broker.name("queue"), broker.name("grave")
        async with broker.transport() as transport:
            await transport.declare(with_dead_letters(queue, grave, x_message_ttl=0))
            await transport.publish(to(queue, b"nobody"))
            assert (await fetched(transport, grave)).body == b"nobody"
            subscription = await transport.subscribe(queue)
            await transport.publish(to(queue, b"somebody"))
            assert bodies(await taken(subscription, 1)) == [b"somebody"]

    run(scenario())


def test_a_queue_that_nobody_uses_expires(broker: Brokers) -> None:
    async def scenario() -> None:
        queue = broker.name("queue")
        async with broker.transport() as transport:
            await transport.declare(with_queue(queue, x_expires=300))
            deadline = time.monotonic() + PATIENCE_S
            while (await transport.publish(to(queue, b"alive still"))) == [None]:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.01)

    run(scenario())
