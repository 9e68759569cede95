"""Messages that wait at a delayed exchange for their next try, while the node is killed or the queue is deleted.

Only Warren has such exchanges without a plugin.
"""

import asyncio
from collections.abc import Callable

import pytest

from tests.client.conftest import url_of
from tests.client.listening.worlds import World, queue_of, taken
from tests.support.deadlines import in_event_loop, run, until
from tests.support.node_process import NodeProcess
from warren.client import blocking
from warren.client.blocking import Channel
from warren.client.listening import Arrival, Listener, Retries

# there is something to do before it is over
LATER = Retries(2, (4.0,), "delayed_exchange")


def moved(listener: Listener[bytes]) -> int:
    """How many messages the exchange has confirmed."""
    [count] = [each for each in listener.measures() if each.name == "warren.client.retried.messages"]
    return int(sum(value for value, _ in count.read()))


@in_event_loop
async def test_a_message_that_waits_at_a_delayed_exchange_outlives_the_kill_of_its_node(
    start: Callable[..., NodeProcess],
) -> None:
    node = start()
    world = World(url_of(node.amqp))
    transport = await world.open()
    queue = await queue_of(world, transport, [b"late"])
    tries: list[int] = []

    async def fail_once(arrival: Arrival[bytes]) -> None:
        tries.append(arrival.retries)
        if not arrival.retries:
            raise OSError

    listener = Listener(transport, queue, fail_once, retries=LATER)
    async with listener:
        await until(lambda: moved(listener) == 1)
        await asyncio.to_thread(node.crash)
        await until(lambda: tries[:2] == [0, 1])
    await transport.close()


def unbind(channel: Channel, queue: str) -> None:
    channel.unbind_queue(queue, f"{queue}.delayed", queue)


def delete(channel: Channel, queue: str) -> None:
    channel.delete_queue(queue)


@pytest.mark.parametrize("lose", [unbind, delete])
def test_a_message_whose_queue_is_not_there_when_it_is_due_is_parked(
    url: str, lose: Callable[[Channel, str], None]
) -> None:
    world = World(url)

    async def scenario() -> None:
        transport = await world.open()
        queue = await queue_of(world, transport, [b"late"])

        async def fail(arrival: Arrival[bytes]) -> None:
            raise OSError("no oven")

        listener = Listener(transport, queue, fail, retries=LATER)
        async with listener:
            await until(lambda: moved(listener) == 1)

        def change() -> None:
            with blocking.connect(url) as connection, connection.channel() as channel:
                lose(channel, queue)

        await asyncio.to_thread(change)
        [parked] = await taken(transport, f"{queue}.parked", 1)
        assert (parked.body, parked.headers["x-origin-queue"], parked.headers["x-retries"]) == (b"late", queue, 1)
        assert "no oven" in str(parked.headers["x-error"])
        await transport.close()

    run(scenario())
    world.tidy()
