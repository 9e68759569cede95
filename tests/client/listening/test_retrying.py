"""Messages that fail: tried again after their delays, counted, and parked."""

import asyncio
import logging
import time
from collections import Counter
from functools import partial

import pytest

from tests.client.listening.worlds import DEADLINE_S, World, fill, is_empty, keyed, queue_of, taken
from tests.support.deadlines import in_event_loop, run, until
from warren.client import Message, Properties
from warren.client.listening import Arrival, Listener, Retries
from warren.client.transport import BindingLayout, ExchangeLayout, Layout, Outgoing, Transport


@in_event_loop
async def test_a_failing_message_is_tried_a_limited_number_of_times_and_parked(world: World) -> None:
    transport = await world.open()
    exchange, queue = world.name("exchange"), await queue_of(world, transport)
    layout = Layout((ExchangeLayout(exchange, "topic"),), (), (BindingLayout(exchange, queue, "orders.#"),))
    await transport.declare(layout)
    message = Message(b"poison", Properties(message_id="7", headers={"table": 4}, expiration="60000"))
    assert await transport.publish([Outgoing(message, exchange, "orders.new")]) == [None]
    seen: list[tuple[int, str, str]] = []

    async def handle(arrival: Arrival[bytes]) -> None:
        seen.append((arrival.retries, arrival.exchange, arrival.routing_key))
        raise KeyError("no such table")

    async with Listener(transport, queue, handle, retries=Retries(3, ())):
        [parked] = await taken(transport, f"{queue}.parked", 1)
    assert seen == [(count, exchange, "orders.new") for count in range(3)]
    assert (parked.body, parked.properties.message_id, parked.headers["table"]) == (b"poison", "7", 4)
    assert parked.headers["x-retries"] == 2
    assert parked.headers["x-error"] == "KeyError: 'no such table'"
    assert parked.headers["x-origin-queue"] == queue
    assert parked.properties.expiration is None
    assert await is_empty(transport, queue)
    await transport.close()


@in_event_loop
async def test_retries_wait_for_their_delays_and_are_counted_across_listeners(world: World) -> None:
    transport = await world.open()
    queue = await queue_of(world, transport, [b"late"])
    tries: list[tuple[int, float]] = []

    async def fail(arrival: Arrival[bytes]) -> None:
        tries.append((arrival.retries, time.monotonic()))
        raise OSError("the database is away")

    retries = Retries(3, (0.2, 0.5))
    for count in (1, 2, 3):
        # a listener of its own for each try: the count is the message's
        async with Listener(transport, queue, fail, retries=retries):
            await until(lambda count=count: len(tries) == count)  # type: ignore[misc]
    assert [count for count, _ in tries] == [0, 1, 2]
    first, second, third = (at for _, at in tries)
    assert second - first >= 0.2
    assert third - second >= 0.5
    await taken(transport, f"{queue}.parked", 1)
    await transport.close()


@in_event_loop
async def test_a_message_that_is_tried_again_in_hand_is_not_overtaken_by_its_key(world: World) -> None:
    transport = await world.open()
    queue = await queue_of(world, transport, [keyed(body) for body in (b"a1", b"a2", b"b1")])
    handled: list[bytes] = []

    async def handle(arrival: Arrival[bytes]) -> None:
        if arrival.body == b"a1" and arrival.retries < 2:
            raise OSError
        handled.append(arrival.body)

    retries = Retries(3, (0.5,), "in_hand")
    async with Listener(transport, queue, handle, concurrency=2, retries=retries):
        await until(lambda: len(handled) == 3)
    assert handled == [b"b1", b"a1", b"a2"]
    assert await is_empty(transport, queue)
    await transport.close()


@in_event_loop
async def test_a_few_failing_messages_do_not_stop_a_queue(world: World) -> None:
    transport = await world.open()
    bodies = [b"bad %d" % number if number % 10 == 9 else b"good" for number in range(200)]
    queue = await queue_of(world, transport, bodies)
    good = 0
    tries: Counter[bytes] = Counter()

    async def handle(arrival: Arrival[bytes]) -> None:
        nonlocal good
        if arrival.body != b"good":
            tries[arrival.body] += 1
            assert arrival.retries == tries[arrival.body] - 1
            raise OSError("it cannot be handled")
        good += 1

    # longer than the test: held messages wait until its end
    retries = Retries(tries=3, delays_s=(300.0,), way="in_hand")
    async with Listener(transport, queue, handle, prefetch=10, retries=retries):
        await until(lambda: good == 180)
    # the listener held some of them; the others were moved until they were parked
    assert max(tries.values()) <= 3
    left = await everything(transport, [queue, f"{queue}.parked"], 20)
    assert sorted(left) == sorted(body for body in bodies if body != b"good")
    await transport.close()


