"""The base of the two proxies of queues that are not, or not only, on this node: remote queues and mirrored queues.

Code that is not compiled asks whether an object is of one of the two kinds, never whether it is a `QueueProxy`:
compiled classes share what Python remembers of their abstract bases, and one such question would spoil others.

Not here: the two kinds (`broker.links.remote_queue`, `broker.links.mirrored_queue_proxy`).
"""

from abc import abstractmethod

from mypy_extensions import i64

from warren.broker.model.ports import ConsumerPort
from warren.broker.model.remote_queue import COUNT, GET, GET_NO_ACK, RemoteQueuePort
from warren.broker.model.replica_set import ReplicaSet
from warren.errors import InvariantBroken
from warren.wire.field_tables import Table


class QueueProxy(RemoteQueuePort):
    """A proxy, with the node of its queue."""

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
        # its members, if it is mirrored
        self.replica_set: ReplicaSet | None = None
        # the counts that the home reported last
        self._ready: i64 = 0
        self._consumers: i64 = 0

    @abstractmethod
    def consumers(self) -> list[ConsumerPort]:
        """The consumers on this node."""

    def take_over(self, consumer: ConsumerPort, offset: i64) -> None:
        """Take over a consumer of the proxy that this one replaces."""
        raise InvariantBroken("only the proxy of a mirrored queue follows another")

    @abstractmethod
    def rehome(self, node: str) -> None:
        """The queue moved to another node."""

    @abstractmethod
    def close(self) -> None:
        """The queue was deleted."""

    # -- counts

    def counts_received(self, question: i64, ready: i64, consumers: i64) -> None:
        if question == COUNT:
            self._ready = ready
            self._consumers = consumers
        elif question in (GET, GET_NO_ACK):
            self._ready = ready

    def ready_count(self) -> int:
        return int(self._ready)

    def consumer_count(self) -> int:
        return int(self._consumers)
