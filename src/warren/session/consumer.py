"""One consumer of a channel, as its queue sees it.

Not here: which consumer is next (`queue.consumers`), the bytes of a delivery (`session.delivery`), the ledger
(`session.ledger`).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.model.message import Entry
from warren.model.ports import Consumer, PartKeeper, QueuePort
from warren.model.told_position import wants_position, with_position
from warren.session import firehose
from warren.session.delivery import EPOCH, DeliveryWriter, whole_content, with_epoch
from warren.session.output import APART_BYTES
from warren.session.reading import gets_messages
from warren.session.tallies import TakeTally
from warren.wire.methods import BasicCancel
from warren.wire.values import Table

if TYPE_CHECKING:
    from warren.session.channel import Channel

NOWHERE: Final[i64] = -1
"""The position of a delivery that no queue knows any more."""


@final
class ChannelConsumer(Consumer):
    """Takes a queue's messages for one channel."""

    def __init__(
        self,
        channel: "Channel",
        queue: QueuePort,
        tag: str,
        no_ack: bool,
        exclusive: bool,
        priority: i64,
        prefetch: i64,
        arguments: Table,
    ) -> None:
        super().__init__(tag, no_ack, exclusive, priority, arguments)
        self.channel: Channel = channel
        self.queue: QueuePort = queue
        # 0 means no limit
        self.prefetch: i64 = prefetch
        self.unacked: i64 = 0
        # what basic.get took is nobody's prefetch
        self._subscribed: bool = tag != ""
        # if it is a consumer's part at one of several queues: whoever has the others
        self.keeper: PartKeeper | None = None
        # its virtual host is traced, and what it is given are messages
        self.traced: bool = False
        self.trace(channel.vhost.tracing)
        self._tells_epoch: bool = arguments.get(EPOCH) is True
        self._tells_position: bool = wants_position(arguments)
        self.tally: TakeTally = channel.tallies.of_queue(queue)
        self._writer: DeliveryWriter = DeliveryWriter(channel.number, tag)

    def trace(self, on: bool) -> None:
        self.traced = on and gets_messages(self.arguments)

    def able(self) -> bool:
        if self.stopped:
            return False
        channel = self.channel
        if channel.prefetch != 0 and channel.unacked >= channel.prefetch:
            channel.starved = True
            return False
        if self.prefetch != 0 and self.unacked >= self.prefetch and not self.no_ack:
            return False
        return channel.connection.has_room()

    def unacked_max(self) -> int:
        own, shared = int(self.prefetch), int(self.channel.prefetch)
        if self.no_ack:
            return 0
        return min(own, shared) if own and shared else own or shared

    def deliver(self, entry: Entry) -> None:
        channel = self.channel
        connection = channel.connection
        tally = self.tally
        if not tally.due:
            tally.begin()
        if self.no_ack:
            tally.delivered_no_ack += 1
            tag = channel.ledger.skip()
        else:
            tally.delivered += 1
            tag = channel.ledger.record(entry, self, connection.turn.now_ms)
            self.unacked += 1
            channel.unacked += 1
        if entry.redelivered:
            tally.redelivered += 1
        message = with_position(entry) if self._tells_position else entry.message
        if self._tells_epoch and self.epoch != 0:
            message = with_epoch(message, self.epoch)
        if len(message.content) < APART_BYTES:
            self._writer.write(connection.output(), message, tag, entry.redelivered, connection.frame_max)
        else:
            self._writer.write_method(connection.output(), message, tag, entry.redelivered)
            connection.out.add_apart(whole_content(message, channel.number, connection.frame_max))
        if self.keeper is not None:
            self.keeper.part_took(message)
        if self.traced:
            firehose.delivered(channel, self.queue, entry)

    def acked(self, entry: Entry) -> None:
        """One of its deliveries was dealt with."""
        tally = self.tally
        if not tally.due:
            tally.begin()
        tally.acked += 1
        self.settled()
        self.queue.ack(entry)

    def settled(self) -> None:
        """One of its deliveries is outstanding no more, whatever became of it."""
        self.unacked -= 1
        if self._subscribed:
            self.channel.unacked -= 1

    def moved(self, queue: QueuePort) -> None:
        """Deliveries of the queue before can be acked or not: it makes no difference."""
        for entry, taker in self.channel.ledger.outstanding():
            if taker is self:
                entry.position = NOWHERE
        self.queue = queue
        self.tally = self.channel.tallies.of_queue(queue)

    def part_for(self, queue: QueuePort, arguments: Table, keeper: PartKeeper) -> Consumer:
        part = ChannelConsumer(
            self.channel, queue, self.tag, self.no_ack, self.exclusive, self.priority, self.prefetch, arguments
        )
        part.keeper = keeper
        return part

    def cancelled(self) -> None:
        if self.keeper is not None:
            self.keeper.part_cancelled()
            return
        channel = self.channel
        channel.consumers.pop(self.tag, None)
        if channel.connection.capable("consumer_cancel_notify"):
            channel.send(BasicCancel(consumer_tag=self.tag, nowait=True))
