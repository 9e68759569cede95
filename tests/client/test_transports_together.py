"""All transports: messages that are published together, in one transaction."""

import asyncio

import pytest

from tests.client.seam import Brokers, bodies_in, taken, to, with_queue
from tests.support.deadlines import in_event_loop, run
from warren.client import CannotConvert, ChannelClosed, Message, Properties, PublishFailed, recovering
from warren.client.errors import CallTimeout, CannotConnect, ClientError, ConnectionClosed, ConnectionLost
from warren.client.template import Template
from warren.client.testing import FaultProxy, MemoryBroker
from warren.client.transport import BindingLayout, ExchangeLayout, Layout, Outgoing, QueueLayout

DEADLINE_S = 120.0
MEGABYTE = 1_000_000


@in_event_loop
async def test_messages_published_together_are_there_in_order(broker: Brokers) -> None:
    queue, other, exchange = broker.name("queue"), broker.name("other"), broker.name("exchange")
    layout = Layout(
        (ExchangeLayout(exchange, "topic"),),
        (QueueLayout(queue), QueueLayout(other)),
        (BindingLayout(exchange, other, "#"),),
    )
    async with broker.transport() as transport:
        await transport.declare(layout)
        mixed = [*to(queue, b"1"), Outgoing(Message(b"2"), exchange, "key"), *to(queue, b"3", message_id="m3")]
        await transport.publish_together(mixed)
        await transport.publish_together(to(queue, b"4"))
        await transport.publish_together([])
        incoming = await transport.get(other)
        assert incoming is not None
        assert (incoming.body, incoming.exchange, incoming.routing_key) == (b"2", exchange, "key")
        assert await bodies_in(transport, queue) == [b"1", b"3", b"4"]


@in_event_loop
async def test_a_missing_exchange_rolls_back_the_whole_transaction(broker: Brokers) -> None:
    queue, missing = broker.name("queue"), broker.name("missing")
    async with broker.transport() as transport:
        await transport.declare(with_queue(queue))
        with pytest.raises(ChannelClosed) as failed:
            await transport.publish_together([*to(queue, b"1"), Outgoing(Message(b"2"), missing), *to(queue, b"3")])
        assert (failed.value.code, failed.value.outcome) == (404, "rejected")
        assert await bodies_in(transport, queue) == []
        await transport.publish_together(to(queue, b"after"))
        assert await bodies_in(transport, queue) == [b"after"]


@in_event_loop
async def test_a_message_without_an_encoding_rolls_back_the_whole_transaction(broker: Brokers) -> None:
    queue = broker.name("queue")
    async with broker.transport() as transport:
        await transport.declare(with_queue(queue))
        for odd in (to(queue, b"odd", headers={"x": object()}), to("k" * 256, b"long")):
            with pytest.raises(CannotConvert) as failed:
                await transport.publish_together([*to(queue, b"before"), *odd])
            assert failed.value.outcome == "not_sent"
        await transport.publish_together(to(queue, b"after"))
        assert await bodies_in(transport, queue) == [b"after"]


@in_event_loop
async def test_unroutable_messages_come_back_and_the_others_are_there(broker: Brokers) -> None:
    queue, nowhere = broker.name("queue"), broker.name("nowhere")
    lost = [Outgoing(Message(body, Properties(message_id="m")), routing_key=nowhere) for body in (b"2", b"3")]
    silent = Outgoing(Message(b"4"), routing_key=nowhere, mandatory=False)
    async with broker.transport() as transport:
        await transport.declare(with_queue(queue))
        with pytest.raises(PublishFailed) as failed:
            await transport.publish_together([*to(queue, b"1"), *lost, silent, *to(queue, b"5")])
        assert [each.body for each in failed.value.returned] == [b"2", b"3"]
        assert failed.value.outcome == "rejected"
        # reported once, and not again by the next
        await transport.publish_together(to(queue, b"6"))
        assert await bodies_in(transport, queue) == [b"1", b"5", b"6"]


@in_event_loop
async def test_a_queue_that_refuses_makes_it_partial_and_unknown(broker: Brokers) -> None:
    queue, full = broker.name("queue"), broker.name("full")
    async with broker.transport() as transport:
        await transport.declare(with_queue(queue))
        await transport.declare(with_queue(full, x_max_length=0, x_overflow="reject-publish"))
        with pytest.raises(ChannelClosed, match="partial tx completion") as failed:
            await transport.publish_together([*to(queue, b"1"), *to(full, b"2")])
        assert (failed.value.code, failed.value.outcome) == (406, "unknown")
        assert await bodies_in(transport, queue) == [b"1"]
        await transport.publish_together(to(queue, b"after"))


