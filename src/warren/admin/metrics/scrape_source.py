"""The node as one scrape sees it. Sums are computed once, when a family first needs them.

Not here: families (`metrics.families`), the scrape (`metrics.scrape`).
"""

from dataclasses import dataclass, field
from functools import cached_property

from warren.admin.http.authentication import Authenticator
from warren.admin.metrics.text import labels
from warren.admin.ports import NodeFacts
from warren.broker.broker import Broker
from warren.broker.model.local_queue import LocalQueue
from warren.broker.sessions.connection import Channel, Connection
from warren.broker.snapshots import NodeQueueTotals, NodeSessionTotals, is_client


@dataclass
class ScrapeSource:
    """One node at the time of one scrape."""

    broker: Broker
    facts: NodeFacts
    authenticator: Authenticator
    # the virtual hosts to show queues of; None for all
    vhosts: frozenset[str] | None = None
    _queue_labels: dict[LocalQueue, str] = field(default_factory=dict)

    @cached_property
    def queue_sums(self) -> NodeQueueTotals:
        return NodeQueueTotals(list(self.broker.vhosts.values()))

    @cached_property
    def session_sums(self) -> NodeSessionTotals:
        return NodeSessionTotals(list(self.broker.connections.values()))

    def queues(self) -> list[LocalQueue]:
        return [
            queue
            for name, vhost in self.broker.vhosts.items()
            if self.vhosts is None or name in self.vhosts
            for queue in vhost.own_queues()
        ]

    def queue_labels(self, queue: LocalQueue) -> str:
        """The labels of a queue; cached, because several groups need them."""
        text = self._queue_labels.get(queue)
        if text is None:
            text = self._queue_labels[queue] = labels(vhost=queue.vhost, queue=queue.name)
        return text

    def connections(self) -> list[Connection]:
        return [connection for connection in self.broker.connections.values() if is_client(connection)]

    def channels(self) -> list[Channel]:
        return [channel for connection in self.connections() for channel in connection.channels.values()]
