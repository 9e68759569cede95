"""Looking at the same thing again and again: is anything different from last time?

Whoever keeps a history of every queue, exchange, connection and channel looks at all of them every few seconds, and
most of the time most of them have done nothing. A glance remembers just enough to know that: every counter only
grows, so their sum grows when any of them does.

Not here: the history (`admin.history`), what is counted (`model.figures`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64

from warren.broker.vhost import Vhost
from warren.model.distant import DistantQueue
from warren.model.figures import ChannelFigures, TakenFigures
from warren.model.ports import QueuePort
from warren.routing.exchange import Exchange
from warren.session.channel import Channel
from warren.session.connection import CLOSED, Connection

AS_BEFORE: Final = 0
STIRRED: Final = 1
GONE: Final = 2


class Glance:
    """One thing, and what it was like when it was last looked at."""

    @abstractmethod
    def look(self) -> int:
        """`STIRRED` if a figure is different from last time, `GONE` if the thing is no more."""

    @abstractmethod
    def figures(self) -> list[int]:
        """All figures, as they are."""


@final
class QueueGlance(Glance):
    """Figures: those of `taken_figures`, published, ready, unacked."""

    def __init__(self, queue: QueuePort, vhost: Vhost) -> None:
        self._queue: QueuePort = queue
        self._vhost: Vhost = vhost
        self._counted: i64 = 0
        self._ready: i64 = 0
        self._unacked: i64 = 0

    def look(self) -> int:
        if self._queue.deleted:
            return GONE
        queue = self._real()
        figures = queue.figures
        counted: i64 = figures.published + _sum_taken(figures)
        ready: i64 = queue.ready_count()
        unacked: i64 = queue.unacked_count()
        if counted == self._counted and ready == self._ready and unacked == self._unacked:
            return AS_BEFORE
        self._counted = counted
        self._ready = ready
        self._unacked = unacked
        return STIRRED

    def figures(self) -> list[int]:
        queue = self._real()
        figures = queue.figures
        numbers = taken_figures(figures)
        numbers.append(int(figures.published))
        numbers.append(queue.ready_count())
        numbers.append(queue.unacked_count())
        return numbers

    def _real(self) -> QueuePort:
        """The queue itself, while it is here, though something stands in for it."""
        if isinstance(self._queue, DistantQueue):
            return self._vhost.own_queue(self._queue.name) or self._queue
        return self._queue


@final
class ChannelGlance(Glance):
    """Figures: those of `channel_figures`."""

    def __init__(self, channel: Channel) -> None:
        self._channel: Channel = channel
        self._counted: i64 = 0

    def look(self) -> int:
        if self._channel.closed:
            return GONE
        figures = self._channel.figures
        # what could not be routed was published as well
        counted: i64 = figures.published + figures.confirmed + _sum_taken(figures)
        if counted == self._counted:
            return AS_BEFORE
        self._counted = counted
        return STIRRED

    def figures(self) -> list[int]:
        return channel_figures(self._channel.figures)


@final
class ExchangeGlance(Glance):
    """Figures: published in, published out."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange: Exchange = exchange
        self._counted: i64 = 0

    def look(self) -> int:
        exchange = self._exchange
        if exchange.deleted:
            return GONE
        counted: i64 = exchange.published_in + exchange.published_out
        if counted == self._counted:
            return AS_BEFORE
        self._counted = counted
        return STIRRED

    def figures(self) -> list[int]:
        return [int(self._exchange.published_in), int(self._exchange.published_out)]


@final
class ConnectionGlance(Glance):
    """Figures: bytes received, bytes sent."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection = connection
        self._counted: i64 = 0

    def look(self) -> int:
        connection = self._connection
        if connection.state == CLOSED:
            return GONE
        counted: i64 = connection.received_bytes + connection.sent_bytes
        if counted == self._counted:
            return AS_BEFORE
        self._counted = counted
        return STIRRED

    def figures(self) -> list[int]:
        return [int(self._connection.received_bytes), int(self._connection.sent_bytes)]


def taken_figures(figures: TakenFigures) -> list[int]:
    """Delivered, delivered without ack, got, got without ack, got in vain, redelivered, acked."""
    return [
        int(figures.delivered),
        int(figures.delivered_no_ack),
        int(figures.got),
        int(figures.got_no_ack),
        int(figures.got_empty),
        int(figures.redelivered),
        int(figures.acked),
    ]


def channel_figures(figures: ChannelFigures) -> list[int]:
    """Those of `taken_figures`, published, confirmed, returned, dropped."""
    numbers = taken_figures(figures)
    numbers.append(int(figures.published))
    numbers.append(int(figures.confirmed))
    numbers.append(int(figures.returned_unroutable))
    numbers.append(int(figures.dropped_unroutable))
    return numbers


def sums_of_queues(vhost: Vhost) -> list[int]:
    """Of all queues of a virtual host that live here: ready, unacked, read from disk, written to disk."""
    ready: i64 = 0
    unacked: i64 = 0
    disk_reads: i64 = 0
    disk_writes: i64 = 0
    for queue in vhost.own_queues():
        ready += queue.ready_count()
        unacked += queue.unacked_count()
        figures = queue.figures
        disk_reads += figures.disk_reads
        disk_writes += figures.disk_writes
    return [int(ready), int(unacked), int(disk_reads), int(disk_writes)]


def _sum_taken(figures: TakenFigures) -> i64:
    return figures.taken + figures.got_empty + figures.redelivered + figures.acked
