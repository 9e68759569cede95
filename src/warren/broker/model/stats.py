"""What happened, as numbers that only grow: of a queue, a channel, a virtual host, a node.

The names are ours, the meanings RabbitMQ's: *published* is what channels published, dead letters and traces do not
count; *delivered* is what consumers that ack were given, *delivered_no_ack* the others; *got* is the same for
basic.get; *redelivered* is counted besides; *acked* is what was acked, not what was refused; *confirmed* is acks to
publishers, not nacks.

Invariant: what is counted for messages is true at the end of every turn; within one, a part of it is still in the
tallies.

Not here: counting (`broker.sessions.counters`), what there is at this moment, which the objects themselves know.
"""

from typing import final

from mypy_extensions import i64


class DeliveryStats:
    """What was taken from queues."""

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
        """Everything that left a queue for a client: RabbitMQ's `deliver_get`."""
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
    """What one queue was given and gave."""

    def __init__(self) -> None:
        super().__init__()
        self.published: i64 = 0
        # messages written to disk, and read back
        self.disk_writes: i64 = 0
        self.disk_reads: i64 = 0
        # of what was published, what was not kept because it had been before
        self.deduplicated: i64 = 0


class ChannelStats(DeliveryStats):
    """What channels did."""

    def __init__(self) -> None:
        super().__init__()
        self.published: i64 = 0
        self.confirmed: i64 = 0
        # of what was published, what found no queue: mandatory or not
        self.returned_unroutable: i64 = 0
        self.dropped_unroutable: i64 = 0


class VhostStats(ChannelStats):
    """What the connections of a virtual host did."""

    def __init__(self) -> None:
        super().__init__()
        self.received_bytes: i64 = 0
        self.sent_bytes: i64 = 0


@final
class NodeStats(VhostStats):
    """What a node did since it started."""

    def __init__(self) -> None:
        super().__init__()
        # what was published, transactions that were rolled back included; of that, with confirms or in a transaction
        self.received: i64 = 0
        self.received_confirm: i64 = 0
        # copies put into queues
        self.routed: i64 = 0
        self.dead_lettered: DeadLetterStats = DeadLetterStats()
        # of queues that have no dead-letter exchange
        self.dead_dropped: DeadLetterStats = DeadLetterStats()
        # clients that said who they are, and of these, who was not believed
        self.logins: i64 = 0
        self.logins_refused: i64 = 0
        # clients that got as far as connection.open-ok; sockets that are gone, whatever they got as far as
        self.connections_created: i64 = 0
        self.connections_closed: i64 = 0
        self.channels_created: i64 = 0
        self.channels_closed: i64 = 0
        # declared: asked for, whether it was there or not
        self.queues_declared: i64 = 0
        self.queues_created: i64 = 0
        self.queues_deleted: i64 = 0


@final
class DeadLetterStats:
    """How messages died."""

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
