"""Topology, publishing, consuming and transactions on a real broker."""

import asyncio
from collections.abc import Callable

import pytest

from tests.support.deadlines import in_event_loop
from warren.client import (
    Channel,
    ChannelClosed,
    ConfirmRange,
    ConsumerCancelled,
    Delivery,
    Message,
    Properties,
    PublishFailed,
    connect,
)
from warren.client.machine.channel import CHANNEL_CLOSED

ON_EITHER_BROKER = True

Unique = Callable[[str], str]


async def depth(channel: Channel, queue: str) -> int:
    return (await channel.declare_queue(queue, passive=True)).messages


@in_event_loop
async def test_queues_and_exchanges_are_made_bound_and_removed(url: str, unique: Unique) -> None:
    queue, inner, outer = unique("queue"), unique("inner"), unique("outer")
    async with await connect(url) as connection, await connection.channel(confirms=True) as channel:
        await channel.declare_exchange(outer, "topic")
        await channel.declare_exchange(inner, "fanout", auto_delete=True)
        declared = await channel.declare_queue(queue, arguments={"x-max-length": 2})
        assert (declared.name, declared.messages, declared.consumers) == (queue, 0, 0)
        assert (await channel.declare_queue(exclusive=True)).name.startswith("amq.gen-")
        await channel.bind_exchange(inner, outer, "a.*")
        await channel.bind_queue(queue, inner)
        for key in ("a.b", "b.b", "a.c"):
            await channel.publish(key.encode(), outer, key)
        assert await depth(channel, queue) == 2
        assert await channel.purge_queue(queue) == 2
        await channel.unbind_exchange(inner, outer, "a.*")
        await channel.publish(b"lost", outer, "a.b")
        await channel.bind_queue(queue, outer, "k", {"x": 1})
        await channel.unbind_queue(queue, outer, "k", {"x": 1})
        await channel.publish(b"lost", outer, "k")
        assert await channel.delete_queue(queue) == 0
        await channel.delete_exchange(outer)
        with pytest.raises(ChannelClosed, match="404"):
            await channel.declare_exchange(outer, passive=True)


@in_event_loop
async def test_a_channel_hears_what_is_said_to_it_though_another_had_its_number_just_before(
    url: str, queue: str
) -> None:
    async with await connect(url) as connection:
        first = await connection.channel()
        await first.declare_queue(queue)
        closing = asyncio.create_task(first.close())
        while first._machine.state != CHANNEL_CLOSED:
            await asyncio.sleep(0)
        # the caller of close has not been resumed yet
        assert not closing.done()
        second = await connection.channel(confirms=True)
        await closing
        assert second.number == first.number
        consumer = await second.consume(queue)
        await second.publish(b"heard", "", queue)
        assert [delivery.body for delivery in await consumer.batch()] == [b"heard"]


@in_event_loop
async def test_a_hundred_thousand_confirmed_publishes_come_out_in_order(url: str, queue: str) -> None:
    count = 100_000
    async with await connect(url) as connection:
        publisher = await connection.channel(confirms=True, window=5000)
        await publisher.declare_queue(queue)
        bodies = [b"%06d" % number for number in range(count)]
        assert await publisher.send_many(bodies, routing_key=queue) == range(1, count + 1)
        assert publisher.unconfirmed <= 5000
        await publisher.wait_for_confirms()
        assert publisher.unconfirmed == 0
        assert await depth(publisher, queue) == count
        consumer_channel = await connection.channel()
        await consumer_channel.prefetch(500)
        consumer = await consumer_channel.consume(queue)
        got: list[bytes] = []
        async for delivery in consumer:
            got.append(delivery.body)
            consumer_channel.ack(delivery)
            if len(got) == count:
                break
        assert got == bodies
        await consumer_channel.close()
        assert await depth(publisher, queue) == 0


@in_event_loop
async def test_no_more_than_the_prefetch_is_on_the_way(url: str, queue: str) -> None:
    async with await connect(url) as connection, await connection.channel() as channel:
        await channel.declare_queue(queue)
        await channel.send_many([b"x"] * 10, routing_key=queue)
        await channel.prefetch(3)
        consumer = await channel.consume(queue)
        got: list[Delivery] = []
        while len(got) < 3:
            got += await consumer.batch()
        assert await consumer.batch(timeout_s=0.2) == []
        assert len(got) == 3
        channel.ack(got[2], multiple=True)
        assert 1 <= len(await consumer.batch()) <= 3


