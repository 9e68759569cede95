"""Faults of the broker and of handlers, made on demand in memory."""

import asyncio

from tests.client.listening.worlds import World, fill, is_empty, keyed, queue_of, taken
from tests.support.deadlines import in_event_loop, until
from warren.client import Message, Properties
from warren.client.listening import Arrival, Listener, Retries


@in_event_loop
async def test_a_move_that_the_broker_refuses_leaves_the_message_where_it_is() -> None:
    world = World()
    transport = await world.open()
    queue = await queue_of(world, transport, [b"soup"])
    retries_seen: list[int] = []

    async def handle(arrival: Arrival[bytes]) -> None:
        retries_seen.append(arrival.retries)
        if len(retries_seen) < 3:
            raise OSError

    world.memory.faults.refuse(1)
    async with Listener(transport, queue, handle, retries=Retries(3, ())):
        await until(lambda: len(retries_seen) == 3)
    assert retries_seen == [0, 0, 1]
    assert await is_empty(transport, queue)


@in_event_loop
async def test_a_connection_that_is_lost_between_the_move_and_its_confirm_loses_nothing() -> None:
    world = World()
    transport = await world.open()
    queue = await queue_of(world, transport, [b"soup"])
    handled: list[int] = []
    failed = False

    async def handle(arrival: Arrival[bytes]) -> None:
        nonlocal failed
        if not failed:
            failed = True
            world.memory.faults.lose_connection(arrives=True)
            raise OSError
        handled.append(arrival.retries)

    async with Listener(transport, queue, handle, retries=Retries(3, ())):
        await until(lambda: sorted(handled) == [0, 1])
    assert await is_empty(transport, queue)


@in_event_loop
async def test_a_message_that_comes_again_waits_for_its_first_handler() -> None:
    world = World()
    transport = await world.open()
    queue = await queue_of(world, transport, [keyed(b"a1")])
    at_work, most, calls = 0, 0, 0
    go_on = asyncio.Event()

    async def handle(arrival: Arrival[bytes]) -> None:
        nonlocal at_work, most, calls
        calls += 1
        at_work += 1
        most = max(most, at_work)
        await go_on.wait()
        at_work -= 1

    async with Listener(transport, queue, handle, concurrency=4):
        await until(lambda: calls == 1)
        world.memory.faults.lose_connections()
        await fill(transport, queue, [keyed(b"b1")])
        await until(lambda: calls == 2)
        go_on.set()
        await until(lambda: calls == 3)
    # a1 and b1 beside each other, the second a1 behind the first
    assert most == 2
    assert await is_empty(transport, queue)


@in_event_loop
async def test_a_handler_that_ends_as_cancelled_has_failed_and_its_worker_goes_on() -> None:
    world = World()
    transport = await world.open()
    queue = await queue_of(world, transport, [b"cancelled", b"fine"])
    handled: list[bytes] = []

    async def handle(arrival: Arrival[bytes]) -> None:
        if arrival.body == b"cancelled":
            raise asyncio.CancelledError
        handled.append(arrival.body)

    async with Listener(transport, queue, handle, retries=Retries(1)):
        await until(lambda: handled)
        [parked] = await taken(transport, f"{queue}.parked", 1)
    assert parked.body == b"cancelled"
    assert handled == [b"fine"]


@in_event_loop
async def test_a_message_whose_key_function_fails_loses_only_its_order() -> None:
    world = World()
    transport = await world.open()
    messages = [Message(b"1", Properties(headers={"x-key": "a"})), Message(b"2")]
    queue = await queue_of(world, transport, messages)
    handled: set[bytes] = set()

    def handle(arrival: Arrival[bytes]) -> None:
        handled.add(arrival.body)

    async with Listener(transport, queue, handle, concurrency=2, key=lambda message: str(message.headers["x-key"])):
        await until(lambda: handled == {b"1", b"2"})
    assert await is_empty(transport, queue)
