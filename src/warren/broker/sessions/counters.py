"""Counters of one channel's messages and of one connection's traffic.

A publish adds one to the counter of its channel and exchange; a delivery or an ack adds one to the counter of its
channel and queue. A counter that changed puts itself on the turn's list, once. At the end of the turn it adds its
counts to the stats of exchange or queue, channel, virtual host and node. So a busy turn pays for that once and not for
every message.

Publishes into a queue are not counted here: the queue's positions have the number (`broker.queues.queue`).

Invariant: `published_to` and `taken_from` have counters of the exchanges and queues that exist, and of at most about as
many deleted ones.

Not here: the stats (`broker.model.stats`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.ports import QueuePort
from warren.broker.model.stats import ChannelStats, DeliveryStats, NodeStats, VhostStats
from warren.broker.model.turn import Turn, TurnCounter
from warren.broker.routing.exchanges import Exchange

SWEEP_FROM: Final = 16


@final
class PublishCounter(TurnCounter):
    """Publishes of one channel to one exchange."""

    def __init__(self, channel: "ChannelCounters", exchange: Exchange) -> None:
        self.exchange: Exchange = exchange
        self._channel: ChannelCounters = channel
        self._turn: Turn = channel.turn
        self._channel_stats: ChannelStats = channel.stats
        self._vhost_stats: VhostStats = channel.vhost_stats
        # in this turn: publishes, and how many queues they were routed to
        self.fresh: i64 = 0
        self.fresh_routed: i64 = 0
        # up to the end of the last turn
        self.published: i64 = 0
        self.confirmed: i64 = 0
        self.returned_unroutable: i64 = 0
        self.dropped_unroutable: i64 = 0
        # publishes that are never confirmed: those before confirm.select, and those that a queue rejected
        self.unnumbered: i64 = 0
        self.refused: i64 = 0

    def begin(self) -> None:
        """Put this counter on the turn's list, before the first count of the turn."""
        self._turn.counters.append(self)

    def unroutable(self, mandatory: bool) -> None:
        """Count a publish that was routed to no queue."""
        if mandatory:
            self.returned_unroutable += 1
            self._channel_stats.returned_unroutable += 1
            self._vhost_stats.returned_unroutable += 1
            self._turn.stats.returned_unroutable += 1
        else:
            self.dropped_unroutable += 1
            self._channel_stats.dropped_unroutable += 1
            self._vhost_stats.dropped_unroutable += 1
            self._turn.stats.dropped_unroutable += 1

    def fold(self) -> None:
        count: i64 = self.fresh
        routed: i64 = self.fresh_routed
        self.fresh = 0
        self.fresh_routed = 0
        channel = self._channel
        exchange = self.exchange
        self.published += count
        exchange.published_in += count
        exchange.published_out += routed
        self._channel_stats.published += count
        self._vhost_stats.published += count
        channel.active_at_ms = self._turn.now_ms
        node = self._turn.stats
        node.published += count
        node.received += count
        node.routed += routed
        if channel.confirmed_mode:
            node.received_confirm += count


@final
class DeliveryCounter(DeliveryStats, TurnCounter):
    """Deliveries, gets and acks of one channel and one queue. The inherited stats are those of this turn."""

    def __init__(self, channel: "ChannelCounters", queue: QueuePort) -> None:
        super().__init__()
        self.queue: QueuePort = queue
        # up to the end of the last turn
        self.total: DeliveryStats = DeliveryStats()
        # this counter is on the turn's list
        self.due: bool = False
        self._channel: ChannelCounters = channel
        self._turn: Turn = channel.turn
        self._queue_stats: DeliveryStats = queue.counted
        self._channel_stats: DeliveryStats = channel.stats
        self._vhost_stats: DeliveryStats = channel.vhost_stats

    def begin(self) -> None:
        """Put this counter on the turn's list, before the first count of the turn."""
        self.due = True
        self._turn.counters.append(self)

    def count_get(self, no_ack: bool, redelivered: bool) -> None:
        if not self.due:
            self.begin()
        if no_ack:
            self.got_no_ack += 1
        else:
            self.got += 1
        if redelivered:
            self.redelivered += 1

    def count_empty_get(self) -> None:
        if not self.due:
            self.begin()
        self.got_empty += 1

    def fold(self) -> None:
        self.due = False
        turn = self._turn
        self._channel.active_at_ms = turn.now_ms
        self.queue.taken_at_ms = turn.now_ms
        self._fold_deliveries(turn.stats)
        acked = self.acked
        if acked != 0:
            self.acked = 0
            self.total.acked += acked
            self._queue_stats.acked += acked
            self._channel_stats.acked += acked
            self._vhost_stats.acked += acked
            turn.stats.acked += acked
        if self.got != 0 or self.got_no_ack != 0 or self.got_empty != 0 or self.redelivered != 0:
            self.total.add(self)
            self._queue_stats.add(self)
            self._channel_stats.add(self)
            self._vhost_stats.add(self)
            turn.stats.add(self)
            self.clear()

    def _fold_deliveries(self, node_stats: DeliveryStats) -> None:
        delivered = self.delivered
        if delivered != 0:
            self.delivered = 0
            self.total.delivered += delivered
            self._queue_stats.delivered += delivered
            self._channel_stats.delivered += delivered
            self._vhost_stats.delivered += delivered
            node_stats.delivered += delivered
        delivered = self.delivered_no_ack
        if delivered != 0:
            self.delivered_no_ack = 0
            self.total.delivered_no_ack += delivered
            self._queue_stats.delivered_no_ack += delivered
            self._channel_stats.delivered_no_ack += delivered
            self._vhost_stats.delivered_no_ack += delivered
            node_stats.delivered_no_ack += delivered