@in_event_loop
async def test_calls_side_by_side_do_not_mix(broker: Brokers) -> None:
    queue, missing = broker.name("queue"), broker.name("missing")

    async def one(number: int) -> None:
        messages = to(queue, *(b"%d.%d" % (number, place) for place in range(3)))
        if number % 3 == 0:
            messages.append(Outgoing(Message(b"x"), missing))
            with pytest.raises(ChannelClosed):
                await transport.publish_together(messages)
        else:
            await transport.publish_together(messages)

    async with broker.transport() as transport:
        await transport.declare(with_queue(queue))
        await asyncio.gather(*(one(number) for number in range(7)), transport.publish(to(queue, b"alone")))
        found = [body for body in await bodies_in(transport, queue) if body != b"alone"]
        assert [found[at : at + 3] for at in range(0, len(found), 3)] == [
            [b"%d.%d" % (number, place) for place in range(3)] for number in (1, 2, 4, 5)
        ]


@in_event_loop
async def test_a_cancelled_publish_leaves_nothing_behind(broker: Brokers) -> None:
    queue = broker.name("queue")
    async with broker.transport() as transport:
        await transport.declare(with_queue(queue))
        task = asyncio.create_task(transport.publish_together(to(queue, b"1", b"2")))
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        await transport.publish_together(to(queue, b"3"))
        assert await bodies_in(transport, queue) == [b"3"]


@pytest.mark.parametrize("server", ["warren", "rabbitmq"])
@in_event_loop
async def test_a_caller_cancelled_at_any_step_leaves_no_channel(request: pytest.FixtureRequest, server: str) -> None:
    url = request.getfixturevalue("url") if server == "warren" else request.getfixturevalue("rabbitmq").url
    queue = f"together-{server}-cancelled"
    # one for publishes, one for transactions, and few to lose
    async with await recovering.open(f"{url}?channel_max=6") as transport:
        await transport.declare(Layout(queues=(QueueLayout(queue, auto_delete=True),)))
        for round_no in range(30):
            task = asyncio.create_task(transport.publish_together(to(queue, b"cancelled")))
            for _ in range(round_no % 10):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            # with its confirm the broker has answered all earlier requests
            await transport.publish(to(queue, b"between"))
        await transport.publish_together(to(queue, b"last"), DEADLINE_S)
        assert (await bodies_in(transport, queue))[-1] == b"last"
        # it is deleted with its consumer
        await (await transport.subscribe(queue)).cancel()


@in_event_loop
async def test_a_transport_that_is_closed_takes_no_more(broker: Brokers) -> None:
    async with broker.transport() as transport:
        await transport.close()
        with pytest.raises(ClientError) as failed:
            await transport.publish_together(to("anywhere", b"1"))
        assert failed.value.outcome == "not_sent"


# a template


@in_event_loop
async def test_a_block_of_a_template_counts_when_it_is_left(broker: Brokers) -> None:
    queue = broker.name("queue")
    async with broker.transport() as transport:
        await transport.declare(with_queue(queue))
        template = Template(transport, routing_key=queue)
        async with template.transaction() as together:
            ids = [together.send({"order": number}) for number in (1, 2)]
            assert await transport.get(queue) is None
        first = await transport.get(queue)
        assert first is not None
        assert (first.body, first.properties.message_id) == (b'{"order":1}', ids[0])
        assert await bodies_in(transport, queue) == [b'{"order":2}']
        with pytest.raises(ValueError, match="this transaction is over"):
            together.send(3)


@in_event_loop
async def test_an_error_in_the_block_sends_nothing(broker: Brokers) -> None:
    queue = broker.name("queue")
    async with broker.transport() as transport:
        await transport.declare(with_queue(queue))
        template = Template(transport, routing_key=queue)

        async def fail() -> None:
            async with template.transaction() as together:
                together.send(1)
                together.send(object())

        with pytest.raises(CannotConvert):
            await fail()
        assert await transport.get(queue) is None


@in_event_loop
async def test_committed_and_dropped_messages_are_not_sent_again() -> None:
    memory = MemoryBroker()
    transport = memory.transport()
    await transport.declare(with_queue("q"))
    template = Template(transport, routing_key="q")
    async with template.transaction() as together:
        together.send("once")
        await together.commit()
        with pytest.raises(ValueError, match="this transaction is over"):
            await together.commit()
    async with template.transaction() as undone:
        undone.send("never")
        undone.drop()
    assert [each.body for each in memory.ready("q")] == [b'"once"']


# connections that end


