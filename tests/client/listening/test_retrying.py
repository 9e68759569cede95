"""Messages that fail: tried again after their delays, counted, and parked."""

import time

from tests.client.conftest import run
from tests.client.listening.worlds import World, is_empty, keyed, queue_of, taken, until
from warren.client import Message, Properties
from warren.client.listening import (
    Arrival,
    Listener,
    Retries,
)
from warren.client.transport import BindingLayout, ExchangeLayout, Layout, Outgoing


def test_what_fails_is_tried_a_limited_number_of_times_and_parked(world: World) -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_retries_wait_for_their_delays_and_are_counted_across_listeners(world: World) -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_a_message_that_is_tried_again_in_hand_is_not_overtaken_by_its_key(world: World) -> None:
    async def scenario() -> None:
        transport = await world.open()
        queue = await queue_of(world, transport, [keyed(body) for body in (b"a1", b"a2", b"b1")])
        handled: list[bytes] = []

        async def handle(arrival: Arrival[bytes]) -> None:
            if arrival.body == b"a1" and arrival.retries < 2:
                raise OSError
            handled.append(arrival.body)

        retries = Retries(3, (0.2,), "in_hand")
        async with Listener(transport, queue, handle, concurrency=2, retries=retries):
            await until(lambda: len(handled) == 3)
        assert handled == [b"b1", b"a1", b"a2"]
        assert await is_empty(transport, queue)
        await transport.close()

    run(scenario())
