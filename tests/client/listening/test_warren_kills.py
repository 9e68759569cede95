"""Brokers that are killed while listeners work: no message is lost, and listeners go on."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.client.conftest import url_of
from tests.client.listening.worlds import World, fill, queue_of
from tests.support.deadlines import in_event_loop, until
from tests.support.node_process import NodeProcess
from tests.support.rabbitmq import RabbitMQ
from warren.client import Message, Properties
from warren.client.listening import Arrival, Listener, Retries

COUNT = 300
TRIES = 3
# a killed broker may take its time to come back, and its clients to try again
DEADLINE_S = 120.0


@pytest.fixture(params=["warren", "rabbitmq"])
def killed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[World, Callable[[], None]]]:
    """A broker of the test's own, and functions that kill and start it."""
    if request.param == "warren":
        node = NodeProcess(tmp_path / "node")
        yield World(url_of(node.amqp)), node.crash
        node.kill()
        return
    server = RabbitMQ()

    def crash() -> None:
        server.kill()
        server.start()

    yield World(server.url), crash
    server.close()


def order(number: int) -> Message:
    properties = Properties(message_id=str(number), delivery_mode=2, headers={"x-key": str(number % 7)})
    return Message(b"order", properties)


@in_event_loop
async def test_every_message_is_handled_or_parked_whenever_the_broker_dies(
    killed: tuple[World, Callable[[], None]],
) -> None:
    world, crash = killed
    transport = await world.open()
    queue = await queue_of(world, transport, [order(number) for number in range(COUNT)])
    handled: Counter[str] = Counter()
    tries = 0

    async def handle(arrival: Arrival[bytes]) -> None:
        nonlocal tries
        tries += 1
        await asyncio.sleep(0.002)
        number = int(arrival.properties.message_id or "")
        if number % 10 == 0 or (number % 3 == 0 and arrival.retries == 0):
            raise OSError("not this time")
        handled[str(number)] += 1

    listener = Listener(transport, queue, handle, concurrency=4, prefetch=40, retries=Retries(TRIES, (0.05, 0.1)))
    async with listener:
        for threshold in (COUNT // 4, COUNT // 2):
            await until(lambda least=threshold: tries >= least, DEADLINE_S)  # type: ignore[misc]
            await asyncio.to_thread(crash)
        poison = {str(number) for number in range(0, COUNT, 10)}
        await until(lambda: len(handled) == COUNT - len(poison), DEADLINE_S)
        parked = await all_parked(world, queue, poison)
    assert set(handled) == {str(number) for number in range(COUNT)} - poison
    assert parked.keys() == poison
    await transport.close()


async def all_parked(world: World, queue: str, expected: set[str]) -> Counter[str]:
    """The messages of the parking queue, when all expected ones are there."""
    transport = await world.open()
    found: Counter[str] = Counter()
    async with asyncio.timeout(DEADLINE_S):
        while found.keys() != expected:
            message = await transport.get(f"{queue}.parked")
            if message is None:
                await asyncio.sleep(0.01)
                continue
            message.ack()
            assert message.headers["x-retries"] == TRIES - 1
            found[message.properties.message_id or ""] += 1
    await transport.close()
    return found


@in_event_loop
async def test_a_listener_goes_on_where_it_was_when_its_broker_is_back(
    killed: tuple[World, Callable[[], None]],
) -> None:
    world, crash = killed
    transport = await world.open()
    queue = await queue_of(world, transport, [order(number) for number in range(3)])
    seen: list[str] = []

    async def handle(arrival: Arrival[bytes]) -> None:
        seen.append(arrival.properties.message_id or "")

    async with Listener(transport, queue, handle):
        await until(lambda: len(seen) >= 3, DEADLINE_S)
        await asyncio.to_thread(crash)
        await fill(transport, queue, [order(3)])
        await until(lambda: "3" in seen, DEADLINE_S)
    await transport.close()
