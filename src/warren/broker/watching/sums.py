"""Sums over all queues, connections and channels of a node, at one moment.

Nothing keeps these sums while messages pass: whoever wants them pays for going through everything.

Not here: sums since the node started (`model.figures.NodeFigures`).
"""

from typing import final

from mypy_extensions import i64

from warren.broker.vhost import Vhost
from warren.model.own_queue import QUEUE_BYTES, OwnQueue
from warren.session.channel import Channel
from warren.session.connection import RUNNING, Connection


@final
class QueueSums:
    """Of queues. Bytes are those of bodies, but for `memory_bytes`."""

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

    def _add(self, queue: OwnQueue) -> None:
        self.queues += 1
        consumers: i64 = queue.consumer_count()
        figures = queue.figures
        self.disk_reads += figures.disk_reads
        self.disk_writes += figures.disk_writes
        self.deduplicated += figures.deduplicated
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
class SessionSums:
    """Of the connections of clients and their channels."""

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
                self.received_reads += connection.received_reads
                self.sends += connection.sends
                for channel in connection.channels.values():
                    self._add(channel)

    def _add(self, channel: Channel) -> None:
        self.channels += 1
        if channel.figures.published != 0:
            self.publishers += 1
        self.consumers += len(channel.consumers)
        self.unacked += channel.ledger.count
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
    """Whether operators count it: it is let in, and no link within the process."""
    return connection.state >= RUNNING and connection.vhost is not None and not connection.opened.internal
