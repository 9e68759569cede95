"""Messages are carried from a queue of one broker to another broker, whichever it is, in order and whole."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from tests.bridges.conftest import url_of
from tests.bridges.lone_host import LoneHost, life_of
from tests.support.node_process import NodeProcess
from tests.support.rabbitmq import RabbitMQ
from warren.bridges.bridge import BridgeRun
from warren.bridges.transfer import ConsumptionGate, transfer
from warren.bridges.transfer_options import AckMode, Rewrite, RewrittenMessage, TransferOptions, raw_properties
from warren.client import Channel, ChannelClosed, ClientError, ConsumerCancelled, Delivery, Message, Properties, connect

Unique = Callable[[str], str]
T = TypeVar("T")
DEADLINE_S = 60.0


def run(work: Coroutine[Any, Any, T]) -> T:
    async def within() -> T:
        async with asyncio.timeout(DEADLINE_S):
            return await work

    return asyncio.run(within())


def to_queue(name: str) -> Rewrite:
    def rewrite(delivery: Delivery) -> RewrittenMessage:
        return RewrittenMessage("", name, raw_properties(delivery), delivery.body)

    return rewrite


async def fill(channel: Channel, queue: str, count: int) -> None:
    """Messages with ids, in order."""
    messages = [Message(b"%d" % at, Properties(message_id=f"m{at}", delivery_mode=2)) for at in range(count)]
    await channel.send_many(messages, routing_key=queue)
    await channel.wait_for_confirms()


async def take(channel: Channel, queue: str, count: int) -> list[Delivery]:
    """So many messages, which are all there are in the end."""
    consumer = await channel.consume(queue, no_ack=True)
    taken: list[Delivery] = []
    while len(taken) < count:
        taken += await consumer.batch()
    await consumer.cancel()
    return taken


async def shovel(
    source: str, destination: str, unique: Unique, terms: TransferOptions, count: int
) -> tuple[list[Delivery], BridgeRun]:
    """What arrives when as many as `terms` allow of so many are carried; and how many are left."""
    life = life_of(LoneHost())
    async with await connect(source) as here, await connect(destination) as there:
        from_queue, goal = unique("source"), unique("destination")
        filling, taking = await here.channel(confirms=True), await there.channel(confirms=True)
        await filling.declare_queue(from_queue, durable=True)
        await taking.declare_queue(goal, durable=True)
        await fill(filling, from_queue, count)
        assert terms.limit is not None
        await transfer(here, from_queue, there, to_queue(goal), terms, life)
        arrived = await take(taking, goal, terms.limit)
        left = (await filling.declare_queue(from_queue, durable=True)).messages
        assert left == count - terms.limit
        await filling.delete_queue(from_queue)
        await taking.delete_queue(goal)
    return arrived, life


@pytest.mark.parametrize("ack_mode", ["on-confirm", "on-publish", "no-ack"])
def test_a_number_of_messages_is_carried_in_order_and_no_more(
    near: NodeProcess, far: NodeProcess, unique: Unique, ack_mode: AckMode
) -> None:
    terms = TransferOptions(ack_mode=ack_mode, prefetch=100, limit=2500)
    arrived, life = run(shovel(url_of(near), url_of(far), unique, terms, 3000))

    assert [delivery.body for delivery in arrived] == [b"%d" % at for at in range(2500)]
    assert arrived[7].properties.message_id == "m7"
    assert arrived[7].properties.delivery_mode == 2
    assert life.stats.published == 2500
    assert life.stats.uncertain == 0


def test_a_bridge_leads_from_rabbitmq_to_warren_and_back(near: NodeProcess, rabbitmq: RabbitMQ, unique: Unique) -> None:
    terms = TransferOptions(limit=5000)
    arrived, _ = run(shovel(rabbitmq.url, url_of(near), unique, terms, 5000))
    assert [delivery.body for delivery in arrived] == [b"%d" % at for at in range(5000)]

    arrived, _ = run(shovel(url_of(near), rabbitmq.url, unique, terms, 5000))
    assert [delivery.body for delivery in arrived] == [b"%d" % at for at in range(5000)]


def test_what_a_rewrite_does_not_want_is_acked_and_goes_nowhere(
    near: NodeProcess, far: NodeProcess, unique: Unique
) -> None:
    async def scenario() -> tuple[list[bytes], int, int]:
        life = life_of(LoneHost())
        async with await connect(url_of(near)) as here, await connect(url_of(far)) as there:
            source, goal = unique("source"), unique("destination")
            filling, taking = await here.channel(confirms=True), await there.channel()
            await filling.declare_queue(source)
            await taking.declare_queue(goal)
            await fill(filling, source, 100)

            def odd_ones(delivery: Delivery) -> RewrittenMessage | None:
                return to_queue(goal)(delivery) if int(delivery.body) % 2 else None

            await transfer(here, source, there, odd_ones, TransferOptions(limit=50), life)
            arrived = [delivery.body for delivery in await take(taking, goal, 50)]
            left = (await filling.declare_queue(source)).messages
            return arrived, left, life.stats.dropped

    arrived, left, dropped = run(scenario())
    assert arrived == [b"%d" % at for at in range(1, 100, 2)]
    # the last odd one ends it; all even ones before it were acked
    assert (left, dropped) == (0, 50)


def test_what_a_full_queue_refuses_stays_at_the_source_and_comes_later(
    near: NodeProcess, far: NodeProcess, unique: Unique
) -> None:
    async def scenario() -> tuple[set[bytes], BridgeRun]:
        life = life_of(LoneHost())
        async with await connect(url_of(near)) as here, await connect(url_of(far)) as there:
            source, goal = unique("source"), unique("destination")
            filling, taking = await here.channel(confirms=True), await there.channel()
            await filling.declare_queue(source)
            await taking.declare_queue(goal, arguments={"x-max-length": 10, "x-overflow": "reject-publish"})
            await fill(filling, source, 30)
            carrying = asyncio.ensure_future(
                transfer(here, source, there, to_queue(goal), TransferOptions(limit=30, prefetch=30), life)
            )
            # all it has no room for: who takes sooner makes room for some that are still on their way
            while life.stats.refused < 20:
                await asyncio.sleep(0.01)
            arrived = await take(taking, goal, 30)
            await carrying
            return {delivery.body for delivery in arrived}, life

    arrived, life = run(scenario())
    assert arrived == {b"%d" % at for at in range(30)}
    assert life.stats.confirmed == 30


def test_what_no_queue_takes_ends_the_life_and_stays_at_the_source(
    near: NodeProcess, far: NodeProcess, unique: Unique
) -> None:
    async def scenario() -> tuple[str, int]:
        life = life_of(LoneHost())
        async with await connect(url_of(near)) as here, await connect(url_of(far)) as there:
            source = unique("source")
            filling = await here.channel(confirms=True)
            await filling.declare_queue(source)
            await fill(filling, source, 5)
            with pytest.raises(ClientError) as raised:
                await transfer(here, source, there, to_queue("nowhere"), TransferOptions(mandatory=True), life)
            left = (await filling.declare_queue(source)).messages
            return str(raised.value), left

    sentence, left = run(scenario())
    assert "no queue for messages published to exchange '' with routing key 'nowhere'" in sentence
    assert left == 5


def test_an_exchange_that_is_missing_ends_the_life_in_the_brokers_words(
    near: NodeProcess, far: NodeProcess, unique: Unique
) -> None:
    async def scenario() -> None:
        async with await connect(url_of(near)) as here, await connect(url_of(far)) as there:
            source = unique("source")
            filling = await here.channel(confirms=True)
            await filling.declare_queue(source)
            await fill(filling, source, 1)
            rewrite = lambda delivery: RewrittenMessage("missing", "", b"\0\0", delivery.body)  # noqa: E731
            with pytest.raises(ChannelClosed, match="NOT_FOUND - no exchange 'missing'"):
                await transfer(here, source, there, rewrite, TransferOptions(), life_of(LoneHost()))
            assert (await filling.declare_queue(source)).messages == 1

    run(scenario())


def test_a_source_queue_that_is_deleted_ends_the_life_and_is_named(
    near: NodeProcess, far: NodeProcess, unique: Unique
) -> None:
    async def scenario() -> None:
        async with await connect(url_of(near)) as here, await connect(url_of(far)) as there:
            source = unique("source")
            deleting = await here.channel(confirms=True)
            await deleting.declare_queue(source)
            carrying = asyncio.ensure_future(
                transfer(here, source, there, to_queue("goal"), TransferOptions(), life_of(LoneHost()))
            )
            while not (await deleting.declare_queue(source)).consumers:
                await asyncio.sleep(0.01)
            await deleting.delete_queue(source)
            with pytest.raises(ConsumerCancelled, match=f"the consumer of queue '{source}': it was deleted"):
                await carrying

    run(scenario())


def test_without_acks_everything_is_carried_while_nothing_is_lost(
    near: NodeProcess, far: NodeProcess, unique: Unique
) -> None:
    async def scenario() -> list[bytes]:
        async with await connect(url_of(near)) as here, await connect(url_of(far)) as there:
            source, goal = unique("source"), unique("destination")
            filling, taking = await here.channel(confirms=True), await there.channel()
            await filling.declare_queue(source)
            await taking.declare_queue(goal)
            await fill(filling, source, 3000)
            carrying = asyncio.ensure_future(
                transfer(here, source, there, to_queue(goal), TransferOptions(ack_mode="no-ack"), life_of(LoneHost()))
            )
            arrived = [delivery.body for delivery in await take(taking, goal, 3000)]
            carrying.cancel()
            await asyncio.gather(carrying, return_exceptions=True)
            return arrived

    assert run(scenario()) == [b"%d" % at for at in range(3000)]


def test_a_tap_that_is_shut_lets_nothing_through_until_it_is_opened(
    near: NodeProcess, far: NodeProcess, unique: Unique
) -> None:
    async def scenario() -> None:
        life, tap = life_of(LoneHost()), ConsumptionGate()
        async with await connect(url_of(near)) as here, await connect(url_of(far)) as there:
            source, goal = unique("source"), unique("destination")
            filling, taking = await here.channel(confirms=True), await there.channel()
            await filling.declare_queue(source)
            await taking.declare_queue(goal)
            carrying = asyncio.ensure_future(
                transfer(here, source, there, to_queue(goal), TransferOptions(limit=20), life, tap)
            )
            await fill(filling, source, 10)
            await take(taking, goal, 10)
            tap.turn(False)
            while (await filling.declare_queue(source)).consumers:
                await asyncio.sleep(0.01)
            await fill(filling, source, 10)
            assert (await filling.declare_queue(source)).messages == 10
            tap.turn(True)
            await take(taking, goal, 10)
            await carrying

    run(scenario())


def test_one_that_is_stopped_leaves_nothing_in_doubt(near: NodeProcess, far: NodeProcess, unique: Unique) -> None:
    async def scenario() -> None:
        host = LoneHost()
        life = life_of(host)
        async with await connect(url_of(near)) as here, await connect(url_of(far)) as there:
            source, goal = unique("source"), unique("destination")
            filling, taking = await here.channel(confirms=True), await there.channel()
            await filling.declare_queue(source)
            await taking.declare_queue(goal)
            await fill(filling, source, 20_000)
            carrying = asyncio.ensure_future(
                transfer(here, source, there, to_queue(goal), TransferOptions(prefetch=500), life)
            )
            while life.stats.published < 3000:
                await asyncio.sleep(0.001)
            carrying.cancel()
            with pytest.raises(asyncio.CancelledError):
                await carrying
            arrived = (await taking.declare_queue(goal)).messages
            left = (await filling.declare_queue(source)).messages
            assert 3000 <= arrived < 20_000
            assert arrived + left == 20_000
            assert host.log.of("bridge.doubted") == []

    run(scenario())
