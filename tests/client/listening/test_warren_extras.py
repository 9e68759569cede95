"""Features of Warren alone: delayed exchanges, named publishers, and streams with groups and filters."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from tests.client.listening.worlds import World, queue_of, taken
from tests.support.deadlines import in_event_loop, until
from warren.client import Message, Properties
from warren.client.listening import Arrival, Listener, Puller, Retries, StreamReading
from warren.client.transport import BindingLayout, ExchangeLayout, Layout, Outgoing, QueueLayout, Transport


@pytest.fixture
def warren(url: str) -> Iterator[World]:
    world = World(url)
    yield world
    world.tidy()


async def stream_of(world: World, transport: Transport, bodies: list[Message], partitions: int = 0) -> str:
    """A stream, and an exchange of the same name by which it is filled with the messages' own keys."""
    name = world.name("stream")
    arguments: dict[str, object] = {"x-queue-type": "stream"}
    if partitions:
        arguments["x-stream-partitions"] = partitions
    layout = Layout(
        (ExchangeLayout(name, "fanout"),), (QueueLayout(name, arguments=arguments),), (BindingLayout(name, name),)
    )
    await transport.declare(layout)
    outgoing = [Outgoing(body, name, body.routing_key or "") for body in bodies]
    assert await transport.publish(outgoing, 20) == [None] * len(bodies)
    return name


@in_event_loop
async def test_a_delayed_exchange_brings_messages_back_when_they_are_due(warren: World) -> None:
    transport = await warren.open()
    queue = await queue_of(warren, transport, [b"late"])
    tries: list[tuple[int, float]] = []

    async def fail(arrival: Arrival[bytes]) -> None:
        tries.append((arrival.retries, time.monotonic()))
        raise OSError

    retries = Retries(3, (0.2, 0.4), "delayed_exchange")
    async with Listener(transport, queue, fail, retries=retries):
        [parked] = await taken(transport, f"{queue}.parked", 1)
    assert [count for count, _ in tries] == [0, 1, 2]
    assert tries[1][1] - tries[0][1] >= 0.2
    assert tries[2][1] - tries[1][1] >= 0.4
    assert parked.headers["x-retries"] == 2
    await transport.close()


@pytest.mark.parametrize("delays_s", [(), (0.05,)])
@in_event_loop
async def test_a_message_of_a_known_publisher_is_not_taken_for_its_own_repetition(
    warren: World, delays_s: tuple[float, ...]
) -> None:
    transport = await warren.open()
    headers = {"x-warren-publisher": "till", "x-warren-publishing-id": 1}
    queue = await queue_of(warren, transport, [Message(b"one", Properties(headers=headers, delivery_mode=2))])
    tries: list[int] = []

    async def fail(arrival: Arrival[bytes]) -> None:
        tries.append(arrival.retries)
        raise OSError

    async with Listener(transport, queue, fail, retries=Retries(4, delays_s)):
        await taken(transport, f"{queue}.parked", 1)
    assert tries == [0, 1, 2, 3]
    await transport.close()


@in_event_loop
async def test_a_failing_message_of_a_stream_is_retried_and_parked_and_the_reader_goes_on(warren: World) -> None:
    transport = await warren.open()
    bodies = [Message(b"%d" % number, Properties(headers={"x-key": "k"})) for number in range(5)]
    stream = await stream_of(warren, transport, bodies)
    tries: list[bytes] = []

    async def handle(arrival: Arrival[bytes]) -> None:
        tries.append(arrival.body)
        if arrival.body == b"1":
            raise OSError

    reading = StreamReading("stored", name="billing")
    async with Listener(transport, stream, handle, stream=reading, retries=Retries(3, (0.05,)), concurrency=2):
        await until(lambda: len(tries) == 7)
        [parked] = await taken(transport, f"{stream}.parked", 1)
    assert tries == [b"0", b"1", b"1", b"1", b"2", b"3", b"4"]
    assert parked.body == b"1"
    assert await transport.publish([Outgoing(Message(b"5"), stream)]) == [None]
    async with Listener(transport, stream, handle, stream=reading):
        await until(lambda: len(tries) > 7)
    assert tries[7:] == [b"5"]
    await transport.close()


@in_event_loop
async def test_a_stream_gives_only_what_its_filter_lets_through(warren: World) -> None:
    transport = await warren.open()
    countries = ["de", "fr", "it", "de"]
    bodies = [Message(each.encode(), Properties(headers={"x-stream-filter-value": each})) for each in countries]
    stream = await stream_of(warren, transport, bodies)
    seen: list[bytes] = []

    async def handle(arrival: Arrival[bytes]) -> None:
        seen.append(arrival.body)

    async with Listener(transport, stream, handle, stream=StreamReading("first", filter=("de", "it"))):
        await until(lambda: len(seen) == 3)
    assert seen == [b"de", b"it", b"de"]
    async with Puller(transport, stream, group_size=2, stream=StreamReading("first")) as puller:
        group = await puller.take(wait_s=20)
        assert [message.body for message in group] == [b"de", b"fr"]
        group.ack()
    await transport.close()


@in_event_loop
async def test_members_of_a_group_share_partitions_and_take_over_without_a_gap(warren: World) -> None:
    transport = await warren.open()
    keys = [b"%c" % letter for letter in b"abcdefghijkl"]
    bodies = [Message(b"%s%d" % (key, n), routing_key=key.decode()) for n in range(10) for key in keys]
    stream = await stream_of(warren, transport, bodies, partitions=3)
    seen: dict[str, list[bytes]] = {"one": [], "two": []}
    both_are_there = asyncio.Event()

    def member(name: str) -> Listener[bytes]:
        async def handle(arrival: Arrival[bytes]) -> None:
            if len(seen["one"]) == 20:
                await both_are_there.wait()
            seen[name].append(arrival.body)

        reading = StreamReading("first", group="billing", member=name)
        return Listener(transport, stream, handle, stream=reading, prefetch=5)

    one, two = member("one"), member("two")
    await one.start()
    await until(lambda: len(seen["one"]) == 20)
    await two.start()
    both_are_there.set()
    await until(lambda: seen["two"])
    await one.stop()
    await until(lambda: len(seen["one"]) + len(seen["two"]) == len(bodies))
    await two.stop()
    for key in keys:
        in_order = [body for body in seen["one"] + seen["two"] if body[:1] == key]
        assert in_order == [b"%s%d" % (key, number) for number in range(10)]
    await transport.close()


@in_event_loop
async def test_a_message_whose_headers_leave_no_room_in_a_frame_is_parked_by_its_body(warren: World) -> None:
    transport = await warren.open()
    full = Message(b"soup", Properties(headers={"large": "x" * 130_950}))
    queue = await queue_of(warren, transport, [full])
    tries = 0

    async def fail(arrival: Arrival[bytes]) -> None:
        nonlocal tries
        tries += 1
        raise OSError

    async with Listener(transport, queue, fail, retries=Retries(2, (0.1,))):
        [parked] = await taken(transport, f"{queue}.parked", 1)
    assert (parked.body, tries) == (b"soup", 1)
    assert sorted(parked.headers) == ["x-error", "x-origin-queue"]
    await transport.close()
