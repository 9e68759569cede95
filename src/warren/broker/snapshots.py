"""Snapshots for monitoring: which objects changed since the last look, and totals of a node.

The history samples every queue, exchange, connection and channel every few seconds, and most of them are idle. A
`Snapshot` detects that with one comparison: counters only grow, so their sum changes when any of them does.

Totals are computed on demand from all objects; nothing maintains them while messages pass.

Not here: the history (`admin.history`), counters and totals since the node started (`broker.model.stats`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.local_queue import QUEUE_BYTES, LocalQueue
from warren.broker.model.ports import QueuePort
from warren.broker.model.remote_queue import RemoteQueuePort
from warren.broker.model.stats import ChannelStats, DeliveryStats
from warren.broker.routing.exchanges import Exchange
from warren.broker.sessions.connection import CLOSED, RUNNING, Channel, Connection
from warren.broker.vhost import Vhost

UNCHANGED: Final = 0
CHANGED: Final = 1
GONE: Final = 2


class Snapshot:
    """One object, with the counts of the last look."""

    @abstractmethod
    def look(self) -> int:
        """`CHANGED` if a count differs from the last look, `GONE` if the object was deleted."""

    @abstractmethod
    def stats(self) -> list[int]:
        """All counts."""


@final
class QueueSnapshot(Snapshot):
    """Stats: those of `delivery_stats`, published, ready, unacked."""

    def __init__(self, queue: QueuePort, vhost: Vhost) -> None:
        self._queue: QueuePort = queue
        self._vhost: Vhost = vhost
        self._counted: i64 = 0
        self._ready: i64 = 0
        self._unacked: i64 = 0

    def look(self) -> int:
        if self._queue.deleted:
            return GONE
        queue = self._local()
        stats = queue.stats
        counted: i64 = stats.published + _sum_taken(stats)
        ready: i64 = queue.ready_count()
        unacked: i64 = queue.unacked_count()
        if counted == self._counted and ready == self._ready and unacked == self._unacked:
            return UNCHANGED
        self._counted = counted
        self._ready = ready
        self._unacked = unacked
        return CHANGED

    def stats(self) -> list[int]:
        queue = self._local()
        stats = queue.stats
        numbers = delivery_stats(stats)
        numbers.append(int(stats.published))
        numbers.append(queue.ready_count())
        numbers.append(queue.unacked_count())
        return numbers

    def _local(self) -> QueuePort:
        """The queue on this node behind a proxy, if there is one."""
        if isinstance(self._queue, RemoteQueuePort):
            return self._vhost.own_queue(self._queue.name) or self._queue
        return self._queue


@final
class ChannelSnapshot(Snapshot):
    """Stats: those of `channel_stats`."""

    def __init__(self, channel: Channel) -> None:
        self._channel: Channel = channel
        self._counted: i64 = 0

    def look(self) -> int:
        if self._channel.closed:
            return GONE
        stats = self._channel.stats
        # unroutable messages are among the published ones
        counted: i64 = stats.published + stats.confirmed + _sum_taken(stats)
        if counted == self._counted:
            return UNCHANGED
        self._counted = counted
        return CHANGED

    def stats(self) -> list[int]:
        return channel_stats(self._channel.stats)


@final
class ExchangeSnapshot(Snapshot):
    """Stats: published in, published out."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange: Exchange = exchange
        self._counted: i64 = 0

    def look(self) -> int:
        exchange = self._exchange
        if exchange.deleted:
            return GONE
        counted: i64 = exchange.published_in + exchange.published_out
        if counted == self._counted:
            return UNCHANGED
        self._counted = counted
        return CHANGED

    def stats(self) -> list[int]:
        return [int(self._exchange.published_in), int(self._exchange.published_out)]


