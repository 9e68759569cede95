"""A listener that stops finishes its handlers, and returns the other messages."""

import asyncio
import threading
import time

import pytest

from tests.client.listening.worlds import World, fill, is_empty, keyed, queue_of, taken
from tests.support.deadlines import in_event_loop, until
from tests.support.rabbitmq import RabbitMQ
from warren.client import blocking
from warren.client.listening import Arrival, Listener, Retries, parking_queue
from warren.client.testing import MemoryBroker
from warren.client.transport import Layout, QueueLayout


@in_event_loop
async def test_stopping_finishes_what_is_in_hand_and_gives_back_the_rest(world: World) -> None:
    transport = await world.open()
    queue = await queue_of(world, transport, [b"%d" % number for number in range(10)])
    begun, finish = asyncio.Event(), asyncio.Event()
    handled: list[bytes] = []

    async def handle(arrival: Arrival[bytes]) -> None:
        begun.set()
        await finish.wait()
        handled.append(arrival.body)

    listener = Listener(transport, queue, handle)
    await listener.start()
    await begun.wait()
    stopping = asyncio.create_task(listener.stop())
    rest = await taken(transport, queue, 9)
    assert not stopping.done()
    finish.set()
    await stopping
    assert handled == [b"0"]
    assert sorted(message.body for message in rest) == [b"%d" % number for number in range(1, 10)]
    assert await is_empty(transport, queue)
    await transport.close()


@pytest.mark.parametrize("kind", ["async", "plain"])
@in_event_loop
async def test_a_handler_that_does_not_end_is_left_behind_at_the_deadline(world: World, kind: str) -> None:
    transport = await world.open()
    queue = await queue_of(world, transport, [b"slow"])
    begun, end = threading.Event(), threading.Event()

    async def wait_for_ever(arrival: Arrival[bytes]) -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    def block(arrival: Arrival[bytes]) -> None:
        begun.set()
        end.wait(60)
        arrival.ack()

    listener = Listener(transport, queue, wait_for_ever if kind == "async" else block)
    await listener.start()
    await until(begun.is_set)
    began = time.monotonic()
    await listener.stop(deadline_s=0.2)
    assert time.monotonic() - began < 20
    [back] = await taken(transport, queue, 1)
    end.set()
    assert (back.body, back.redelivered) == (b"slow", True)
    await transport.close()


@pytest.mark.parametrize("kind", ["another error", "nothing", "more work"])
@in_event_loop
async def test_the_deadline_holds_also_if_a_handler_ignores_its_cancellation(world: World, kind: str) -> None:
    transport = await world.open()
    queue = await queue_of(world, transport, [b"slow"])
    begun, end = asyncio.Event(), asyncio.Event()

    async def handle(arrival: Arrival[bytes]) -> None:
        begun.set()
        try:
            await end.wait()
        except asyncio.CancelledError:
            if kind == "another error":
                raise ConnectionError("the driver was interrupted") from None
            if kind == "more work":
                await end.wait()

    listener = Listener(transport, queue, handle, retries=Retries(tries=1))
    await listener.start()
    await begun.wait()
    began = time.monotonic()
    await listener.stop(deadline_s=0.2)
    assert time.monotonic() - began < 20
    back = await taken(transport, queue, 0 if kind == "nothing" else 1)
    assert [message.body for message in back] == ([] if kind == "nothing" else [b"slow"])
    assert await is_empty(transport, parking_queue(queue))
    end.set()
    await transport.close()


@in_event_loop
async def test_a_handler_that_fails_at_the_deadline_does_not_wait_for_a_broker_that_takes_nothing() -> None:
    broker = MemoryBroker()
    transport = broker.transport()
    await transport.declare(Layout(queues=(QueueLayout("orders"),)))
    await fill(transport, "orders", [b"slow"])
    begun = asyncio.Event()

    async def handle(arrival: Arrival[bytes]) -> None:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            raise ConnectionError("the driver was interrupted") from None

    listener = Listener(transport, "orders", handle)
    await listener.start()
    await begun.wait()
    broker.faults.block()
    began = time.monotonic()
    await listener.stop(deadline_s=0.2)
    assert time.monotonic() - began < 20
    assert [message.body for message in broker.ready("orders")] == [b"slow"]


@pytest.mark.parametrize("kind", ["fails", "works on"])
@in_event_loop
async def test_requeued_messages_keep_the_order_of_their_key(rabbitmq: RabbitMQ, kind: str) -> None:
    """A quorum queue delivers requeued messages in the order of their return."""
    world = World(rabbitmq.url)
    transport = await world.open()
    bodies = [b"k%d" % number for number in range(6)]
    queue = await queue_of(world, transport, [keyed(body) for body in bodies[:4]], {"x-queue-type": "quorum"})
    begun = asyncio.Event()

    async def handle(arrival: Arrival[bytes]) -> None:
        begun.set()
        if kind == "fails":
            raise OSError("the database is away")
        await asyncio.get_running_loop().create_future()

    listener = Listener(transport, queue, handle)
    await listener.start()
    await until(lambda: begun.is_set() and listener._dispatch.waiting == 3)
    with blocking.connect(rabbitmq.url) as connection, connection.channel(confirms=True) as channel:
        # this event loop is blocked meanwhile, so these come after the listener has stopped
        for body in bodies[4:]:
            channel.publish(keyed(body), routing_key=queue)
    await listener.stop(deadline_s=0.5)
    assert [message.body for message in await taken(transport, queue, 6)] == bodies
    await transport.close()
    world.tidy()
