"""What is routed, and where it turned out to go.

A queue may have copies (`routing.copying`). They follow from it and not from the exchange: a copy is given what a queue
takes that it copies, and nothing that this one refuses at once. So whoever publishes goes through `Recipients`, and
tells which of them took the message.

Invariants: a `Route` names each queue once, in an order that only the history of the topology decides. A cacheable
one depends on nothing but the exchange and the routing keys, and holds until `Topology.version` moves. Copies alone
are no route: without queues there are none.

Not here: how a route is found (`routing.topology`), how long one is remembered (`session.publishing`).
"""

from typing import TYPE_CHECKING, final

from warren.model.message import Message
from warren.model.ports import QueuePort
from warren.wire.properties import Properties
from warren.wire.values import Table

if TYPE_CHECKING:
    from warren.routing.exchange import Exchange

Copies = dict[QueuePort, list[QueuePort]]
"""Of queues that are copied: by which."""


@final
class Route:
    """The queues a message is for, their copies, and the delaying exchanges that keep it until it is due."""

    def __init__(self, queues: list[QueuePort], delayed: "list[Exchange]", cacheable: bool) -> None:
        self.queues: list[QueuePort] = queues
        self.delayed: list[Exchange] = delayed
        self.cacheable: bool = cacheable
        # None if none of the queues has any
        self.copies: Copies | None = None


@final
class Recipients:
    """The queues that one message is given to, one after the other; `row` grows while it is gone through."""

    def __init__(self, queues: list[QueuePort], copies: Copies | None) -> None:
        self.row: list[QueuePort] = queues if copies is None else list(queues)
        self._copies: Copies | None = copies
        self._known: dict[QueuePort, None] | None = None if copies is None else dict.fromkeys(queues)

    def taken_by(self, queue: QueuePort) -> None:
        """It has the message, or will: its copies are next, those that are not in the row already."""
        if self._copies is None or self._known is None:
            return
        for copy in self._copies.get(queue, []):
            if copy not in self._known:
                self._known[copy] = None
                self.row.append(copy)


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