@in_event_loop
async def test_properties_and_bodies_of_any_size_arrive_as_they_were_sent(url: str, queue: str) -> None:
    properties = Properties(
        content_type="a/b",
        headers={"text": "ü", "number": 2**40, "nested": {"list": [1, None, True, b"raw"]}},
        delivery_mode=2,
        priority=4,
        correlation_id="c",
        message_id="m",
        timestamp=1_700_000_000,
        app_id="app",
    )
    bodies = [b"", b"x", bytes(range(256)) * 512, b"y" * 3_000_000]
    async with await connect(url) as connection, await connection.channel(confirms=True) as channel:
        await channel.declare_queue(queue)
        for body in bodies:
            await channel.publish(Message(body, properties), routing_key=queue)
        for left, body in zip((3, 2, 1, 0), bodies, strict=True):
            got = await channel.get(queue, no_ack=True)
            assert got is not None
            assert (got.body, got.properties, got.messages_left) == (body, properties, left)
            assert (got.exchange, got.routing_key, got.redelivered) == ("", queue, False)
        assert await channel.get(queue) is None


@in_event_loop
async def test_a_mandatory_publish_that_no_queue_takes_fails_alone(url: str, queue: str) -> None:
    async with await connect(url) as connection, await connection.channel(confirms=True) as channel:
        await channel.declare_queue(queue)
        keys = [queue if number % 3 else "nowhere-to-go" for number in range(300)]
        outcomes = await asyncio.gather(
            *(channel.publish(b"same", routing_key=key, mandatory=True) for key in keys), return_exceptions=True
        )
        assert [isinstance(outcome, PublishFailed) for outcome in outcomes] == [key != queue for key in keys]
        await channel.wait_for_confirms()
        messages = [Message(b"%d" % number, routing_key=key) for number, key in enumerate(keys)]
        numbers = await channel.send_many(messages, mandatory=True)
        with pytest.raises(PublishFailed) as failed:
            await channel.wait_for_confirms()
        returned = [(each.publish_no, each.body) for each in failed.value.returned]
        assert returned == [(numbers[place], b"%d" % place) for place in range(0, 300, 3)]
        assert {(each.code, each.text) for each in failed.value.returned} == {(312, "NO_ROUTE")}
        assert failed.value.outcome == "rejected"
        await channel.wait_for_confirms()


@in_event_loop
async def test_a_full_queue_that_refuses_nacks_what_does_not_fit(url: str, queue: str) -> None:
    async with await connect(url) as connection, await connection.channel(confirms=True) as channel:
        arguments = {"x-max-length": 2, "x-overflow": "reject-publish"}
        await channel.declare_queue(queue, arguments=arguments)
        await channel.publish(b"1", routing_key=queue)
        await channel.publish(b"2", routing_key=queue)
        with pytest.raises(PublishFailed, match="1 were refused") as failed:
            await channel.publish(b"3", routing_key=queue)
        assert failed.value.refused == (ConfirmRange(3, 3, False),)
        await channel.send_many([b"4", b"5"], routing_key=queue)
        with pytest.raises(PublishFailed, match="2 were refused") as failed:
            await channel.wait_for_confirms()
        assert sum(each.last - each.first + 1 for each in failed.value.refused) == 2


@in_event_loop
async def test_a_channel_that_is_refused_something_ends_and_another_goes_on(url: str, queue: str) -> None:
    async with await connect(url) as connection:
        channel = await connection.channel(confirms=True)
        other = await connection.channel()
        await channel.declare_queue(queue)
        consumer = await channel.consume(queue)
        waiting = asyncio.ensure_future(consumer.batch())
        with pytest.raises(ChannelClosed) as closed:
            await channel.declare_queue(queue, durable=True)
        assert (closed.value.code, closed.value.method) == (406, "queue.declare")
        assert "PRECONDITION_FAILED" in closed.value.text
        with pytest.raises(ChannelClosed):
            await waiting
        with pytest.raises(ChannelClosed):
            await channel.publish(b"x", routing_key=queue)
        assert not channel.is_open
        assert await depth(other, queue) == 0
        third = await connection.channel()
        assert third.number == channel.number
        await third.publish(b"x", routing_key=queue)
        await channel.close()


@in_event_loop
async def test_a_publish_to_an_exchange_that_is_not_there_fails_all_that_wait(url: str) -> None:
    async with await connect(url) as connection:
        channel = await connection.channel(confirms=True)
        outcomes = await asyncio.gather(
            *(channel.publish(b"x", "no-such-exchange", "k") for _ in range(5)), return_exceptions=True
        )
        assert all(isinstance(outcome, ChannelClosed) and outcome.code == 404 for outcome in outcomes)


