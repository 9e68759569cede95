"""Order by key, bounds, and weights."""

import asyncio

from tests.client.listening.worlds import World, keyed, queue_of
from tests.support.deadlines import in_event_loop, until
from warren.client.listening import Arrival, Listener


@in_event_loop
async def test_messages_of_a_key_are_handled_in_order_and_others_beside_them(world: World) -> None:
    transport = await world.open()
    bodies = [b"%c%d" % (key, number) for number in range(30) for key in b"abc"]
    queue = await queue_of(world, transport, [keyed(body) for body in bodies])
    at_work: set[bytes] = set()
    handled: dict[bytes, list[bytes]] = {b"a": [], b"b": [], b"c": []}
    most = 0
    all_three = asyncio.Event()

    async def handle(arrival: Arrival[bytes]) -> None:
        nonlocal most
        key = arrival.body[:1]
        assert key not in at_work
        at_work.add(key)
        most = max(most, len(at_work))
        if most == 3:
            all_three.set()
        await all_three.wait()
        await asyncio.sleep(0)
        at_work.remove(key)
        handled[key].append(arrival.body)

    async with Listener(transport, queue, handle, concurrency=8):
        await until(lambda: sum(map(len, handled.values())) == 90)
    assert handled == {key: [body for body in bodies if body[:1] == key] for key in handled}
    await transport.close()


@in_event_loop
async def test_no_more_are_handled_at_once_than_were_asked_for(world: World) -> None:
    transport = await world.open()
    queue = await queue_of(world, transport, [b"x"] * 60)
    at_work, most, done = 0, 0, 0

    async def handle(arrival: Arrival[bytes]) -> None:
        nonlocal at_work, most, done
        at_work += 1
        most = max(most, at_work)
        await until(lambda: most == 4)
        await asyncio.sleep(0)
        at_work -= 1
        done += 1

    async with Listener(transport, queue, handle, concurrency=4):
        await until(lambda: done == 60)
    assert most == 4
    await transport.close()


@in_event_loop
async def test_queues_are_listened_to_by_weight_and_none_is_left_waiting(world: World) -> None:
    transport = await world.open()
    gold = await queue_of(world, transport, [b"gold"] * 200)
    bronze = await queue_of(world, transport, [b"bronze"] * 200)
    seen: list[bytes] = []
    all_came = asyncio.Event()

    async def handle(arrival: Arrival[bytes]) -> None:
        await all_came.wait()
        seen.append(arrival.body)

    # the listener holds all of them, so the speed of the broker does not decide their order
    async with Listener(transport, {gold: 4, bronze: 1}, handle, prefetch=200) as listener:
        await until(lambda: listener._dispatch.waiting == 399)
        all_came.set()
        await until(lambda: len(seen) >= 120)
    counted = seen[20:120]
    assert 15 <= counted.count(b"bronze") <= 25
    await transport.close()
