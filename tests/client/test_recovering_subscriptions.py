"""Subscriptions that outlive connections, cancels and queues, on a broker that stays."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.client.recovery import contents, numbered, only, taken, to
from tests.support.deadlines import in_event_loop, run, until
from warren.client import CallTimeout, ChannelClosed, ClientError, Message, connect, recovering
from warren.client.channel import Channel
from warren.client.listening import Arrival, Listener
from warren.client.testing import FaultProxy
from warren.client.transport import Layout, Outgoing, QueueLayout

ON_EITHER_BROKER = True

Unique = Callable[[str], str]


@in_event_loop
async def test_a_subscription_goes_on_after_a_cut_and_acks_from_before_do_nothing(
    url: str, proxy: FaultProxy, queue: str
) -> None:
    async with await recovering.open(proxy.url) as transport:
        await transport.declare(only(queue))
        subscription = await transport.subscribe(queue, prefetch=5)
        await transport.publish(numbered(queue, 20))
        old = (await taken(subscription, 2))[:2]
        proxy.cut()
        # the connection for publishing may be the first of the two to be known as lost
        await until(lambda: not old[0].is_ours)
        old[0].ack()
        old[1].nack(requeue=False)
        assert [message.is_ours for message in old] == [False, False]
        seen: list[bytes] = []
        while len(seen) < 20:
            for message in await subscription.batch():
                seen.append(message.body)
                message.ack()
        assert seen == [b"%06d" % number for number in range(20)]
        old[0].ack()

    async with await connect(url) as beside:
        assert await (await beside.channel()).get(queue) is None


@in_event_loop
async def test_redelivered_messages_are_marked_and_handed_out_once_per_delivery(proxy: FaultProxy, queue: str) -> None:
    async with await recovering.open(proxy.url) as transport:
        await transport.declare(only(queue))
        await transport.publish(numbered(queue, 10))
        subscription = await transport.subscribe(queue)
        first = await taken(subscription, 10)
        assert [message.redelivered for message in first] == [False] * 10
        proxy.cut()
        second = await taken(subscription, 10)
        assert [message.redelivered for message in second] == [True] * 10
        for message in (*first, *second):
            message.ack()
        assert await subscription.batch(0.2) == []


@in_event_loop
async def test_a_reader_may_come_and_go_without_a_connection(proxy: FaultProxy, queue: str) -> None:
    async with await recovering.open(proxy.url) as transport:
        await transport.declare(only(queue))
        subscription = await transport.subscribe(queue)
        proxy.cut(refuse=True)
        for _ in range(20):
            assert await subscription.batch(0.01) == []
        proxy.restore()
        await transport.publish(to(queue, b"x"))
        [message] = await subscription.batch()
        message.ack()


@in_event_loop
async def test_a_listener_drops_what_it_has_not_begun_with_when_the_connection_is_lost(
    proxy: FaultProxy, queue: str
) -> None:
    async with await recovering.open(proxy.url) as transport:
        await transport.declare(only(queue))
        await transport.publish(numbered(queue, 20))
        began, may_go_on = asyncio.Event(), asyncio.Event()
        handled: list[tuple[bytes, bool]] = []

        async def handle(message: Arrival[bytes]) -> None:
            began.set()
            await may_go_on.wait()
            handled.append((message.body, message.redelivered))

        bodies = [b"%06d" % number for number in range(20)]
        async with Listener(transport, queue, handle, prefetch=50) as listener:
            await began.wait()
            await until(lambda: transport._subscriptions[0].in_hand == 20)
            for _ in range(2):
                proxy.cut()
                # the connection for publishing may be the first of the two to be known as lost
                await until(lambda: transport._subscriptions[0].in_hand == 0)
                await until(lambda: transport._subscriptions[0].in_hand == 20)
                # none twice, although no worker has taken them yet
                assert listener._dispatch.waiting == 20
            may_go_on.set()
            await until(lambda: handled[-1:] == [(bodies[-1], True)])
        # the first was at work when the connection was lost
        assert handled == [(bodies[0], False), *((body, True) for body in bodies)]


@in_event_loop
async def test_a_queue_of_the_layout_that_was_deleted_is_declared_and_consumed_again(url: str, queue: str) -> None:
    notices: list[recovering.Notice] = []
    async with await recovering.open(url, observer=notices.append) as transport:
        await transport.declare(only(queue))
        subscription = await transport.subscribe(queue)
        await transport.publish(to(queue, b"before"))
        [in_hand] = await subscription.batch()
        reading = asyncio.ensure_future(subscription.batch())
        async with await connect(url) as operator, await operator.channel() as channel:
            await channel.delete_queue(queue)
        while await transport.publish(to(queue, b"after")) != [None]:
            await asyncio.sleep(0.01)
        [message] = await reading
        assert message.body == b"after"
        in_hand.ack()
        message.ack()
        # the channel still works: both acks were for its own deliveries
        await transport.publish(to(queue, b"and on"))
        [message] = await subscription.batch()
        message.ack()
        assert await contents(transport, queue) == []
    assert [type(notice) for notice in notices] == [recovering.SubscriptionDown, recovering.SubscriptionUp]


@in_event_loop
async def test_unsettled_messages_count_also_if_their_channel_was_given_up(
    url: str, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    notices: list[recovering.Notice] = []
    async with await recovering.open(url, observer=notices.append) as transport:
        await transport.declare(only(queue))
        subscription = await transport.subscribe(queue)
        await transport.publish(to(queue, b"before"))
        [in_hand] = await subscription.batch()
        consume = Channel.consume

        async def silent_once(channel: Channel, *arguments: Any, **options: Any) -> object:
            monkeypatch.setattr(Channel, "consume", consume)
            raise CallTimeout("no answer")

        monkeypatch.setattr(Channel, "consume", silent_once)
        reading = asyncio.ensure_future(subscription.batch())
        async with await connect(url) as operator, await operator.channel() as channel:
            await channel.delete_queue(queue)
        await until(lambda: any(isinstance(notice, recovering.SubscriptionUp) for notice in notices))
        assert subscription.in_hand == 1
        closing = asyncio.ensure_future(transport.close(30))
        assert await reading == []
        await asyncio.sleep(0)
        assert not closing.done()
        in_hand.ack()
        assert subscription.in_hand == 0
        await closing


@in_event_loop
async def test_the_reader_is_given_the_error_of_a_queue_that_is_gone_for_good(url: str, queue: str) -> None:
    async with await recovering.open(url) as transport:
        async with await connect(url) as operator, await operator.channel() as channel:
            await channel.declare_queue(queue)
            subscription = await transport.subscribe(queue)
            reading = asyncio.ensure_future(subscription.batch())
            await asyncio.sleep(0)
            await channel.delete_queue(queue)
        with pytest.raises(ChannelClosed, match="404"):
            await reading
        with pytest.raises(ChannelClosed, match="404"):
            await subscription.batch(0.1)
        with pytest.raises(ChannelClosed, match="404"):
            await transport.subscribe(queue)
        with pytest.raises(ChannelClosed, match="404"):
            await transport.get(queue)
        await subscription.cancel()
        assert await subscription.batch() == []


def test_an_unforeseen_error_while_resubscribing_reaches_the_reader(
    proxy: FaultProxy, queue: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(*_: object) -> None:
        raise ValueError("all channels are in use")

    async def talk() -> None:
        async with await recovering.open(proxy.url) as transport:
            await transport.declare(only(queue))
            subscription = await transport.subscribe(queue)
            monkeypatch.setattr(Channel, "prefetch", fails)
            proxy.cut()
            with pytest.raises(ClientError, match="subscribe again: ValueError"):
                await subscription.batch()

    run(talk())
    assert "is not resumed" in caplog.text


@in_event_loop
async def test_an_exclusive_consumer_comes_back_though_the_broker_still_sees_the_old_one(
    proxy: FaultProxy, queue: str
) -> None:
    """The broker does not notice the cut: the old connection stays open until it misses heartbeats."""
    async with await recovering.open(f"{proxy.url}?heartbeat=1") as transport:
        await transport.declare(only(queue))
        subscription = await transport.subscribe(queue, exclusive=True)
        proxy.stall("to_broker")
        reading = asyncio.ensure_future(subscription.batch())
        await until(lambda: not transport.is_connected)
        proxy.restore()
        assert await transport.publish(to(queue, b"x")) == [None]
        [message] = await reading
        message.ack()


@in_event_loop
async def test_a_cancel_gives_back_what_was_not_handed_out_and_lets_the_rest_be_settled(url: str, queue: str) -> None:
    async with await recovering.open(url) as transport:
        await transport.declare(only(queue))
        subscription = await transport.subscribe(queue, prefetch=10)
        await transport.publish(numbered(queue, 10))
        message = await anext(aiter(subscription))
        await subscription.cancel()
        assert await subscription.batch() == []
        assert [message async for message in subscription] == []
        async with await connect(url) as beside:
            channel = await beside.channel()
            while (await channel.declare_queue(queue, passive=True)).messages < 9:
                await asyncio.sleep(0.005)
        message.ack()
        assert len(await contents(transport, queue)) == 9
        await subscription.cancel()


@in_event_loop
async def test_a_cancel_that_its_caller_gives_up_comes_to_its_end(url: str, proxy: FaultProxy, queue: str) -> None:
    async with await recovering.open(proxy.url) as transport, await recovering.open(url) as beside:
        await transport.declare(only(queue))
        subscription = await transport.subscribe(queue, prefetch=10)
        await transport.publish(numbered(queue, 10))
        message = await anext(aiter(subscription))
        proxy.stall("to_client")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await subscription.cancel()
        proxy.restore()
        others = await taken(await beside.subscribe(queue), 9)
        assert sorted(other.body for other in others) == [b"%06d" % number for number in range(1, 10)]
        message.ack()
        await subscription.cancel()
        assert subscription.is_over


@in_event_loop
async def test_received_messages_without_acks_are_handed_out_after_a_lost_connection(
    url: str, proxy: FaultProxy, queue: str
) -> None:
    async with await recovering.open(proxy.url) as transport:
        await transport.declare(only(queue))
        await transport.publish(numbered(queue, 10))
        subscription = await transport.subscribe(queue, no_ack=True)
        async with await connect(url) as beside:
            channel = await beside.channel()
            while (await channel.declare_queue(queue, passive=True)).messages:
                await asyncio.sleep(0.005)
        # a reply shows that everything the broker sent before has arrived
        assert await transport.get(queue) is None
        proxy.cut()
        await until(lambda: not transport.is_connected)
        messages = await taken(subscription, 10)
        assert [(message.body, message.is_ours) for message in messages] == [(b"%06d" % n, True) for n in range(10)]
        await transport.publish(to(queue, b"more"))
        assert [message.body for message in await taken(subscription, 1)] == [b"more"]


@in_event_loop
async def test_a_stream_goes_on_behind_the_last_message_that_was_handed_out(proxy: FaultProxy, unique: Unique) -> None:
    stream = unique("stream")
    layout = Layout(queues=(QueueLayout(stream, arguments={"x-queue-type": "stream"}),))
    async with await recovering.open(proxy.url) as transport:
        await transport.declare(layout)
        await transport.publish(numbered(stream, 30))
        subscription = await transport.subscribe(stream, prefetch=10, arguments={"x-stream-offset": "first"})
        seen: list[bytes] = []
        async for message in subscription:
            seen.append(message.body)
            message.ack()
            if len(seen) in (7, 19):
                proxy.cut()
                await until(lambda: not transport.is_connected)
                # it is not delivered to this reader again
                assert message.is_ours
            if len(seen) == 30:
                break
        assert seen == [b"%06d" % number for number in range(30)]


@in_event_loop
async def test_fetched_messages_are_settled_and_fetching_goes_on_after_a_cut(proxy: FaultProxy, queue: str) -> None:
    async with await recovering.open(proxy.url) as transport:
        await transport.declare(only(queue))
        await transport.publish(numbered(queue, 2))
        first = await transport.get(queue)
        assert first is not None
        proxy.cut()
        await until(lambda: not transport.is_connected)
        first.ack()
        again = [await transport.get(queue), await transport.get(queue)]
        assert [message and (message.body, message.redelivered) for message in again] == [
            (b"000000", True),
            (b"000001", False),
        ]
        for message in again:
            assert message is not None
            message.ack()
        assert await transport.get(queue) is None


@in_event_loop
async def test_a_message_fetched_for_a_cancelled_caller_is_requeued(proxy: FaultProxy, queue: str) -> None:
    async with await recovering.open(proxy.url) as transport:
        await transport.declare(only(queue))
        assert await transport.get(queue) is None
        await transport.publish(to(queue, b"x"))
        proxy.stall("to_client")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(transport.get(queue), 0.1)
        proxy.restore()
        while (message := await transport.get(queue)) is None:
            await asyncio.sleep(0.01)
        assert (message.body, message.redelivered) == (b"x", True)
        message.ack()


@in_event_loop
async def test_a_message_is_settled_once(url: str, queue: str) -> None:
    async with await recovering.open(url) as transport:
        await transport.declare(only(queue))
        await transport.publish([Outgoing(Message(b"x"), "", queue)])
        message = await transport.get(queue)
        assert message is not None
        message.ack()
        with pytest.raises(ValueError, match="settled before"):
            message.ack()
