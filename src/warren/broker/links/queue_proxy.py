"""What stands in for a queue that sessions of this node cannot reach into: one of another node, or of several.

Code that is not compiled asks whether something is of one of the two kinds, never whether it is a `QueueProxy`:
compiled classes share what Python remembers of their abstract bases, and one such question would spoil others.

Not here: the two kinds of it (`broker.links.remote_queue`, `broker.links.mirrored_queue_proxy`).

Whoever uses a mirrored queue, as the way to one of its masters sees it.

Not here: the two of them (`broker.links.mirrored_queue_proxy`, `broker.links.remote_queue`).
"""

from abc import abstractmethod

from mypy_extensions import i64, trait

from warren.broker.model.ports import ConsumerPort
from warren.broker.model.remote_queue import COUNT, GET, GET_NO_ACK, RemoteQueuePort
from warren.broker.model.replica_set import ReplicaSet
from warren.wire.field_tables import Table


class QueueProxy(RemoteQueuePort):
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
        self.replica_set: ReplicaSet | None = None
        # what was told last
        self._ready: i64 = 0
        self._consumers: i64 = 0

    @abstractmethod
    def consumers(self) -> list[ConsumerPort]:
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


@trait
class MasterListener:
    """Told when a master can be used, and when it cannot any more."""

    @abstractmethod
    def opened(self, mark: i64, known: bool, epoch: i64) -> None:
        """The master of this epoch takes publishes. It has what this node sent up to the mark; `known`: if it can
        tell."""

    @abstractmethod
    def run_lost(self) -> None:
        """There is no way to the master any more."""

    @abstractmethod
    def held(self, count: i64) -> None:
        """The master holds what this node sent up to this count, and that is enough for a confirm."""
