"""Values of single queues, connections, channels, exchanges and virtual hosts.

Each function yields one row per object, so the reader can pause between rows. As in RabbitMQ 3.10, the label `channel`
also names connections. The exchange that a message came from is not counted, so `queue_messages_published_total` has
the labels of the queue only.

Not here: sums (`metrics.node_values`), families (`metrics.families`).
"""

from collections.abc import Iterator, Sequence

from warren.admin.metrics.scrape_source import ScrapeSource
from warren.admin.metrics.text import Value, labels
from warren.admin.resources.connection_rows import channel_name, connection_row_name

Row = tuple[str, Sequence[Value]]


def queues_coarse(source: ScrapeSource) -> Iterator[Row]:
    for queue in source.queues():
        ready, unacked = queue.ready_count(), queue.unacked_count()
        yield source.queue_labels(queue), (ready, unacked, ready + unacked)


def queues_consumers(source: ScrapeSource) -> Iterator[Row]:
    for queue in source.queues():
        yield source.queue_labels(queue), (queue.consumer_count(),)


def queues(source: ScrapeSource) -> Iterator[Row]:
    for queue in source.queues():
        report, stats = queue.report(), queue.stats
        capacity = report.capacity if queue.consumer_count() else 0
        ready, ready_bytes = report.ready, report.ready_bytes
        unacked, unacked_bytes = report.unacked, report.unacked_bytes
        paged, paged_bytes = report.paged, report.paged_bytes
        values = (
            capacity,
            capacity,
            report.memory_bytes,
            ready + unacked - paged,
            ready_bytes + unacked_bytes - paged_bytes,
            ready - paged,
            unacked,
            report.persistent,
            report.persistent_bytes,
            ready_bytes + unacked_bytes,
            ready_bytes,
            unacked_bytes,
            paged,
            paged_bytes,
            report.head_timestamp() if ready else None,
            stats.disk_reads,
            stats.disk_writes,
            stats.deduplicated,
        )
        yield source.queue_labels(queue), values


def queues_published(source: ScrapeSource) -> Iterator[Row]:
    for queue in source.queues():
        published = queue.stats.published
        if published:
            yield labels(queue_vhost=queue.vhost, queue=queue.name), (published,)


def connections_coarse(source: ScrapeSource) -> Iterator[Row]:
    for connection in source.connections():
        name = connection_row_name(connection)
        yield labels(channel=name), (connection.counters.received_bytes, connection.counters.sent_bytes)


def connections(source: ScrapeSource) -> Iterator[Row]:
    for connection in source.connections():
        packets = (connection.counters.received_reads, connection.counters.sends, 0)
        yield labels(channel=connection_row_name(connection)), (*packets, len(connection.channels))


def channels(source: ScrapeSource) -> Iterator[Row]:
    for channel in source.channels():
        transaction = channel.transaction
        values = (
            len(channel.consumers),
            channel.unacked_deliveries.count,
            channel.confirms.unconfirmed() if channel.confirms.on else 0,
            0 if transaction is None else len(transaction.publishes),
            0 if transaction is None else sum(map(len, transaction.acks)),
            channel.consumer_prefetch,
            channel.prefetch,
        )
        yield labels(channel=channel_name(channel)), values


def channels_exchanges(source: ScrapeSource) -> Iterator[Row]:
    for channel in source.channels():
        name, vhost = channel_name(channel), channel.vhost.name
        for counter in channel.publish_counters():
            values = (counter.published, counter.confirmed, counter.returned_unroutable, counter.dropped_unroutable)
            yield labels(channel=name, vhost=vhost, exchange=counter.exchange.name), values


def channels_queues(source: ScrapeSource) -> Iterator[Row]:
    for channel in source.channels():
        name, vhost = channel_name(channel), channel.vhost.name
        for queue, taken in channel.taken_from().items():
            got, delivered = (taken.got, taken.got_no_ack), (taken.delivered, taken.delivered_no_ack)
            values = (*got, *delivered, taken.redelivered, taken.acked, taken.got_empty)
            yield labels(channel=name, vhost=vhost, queue=queue), values


def vhost_status(source: ScrapeSource) -> Iterator[Row]:
    for name in list(source.broker.vhosts):
        yield labels(vhost=name), (1,)


def exchange_names(source: ScrapeSource) -> Iterator[Row]:
    for where, _ in _exchanges(source):
        yield where, (1,)


def exchange_bindings(source: ScrapeSource) -> Iterator[Row]:
    for where, bindings in _exchanges(source):
        yield where, (bindings,)


def _exchanges(source: ScrapeSource) -> Iterator[tuple[str, int]]:
    """Exchanges with a name."""
    for vhost in list(source.broker.vhosts.values()):
        for name, exchange in list(vhost.topology.exchanges.items()):
            if name and not exchange.internal:
                yield labels(vhost=vhost.name, exchange=name, type=exchange.type), len(exchange.outgoing)
