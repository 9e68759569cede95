"""A bridge from queue to queue, with nothing of a shovel's or an upstream's definition around it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from warren.bridges.bridge import Bridge, Life
from warren.bridges.carrying.carrier import carry
from warren.bridges.carrying.terms import Outgoing, Terms, properties_as_they_came
from warren.bridges.connecting import reach
from warren.bridges.host import Host
from warren.client import Delivery

RETIRED: list[str] = []
"""Those that were told that they are wanted no more."""


@dataclass(frozen=True)
class Relay(Bridge):
    """Both queues are there."""

    name: str
    source_url: str
    source: str
    destination_url: str
    destination: str
    terms: Terms = field(default_factory=Terms)
    delay_s: float = 0.05

    @property
    def key(self) -> str:
        return f"relay {self.name}"

    @property
    def reconnect_delay_s(self) -> float:
        return self.delay_s

    def describe(self) -> Mapping[str, object]:
        return {"kind": "relay", "name": self.name}

    async def live(self, life: Life) -> None:
        source = await reach(life.host, [self.source_url], "/", self.name)
        async with source.connection:
            destination = await reach(life.host, [self.destination_url], "/", self.name)
            async with destination.connection:
                life.is_up(source=source.uri, destination=destination.uri)
                await carry(source.connection, self.source, destination.connection, self._rewrite, self.terms, life)

    async def retire(self, host: Host, wanted: Collection[Bridge]) -> None:
        RETIRED.append(self.name)

    def _rewrite(self, delivery: Delivery) -> Outgoing:
        return Outgoing("", self.destination, properties_as_they_came(delivery), delivery.body)
