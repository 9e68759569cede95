"""Tasks that share a channel send in the order of their calls, also when some have to wait."""

import asyncio

from tests.support.deadlines import in_event_loop
from warren.client import Message, connect, recovering
from warren.client.transport import Layout, Outgoing, QueueLayout


@in_event_loop
async def test_no_sender_overtakes_one_that_waits_for_room(url: str, queue: str) -> None:
    async with await connect(url) as connection:
        channel = await connection.channel(confirms=True, window=1)
        await channel.declare_queue(queue)
        senders = []
        for number in range(300):
            sending = channel.publish if number % 3 else channel.send
            senders.append(asyncio.create_task(sending(b"%d" % number, routing_key=queue)))
            # the next one comes while some wait, and while the window is being emptied
            await asyncio.sleep(0)
        await asyncio.gather(*senders)
        await channel.wait_for_confirms()
        consumer = await channel.consume(queue, no_ack=True)
        bodies: list[int] = []
        while len(bodies) < 300:
            bodies += [int(delivery.body) for delivery in await consumer.batch()]
        assert bodies == list(range(300))
        await channel.delete_queue(queue)


@in_event_loop
async def test_a_sender_cancelled_in_the_queue_does_not_block_others(url: str, queue: str) -> None:
    async with await connect(url) as connection:
        channel = await connection.channel(confirms=True, window=1)
        await channel.declare_queue(queue)
        first, second, third = (asyncio.create_task(channel.send_many([b"x"] * 5, routing_key=queue)) for _ in "123")
        await asyncio.sleep(0)
        second.cancel()
        await first
        await third
        await channel.wait_for_confirms()
        assert second.cancelled()
        # at once, because no task holds or awaits the channel
        assert await channel.send(b"last", routing_key=queue) == 11
        await channel.wait_for_confirms()
        assert (await channel.declare_queue(queue, passive=True)).messages == 11
        await channel.delete_queue(queue)


@in_event_loop
async def test_calls_of_a_transport_keep_their_order_whether_they_are_written_at_once_or_later(
    url: str, queue: str
) -> None:
    """Short messages are written at once; one that exceeds a write, and all behind it, wait for the writer."""
    lengths = [1, 1, 400_000, 1, 1, 300_000, 1]
    async with await recovering.open(url) as transport:
        await transport.declare(Layout(queues=(QueueLayout(queue, durable=False),)))
        calls = []
        for number, length in enumerate(lengths * 10):
            bodies = [b"%d %d" % (number, part) + b" " * (length // 4) for part in range(4)]
            messages = [Outgoing(Message(body), "", queue) for body in bodies]
            calls.append(asyncio.ensure_future(transport.publish(messages)))
            if number % 3 == 0:
                await asyncio.sleep(0)
        assert all(outcomes == [None] * 4 for outcomes in await asyncio.gather(*calls))
        seen = []
        subscription = await transport.subscribe(queue, no_ack=True)
        while len(seen) < 4 * len(calls):
            seen += [tuple(map(int, incoming.body.split())) for incoming in await subscription.batch()]
        assert seen == [(number, part) for number in range(len(calls)) for part in range(4)]
