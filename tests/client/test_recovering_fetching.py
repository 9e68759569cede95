"""Messages that are fetched one by one; on Warren and on RabbitMQ."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from tests.client.conftest import run
from tests.client.recovery import contents, only, to, until
from warren.client import blocking, recovering
from warren.client.recovering.fetching import DESKS_MAX
from warren.client.testing import FaultProxy
from warren.client.transport import Layout, QueueLayout


@pytest.fixture(params=["warren", "rabbitmq"])
def at(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("url") if request.param == "warren" else request.getfixturevalue("rabbitmq").url)


@pytest.fixture
def names(at: str) -> Iterator[Callable[[int], list[str]]]:
    """As many queues as a test asks for, which are gone afterwards."""
    given: list[str] = []

    def of(count: int) -> list[str]:
        given.extend(f"fetching-{number}" for number in range(count))
        return given

    yield of
    with blocking.connect(at) as connection, connection.channel() as channel:
        for name in given:
            channel.delete_queue(name)


@pytest.mark.parametrize("no_ack", [False, True])
def test_a_message_that_comes_for_nobody_goes_back(at: str, names: Callable[[int], list[str]], no_ack: bool) -> None:
    [queue] = names(1)

    async def talk() -> None:
        async with FaultProxy(at) as proxy, await recovering.open(proxy.url) as transport:
            await transport.declare(only(queue))
            # the channel is there from now on
            assert await transport.get(queue, no_ack=no_ack) is None
            await transport.publish(to(queue, b"1", b"2"))
            for _ in range(3):
                proxy.stall("to_client")
                passed = proxy.bytes_passed("to_broker")
                call = asyncio.create_task(transport.get(queue, no_ack=no_ack))
                await until(lambda passed=passed: proxy.bytes_passed("to_broker") > passed)  # type: ignore[misc]
                call.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await call
                proxy.restore()
            found: list[bytes] = []
            while len(found) < 2:
                message = await transport.get(queue, no_ack=no_ack)
                if message is not None:
                    found.append(message.body)
                    if not no_ack:
                        message.ack()
            assert sorted(found) == [b"1", b"2"]
            assert await transport.get(queue) is None

    run(talk())


def test_of_many_who_ask_for_the_same_each_gets_a_message_of_its_own(
    at: str, names: Callable[[int], list[str]]
) -> None:
    [queue] = names(1)

    async def talk() -> None:
        async with await recovering.open(at) as transport:
            await transport.declare(only(queue))
            await transport.publish(to(queue, *(b"%02d" % number for number in range(20))))
            messages = await asyncio.gather(*(transport.get(queue) for _ in range(20)))
            assert sorted(message.body for message in messages if message) == [b"%02d" % at for at in range(20)]
            for message in messages:
                assert message is not None
                message.ack()
        async with await recovering.open(at) as transport:
            assert await contents(transport, queue) == []

    run(talk())


def test_looking_into_ever_other_queues_does_not_use_up_the_channels(
    at: str, names: Callable[[int], list[str]]
) -> None:
    queues = names(DESKS_MAX + 20)

    async def talk() -> None:
        async with await recovering.open(at.partition("?")[0] + f"?channel_max={DESKS_MAX + 8}") as transport:
            await transport.declare(Layout(queues=tuple(QueueLayout(queue) for queue in queues)))
            await transport.publish([to(queue, queue.encode())[0] for queue in queues])
            first = await transport.get(queues[0])
            assert first is not None
            for queue in queues[1:]:
                message = await transport.get(queue)
                assert message is not None
                assert message.body == queue.encode()
                message.ack()
            # what is in hand keeps its channel, however long ago that was used
            first.ack()
            for queue in queues:
                assert await transport.get(queue) is None

    run(talk())
