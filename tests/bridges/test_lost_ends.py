"""What a carry does between the loss of an end, or the word to end, and its own end."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from tests.bridges.conftest import url_of
from tests.bridges.lone_host import LoneHost, life_of
from tests.bridges.test_carrying import fill, run, to_queue
from tests.support.node_process import NodeProcess
from warren.bridges.bridge import BridgeRun
from warren.bridges.transfer import transfer
from warren.bridges.transfer_options import TransferOptions
from warren.client import Channel, ConnectionLost, connect
from warren.client.testing import FaultProxy

Unique = Callable[[str], str]


@dataclass
class Way:
    """A carry under way between two proxies, and channels to the brokers behind them."""

    host: LoneHost
    life: BridgeRun
    carrying: "asyncio.Task[None]"
    near: FaultProxy
    far: FaultProxy
    filling: Channel
    taking: Channel
    source: str
    goal: str

    async def lengths(self) -> tuple[int, int]:
        return (
            (await self.filling.declare_queue(self.source)).messages,
            (await self.taking.declare_queue(self.goal)).messages,
        )


@asynccontextmanager
async def under_way(near: NodeProcess, far: NodeProcess, unique: Unique, terms: TransferOptions) -> AsyncIterator[Way]:
    host = LoneHost()
    life = life_of(host)
    source, goal = unique("source"), unique("destination")
    async with (
        FaultProxy(url_of(near)) as near_proxy,
        FaultProxy(url_of(far)) as far_proxy,
        await connect(url_of(near)) as here,
        await connect(url_of(far)) as there,
    ):
        filling, taking = await here.channel(confirms=True), await there.channel()
        await filling.declare_queue(source)
        await taking.declare_queue(goal)
        taken, given = await connect(near_proxy.url), await connect(far_proxy.url)
        carrying = asyncio.get_running_loop().create_task(transfer(taken, source, given, to_queue(goal), terms, life))
        while not (await filling.declare_queue(source)).consumers:
            await asyncio.sleep(0.001)
        yield Way(host, life, carrying, near_proxy, far_proxy, filling, taking, source, goal)
        carrying.cancel()
        near_proxy.cut()
        far_proxy.cut()
        await asyncio.gather(carrying, return_exceptions=True)
        await taken.close()
        await given.close()
        await filling.delete_queue(source)
        await taking.delete_queue(goal)


def test_one_that_is_told_twice_to_end_names_what_is_in_doubt_all_the_same(
    near: NodeProcess, far: NodeProcess, unique: Unique
) -> None:
    async def scenario() -> None:
        async with under_way(near, far, unique, TransferOptions()) as way:
            # confirms do not come
            way.far.stall("to_client")
            await fill(way.filling, way.source, 20)
            while way.life.stats.published < 20:
                await asyncio.sleep(0.001)
            way.carrying.cancel()
            for _ in range(20):
                await asyncio.sleep(0)
            assert not way.carrying.done()
            way.carrying.cancel()
            with pytest.raises(asyncio.CancelledError):
                await way.carrying
            assert way.host.log.doubted_ids() == {f"m{at}" for at in range(20)}
            assert way.life.stats.uncertain == 20

    run(scenario())


def test_one_that_is_told_to_end_waits_seconds_for_its_last_confirms(
    near: NodeProcess, far: NodeProcess, unique: Unique
) -> None:
    async def scenario() -> None:
        async with under_way(near, far, unique, TransferOptions()) as way:
            way.far.stall("to_client")
            await fill(way.filling, way.source, 20)
            while way.life.stats.published < 20:
                await asyncio.sleep(0.001)
            way.carrying.cancel()
            asyncio.get_running_loop().call_later(2.5, way.far.restore)
            with pytest.raises(asyncio.CancelledError):
                await way.carrying
            assert way.life.stats.confirmed == 20
            assert way.host.log.of("bridge.doubted") == []
            assert (await way.filling.declare_queue(way.source)).messages == 0

    run(scenario())


def test_nothing_is_published_that_a_lost_source_will_deliver_again(
    near: NodeProcess, far: NodeProcess, unique: Unique
) -> None:
    async def scenario() -> None:
        async with under_way(near, far, unique, TransferOptions()) as way:
            way.far.stall("to_broker")
            # more than the socket takes
            body = bytes(1 << 20)
            for _ in range(200):
                await way.filling.send(body, routing_key=way.source)
            await way.filling.wait_for_confirms()
            while way.life.stats.published < 1:
                await asyncio.sleep(0.001)
            way.near.cut()
            # although nobody reads from it, and the destination takes no more
            with pytest.raises(ConnectionLost):
                async with asyncio.timeout(10):
                    await way.carrying
            assert way.life.stats.published < 200

    run(scenario())