@in_event_loop
async def test_a_requeued_message_comes_again_and_a_cancelled_consumer_gets_none(url: str, queue: str) -> None:
    async with await connect(url) as connection, await connection.channel(confirms=True) as channel:
        await channel.declare_queue(queue)
        consumer = await channel.consume(queue, tag="named")
        assert consumer.tag == "named"
        await channel.publish(b"again", routing_key=queue)
        [first] = await consumer.batch()
        channel.nack(first)
        [second] = await consumer.batch()
        assert (first.redelivered, second.redelivered) == (False, True)
        with pytest.raises(ValueError, match="settled before"):
            channel.ack(first)
        channel.nack(second, requeue=False)
        await consumer.cancel()
        assert await consumer.batch() == []
        await channel.publish(b"stays", routing_key=queue)
        assert await depth(channel, queue) == 1
        got = await channel.get(queue)
        assert got is not None
        await channel.recover()
        again = await channel.get(queue)
        assert again is not None
        assert again.redelivered
        channel.ack(again)


@in_event_loop
async def test_a_consumer_whose_queue_is_deleted_learns_of_it(url: str, queue: str) -> None:
    async with await connect(url) as connection, await connection.channel(confirms=True) as channel:
        await channel.declare_queue(queue)
        await channel.publish(b"last", routing_key=queue)
        consumer = await channel.consume(queue, no_ack=True)
        assert [delivery.body for delivery in await consumer.batch()] == [b"last"]
        await channel.delete_queue(queue)
        with pytest.raises(ConsumerCancelled):
            await consumer.batch()
        assert channel.is_open


@in_event_loop
async def test_a_transaction_counts_when_it_is_committed(url: str, queue: str) -> None:
    async with await connect(url) as connection:
        channel, other = await connection.channel(), await connection.channel()
        await channel.declare_queue(queue)
        await channel.select_transactions()
        await channel.send(b"kept", routing_key=queue)
        assert await depth(other, queue) == 0
        await channel.commit()
        assert await depth(other, queue) == 1
        await channel.send(b"dropped", routing_key=queue)
        await channel.rollback()
        got = await channel.get(queue)
        assert got is not None
        channel.ack(got)
        await channel.rollback()
        channel.ack(got)
        await channel.commit()
        assert await depth(other, queue) == 0


@in_event_loop
async def test_a_delivery_is_settled_on_its_own_channel(url: str, queue: str) -> None:
    async with await connect(url) as connection:
        channel, other = await connection.channel(confirms=True), await connection.channel()
        await channel.declare_queue(queue)
        await channel.publish(b"x", routing_key=queue)
        got = await channel.get(queue)
        assert got is not None
        with pytest.raises(ValueError, match="settled there"):
            other.ack(got)


@in_event_loop
async def test_many_tasks_share_a_connection_each_with_its_channel(url: str, queue: str) -> None:
    async with await connect(url) as connection:
        first = await connection.channel()
        await first.declare_queue(queue)

        async def work(number: int) -> None:
            async with await connection.channel(confirms=True) as channel:
                for _ in range(20):
                    await channel.publish(b"%d" % number, routing_key=queue)

        await asyncio.gather(*(work(number) for number in range(20)))
        assert await depth(first, queue) == 400


@in_event_loop
async def test_a_reader_of_more_than_it_takes_costs_a_bounded_amount_and_calls_still_work(
    url: str, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warren.client.protocol.UNREAD_BYTES_MAX", 200_000)
    async with await connect(url) as publishing, await connect(url) as connection:
        publisher = await publishing.channel(confirms=True)
        channel = await connection.channel()
        await channel.declare_queue(queue)
        await publisher.send_many([b"x" * 10_000] * 3000, routing_key=queue)
        await publisher.wait_for_confirms()
        consumer = await channel.consume(queue, no_ack=True)
        while connection._protocol._reads:
            await connection._protocol.changed()
        assert len(consumer._inbox) < 3000
        assert (await channel.declare_queue(queue, passive=True)).name == queue
        count = 0
        while count < 3000:
            count += len(await consumer.batch())


@in_event_loop
async def test_a_caller_cancelled_while_a_channel_is_opened_leaves_none(url: str) -> None:
    async with await connect(f"{url}?channel_max=4") as connection:
        # three that are on their way out, and one that waits for them
        for round_no in range(20):
            opening = asyncio.create_task(connection.channel(confirms=True))
            for _ in range(round_no % 7):
                await asyncio.sleep(0)
            opening.cancel()
            await asyncio.wait([opening])
            if not opening.cancelled():
                await opening.result().close()
            elif round_no % 3 == 2:
                # by now the broker has confirmed the earlier closes
                async with await connection.channel():
                    pass
        channels = [await connection.channel() for _ in range(4)]
        assert sorted(channel.number for channel in channels) == [1, 2, 3, 4]