@final
class ChannelCounters:
    """The counters of one channel, by exchange and by queue."""

    def __init__(self, turn: Turn, stats: ChannelStats, vhost_stats: VhostStats) -> None:
        self.turn: Turn = turn
        self.stats: ChannelStats = stats
        self.vhost_stats: VhostStats = vhost_stats
        self.published_to: dict[Exchange, PublishCounter] = {}
        self.taken_from: dict[QueuePort, DeliveryCounter] = {}
        # the turn of the last publish, delivery, get or ack
        self.active_at_ms: i64 = turn.now_ms
        # confirm.select or tx.select was received
        self.confirmed_mode: bool = False
        self._sweep_at: int = SWEEP_FROM

    def of_exchange(self, exchange: Exchange) -> PublishCounter:
        found = self.published_to.get(exchange)
        if found is None:
            self._sweep()
            found = PublishCounter(self, exchange)
            self.published_to[exchange] = found
        return found

    def of_queue(self, queue: QueuePort) -> DeliveryCounter:
        found = self.taken_from.get(queue)
        if found is None:
            self._sweep()
            found = DeliveryCounter(self, queue)
            self.taken_from[queue] = found
        return found

    def confirms_begin(self) -> None:
        """Note that publishes up to here have no confirm number."""
        for counter in self.published_to.values():
            counter.unnumbered = counter.published + counter.fresh

    def count_confirmed(self, unconfirmed: i64) -> None:
        """Bring `confirmed` of each exchange up to date; `unconfirmed` is the channel's count of unconfirmed publishes.

        The exchanges of the unconfirmed publishes are not known. With several exchanges, each takes all of them as its
        own.
        """
        for counter in self.published_to.values():
            confirmed: i64 = counter.published - counter.unnumbered - counter.refused - unconfirmed
            counter.confirmed = max(counter.confirmed, confirmed)

    def drop(self) -> None:
        """The channel is closed."""
        self.published_to = {}
        self.taken_from = {}

    def _sweep(self) -> None:
        """Drop the counters of deleted exchanges and queues, now and then."""
        if len(self.published_to) + len(self.taken_from) < self._sweep_at:
            return
        self.published_to = {
            exchange: counter for exchange, counter in self.published_to.items() if not exchange.deleted
        }
        self.taken_from = {queue: counter for queue, counter in self.taken_from.items() if not queue.deleted}
        self._sweep_at = SWEEP_FROM + 2 * (len(self.published_to) + len(self.taken_from))


@final
class ConnectionCounters:
    """The traffic of one connection, its logins and its channels.

    An internal connection (`ConnectionOpened.internal`) does not count in the stats of node and virtual host.
    """

    def __init__(self, turn: Turn, internal: bool) -> None:
        # octets and calls of socket reads and writes
        self.received_bytes: i64 = 0
        self.received_reads: i64 = 0
        self.sent_bytes: i64 = 0
        self.sends: i64 = 0
        # None before connection.open and after the connection ended
        self.vhost_stats: VhostStats | None = None
        self._stats: NodeStats = turn.stats
        self._internal: bool = internal

    def count_received(self, size_bytes: i64) -> None:
        """One read of the client's socket."""
        self.received_reads += 1
        self.received_bytes += size_bytes
        if not self._internal:
            self._stats.received_bytes += size_bytes
            if self.vhost_stats is not None:
                self.vhost_stats.received_bytes += size_bytes

    def count_sent(self, size_bytes: i64) -> None:
        """One write to the client's socket."""
        self.sends += 1
        self.sent_bytes += size_bytes
        if not self._internal:
            self._stats.sent_bytes += size_bytes
            if self.vhost_stats is not None:
                self.vhost_stats.sent_bytes += size_bytes

    def count_login(self, refused: bool) -> None:
        if not self._internal:
            self._stats.logins += 1
            if refused:
                self._stats.logins_refused += 1

    def count_connection_opened(self) -> None:
        if not self._internal:
            self._stats.connections_created += 1

    def count_connection_lost(self) -> None:
        if not self._internal:
            self._stats.connections_closed += 1

    def count_channel_opened(self) -> None:
        if not self._internal:
            self._stats.channels_created += 1

    def count_channels_closed(self, count: i64) -> None:
        if not self._internal:
            self._stats.channels_closed += count
