"""A bridge from queue to queue, without the definition of a shovel or an upstream."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from warren.bridges.bridge import Bridge, BridgeRun
from warren.bridges.connections import connect_first
from warren.bridges.host import BridgeHost
from warren.bridges.transfer import transfer
from warren.bridges.transfer_options import RewrittenMessage, TransferOptions, raw_properties
from warren.client import Delivery

RETIRED: list[str] = []
"""The names of bridges that have retired."""


@dataclass(frozen=True)
class Relay(Bridge):
    """Both queues are there."""

    name: str
    source_url: str
    source: str
    destination_url: str
    destination: str
    terms: TransferOptions = field(default_factory=TransferOptions)
    delay_s: float = 0.05

    @property
    def key(self) -> str:
        return f"relay {self.name}"

    @property
    def reconnect_delay_s(self) -> float:
        return self.delay_s

    def describe(self) -> Mapping[str, object]:
        return {"kind": "relay", "name": self.name}

    async def live(self, life: BridgeRun) -> None:
        source = await connect_first(life.host, [self.source_url], "/", self.name, "")
        async with source.connection:
            destination = await connect_first(life.host, [self.destination_url], "/", self.name, "")
            async with destination.connection:
                life.is_up(source=source.uri, destination=destination.uri)
                await transfer(source.connection, self.source, destination.connection, self._rewrite, self.terms, life)

    async def retire(self, host: BridgeHost, wanted: Collection[Bridge]) -> None:
        RETIRED.append(self.name)

    def _rewrite(self, delivery: Delivery) -> RewrittenMessage:
        return RewrittenMessage("", self.destination, raw_properties(delivery), delivery.body)