@in_event_loop
async def test_a_message_in_a_short_queue_is_put_behind_once_and_keeps_its_other_tries(world: World) -> None:
    transport = await world.open()
    queue = await queue_of(world, transport)
    tries: Counter[bytes] = Counter()

    async def handle(arrival: Arrival[bytes]) -> None:
        if arrival.body != b"good":
            tries[arrival.body] += 1
            raise OSError("it cannot be handled")

    retries = Retries(tries=5, delays_s=(300.0,), way="in_hand")
    async with Listener(transport, queue, handle, prefetch=4, retries=retries):
        for number in range(4):
            await fill(transport, queue, [b"good", b"good", b"bad %d" % number])
            await until(partial(tries.get, b"bad %d" % number))
        await until(lambda: tries[b"bad 3"] == 2)
    # the third is held although half of the prefetch is full, because no other message waits
    assert tries == {b"bad 0": 1, b"bad 1": 1, b"bad 2": 1, b"bad 3": 2}
    left = {message.body: message.headers.get("x-retries") for message in await taken(transport, queue, 4)}
    assert left == {b"bad 0": None, b"bad 1": None, b"bad 2": None, b"bad 3": 1}
    assert await is_empty(transport, f"{queue}.parked")
    await transport.close()


@pytest.mark.parametrize("world", ["warren", "rabbitmq"], indirect=True)
def test_a_message_too_large_to_be_put_behind_is_retried_by_the_listener(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "warren.client.listening")

    async def scenario() -> None:
        transport = await world.open()
        queue = await queue_of(world, transport)
        tried: list[bytes] = []

        async def handle(arrival: Arrival[bytes]) -> None:
            tried.append(arrival.body)
            if arrival.body.startswith(b"bad"):
                raise OSError("it cannot be handled")

        # it fills a frame, without space for more headers
        large = Message(b"bad and large", Properties(headers={"x-large": "x" * 131_000}))
        retries = Retries(delays_s=(300.0,), way="in_hand")
        async with Listener(transport, queue, handle, prefetch=2, retries=retries):
            await fill(transport, queue, [b"bad", b"good", b"good", large])
            await until(lambda: len(tried) == 4)
        assert tried == [b"bad", b"good", b"good", b"bad and large"]
        assert sorted(message.body for message in await taken(transport, queue, 2)) == [b"bad", b"bad and large"]
        assert await is_empty(transport, f"{queue}.parked")
        await transport.close()

    run(scenario())
    assert "cannot be put behind the others and waits in hand: CannotConvert" in caplog.text


@in_event_loop
async def test_an_outage_uses_up_no_tries_of_what_does_not_fit_into_the_hand(world: World) -> None:
    transport = await world.open()
    queue = await queue_of(world, transport, [b"%d" % number for number in range(40)])
    tried: list[bytes] = []

    async def handle(arrival: Arrival[bytes]) -> None:
        tried.append(arrival.body)
        raise OSError("the database is away")

    retries = Retries(delays_s=(300.0,), way="in_hand")
    async with Listener(transport, queue, handle, prefetch=10, retries=retries):
        await until(lambda: len(tried) == 10)
    assert tried == [b"%d" % number for number in range(10)]
    assert not any("x-retries" in message.headers for message in await taken(transport, queue, 40))
    assert await is_empty(transport, f"{queue}.parked")
    await transport.close()


async def everything(transport: Transport, queues: list[str], count: int) -> list[bytes]:
    found: list[bytes] = []
    async with asyncio.timeout(DEADLINE_S):
        while len(found) < count:
            came = [await transport.get(queue, no_ack=True) for queue in queues]
            found += [message.body for message in came if message is not None]
    assert all([await is_empty(transport, queue) for queue in queues])
    return found
