"""What stands in for a queue that sessions of this node cannot reach into: one of another node, or of several.

Code that is not compiled asks whether something is of one of the two kinds, never whether it is a `StandIn`: compiled
classes share what Python remembers of their abstract bases, and one such question would spoil others.

Not here: the two kinds of it (`remote.remote_queue`, `remote.seat`).
"""

from abc import abstractmethod

from mypy_extensions import i64

from warren.model.distant import COUNT, GET, GET_NO_ACK, DistantQueue
from warren.model.ports import Consumer
from warren.model.rings import Ring
from warren.wire.values import Table


class StandIn(DistantQueue):
    """Known by the node where the queue is."""

    def __init__(
        self,
        vhost: str,
        name: str,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        arguments: Table,
        owner_id: int,
        node: str,
    ) -> None:
        super().__init__(vhost, name, durable, exclusive, auto_delete, arguments, owner_id)
        self.node: str = node
        # who holds it, if it is mirrored
        self.ring: Ring | None = None
        # what was told last
        self._ready: i64 = 0
        self._consumers: i64 = 0

    @abstractmethod
    def consumers(self) -> list[Consumer]:
        """Those of this node."""

    @abstractmethod
    def rehome(self, node: str) -> None:
        """The queue is on another node from here on."""

    @abstractmethod
    def close(self) -> None:
        """The queue was deleted."""

    # -- figures

    def told(self, question: i64, ready: i64, consumers: i64) -> None:
        if question == COUNT:
            self._ready = ready
            self._consumers = consumers
        elif question in (GET, GET_NO_ACK):
            self._ready = ready

    def ready_count(self) -> int:
        return int(self._ready)

    def consumer_count(self) -> int:
        return int(self._consumers)
