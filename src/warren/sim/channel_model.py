"""One channel of a node as the observer records it: its consumers, unacked deliveries, and outstanding answers.

Not here: the node's answers (`sim.observer`).
"""

from collections import deque
from dataclasses import dataclass

from warren.sim.history import GONE, OUT, WITHDRAWN, MessageHistory, PublishAttempt, QueuedCopy, QueueSpec
from warren.sim.routing_model import RoutingModel
from warren.sim.simulation import answered_tags
from warren.wire.method_stream import ReceivedMethod
from warren.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicRecover,
    BasicReject,
    ChannelClose,
    ConfirmSelect,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
    TxCommit,
    TxRollback,
    TxSelect,
)


class ConsumerModel:
    """One subscription."""

    def __init__(self, spec: QueueSpec, no_ack: bool, prefetch: int) -> None:
        self.spec = spec
        self.no_ack = no_ack
        self.prefetch = prefetch
        self.unacked = 0


class ObservedDelivery:
    """One delivery, as it left the node."""

    def __init__(
        self,
        connection: int,
        channel_number: int,
        channel: "ChannelModel",
        consumer: ConsumerModel | None,
        spec: QueueSpec,
        no_ack: bool,
    ) -> None:
        self.connection = connection
        self.channel_number = channel_number
        self.channel = channel
        # None for an answer to basic.get
        self.consumer = consumer
        self.spec = spec
        self.no_ack = no_ack
        self.pushed_while_paused = False
        # whether messages of its queue may have been requeued
        self.queue_requeued = False
        self.tag = 0
        self.redelivered = False
        self.received: ReceivedMethod
        self.now_ms = 0
        # the publish it belongs to, if it is known; the copy of it in this queue, if there is one
        self.attempt: PublishAttempt | None = None
        self.copy: QueuedCopy | None = None

    def __str__(self) -> str:
        what = "an unknown body" if self.attempt is None else f"message {self.attempt.number}"
        return f"{what} from '{self.spec.name}' to #{self.connection}.{self.channel_number} as {self.tag}"


@dataclass(frozen=True, slots=True)
class DurabilityClaim:
    """What an answer of the node claims: this batch is on disk, or at least its metadata.

    The answer confirms these attempts.
    """

    what: str
    batch_no: int
    metadata: bool = False
    attempts: tuple[PublishAttempt, ...] = ()


