"""Groups of messages, taken when the program asks and settled as one."""

import asyncio

import pytest

from tests.client.listening.worlds import World, fill, is_empty, queue_of, taken
from tests.support.deadlines import in_event_loop, until
from warren.client import recovering
from warren.client.listening import Puller
from warren.client.testing import FaultProxy
from warren.client.transport import Layout, QueueLayout

BODIES = [b"%d" % number for number in range(25)]


@in_event_loop
async def test_messages_come_in_full_groups_and_the_rest_when_the_time_is_over(world: World) -> None:
    transport = await world.open()
    queue = await queue_of(world, transport, BODIES)
    sizes, bodies = [], []
    async with Puller(transport, queue, group_size=10) as puller:
        # those that are full do not wait
        for wait_s in (60.0, 60.0, 3.0, 0.2):
            group = await puller.take(wait_s)
            sizes.append(len(group))
            bodies += [message.body for message in group]
            group.ack()
    assert (sizes, bodies) == ([10, 10, 5, 0], BODIES)
    assert not group
    assert await is_empty(transport, queue)
    await transport.close()


@in_event_loop
async def test_a_group_has_no_message_twice_that_came_again_while_it_was_gathered(
    proxy: FaultProxy, queue: str
) -> None:
    async with await recovering.open(proxy.url) as transport:
        await transport.declare(Layout(queues=(QueueLayout(queue),)))
        first, second = [b"%d" % number for number in range(5)], [b"%d" % number for number in range(5, 10)]
        await fill(transport, queue, first)
        async with Puller(transport, queue, group_size=10) as puller:
            gathering = asyncio.create_task(puller.take(60))
            await until(lambda: len(puller._in_hand) == 5)
            proxy.cut()
            await until(lambda: not transport.is_connected)
            await fill(transport, queue, second)
            group = await gathering
            assert sorted(message.body for message in group) == first + second
            group.ack()


@in_event_loop
async def test_a_full_group_does_not_wait(world: World) -> None:
    transport = await world.open()
    queue = await queue_of(world, transport)
    async with Puller(transport, queue, group_size=2) as puller:
        taking = asyncio.create_task(puller.take(wait_s=60))
        await fill(transport, queue, [b"one", b"two"])
        async with asyncio.timeout(20):
            group = await taking
        assert (group[0].body, [message.body for message in group[1:]]) == (b"one", [b"two"])
        group.ack()
        group.nack()
    assert await is_empty(transport, queue)
    await transport.close()


@in_event_loop
async def test_a_group_that_is_refused_and_what_was_not_handed_out_go_back(world: World) -> None:
    transport = await world.open()
    queue = await queue_of(world, transport, BODIES)
    async with Puller(transport, queue, group_size=10) as puller:
        group = await puller.take(wait_s=20)
        assert len(group) == 10
        group.nack()
    back = await taken(transport, queue, 25)
    assert sorted(message.body for message in back) == sorted(BODIES)
    await transport.close()


@in_event_loop
async def test_a_group_has_room_for_a_message(world: World) -> None:
    transport = await world.open()
    with pytest.raises(ValueError, match="one message at least"):
        Puller(transport, "orders", group_size=0)
    await transport.close()


@pytest.mark.parametrize("answer", ["ack", "nack"])
@in_event_loop
async def test_a_group_settles_what_was_not_settled_singly(world: World, answer: str) -> None:
    transport = await world.open()
    queue = await queue_of(world, transport, [b"one", b"two", b"three"])
    async with Puller(transport, queue, group_size=3) as puller:
        group = await puller.take(wait_s=20)
        group[1].ack()
        if answer == "ack":
            group.ack()
        else:
            group.nack()
    back = await taken(transport, queue, 0 if answer == "ack" else 2)
    assert sorted(message.body for message in back) == ([] if answer == "ack" else [b"one", b"three"])
    await transport.close()
    again = await world.open()
    assert await is_empty(again, queue)
    await again.close()
