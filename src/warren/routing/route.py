"""What is routed, and where it turned out to go.

Invariants: a `Route` names each queue once, in an order that only the history of the topology decides. A cacheable
one depends on nothing but the exchange and the routing keys, and holds until `Topology.version` moves.

Not here: how a route is found (`routing.topology`), how long one is remembered (`session.publishing`).
"""

from typing import TYPE_CHECKING, final

from warren.model.message import Message
from warren.model.ports import QueuePort
from warren.wire.properties import Properties
from warren.wire.values import Table

if TYPE_CHECKING:
    from warren.routing.exchange import Exchange


@final
class Route:
    """The queues a message is for, and the delaying exchanges that keep it until it is due."""

    def __init__(self, queues: list[QueuePort], delayed: "list[Exchange]", cacheable: bool) -> None:
        self.queues: list[QueuePort] = queues
        self.delayed: list[Exchange] = delayed
        self.cacheable: bool = cacheable


@final
class Subject:
    """What is being routed: its routing keys (the published one first), and its properties, decoded at most once."""

    def __init__(self, routing_keys: list[str], message: Message | None) -> None:
        self.routing_keys: list[str] = routing_keys
        self.message: Message | None = message
        self._properties: Properties | None = None

    def properties(self) -> Properties | None:
        """The content properties; nothing for a route that is asked without a message."""
        if self._properties is None and self.message is not None:
            self._properties = self.message.properties()
        return self._properties

    def headers(self) -> Table:
        properties = self.properties()
        if properties is None or properties.headers is None:
            return {}
        return properties.headers