class ChannelModel:
    """The requests of a channel, and its deliveries."""

    def __init__(self, history: MessageHistory, routing: RoutingModel) -> None:
        self._history = history
        self._routing = routing
        # it ended, closed by either side; `closed`: the node also said so
        self.over = False
        self.closed = False
        # the client made an error on purpose
        self.provoked = False
        self.recovering = 0
        self.next_tag = 1
        self.unacked: dict[int, tuple[QueuedCopy, ConsumerModel | None]] = {}
        self.consumers: dict[str, ConsumerModel] = {}
        self.gets: deque[tuple[QueueSpec, bool]] = deque()
        self.prefetch = 0
        self.consumer_prefetch = 0
        self.confirms = False
        self.publish_count = 0
        self.unanswered: dict[int, PublishAttempt] = {}
        # the batches that answers to declarations and commits wait for, in the order of the requests
        self.awaited: deque[DurabilityClaim] = deque()
        self._transaction: list[tuple[PublishAttempt, list[QueueSpec]]] | None = None
        self._transaction_settles: list[Method] = []

    def takes_without_ack(self) -> bool:
        return any(consumer.no_ack for consumer in self.consumers.values()) or any(no_ack for _, no_ack in self.gets)

    def gives_back(self) -> bool:
        """Whether a delivery that leaves in this turn was requeued in it."""
        return self.over or self.recovering > 0

    def method_received(self, method: Method, attempt: PublishAttempt | None, now_ms: int) -> None:
        """The node has received this method."""
        if isinstance(method, BasicPublish):
            assert attempt is not None
            self._publish(attempt, now_ms)
        elif isinstance(method, BasicAck | BasicNack | BasicReject):
            if self._transaction is None:
                self._settle(method)
            else:
                self._transaction_settles.append(method)
        elif isinstance(method, BasicConsume):
            spec = self._routing.specs[method.queue]
            self.consumers[method.consumer_tag] = ConsumerModel(spec, method.no_ack, self.consumer_prefetch)
            self._history.wanted[method.queue] = None
        elif isinstance(method, BasicGet):
            self.gets.append((self._routing.specs[method.queue], method.no_ack))
            self._history.wanted[method.queue] = None
        elif isinstance(method, BasicQos):
            self._qos(method)
        elif isinstance(method, BasicRecover):
            self.recovering += 1
            self._give_back_all()
        elif isinstance(method, ConfirmSelect):
            self.confirms = True
        elif isinstance(method, TxSelect):
            self._transaction = []
        elif isinstance(method, TxCommit):
            self._commit(now_ms)
        elif isinstance(method, TxRollback):
            self._roll_back()
        elif isinstance(method, ChannelClose):
            self.end()
        else:
            self._declare(method)

    def record(self, delivery: ObservedDelivery) -> None:
        """Record a delivery that left the node."""
        self.next_tag = delivery.tag + 1
        copy = delivery.copy
        if copy is None:
            return
        if self.gives_back():
            self._history.in_passing.append((copy, delivery.no_ack))
            return
        self._history.count_delivery(copy)
        if copy.state == GONE:
            return
        if delivery.no_ack:
            self._history.end(copy, "auto-acked")
        elif copy.state != OUT:
            self._history.take_out(copy)
            self.unacked[delivery.tag] = (copy, delivery.consumer)
            if delivery.consumer is not None:
                delivery.consumer.unacked += 1

    def end(self) -> None:
        """Everything unacked is requeued; an open transaction is rolled back."""
        if self.over:
            return
        self.over = True
        self._give_back_all()
        if self._transaction is not None:
            self._roll_back()

    # -- publishing

    def _publish(self, attempt: PublishAttempt, now_ms: int) -> None:
        specs = self._routing.route(attempt.exchange, attempt.routing_key)
        if self._transaction is not None:
            self._transaction.append((attempt, specs))
            return
        self._history.accept(attempt, specs, now_ms)
        if self.confirms:
            self.publish_count += 1
            self.unanswered[self.publish_count] = attempt

    def _commit(self, now_ms: int) -> None:
        publishes, settles = self._transaction or [], self._transaction_settles
        self._transaction, self._transaction_settles = [], []
        for attempt, specs in publishes:
            self._history.accept(attempt, specs, now_ms)
        settled = [copy for method in settles for copy in self._settle(method)]
        removed = any(copy.durable and copy.state == GONE and not copy.spec.fleeting for copy in settled)
        attempts = tuple(attempt for attempt, _plans in publishes)
        durable = removed or any(attempt.lasts() for attempt in attempts)
        self.awaited.append(
            DurabilityClaim("a commit", self._history.undo.batch_no if durable else 0, attempts=attempts)
        )

    def _roll_back(self) -> None:
        for attempt, _plans in self._transaction or []:
            attempt.state = WITHDRAWN
        self._transaction, self._transaction_settles = [], []

    # -- settling

    def _settle(self, method: Method) -> list[QueuedCopy]:
        """Settle deliveries; returns their copies."""
        assert isinstance(method, BasicAck | BasicNack | BasicReject)
        copies = [copy for copy in map(self._lift, answered_tags(method, self.unacked)) if copy is not None]
        for copy in copies:
            if isinstance(method, BasicAck):
                self._history.end(copy, "acked")
            elif method.requeue:
                self._history.requeued[copy.spec.name] = None
                self._history.give_back(copy)
            else:
                self._die(copy)
        return copies

    def _lift(self, tag: int) -> QueuedCopy | None:
        copy, consumer = self.unacked.pop(tag, (None, None))
        if consumer is not None:
            consumer.unacked -= 1
        return copy

    def _give_back_all(self) -> None:
        for spec in [consumer.spec for consumer in self.consumers.values()] + [spec for spec, _no_ack in self.gets]:
            self._history.requeued[spec.name] = None
        for tag in list(self.unacked):
            copy = self._lift(tag)
            if copy is not None:
                self._history.give_back(copy)

    def _die(self, copy: QueuedCopy) -> None:
        self._history.end(copy, "rejected")
        spec, attempt = copy.spec, copy.attempt
        if spec.dead_letter_exchange:
            key = spec.dead_letter_key or attempt.routing_key
            for grave in self._routing.route(spec.dead_letter_exchange, key):
                self._history.copy_into(attempt, grave, dead_letter=True)

    # -- other methods

    def _qos(self, method: BasicQos) -> None:
        if method.global_:
            self.prefetch = method.prefetch_count
        else:
            self.consumer_prefetch = method.prefetch_count

    def _declare(self, method: Method) -> None:
        routing = self._routing
        if isinstance(method, ExchangeDeclare):
            batch_no = routing.declare_exchange(method.exchange, method.type, method.durable)
        elif isinstance(method, QueueDeclare):
            batch_no = routing.declare_queue(method.queue)
        elif isinstance(method, QueueBind):
            batch_no = routing.bind(method.exchange, method.routing_key, method.queue)
        elif isinstance(method, QueueUnbind):
            batch_no = routing.unbind(method.exchange, method.routing_key, method.queue)
        elif isinstance(method, QueueDelete):
            batch_no = 0
        else:
            return
        self.awaited.append(DurabilityClaim(method.name, batch_no, metadata=True))
