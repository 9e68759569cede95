"""Acks of messages: by the result of their handler, by the handler itself, or not at all."""

import asyncio
import threading

import pytest

from tests.client.listening.worlds import World, fill, is_empty, queue_of, taken
from tests.support.deadlines import in_event_loop, until
from warren.client import ClientError, Message, Properties
from warren.client.listening import Arrival, ImmediateAck, Listener, RejectAndDontRequeue, Retries, routed, tagged
from warren.client.transport import Incoming, Layout, QueueLayout


@in_event_loop
async def test_a_message_handled_without_an_exception_is_acked(world: World) -> None:
    transport = await world.open()
    queue = await queue_of(world, transport, [b"%d" % number for number in range(500)])
    seen: list[bytes] = []

    async def handle(arrival: Arrival[bytes]) -> None:
        seen.append(arrival.payload)

    async with Listener(transport, queue, handle, prefetch=50):
        await until(lambda: len(seen) == 500)
    assert seen == [b"%d" % number for number in range(500)]
    assert await is_empty(transport, queue)
    await transport.close()


@in_event_loop
async def test_a_plain_handler_runs_in_threads_beside_the_loop(world: World) -> None:
    transport = await world.open()
    queue = await queue_of(world, transport, [b"a", b"b", b"c"])
    together = threading.Barrier(3, timeout=20)
    threads: list[int] = []

    def handle(arrival: Arrival[bytes]) -> None:
        together.wait()
        threads.append(threading.get_ident())

    async with Listener(transport, queue, handle, concurrency=3):
        await until(lambda: len(threads) == 3)
    assert len({*threads, threading.get_ident()}) == 4
    assert await is_empty(transport, queue)
    await transport.close()


@in_event_loop
async def test_a_handler_may_reject_for_good_or_ack_early(world: World) -> None:
    transport = await world.open()
    dead = world.name("dead")
    await transport.declare(Layout(queues=(QueueLayout(dead),)))
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    queue = await queue_of(world, transport, [b"refuse", b"enough"], arguments)
    seen: list[bytes] = []

    async def handle(arrival: Arrival[bytes]) -> None:
        seen.append(arrival.body)
        raise RejectAndDontRequeue("no") if arrival.body == b"refuse" else ImmediateAck

    async with Listener(transport, queue, handle):
        await until(lambda: len(seen) == 2)
    assert [message.body for message in await taken(transport, dead, 1)] == [b"refuse"]
    assert await is_empty(transport, queue)
    assert await is_empty(transport, f"{queue}.parked")
    await transport.close()


@in_event_loop
async def test_an_unreadable_message_is_parked_at_once_and_never_handled(world: World) -> None:
    transport = await world.open()
    queue = await queue_of(world, transport, [b"12", b"no number", b"13"])
    seen: list[int] = []

    def number(message: Incoming) -> int:
        return int(message.body)

    async def handle(arrival: Arrival[int]) -> None:
        seen.append(arrival.payload)

    async with Listener(transport, queue, handle, convert=number):
        [parked] = await taken(transport, f"{queue}.parked", 1)
        await until(lambda: len(seen) == 2)
    assert seen == [12, 13]
    assert parked.body == b"no number"
    assert parked.headers["x-retries"] == 0
    assert str(parked.headers["x-error"]).startswith("CannotConvert: the message cannot be read")
    await transport.close()


@in_event_loop
async def test_a_message_that_can_be_neither_handled_nor_moved_stays(world: World) -> None:
    transport = await world.open()
    queue = await queue_of(world, transport, [b"stuck"])
    tries = 0

    async def fail(arrival: Arrival[bytes]) -> None:
        nonlocal tries
        tries += 1
        raise OSError

    async with Listener(transport, queue, fail, retries=Retries(2, (0.1,)), declares=False):
        await until(lambda: tries == 2)
    [left] = await taken(transport, queue, 1)
    assert left.body == b"stuck"
    assert left.redelivered
    await transport.close()


@in_event_loop
async def test_a_handler_that_settles_itself_may_do_so_later(world: World) -> None:
    transport = await world.open()
    queue = await queue_of(world, transport, [b"ack", b"keep", b"reject", b"fail"])
    left: dict[bytes, Arrival[bytes]] = {}

    async def handle(arrival: Arrival[bytes]) -> None:
        left[arrival.body] = arrival
        if arrival.body == b"fail":
            raise OSError

    listener = Listener(transport, queue, handle, acknowledge="manual", retries=Retries(1))
    async with listener:
        await until(lambda: len(left) == 4)
        left[b"ack"].ack()
        left[b"reject"].nack(requeue=False)
        await taken(transport, f"{queue}.parked", 1)
    [kept] = await taken(transport, queue, 1)
    assert (kept.body, kept.redelivered) == (b"keep", True)
    await transport.close()


@in_event_loop
async def test_without_acks_a_message_is_given_once_and_what_has_come_is_finished(world: World) -> None:
    transport = await world.open()
    queue = await queue_of(world, transport, [b"%d" % number for number in range(40)])
    seen: list[bytes] = []
    begun = asyncio.Event()

    async def handle(arrival: Arrival[bytes]) -> None:
        begun.set()
        await asyncio.sleep(0.001)
        seen.append(arrival.body)
        raise OSError

    listener = Listener(transport, queue, handle, acknowledge="none", prefetch=5)
    await listener.start()
    await begun.wait()
    await listener.stop()
    left = 0
    while (message := await transport.get(queue)) is not None:
        message.ack()
        left += 1
    assert len(seen) == len(set(seen)) == 40 - left
    await transport.close()


@in_event_loop
async def test_unwanted_messages_are_acked_or_rejected(world: World) -> None:
    transport = await world.open()
    dead = world.name("dead")
    await transport.declare(Layout(queues=(QueueLayout(dead),)))
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    messages = [Message(tag, Properties(headers={"x-tag": tag.decode()})) for tag in (b"food", b"tool", b"drink")]
    seen: list[bytes] = []

    async def handle(arrival: Arrival[bytes]) -> None:
        seen.append(arrival.body)

    wanted = tagged("food", "drink")
    queue = await queue_of(world, transport, messages, arguments)
    async with Listener(transport, queue, handle, accepts=wanted):
        await until(lambda: len(seen) == 2)
    assert await is_empty(transport, dead)
    await fill(transport, queue, messages)
    async with Listener(transport, queue, handle, accepts=wanted, unwanted="reject"):
        await until(lambda: len(seen) == 4)
        assert [message.body for message in await taken(transport, dead, 1)] == [b"tool"]
    await fill(transport, queue, messages)
    async with Listener(transport, queue, handle, accepts=routed("nothing.#"), unwanted="reject"):
        await taken(transport, dead, 3)
    assert seen == [b"food", b"drink"] * 2
    await transport.close()


@in_event_loop
async def test_a_listener_whose_queue_is_gone_says_so(world: World) -> None:
    transport = await world.open()

    async def handle(arrival: Arrival[bytes]) -> None: ...

    with pytest.raises(ClientError):
        await Listener(transport, world.name("missing"), handle).run()
    await transport.close()
