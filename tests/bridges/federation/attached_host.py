"""A bridge host with a separate node as its broker, over a socket; the test sets its bindings and consumers.

Not here: a node that is its own host.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.bridges.lone_host import LoneHost
from warren.bridges.bridge import Bridge
from warren.bridges.host import LocalBinding
from warren.bridges.supervisor import RUNNING, BridgeWorker
from warren.client import Connection, connect


class AttachedHost(LoneHost):
    def __init__(self, url: str, cluster_name: str) -> None:
        super().__init__()
        self.cluster_name = cluster_name
        self.bindings: list[LocalBinding] = []
        self.wants = True
        self._url = url

    def bindings_of(self, vhost: str, exchange: str) -> list[LocalBinding]:
        return list(self.bindings)

    def wants_more(self, vhost: str, queue: str) -> bool:
        return self.wants

    async def connect_here(self, vhost: str, name: str, user: str) -> Connection:
        return await connect(self._url)

    def bind(self, *keys: str) -> None:
        self.bindings += [LocalBinding(key, {}, False, "q") for key in keys]
        self.change()


@asynccontextmanager
async def running(host: LoneHost, link: Bridge) -> AsyncIterator[BridgeWorker]:
    """A running link; it must be up soon, and ends with the block."""
    keeper = BridgeWorker(host, link, lambda done: None)
    keeper.start()
    try:
        while keeper.state != RUNNING:
            assert not keeper.reason, keeper.reason
            await asyncio.sleep(0.01)
        yield keeper
    finally:
        await keeper.stop()
