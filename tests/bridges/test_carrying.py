"""Messages are transferred from a queue of one broker to another broker, Warren or RabbitMQ, whole and in order."""

import asyncio

import pytest

from tests.bridges.conftest import url_of
from tests.bridges.lone_host import LoneHost, life_of
from tests.bridges.queue_pair import Unique, fill, queue_pair, take, to_queue
from tests.support.deadlines import in_event_loop, run, until
from tests.support.node_process import NodeProcess
from tests.support.rabbitmq import RabbitMQ
from warren.bridges.bridge import BridgeRun
from warren.bridges.transfer import ConsumptionGate, transfer
from warren.bridges.transfer_options import AckMode, RewrittenMessage, TransferOptions
from warren.client import ChannelClosed, ClientError, ConsumerCancelled, Delivery, connect


async def shovel(
    source: str, destination: str, unique: Unique, terms: TransferOptions, count: int
) -> tuple[list[Delivery], BridgeRun]:
    """Transfer as many of `count` messages as `terms` allow; the messages that arrive, and the run."""
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


@in_event_loop
async def test_a_message_that_the_rewrite_drops_is_acked_and_not_published(
    near: NodeProcess, far: NodeProcess, unique: Unique
) -> None:
    life = life_of(LoneHost())
    async with queue_pair(url_of(near), url_of(far), unique) as pair:
        await fill(pair.filling, pair.source, 100)

        def odd_ones(delivery: Delivery) -> RewrittenMessage | None:
            return to_queue(pair.goal)(delivery) if int(delivery.body) % 2 else None

        await transfer(pair.here, pair.source, pair.there, odd_ones, TransferOptions(limit=50), life)
        arrived = [delivery.body for delivery in await take(pair.taking, pair.goal, 50)]
        assert arrived == [b"%d" % at for at in range(1, 100, 2)]
        # the last odd one ends the transfer; all even ones before it were acked
        assert await pair.left() == 0
        assert life.stats.dropped == 50


@in_event_loop
async def test_a_message_that_a_full_queue_refuses_stays_at_the_source_and_is_transferred_later(
    near: NodeProcess, far: NodeProcess, unique: Unique
) -> None:
    life = life_of(LoneHost())
    full = {"x-max-length": 10, "x-overflow": "reject-publish"}
    async with queue_pair(url_of(near), url_of(far), unique, full) as pair:
        await fill(pair.filling, pair.source, 30)
        options = TransferOptions(limit=30, prefetch=30)
        carrying = asyncio.ensure_future(
            transfer(pair.here, pair.source, pair.there, to_queue(pair.goal), options, life)
        )
        # 20 refusals are all: a consumer that takes sooner makes room for messages that are still under way
        await until(lambda: life.stats.refused >= 20)
        arrived = await take(pair.taking, pair.goal, 30)
        await carrying
    assert {delivery.body for delivery in arrived} == {b"%d" % at for at in range(30)}
    assert life.stats.confirmed == 30


@in_event_loop
async def test_a_message_that_cannot_be_routed_ends_the_transfer_and_stays_at_the_source(
    near: NodeProcess, far: NodeProcess, unique: Unique
) -> None:
    said = "no queue for messages published to exchange '' with routing key 'nowhere'"
    async with queue_pair(url_of(near), url_of(far), unique) as pair:
        await fill(pair.filling, pair.source, 5)
        options, life = TransferOptions(mandatory=True), life_of(LoneHost())
        with pytest.raises(ClientError, match=said):
            await transfer(pair.here, pair.source, pair.there, to_queue("nowhere"), options, life)
        assert await pair.left() == 5


@in_event_loop
async def test_a_missing_exchange_ends_the_transfer_with_the_brokers_reason(
    near: NodeProcess, far: NodeProcess, unique: Unique
) -> None:
    async with queue_pair(url_of(near), url_of(far), unique) as pair:
        await fill(pair.filling, pair.source, 1)
        rewrite = lambda delivery: RewrittenMessage("missing", "", b"\0\0", delivery.body)  # noqa: E731
        with pytest.raises(ChannelClosed, match="NOT_FOUND - no exchange 'missing'"):
            await transfer(pair.here, pair.source, pair.there, rewrite, TransferOptions(), life_of(LoneHost()))
        assert await pair.left() == 1


@in_event_loop
async def test_a_source_queue_that_is_deleted_ends_the_transfer_and_is_named(
    near: NodeProcess, far: NodeProcess, unique: Unique
) -> None:
    async with queue_pair(url_of(near), url_of(far), unique) as pair:
        carrying = asyncio.ensure_future(
            transfer(pair.here, pair.source, pair.there, to_queue("goal"), TransferOptions(), life_of(LoneHost()))
        )
        await pair.until_consumed()
        await pair.filling.delete_queue(pair.source)
        with pytest.raises(ConsumerCancelled, match=f"the consumer of queue '{pair.source}': it was deleted"):
            await carrying


@in_event_loop
async def test_without_acks_all_messages_are_transferred_in_order(
    near: NodeProcess, far: NodeProcess, unique: Unique
) -> None:
    async with queue_pair(url_of(near), url_of(far), unique) as pair:
        await fill(pair.filling, pair.source, 3000)
        options, life = TransferOptions(ack_mode="no-ack"), life_of(LoneHost())
        carrying = asyncio.ensure_future(
            transfer(pair.here, pair.source, pair.there, to_queue(pair.goal), options, life)
        )
        arrived = [delivery.body for delivery in await take(pair.taking, pair.goal, 3000)]
        carrying.cancel()
        await asyncio.gather(carrying, return_exceptions=True)
        assert arrived == [b"%d" % at for at in range(3000)]


@in_event_loop
async def test_a_closed_gate_lets_no_message_through_until_it_is_opened(
    near: NodeProcess, far: NodeProcess, unique: Unique
) -> None:
    life, gate = life_of(LoneHost()), ConsumptionGate()
    async with queue_pair(url_of(near), url_of(far), unique) as pair:
        options = TransferOptions(limit=20)
        carrying = asyncio.ensure_future(
            transfer(pair.here, pair.source, pair.there, to_queue(pair.goal), options, life, gate)
        )
        await fill(pair.filling, pair.source, 10)
        await take(pair.taking, pair.goal, 10)
        gate.turn(False)
        while await pair.consumers():
            await asyncio.sleep(0.01)
        await fill(pair.filling, pair.source, 10)
        assert await pair.left() == 10
        gate.turn(True)
        await take(pair.taking, pair.goal, 10)
        await carrying


@in_event_loop
async def test_a_transfer_that_is_stopped_leaves_no_message_in_doubt(
    near: NodeProcess, far: NodeProcess, unique: Unique
) -> None:
    host = LoneHost()
    life = life_of(host)
    async with queue_pair(url_of(near), url_of(far), unique) as pair:
        await fill(pair.filling, pair.source, 20_000)
        options = TransferOptions(prefetch=500)
        carrying = asyncio.ensure_future(
            transfer(pair.here, pair.source, pair.there, to_queue(pair.goal), options, life)
        )
        await until(lambda: life.stats.published >= 3000, pause_s=0.001)
        carrying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await carrying
        arrived, left = await pair.arrived(), await pair.left()
        assert 3000 <= arrived < 20_000
        assert arrived + left == 20_000
        assert host.log.of("bridge.doubted") == []
