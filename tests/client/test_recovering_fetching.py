"""Messages that are fetched one by one, and queues that delete themselves; on Warren and on RabbitMQ."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from tests.client.recovery import contents, only, to
from tests.support.deadlines import in_event_loop, until
from warren.client import ChannelClosed, blocking, connect, recovering
from warren.client.listening import Requester
from warren.client.recovering.delivery_channel import FETCH_CHANNELS_MAX
from warren.client.testing import FaultProxy, MemoryBroker
from warren.client.transport import BindingLayout, Layout, QueueLayout, Transport
from warren.errors import NOT_FOUND


@pytest.fixture(params=["warren", "rabbitmq"])
def at(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("url") if request.param == "warren" else request.getfixturevalue("rabbitmq").url)


@pytest.fixture
def names(at: str) -> Iterator[Callable[[int], list[str]]]:
    """As many queues as a test asks for, which are gone afterwards."""
    given: list[str] = []

    def of(count: int) -> list[str]:
        given.extend(f"fetching-{number}" for number in range(count))
        return given

    yield of
    with blocking.connect(at) as connection, connection.channel() as channel:
        for name in given:
            channel.delete_queue(name)


@pytest.mark.parametrize("no_ack", [False, True])
@in_event_loop
async def test_a_message_without_a_reader_is_requeued(at: str, names: Callable[[int], list[str]], no_ack: bool) -> None:
    [queue] = names(1)
    async with FaultProxy(at) as proxy, await recovering.open(proxy.url) as transport:
        await transport.declare(only(queue))
        # the channel is there from now on
        assert await transport.get(queue, no_ack=no_ack) is None
        await transport.publish(to(queue, b"1", b"2"))
        for _ in range(3):
            proxy.stall("to_client")
            passed = proxy.bytes_passed("to_broker")
            call = asyncio.create_task(transport.get(queue, no_ack=no_ack))
            await until(lambda passed=passed: proxy.bytes_passed("to_broker") > passed)  # type: ignore[misc]
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            proxy.restore()
        found: list[bytes] = []
        while len(found) < 2:
            message = await transport.get(queue, no_ack=no_ack)
            if message is not None:
                found.append(message.body)
                if not no_ack:
                    message.ack()
        assert sorted(found) == [b"1", b"2"]
        assert await transport.get(queue) is None


@in_event_loop
async def test_a_channel_opened_for_a_cancelled_caller_is_closed(at: str, names: Callable[[int], list[str]]) -> None:
    [queue] = names(1)
    async with FaultProxy(at) as proxy, await recovering.open(f"{proxy.url}?channel_max=5") as transport:
        await transport.declare(only(queue))
        for _ in range(10):
            proxy.stall("to_client")
            for call in (transport.get(queue), transport.subscribe(queue)):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.02):
                        await call
            proxy.restore()
            # answered after all other requests
            await transport.declare(only(queue))
        assert await transport.get(queue) is None


@in_event_loop
async def test_concurrent_gets_return_different_messages(at: str, names: Callable[[int], list[str]]) -> None:
    [queue] = names(1)
    async with await recovering.open(at) as transport:
        await transport.declare(only(queue))
        await transport.publish(to(queue, *(b"%02d" % number for number in range(20))))
        messages = await asyncio.gather(*(transport.get(queue) for _ in range(20)))
        assert sorted(message.body for message in messages if message) == [b"%02d" % at for at in range(20)]
        for message in messages:
            assert message is not None
            message.ack()
    async with await recovering.open(at) as transport:
        assert await contents(transport, queue) == []


@in_event_loop
async def test_looking_into_ever_other_queues_does_not_use_up_the_channels(
    at: str, names: Callable[[int], list[str]]
) -> None:
    queues = names(FETCH_CHANNELS_MAX + 20)
    async with await recovering.open(at.partition("?")[0] + f"?channel_max={FETCH_CHANNELS_MAX + 8}") as transport:
        await transport.declare(Layout(queues=tuple(QueueLayout(queue) for queue in queues)))
        await transport.publish([to(queue, queue.encode())[0] for queue in queues])
        first = await transport.get(queues[0])
        assert first is not None
        for queue in queues[1:]:
            message = await transport.get(queue)
            assert message is not None
            assert message.body == queue.encode()
            message.ack()
        # an unsettled message keeps its channel open, also if it was used long ago
        first.ack()
        for queue in queues:
            assert await transport.get(queue) is None


async def cut_and_wait(proxy: FaultProxy, transport: recovering.RecoveringTransport) -> None:
    proxy.cut()
    await until(lambda: not transport.is_connected)
    await until(lambda: transport.is_connected)


async def is_there(transport: Transport, queue: str) -> bool:
    try:
        await transport.get(queue)
    except ChannelClosed as error:
        return error.code != NOT_FOUND
    return True


@in_event_loop
async def test_a_queue_that_goes_with_its_last_subscription_is_not_declared_again(
    at: str, names: Callable[[int], list[str]]
) -> None:
    staying, passing = names(2)
    notices: list[recovering.Notice] = []
    async with FaultProxy(at) as proxy, await recovering.open(proxy.url, observer=notices.append) as transport:
        queues = (QueueLayout(staying), QueueLayout(passing, auto_delete=True))
        await transport.declare(Layout((), queues, (BindingLayout("amq.topic", passing, "#"),)))
        one, other = await transport.subscribe(passing), await transport.subscribe(passing)
        of_staying = await transport.subscribe(staying)
        await one.cancel()
        await of_staying.cancel()
        reading = asyncio.create_task(other.batch())
        await cut_and_wait(proxy, transport)
        await until(lambda: any(isinstance(notice, recovering.SubscriptionUp) for notice in notices))
        assert await is_there(transport, passing)
        await other.cancel()
        assert await reading == []
        assert not await is_there(transport, passing)
        await cut_and_wait(proxy, transport)
        assert not await is_there(transport, passing)
        assert await is_there(transport, staying)
        # any number of times
        await transport.declare(Layout(queues=queues))
        again = await transport.subscribe(passing)
        reading = asyncio.create_task(again.batch())
        notices.clear()
        await cut_and_wait(proxy, transport)
        # until then it may still go with the consumer that was cut off
        await until(lambda: any(isinstance(notice, recovering.SubscriptionUp) for notice in notices))
        assert await is_there(transport, passing)
        await again.cancel()
        assert await reading == []


@in_event_loop
async def test_a_name_that_cannot_be_asked_for_leaves_no_channel_behind(url: str) -> None:
    async with await recovering.open(url) as transport:
        with pytest.raises(ValueError, match="255"):
            await transport.get("q" * 256)
        [delivery_channel] = transport._fetching._delivery_channels.values()
        delivery_channel.retire()
        await until(lambda: not delivery_channel.channel.is_open)


@in_event_loop
async def test_a_queue_that_expires_is_declared_again_for_a_later_subscription(
    at: str, names: Callable[[int], list[str]]
) -> None:
    [queue] = names(1)
    async with await recovering.open(at) as transport:
        await transport.declare(Layout(queues=(QueueLayout(queue, arguments={"x-expires": 600_000}),)))
        first = await transport.subscribe(queue)
        beginning = asyncio.create_task(transport.subscribe(queue))
        await asyncio.sleep(0)
        # it has begun, and the broker has not answered
        assert transport._beginning == [queue]
        await first.cancel()
        await (await beginning).cancel()
        later = await transport.subscribe(queue)
        async with await connect(at) as connection, await connection.channel() as channel:
            await channel.delete_queue(queue)
        reading = asyncio.create_task(later.batch())
        await until_there(transport, queue)
        await transport.publish(to(queue, b"1"))
        [message] = await reading
        assert message.body == b"1"


async def until_there(transport: Transport, queue: str) -> None:
    """The test's deadline ends it."""
    while not await is_there(transport, queue):
        await asyncio.sleep(0.01)


@in_event_loop
async def test_the_reply_queue_of_a_requester_that_was_closed_is_forgotten(url: str) -> None:
    async with await recovering.open(url) as transport:
        for _ in range(3):
            async with Requester(transport, "", "unserved"):
                assert len(transport._layout.queues) == 1
        assert transport._layout == Layout()


@in_event_loop
async def test_in_memory_too_a_queue_that_goes_is_not_declared_again() -> None:
    broker = MemoryBroker()
    transport = broker.transport()
    queues = (QueueLayout("staying"), QueueLayout("passing", auto_delete=True))
    await transport.declare(Layout((), queues, (BindingLayout("amq.topic", "passing", "#"),)))
    one, other = await transport.subscribe("passing"), await transport.subscribe("passing")
    await one.cancel()
    broker.faults.lose_connections()
    assert broker.has_queue("passing")
    await other.cancel()
    assert not broker.has_queue("passing")
    broker.faults.lose_connections()
    assert not broker.has_queue("passing")
    assert broker.has_queue("staying")
