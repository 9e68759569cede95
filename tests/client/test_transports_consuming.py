"""All transports: consuming, and the remaining messages when a connection ends."""

import asyncio
import time

import pytest

from tests.client.seam import PATIENCE_S, QUIET_S, Brokers, bodies, fetched, fetched_with_flag, taken, to, with_queue
from tests.support.deadlines import in_event_loop
from warren.client import ChannelClosed, ConnectionClosed
from warren.client.transport import Layout, QueueLayout, Transport

# consuming


@in_event_loop
async def test_messages_come_in_the_order_in_which_they_were_published(broker: Brokers) -> None:
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


@in_event_loop
async def test_a_consumer_has_no_more_in_hand_than_its_prefetch(broker: Brokers) -> None:
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


@in_event_loop
async def test_a_message_without_acks_is_gone_when_it_is_delivered(broker: Brokers) -> None:
    queue = broker.name("queue")
    async with broker.transport() as transport:
        await transport.declare(with_queue(queue))
        await transport.publish(to(queue, b"1", b"2", b"3"))
        subscription = await transport.subscribe(queue, prefetch=1, no_ack=True)
        assert bodies(await taken(subscription, 3)) == [b"1", b"2", b"3"]
    async with broker.transport() as transport:
        assert await transport.get(queue) is None


@in_event_loop
async def test_a_requeued_message_comes_again_at_its_place(broker: Brokers) -> None:
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


@in_event_loop
async def test_a_message_is_settled_once(broker: Brokers) -> None:
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


@in_event_loop
async def test_consumers_of_one_queue_share_it(broker: Brokers) -> None:
    queue = broker.name("queue")
    async with broker.transport() as one, broker.transport() as other:
        await one.declare(with_queue(queue))
        subscriptions = [await one.subscribe(queue), await other.subscribe(queue), await one.subscribe(queue)]
        await one.publish(to(queue, *[b"%d" % number for number in range(9)]))
        shares = [bodies(await taken(subscription, 3)) for subscription in subscriptions]
        assert sorted(body for share in shares for body in share) == [b"%d" % number for number in range(9)]
        assert all(share == sorted(share) for share in shares)


@in_event_loop
async def test_a_consumer_of_higher_priority_is_served_first(broker: Brokers) -> None:
    queue = broker.name("queue")
    async with broker.transport() as transport:
        await transport.declare(with_queue(queue))
        low = await transport.subscribe(queue, prefetch=10)
        high = await transport.subscribe(queue, prefetch=2, arguments={"x-priority": 5})
        await transport.publish(to(queue, b"1", b"2", b"3"))
        assert bodies(await taken(high, 2)) == [b"1", b"2"]
        assert bodies(await taken(low, 1)) == [b"3"]


@in_event_loop
async def test_an_exclusive_consumer_is_alone(broker: Brokers) -> None:
    queue = broker.name("queue")
    async with broker.transport() as one, broker.transport() as other:
        await one.declare(with_queue(queue))
        await one.subscribe(queue, exclusive=True)
        with pytest.raises(ChannelClosed) as refused:
            await other.subscribe(queue)
        assert refused.value.text == f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"


@in_event_loop
async def test_only_one_of_the_consumers_of_a_single_active_queue_gets_messages(broker: Brokers) -> None:
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


@in_event_loop
async def test_a_cancelled_subscription_gets_no_more(broker: Brokers) -> None:
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


@in_event_loop
async def test_messages_without_acks_that_came_before_the_cancel_are_still_handed_out(broker: Brokers) -> None:
    queue = broker.name("queue")
    async with broker.transport() as transport:
        await transport.declare(with_queue(queue))
        await transport.publish(to(queue, *(b"%d" % number for number in range(40))))
        subscription = await transport.subscribe(queue, no_ack=True)
        cancelling = asyncio.create_task(subscription.cancel())
        await asyncio.sleep(0)
        got = 0
        while batch := await subscription.batch():
            got += len(batch)
        await cancelling
        while await transport.get(queue, no_ack=True) is not None:
            got += 1
        assert got == 40


@in_event_loop
async def test_messages_that_a_cancelled_subscription_has_not_handed_out_are_requeued(broker: Brokers) -> None:
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


@in_event_loop
async def test_waiting_for_messages_ends_with_the_time(broker: Brokers) -> None:
    queue = broker.name("queue")
    async with broker.transport() as transport:
        await transport.declare(with_queue(queue))
        subscription = await transport.subscribe(queue)
        began = time.monotonic()
        assert list(await subscription.batch(QUIET_S)) == []
        assert time.monotonic() - began >= QUIET_S * 0.9
        await transport.publish(to(queue, b"1"))
        assert bodies(await taken(subscription, 1)) == [b"1"]


@in_event_loop
async def test_an_empty_queue_has_nothing_to_fetch(broker: Brokers) -> None:
    queue = broker.name("queue")
    async with broker.transport() as transport:
        await transport.declare(with_queue(queue))
        assert await transport.get(queue) is None


# the end of a connection


@in_event_loop
async def test_messages_that_a_closed_transport_had_not_settled_are_requeued(broker: Brokers) -> None:
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


@in_event_loop
async def test_closing_waits_for_what_is_in_hand(broker: Brokers) -> None:
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


@in_event_loop
async def test_a_closed_transport_takes_no_more(broker: Brokers) -> None:
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


@in_event_loop
async def test_an_exclusive_queue_is_its_connections_and_goes_with_it(broker: Brokers) -> None:
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


@in_event_loop
async def test_a_queue_that_deletes_itself_goes_with_its_last_consumer(broker: Brokers) -> None:
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


async def is_gone(transport: Transport, queue: str) -> bool:
    """Wait until the exclusive queues of a closed connection are deleted."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            await transport.get(queue)
        except ChannelClosed as refused:
            if refused.code == 404:
                return True
        await asyncio.sleep(0.01)
    return False
