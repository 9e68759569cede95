"""One channel: the state its methods share.

Invariant: once `closing` is set (we sent channel.close) nothing but the peer's channel.close or close-ok has any
effect; its consumers are gone and its unacked deliveries are back in their queues. Once `closed` is set nothing is
confirmed any more, though batches that the channel waited for may still come back.

Not here: what each method does (`broker.sessions.input` names the modules).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.broker.access.rights import Rights
from warren.broker.model.ports import QueuePort
from warren.broker.model.remote_queue import QueueAnswer, RemoteQueuePort
from warren.broker.model.stats import ChannelStats, DeliveryStats
from warren.broker.model.turn import FlushWaiter
from warren.broker.sessions import direct_reply, remote_queues, unacked
from warren.broker.sessions.confirms import Confirms, ConfirmSender
from warren.broker.sessions.consumers import ChannelConsumer
from warren.broker.sessions.counters import ChannelCounters
from warren.broker.sessions.ports import NodePort, VhostPort
from warren.broker.sessions.publishes import IncomingContent
from warren.broker.sessions.unacked import UnackedDeliveries, UnackedDelivery, tag_of
from warren.errors import NOT_FOUND, ChannelFault
from warren.wire.methods import ChannelClose, Method, write_method

if TYPE_CHECKING:
    from warren.broker.sessions.connection import Connection
    from warren.broker.sessions.declares import PendingDeclare
    from warren.broker.sessions.direct_reply import ReplyInbox
    from warren.broker.sessions.transactions import ChannelTransaction, PendingTxCommit


TOLERATED_TAGS_MAX: Final = 65_536


@final
class Channel(FlushWaiter, ConfirmSender):
    """One of a connection's conversations."""

    def __init__(self, connection: "Connection", number: i64, vhost: VhostPort) -> None:
        self.connection: Connection = connection
        self.node: NodePort = connection.node
        self.number: i64 = number
        self.vhost: VhostPort = vhost
        assert connection.rights is not None, "it is in a virtual host"
        self.rights: Rights = connection.rights
        self.closing: bool = False
        self.closed: bool = False
        self.unacked_deliveries: UnackedDeliveries = UnackedDeliveries()
        self.confirms: Confirms = Confirms()
        self.transaction: ChannelTransaction | None = None
        self.stats: ChannelStats = ChannelStats()
        self.counters: ChannelCounters = ChannelCounters(self)
        self.opened_at_ms: i64 = connection.turn.now_ms
        # when something was last published or taken here
        self.active_at_ms: i64 = connection.turn.now_ms
        self.content: IncomingContent | None = None
        self.consumers: dict[str, ChannelConsumer] = {}
        self.tolerated_tags: dict[int, None] = {}
        self.inbox: ReplyInbox | None = None
        # deliveries to consumers that await their ack, those acked in an open transaction included
        self.unacked: i64 = 0
        # basic.qos: for the channel as a whole, and for consumers started from here on; 0 means no limit
        self.prefetch: i64 = 0
        self.consumer_prefetch: i64 = 0
        # a consumer was held back by `prefetch`: an ack on any queue may free another
        self.starved: bool = False
        self._woken_first: int = 0
        self.last_queue: str = ""
        # what its last method wants, if that waits to be agreed upon
        self.pending: PendingDeclare | None = None
        # what its last method asked another node, and the commit that others have to settle
        self.asked: QueueAnswer | None = None
        self.commit: PendingTxCommit | None = None
        self.awaits_telling: bool = False
        # a confirm is pending on this turn's batch
        self.awaits_batch: bool = False

    def send(self, method: Method) -> None:
        write_method(self.connection.output(), int(self.number), method)

    def await_telling(self) -> None:
        """Confirms are due at the end of the turn."""
        if not self.awaits_telling:
            self.awaits_telling = True
            self.connection.confirming.append(self)
            self.connection.output()

    def await_batch(self) -> None:
        """Confirms are due when this turn's batch is on disk."""
        if not self.awaits_batch:
            self.awaits_batch = True
            self.confirms.begin_batch()
            self.node.turn.await_flush(self)
            # the end of the turn ends the batch
            self.await_telling()

    def flushed(self) -> None:
        if not self.closed:
            self.confirms.flushed()
            self.await_telling()

    def confirms_decided(self) -> None:
        if not self.closed:
            self.await_telling()

    def turn_ended(self) -> None:
        self.awaits_telling = False
        self.awaits_batch = False
        self.tell_confirms()

    def tell_confirms(self) -> None:
        """Write the confirms that are due."""
        confirms = self.confirms
        if confirms.on and not self.closed:
            confirms.tell(self.connection.output(), self.number)
            more: i64 = confirms.acked - self.stats.confirmed
            self.stats.confirmed = confirms.acked
            self.vhost.stats.confirmed += more
            self.node.turn.stats.confirmed += more

    def published_to(self) -> dict[str, int]:
        """How much was published here, by exchange."""
        return {exchange.name: int(counter.published) for exchange, counter in self.counters.published_to.items()}

    def taken_from(self) -> dict[str, DeliveryStats]:
        """What was taken here, by queue."""
        return {queue.name: counter.total for queue, counter in self.counters.taken_from.items()}

    def forgive(self, deliveries: list[UnackedDelivery]) -> None:
        """These were requeued because they were late: their acks, should they still come, are no fault."""
        for delivery in deliveries:
            self.tolerated_tags[delivery.tag] = None
        while len(self.tolerated_tags) > TOLERATED_TAGS_MAX:
            del self.tolerated_tags[next(iter(self.tolerated_tags))]

    def wake_consumers(self) -> None:
        """Something that held consumers back is gone: their queues look again."""
        self.starved = False
        consumers = list(self.consumers.values())
        # whoever is woken first is served first, so each time another begins
        self._woken_first = (self._woken_first + 1) % max(len(consumers), 1)
        for consumer in consumers[self._woken_first :] + consumers[: self._woken_first]:
            consumer.queue.wake()

    def queue_name(self, given: str) -> str:
        """The queue a method means: an empty name is the last one declared on this channel."""
        if given:
            return given
        if not self.last_queue:
            raise ChannelFault(NOT_FOUND, "no previously declared queue")
        return self.last_queue

    def queue(self, given: str) -> QueuePort:
        """The queue a method means; it must exist and be open to this connection."""
        name = self.queue_name(given)
        queue = self.vhost.queue(name)
        if queue is None:
            raise ChannelFault(NOT_FOUND, f"no queue '{name}' in vhost '{self.vhost.name}'")
        self.connection.check_owner(queue)
        return queue

    def fail(self, fault: ChannelFault, class_id: int, method_id: int) -> None:
        """Close this channel because of a fault, laid to a method (0, 0 for none)."""
        facts: dict[str, object] = {"channel": int(self.number), "code": fault.code, "text": fault.text}
        self.connection.note("error", "channel.failed", facts)
        self.tell_confirms()
        self.close()
        self.closing = True
        self.send(
            ChannelClose(
                reply_code=fault.code,
                reply_text=fault.reply_text(),
                blamed_class_id=class_id,
                blamed_method_id=method_id,
            )
        )

    def stop_consumers(self) -> None:
        """They take nothing more, though their queues may still know them."""
        for consumer in self.consumers.values():
            if not consumer.stopped:
                consumer.stopped = True
                if isinstance(consumer.queue, RemoteQueuePort):
                    consumer.queue.stop(consumer)

    def close(self) -> None:
        """Give back everything: consumers, deliveries, the inbox, an open transaction."""
        self.closed = True
        remote_queues.drop_question(self)
        if self.commit is not None:
            self.commit.abandon()
            self.commit = None
        if self.content is not None:
            self.content.release()
            self.content = None
        direct_reply.close_inbox(self)
        self.stop_consumers()
        consumers = list(self.consumers.values())
        self.consumers.clear()
        deliveries = self.unacked_deliveries.take_out_to(0)
        if self.transaction is not None:
            self.transaction.drop_publishes()
            deliveries = sorted(deliveries + self.transaction.lifted(), key=tag_of)
            self.transaction = None
        # deliveries first: an auto-delete queue may go with its last consumer, and a requeue must not wake a consumer
        # that is leaving
        unacked.requeue_all(deliveries)
        for consumer in consumers:
            consumer.queue.remove_consumer(consumer)
        if self.counters.published_to:
            # what its frames mean is remembered by its number, which another channel may get
            self.connection.forget_publishings()
        self.counters.drop()