@final
class ConnectionSnapshot(Snapshot):
    """Stats: bytes received, bytes sent."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection = connection
        self._counted: i64 = 0

    def look(self) -> int:
        connection = self._connection
        if connection.state == CLOSED:
            return GONE
        counted: i64 = connection.counters.received_bytes + connection.counters.sent_bytes
        if counted == self._counted:
            return UNCHANGED
        self._counted = counted
        return CHANGED

    def stats(self) -> list[int]:
        return [int(self._connection.counters.received_bytes), int(self._connection.counters.sent_bytes)]


def delivery_stats(stats: DeliveryStats) -> list[int]:
    """Delivered, delivered without ack, got, got without ack, empty gets, redelivered, acked."""
    return [
        int(stats.delivered),
        int(stats.delivered_no_ack),
        int(stats.got),
        int(stats.got_no_ack),
        int(stats.got_empty),
        int(stats.redelivered),
        int(stats.acked),
    ]


def channel_stats(stats: ChannelStats) -> list[int]:
    """Those of `delivery_stats`, published, confirmed, returned, dropped."""
    numbers = delivery_stats(stats)
    numbers.append(int(stats.published))
    numbers.append(int(stats.confirmed))
    numbers.append(int(stats.returned_unroutable))
    numbers.append(int(stats.dropped_unroutable))
    return numbers


def queue_totals(vhost: Vhost) -> list[int]:
    """Ready, unacked, read from disk, written to disk: of all queues of a virtual host on this node."""
    ready: i64 = 0
    unacked: i64 = 0
    disk_reads: i64 = 0
    disk_writes: i64 = 0
    for queue in vhost.own_queues():
        ready += queue.ready_count()
        unacked += queue.unacked_count()
        stats = queue.stats
        disk_reads += stats.disk_reads
        disk_writes += stats.disk_writes
    return [int(ready), int(unacked), int(disk_reads), int(disk_writes)]


def _sum_taken(stats: DeliveryStats) -> i64:
    return stats.taken + stats.got_empty + stats.redelivered + stats.acked


@final
class NodeQueueTotals:
    """Totals of queues. Bytes are those of bodies, except `memory_bytes`."""

    def __init__(self, vhosts: list[Vhost]) -> None:
        self.queues: i64 = 0
        self.consumers: i64 = 0
        self.capacity: float = 0.0
        self.ready: i64 = 0
        self.ready_bytes: i64 = 0
        self.unacked: i64 = 0
        self.unacked_bytes: i64 = 0
        self.paged: i64 = 0
        self.paged_bytes: i64 = 0
        self.persistent: i64 = 0
        self.persistent_bytes: i64 = 0
        self.memory_bytes: i64 = 0
        self.disk_reads: i64 = 0
        self.disk_writes: i64 = 0
        self.deduplicated: i64 = 0
        for vhost in vhosts:
            for queue in vhost.own_queues():
                self._add(queue)

    def _add(self, queue: LocalQueue) -> None:
        self.queues += 1
        consumers: i64 = queue.consumer_count()
        stats = queue.stats
        self.disk_reads += stats.disk_reads
        self.disk_writes += stats.disk_writes
        self.deduplicated += stats.deduplicated
        if consumers == 0 and queue.ready_count() == 0 and queue.unacked_count() == 0:
            self.memory_bytes += QUEUE_BYTES
            return
        report = queue.report()
        if consumers != 0:
            self.consumers += consumers
            self.capacity += report.capacity
        self.ready += report.ready
        self.ready_bytes += report.ready_bytes
        self.unacked += report.unacked
        self.unacked_bytes += report.unacked_bytes
        self.paged += report.paged
        self.paged_bytes += report.paged_bytes
        self.persistent += report.persistent
        self.persistent_bytes += report.persistent_bytes
        self.memory_bytes += report.memory_bytes


@final
class NodeSessionTotals:
    """Totals of client connections and their channels."""

    def __init__(self, connections: list[Connection]) -> None:
        self.connections: i64 = 0
        self.received_reads: i64 = 0
        self.sends: i64 = 0
        self.channels: i64 = 0
        # channels that have published
        self.publishers: i64 = 0
        self.consumers: i64 = 0
        self.unacked: i64 = 0
        self.unconfirmed: i64 = 0
        self.uncommitted: i64 = 0
        self.acks_uncommitted: i64 = 0
        self.prefetch: i64 = 0
        self.consumer_prefetch: i64 = 0
        for connection in connections:
            if is_client(connection):
                self.connections += 1
                self.received_reads += connection.counters.received_reads
                self.sends += connection.counters.sends
                for channel in connection.channels.values():
                    self._add(channel)

    def _add(self, channel: Channel) -> None:
        self.channels += 1
        if channel.stats.published != 0:
            self.publishers += 1
        self.consumers += len(channel.consumers)
        self.unacked += channel.unacked_deliveries.count
        self.prefetch += channel.prefetch
        self.consumer_prefetch += channel.consumer_prefetch
        if channel.confirms.on:
            self.unconfirmed += channel.confirms.unconfirmed()
        transaction = channel.transaction
        if transaction is not None:
            self.uncommitted += len(transaction.publishes)
            for acks in transaction.acks:
                self.acks_uncommitted += len(acks)


def is_client(connection: Connection) -> bool:
    """Whether the connection is open and not internal, so that operators see it."""
    return connection.state >= RUNNING and connection.vhost is not None and not connection.opened.internal