@pytest.fixture
def queue_there(url: str, queue: str) -> str:
    async def declare() -> None:
        async with await recovering.open(url) as transport:
            await transport.declare(with_queue(queue))

    run(declare())
    return queue


@in_event_loop
async def test_a_connection_that_ends_before_the_commit_is_made_up_for(proxy: FaultProxy, queue_there: str) -> None:
    async with await recovering.open(proxy.url) as transport:
        # more than the buffers of a stalled network hold, so the commit is not written
        proxy.stall("to_broker")
        large = to(queue_there, *(b"%d" % number * MEGABYTE for number in range(48)))
        under_way = asyncio.create_task(transport.publish_together(large, DEADLINE_S))
        await asyncio.sleep(0)
        proxy.cut()
        proxy.restore()
        await under_way
        sizes = [len(body) for body in await bodies_in(transport, queue_there)]
        assert sizes == [len(each.message.body) for each in large]


@in_event_loop
async def test_a_broker_that_is_silent_before_the_commit_has_none_of_it(proxy: FaultProxy, queue_there: str) -> None:
    async with await recovering.open(proxy.url, call_timeout_s=3.0) as transport:
        proxy.stall("to_client")
        with pytest.raises(CallTimeout) as silent:
            await transport.publish_together(to(queue_there, b"1"))
        assert silent.value.outcome == "not_sent"
        proxy.restore()
        await transport.publish_together(to(queue_there, b"2"), DEADLINE_S)
        assert await bodies_in(transport, queue_there) == [b"2"]


@in_event_loop
async def test_a_connection_that_is_away_is_waited_for(proxy: FaultProxy, queue_there: str) -> None:
    async with await recovering.open(proxy.url) as transport:
        await transport.publish_together(to(queue_there, b"1"))
        proxy.cut(refuse=True)
        async with asyncio.timeout(DEADLINE_S):
            while transport.is_connected:
                await asyncio.sleep(0.01)
        with pytest.raises(CannotConnect) as late:
            await transport.publish_together(to(queue_there, b"2"), 0.05)
        assert late.value.outcome == "not_sent"
        under_way = asyncio.create_task(transport.publish_together(to(queue_there, b"3"), DEADLINE_S))
        await asyncio.sleep(0)
        proxy.restore()
        await under_way
        assert await bodies_in(transport, queue_there) == [b"1", b"3"]


@in_event_loop
async def test_a_connection_that_ends_before_the_answer_leaves_it_unknown_and_sends_nothing_twice(
    proxy: FaultProxy, url: str, queue_there: str
) -> None:
    async with await recovering.open(proxy.url) as transport, await recovering.open(url) as watching:
        await transport.publish_together(to(queue_there, b"1"))
        proxy.stall("to_client")
        under_way = asyncio.create_task(transport.publish_together(to(queue_there, b"2")))
        assert (await taken(await watching.subscribe(queue_there), 2))[1].body == b"2"
        proxy.cut()
        proxy.restore()
        with pytest.raises(ConnectionLost) as failed:
            await under_way
        assert failed.value.outcome == "unknown"
        # resent messages would be in front of it
        await transport.publish_together(to(queue_there, b"3"), DEADLINE_S)
    async with await recovering.open(url) as transport:
        assert await bodies_in(transport, queue_there) == [b"1", b"2", b"3"]


@in_event_loop
async def test_the_time_that_a_call_has_says_how_far_it_came() -> None:
    memory = MemoryBroker()
    transport = memory.transport()
    await transport.declare(with_queue("q"))
    memory.faults.block()
    with pytest.raises(CallTimeout) as blocked:
        await transport.publish_together(to("q", b"1"), 0.01)
    memory.faults.unblock()
    memory.faults.delay(5.0)
    with pytest.raises(CallTimeout) as silent:
        await transport.publish_together(to("q", b"2"), 0.01)
    assert (blocked.value.outcome, silent.value.outcome) == ("not_sent", "unknown")
    assert [each.body for each in memory.ready("q")] == [b"2"]


@pytest.mark.parametrize("arrives", [True, False])
@in_event_loop
async def test_memory_loses_a_connection_with_all_or_none(arrives: bool) -> None:
    memory = MemoryBroker()
    transport = memory.transport()
    await transport.declare(with_queue("q"))
    memory.faults.lose_connection(1, arrives=arrives)
    with pytest.raises(ConnectionClosed) as lost:
        await transport.publish_together(to("q", b"1", b"2", b"3"))
    assert lost.value.outcome == "unknown"
    assert [each.body for each in memory.ready("q")] == ([b"1", b"2", b"3"] if arrives else [])
