"""How a transfer ends after one of its connections is lost, or after it is cancelled."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import pytest

from tests.bridges.conftest import url_of
from tests.bridges.lone_host import LoneHost, life_of
from tests.bridges.queue_pair import QueuePair, Unique, fill, queue_pair, to_queue
from tests.support.deadlines import in_event_loop, until
from tests.support.node_process import NodeProcess
from warren.bridges.bridge import BridgeRun
from warren.bridges.transfer import transfer
from warren.bridges.transfer_options import TransferOptions
from warren.client import ConnectionLost, connect
from warren.client.testing import FaultProxy

MEBIBYTES: Final = 48


@dataclass
class RunningTransfer:
    """A transfer between two proxies, and channels to the brokers behind them."""

    host: LoneHost
    life: BridgeRun
    carrying: "asyncio.Task[None]"
    near: FaultProxy
    far: FaultProxy
    queues: QueuePair

    async def publish_without_confirms(self, count: int) -> None:
        """Returns when the messages have been sent to the destination; its answers are held back."""
        self.far.stall("to_client")
        await fill(self.queues.filling, self.queues.source, count)
        await until(lambda: self.life.stats.published >= count, pause_s=0.001)


@asynccontextmanager
async def running_transfer(near: NodeProcess, far: NodeProcess, unique: Unique) -> AsyncIterator[RunningTransfer]:
    host = LoneHost()
    life = life_of(host)
    async with (
        FaultProxy(url_of(near)) as near_proxy,
        FaultProxy(url_of(far)) as far_proxy,
        queue_pair(url_of(near), url_of(far), unique) as queues,
    ):
        taken, given = await connect(near_proxy.url), await connect(far_proxy.url)
        rewrite = to_queue(queues.goal)
        carrying = asyncio.get_running_loop().create_task(
            transfer(taken, queues.source, given, rewrite, TransferOptions(), life)
        )
        await queues.until_consumed()
        try:
            yield RunningTransfer(host, life, carrying, near_proxy, far_proxy, queues)
        finally:
            carrying.cancel()
            near_proxy.cut()
            far_proxy.cut()
            await asyncio.gather(carrying, return_exceptions=True)
            await taken.close()
            await given.close()


@in_event_loop
async def test_a_transfer_that_is_cancelled_twice_still_names_the_messages_in_doubt(
    near: NodeProcess, far: NodeProcess, unique: Unique
) -> None:
    async with running_transfer(near, far, unique) as way:
        await way.publish_without_confirms(20)
        way.carrying.cancel()
        for _ in range(20):
            await asyncio.sleep(0)
        assert not way.carrying.done()
        way.carrying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await way.carrying
        assert way.host.log.doubted_ids() == {f"m{at}" for at in range(20)}
        assert way.life.stats.uncertain == 20


@in_event_loop
async def test_a_transfer_that_is_cancelled_waits_seconds_for_its_last_confirms(
    near: NodeProcess, far: NodeProcess, unique: Unique
) -> None:
    async with running_transfer(near, far, unique) as way:
        await way.publish_without_confirms(20)
        way.carrying.cancel()
        asyncio.get_running_loop().call_later(2.5, way.far.restore)
        with pytest.raises(asyncio.CancelledError):
            await way.carrying
        assert way.life.stats.confirmed == 20
        assert way.host.log.of("bridge.doubted") == []
        assert await way.queues.left() == 0


@in_event_loop
async def test_a_transfer_does_not_publish_messages_that_a_lost_source_will_deliver_again(
    near: NodeProcess, far: NodeProcess, unique: Unique
) -> None:
    async with running_transfer(near, far, unique) as way:
        way.far.stall("to_broker")
        # more than the socket to the destination takes, and less than the source's connection reads ahead: a client
        # that does not read notices a cut only by its next heartbeat
        body = bytes(1 << 20)
        for _ in range(MEBIBYTES):
            await way.queues.filling.send(body, routing_key=way.queues.source)
        await way.queues.filling.wait_for_confirms()
        await until(lambda: way.life.stats.published >= 1, pause_s=0.001)
        way.near.cut()
        # the destination accepts no more, and the transfer does not read from the source
        with pytest.raises(ConnectionLost):
            async with asyncio.timeout(10):
                await way.carrying
        assert way.life.stats.published < MEBIBYTES
