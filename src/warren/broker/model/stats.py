"""Cumulative counters of a queue, a channel, a virtual host and a node.

The meanings are RabbitMQ's: *published* counts publishes by channels, not dead letters or traces; *delivered* counts
deliveries to consumers that ack, *delivered_no_ack* the others; *got* and *got_no_ack* are the same for basic.get;
*redelivered* is a part of these; *acked* counts acks, not rejects; *confirmed* counts acks to publishers, not nacks.

Invariant: message counters are exact at the end of every turn; during a turn, a part of them is in `TurnCounter`s.

Not here: counting (`broker.sessions.counters`); current values such as queue depth, which the objects themselves know.
"""

from typing import final

from mypy_extensions import i64


class DeliveryStats:
    """Deliveries and acks."""

    def __init__(self) -> None:
        self.delivered: i64 = 0
        self.delivered_no_ack: i64 = 0
        self.got: i64 = 0
        self.got_no_ack: i64 = 0
        self.got_empty: i64 = 0
        self.redelivered: i64 = 0
        self.acked: i64 = 0

    @property
    def taken(self) -> i64:
        """All deliveries and gets: RabbitMQ's `deliver_get`."""
        return self.delivered + self.delivered_no_ack + self.got + self.got_no_ack

    def add(self, more: "DeliveryStats") -> None:
        self.delivered += more.delivered
        self.delivered_no_ack += more.delivered_no_ack
        self.got += more.got
        self.got_no_ack += more.got_no_ack
        self.got_empty += more.got_empty
        self.redelivered += more.redelivered
        self.acked += more.acked

    def clear(self) -> None:
        self.delivered = 0
        self.delivered_no_ack = 0
        self.got = 0
        self.got_no_ack = 0
        self.got_empty = 0
        self.redelivered = 0
        self.acked = 0


@final
class QueueStats(DeliveryStats):
    """The counters of one queue."""

    def __init__(self) -> None:
        super().__init__()
        self.published: i64 = 0
        # messages written to disk, and read back
        self.disk_writes: i64 = 0
        self.disk_reads: i64 = 0
        # publishes that were dropped as duplicates; `published` includes them
        self.deduplicated: i64 = 0


class ChannelStats(DeliveryStats):
    """The counters of channels."""

    def __init__(self) -> None:
        super().__init__()
        self.published: i64 = 0
        self.confirmed: i64 = 0
        # publishes that matched no queue: mandatory ones, and others; `published` includes them
        self.returned_unroutable: i64 = 0
        self.dropped_unroutable: i64 = 0


class VhostStats(ChannelStats):
    """The counters of the connections of a virtual host."""

    def __init__(self) -> None:
        super().__init__()
        self.received_bytes: i64 = 0
        self.sent_bytes: i64 = 0


@final
class NodeStats(VhostStats):
    """The counters of a node since its start."""

    def __init__(self) -> None:
        super().__init__()
        # publishes, including those of rolled back transactions; and the ones with confirms or in a transaction
        self.received: i64 = 0
        self.received_confirm: i64 = 0
        # copies put into queues
        self.routed: i64 = 0
        self.dead_lettered: DeadLetterStats = DeadLetterStats()
        # messages of queues without a dead-letter exchange
        self.dead_dropped: DeadLetterStats = DeadLetterStats()
        # login attempts, and the refused ones among them
        self.logins: i64 = 0
        self.logins_refused: i64 = 0
        # connections that reached connection.open-ok; closed sockets, of connections in any state
        self.connections_created: i64 = 0
        self.connections_closed: i64 = 0
        self.channels_created: i64 = 0
        self.channels_closed: i64 = 0
        # declares, of queues that existed and of new ones
        self.queues_declared: i64 = 0
        self.queues_created: i64 = 0
        self.queues_deleted: i64 = 0


@final
class DeadLetterStats:
    """Dead-lettered messages by reason."""

    def __init__(self) -> None:
        self.maxlen: i64 = 0
        self.expired: i64 = 0
        self.rejected: i64 = 0
        self.delivery_limit: i64 = 0

    def count(self, reason: str) -> None:
        if reason == "maxlen":
            self.maxlen += 1
        elif reason == "expired":
            self.expired += 1
        elif reason == "rejected":
            self.rejected += 1
        else:
            self.delivery_limit += 1
