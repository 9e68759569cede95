"""Observes everything that enters and leaves one node, and records what the node owes.

::

    clients --bytes--> [ entered ] node [ left ] --bytes--> clients
                            |             |
                            +-- history --+--> rules

The observer stands at the node's own socket, so it has nothing to guess: a publish counts from the turn its last byte
went in, a delivery from the turn its bytes came out, independent of delays in the network. Within one turn the order of
input and output is not visible from outside. So input is recorded first; then ends of channels and connections, with
deliveries to those; then all other output. A delivery to a channel that ended, or that asked for `basic.recover` and
was not answered before the delivery, was requeued in that turn.

Output that a node holds back until a batch is on disk counts as sent, because the node acts as if it were. Its promises
count from when it leaves.

The observer records and reports, and judges nothing. The rules see a contradiction before it is recorded.

Not here: the rules (`sim.invariants`), copies and attempts (`sim.history`), channels (`sim.channel_model`).
"""

from collections import Counter, deque

from warren.broker.model.effects import CloseConnection, Effect, SendBytes
from warren.broker.model.events import (
    BytesReceived,
    ConnectionDropped,
    ConnectionOpened,
    Event,
    StopRequested,
    WritesPaused,
    WritesResumed,
)
from warren.errors import ConnectionFault
from warren.sim.channel_model import ChannelModel, DurabilityClaim, ObservedDelivery
from warren.sim.history import (
    CONFIRMED,
    GONE,
    READY,
    REFUSED,
    UNWRITTEN,
    MessageHistory,
    PublishAttempt,
    QueuedCopy,
    QueueSpec,
)
from warren.sim.process import SimulatedProcess
from warren.sim.report import ViolationLog
from warren.sim.routing_model import RoutingModel
from warren.sim.simulation import SentMethod, answered_tags
from warren.wire.frames import HEARTBEAT_FRAME
from warren.wire.method_stream import MethodStream, ReceivedMethod
from warren.wire.methods import (
    BasicAck,
    BasicCancelOk,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicRecoverOk,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConnectionClose,
    ExchangeDeclareOk,
    QueueBindOk,
    QueueDeclareOk,
    QueueDeleteOk,
    QueueUnbindOk,
    TxCommitOk,
)

AWAITED = (ExchangeDeclareOk, QueueDeclareOk, QueueBindOk, QueueUnbindOk, QueueDeleteOk, TxCommitOk)


class Invariant:
    """One rule; a subclass overrides the events it needs. Each method answers what is wrong, or ""."""

    rule = ""

    def delivered(self, delivery: ObservedDelivery) -> str:
        return ""

    def answered(self, channel: ChannelModel, publish_no: int, multiple: bool) -> str:
        return ""

    def settled(self, attempt: PublishAttempt) -> str:
        return ""

    def promised(self, promise: DurabilityClaim, on_disk_no: int) -> str:
        return ""

    def recovered(self, observer: "NodeObserver") -> str:
        return ""

    def returned(self, attempt: PublishAttempt | None) -> str:
        return ""

    def turned(self, observer: "NodeObserver") -> str:
        return ""

    def ended(self, observer: "NodeObserver") -> str:
        return ""

    def rested(self, observer: "NodeObserver") -> str:
        return ""


class InvariantSet(ViolationLog):
    """All rules in force. The observer and its node report to it; it asks every rule."""

    def __init__(self, members: list[Invariant]) -> None:
        super().__init__()
        self.members = members

    def delivered(self, delivery: ObservedDelivery) -> None:
        for member in self.members:
            self._record_complaint(member, member.delivered(delivery))

    def answered(self, channel: ChannelModel, publish_no: int, multiple: bool) -> None:
        for member in self.members:
            self._record_complaint(member, member.answered(channel, publish_no, multiple))

    def settled(self, attempt: PublishAttempt) -> None:
        for member in self.members:
            self._record_complaint(member, member.settled(attempt))

    def promised(self, promise: DurabilityClaim, on_disk_no: int) -> None:
        for member in self.members:
            self._record_complaint(member, member.promised(promise, on_disk_no))

    def recovered(self, observer: "NodeObserver") -> None:
        for member in self.members:
            self._record_complaint(member, member.recovered(observer))

    def returned(self, attempt: PublishAttempt | None) -> None:
        for member in self.members:
            self._record_complaint(member, member.returned(attempt))

    def turned(self, observer: "NodeObserver") -> None:
        for member in self.members:
            self._record_complaint(member, member.turned(observer))

    def ended(self, observer: "NodeObserver") -> None:
        for member in self.members:
            self._record_complaint(member, member.ended(observer))

    def rested(self, observer: "NodeObserver") -> None:
        for member in self.members:
            self._record_complaint(member, member.rested(observer))

    def _record_complaint(self, member: Invariant, text: str) -> None:
        if text:
            self.complain(member.rule, text)


class ConnectionModel:
    """One connection, as the node knows it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.stream = MethodStream()
        self.channels: dict[int, ChannelModel] = {}
        # one side closed it: input counts no more; `over`: nothing may leave either
        self.deaf = False
        self.over = False
        self.writes_paused = False
        # the node knew it before this turn
        self.knows_paused = False
        # bytes that were read while the node held them back; how many were read, how many left
        self.ahead = 0
        self.read_bytes = 0
        self.left_bytes = 0
        # promises, each with its byte in the stream
        self.promises: deque[tuple[int, DurabilityClaim]] = deque()


class NodeObserver:
    """The record of one node."""

    def __init__(
        self, history: MessageHistory, routing: RoutingModel, node: SimulatedProcess, checkers: InvariantSet
    ) -> None:
        self.connections: dict[int, ConnectionModel] = {}
        self.history = history
        self.routing = routing
        self.node = node
        self._checkers = checkers
        self._now_ms = 0
        # the node was asked to stop, and tells its clients
        self.stopping = False
        # output for these was made before the broker learnt, in the same turn, that they are lost
        self._lost_this_turn: dict[int, ConnectionModel] = {}

    # -- input

    def entered(self, event: Event, spoken: list[SentMethod], now_ms: int) -> None:
        self._now_ms = now_ms
        if isinstance(event, ConnectionOpened):
            self.connections[event.connection_id] = ConnectionModel(event.connection_id)
        elif isinstance(event, ConnectionDropped):
            lost = self.connections.pop(event.connection_id, None)
            if lost is not None:
                self._end_connection(lost)
                self._lost_this_turn[lost.number] = lost
        elif isinstance(event, WritesPaused | WritesResumed):
            connection = self.connections.get(event.connection_id)
            if connection is not None:
                self.history.seen[type(event).__name__] += 1
                connection.writes_paused = isinstance(event, WritesPaused)
                connection.knows_paused = connection.knows_paused and connection.writes_paused
        elif isinstance(event, StopRequested):
            for open_connection in self.connections.values():
                self._end_channels(open_connection)
        elif isinstance(event, BytesReceived):
            self.client_methods_received(event.connection_id, spoken, now_ms)

    def client_methods_received(self, number: int, spoken: list[SentMethod], now_ms: int) -> None:
        """The node acted on these methods of a client."""
        self._now_ms = now_ms
        for sent in spoken:
            self._receive_from_client(self.connections[number], sent)

    def takes_without_ack(self, number: int, spoken: list[SentMethod]) -> bool:
        """Whether a connection consumes without acks, or asks to in these methods."""
        connection = self.connections.get(number)
        if connection is not None and any(channel.takes_without_ack() for channel in connection.channels.values()):
            return True
        return any(isinstance(sent.method, BasicConsume | BasicGet) and sent.method.no_ack for sent in spoken)

    def node_died(self, clean: bool) -> None:
        """Its memory is gone, and what is not on its disk never happened."""
        history = self.history
        self.connections.clear()
        self._lost_this_turn.clear()
        self.stopping = False
        history.undo.roll_back(self.node.disk.survived_no, self.node.disk.changed_no)
        self.routing.node_restarted()
        history.node_restarted()
        for name in history.wanted:
            # the delivery watermark is exact after a clean stop, except with priorities
            if not clean or self.routing.specs[name].priority_max:
                history.requeued[name] = None
        for copy in history.living:
            dead_letter_queues = self._dead_letter_queues(copy)
            if copy.spec.dead_letter_exchange and not any(spec.durable for spec in dead_letter_queues):
                copy.may_have_died = copy.spec.drops

    def _receive_from_client(self, connection: ConnectionModel, sent: SentMethod) -> None:
        if connection.deaf:
            return
        self.history.seen[f"client says {sent.method.name}"] += 1
        if sent.channel == 0:
            if isinstance(sent.method, ConnectionClose):
                self._end_channels(connection)
            return
        if isinstance(sent.method, ChannelOpen):
            connection.channels[sent.channel] = ChannelModel(self.history, self.routing)
            return
        channel = connection.channels.get(sent.channel)
        if channel is None or channel.over:
            return
        channel.method_received(sent.method, sent.attempt, self._now_ms)
        if sent.provokes:
            channel.provoked = True
            channel.end()

    # -- output

    def left(self, effects: list[Effect], kept_back: dict[int, bytes], now_ms: int) -> None:
        """The effects of a turn, and the output that is held back, by connection."""
        self._now_ms = now_ms
        sent: list[tuple[ConnectionModel, ReceivedMethod]] = []
        for effect in effects:
            if isinstance(effect, SendBytes):
                sent += self._read(effect)
        for number, kept in kept_back.items():
            connection = self.connections[number]
            sent += self._feed(connection, kept[connection.ahead :])
            connection.ahead = len(kept)
        ending: list[tuple[ConnectionModel, ReceivedMethod]] = []
        others: list[tuple[ConnectionModel, ReceivedMethod]] = []
        self._record_ends(effects, sent)
        recovered: Counter[ChannelModel] = Counter()
        for connection, received in sent:
            channel = connection.channels.get(received.channel)
            gives_back = connection.over or channel is None or channel.over or channel.recovering > recovered[channel]
            (ending if gives_back else others).append((connection, received))
            if channel is not None and isinstance(received.method, BasicRecoverOk):
                recovered[channel] += 1
        for connection, received in ending:
            self._receive_from_node(connection, received)
        self.history.record_passing()
        for connection, received in others:
            self._receive_from_node(connection, received)
        for connection in self.connections.values():
            connection.knows_paused = connection.writes_paused
            while connection.promises and connection.promises[0][0] <= connection.left_bytes:
                self._keep_promise(connection.promises.popleft()[1])
        self._lost_this_turn.clear()

    def _keep_promise(self, promise: DurabilityClaim) -> None:
        on_disk_no = self.node.disk.changed_no if promise.metadata else self.node.disk.flushed_no
        self._checkers.promised(promise, on_disk_no)
        for attempt in promise.attempts:
            attempt.state = CONFIRMED

    def _read(self, effect: SendBytes) -> list[tuple[ConnectionModel, ReceivedMethod]]:
        number = effect.connection_id
        lost = self._lost_this_turn.get(number)
        connection = lost or self.connections.get(number)
        if connection is None or (connection.over and lost is None):
            self._checkers.complain(
                "no effects for closed connections", f"bytes for connection #{number}, which is over"
            )
            return []
        if connection.ahead and effect.data == HEARTBEAT_FRAME:
            # a heartbeat overtakes held output
            return []
        unread = effect.data[connection.ahead :]
        connection.ahead = max(0, connection.ahead - len(effect.data))
        connection.left_bytes += len(effect.data)
        return self._feed(connection, unread)

    def _feed(self, connection: ConnectionModel, data: bytes) -> list[tuple[ConnectionModel, ReceivedMethod]]:
        connection.read_bytes += len(data)
        try:
            return [(connection, received) for received in connection.stream.feed(data)]
        except (ConnectionFault, KeyError) as fault:
            self._checkers.complain(
                "whole frames", f"connection #{connection.number} was sent bytes that are none: {fault}"
            )
            return []

    def _record_ends(self, effects: list[Effect], sent: list[tuple[ConnectionModel, ReceivedMethod]]) -> None:
        for connection, received in sent:
            method = received.method
            if isinstance(method, ChannelClose):
                channel = connection.channels[received.channel]
                if not channel.provoked:
                    self._checkers.complain("no fault without cause", f"#{connection.number}: {method.reply_text}")
                channel.end()
            elif isinstance(method, ConnectionClose):
                if not self.stopping:
                    self._checkers.complain("no fault without cause", f"#{connection.number}: {method.reply_text}")
                self._end_channels(connection)
        for effect in effects:
            if isinstance(effect, CloseConnection):
                closed = self.connections.get(effect.connection_id)
                if closed is not None:
                    self._end_connection(closed)

    def _end_connection(self, connection: ConnectionModel) -> None:
        connection.over = True
        self._end_channels(connection)

    def _end_channels(self, connection: ConnectionModel) -> None:
        connection.deaf = True
        for channel in connection.channels.values():
            channel.end()

    def _receive_from_node(self, connection: ConnectionModel, received: ReceivedMethod) -> None:
        method = received.method
        self.history.seen[f"node says {method.name}"] += 1
        channel = connection.channels.get(received.channel)
        if channel is None or channel.closed:
            if isinstance(method, BasicDeliver | BasicGetOk | BasicAck | BasicNack | BasicReturn):
                where = f"channel {received.channel} of connection #{connection.number}"
                self._checkers.complain("nothing for closed channels", f"{method.name} for {where}, which is closed")
            return
        if isinstance(method, BasicDeliver):
            self._delivered(connection, channel, received, method)
        elif isinstance(method, BasicGetOk):
            self._got(connection, channel, received, method)
        elif isinstance(method, BasicGetEmpty):
            channel.gets.popleft()
        elif isinstance(method, BasicAck | BasicNack):
            self._answered(connection, channel, method)
        elif isinstance(method, BasicReturn):
            self._returned(received)
        elif isinstance(method, AWAITED):
            connection.promises.append((connection.read_bytes, channel.awaited.popleft()))
        elif isinstance(method, BasicRecoverOk):
            channel.recovering -= 1
        elif isinstance(method, BasicCancelOk):
            channel.consumers.pop(method.consumer_tag, None)
        elif isinstance(method, ChannelCloseOk):
            channel.closed = True

    # -- deliveries

    def _delivered(
        self, connection: ConnectionModel, channel: ChannelModel, received: ReceivedMethod, method: BasicDeliver
    ) -> None:
        consumer = channel.consumers.get(method.consumer_tag)
        if consumer is None:
            self._checkers.complain("nothing for closed channels", f"a delivery for consumer '{method.consumer_tag}'")
            return
        delivery = ObservedDelivery(
            connection.number, received.channel, channel, consumer, consumer.spec, consumer.no_ack
        )
        delivery.pushed_while_paused = connection.knows_paused
        self._record_delivery(delivery, method.delivery_tag, method.redelivered, received)

    def _got(
        self, connection: ConnectionModel, channel: ChannelModel, received: ReceivedMethod, method: BasicGetOk
    ) -> None:
        spec, no_ack = channel.gets.popleft()
        delivery = ObservedDelivery(connection.number, received.channel, channel, None, spec, no_ack)
        self._record_delivery(delivery, method.delivery_tag, method.redelivered, received)

    def _record_delivery(
        self, delivery: ObservedDelivery, tag: int, redelivered: bool, received: ReceivedMethod
    ) -> None:
        delivery.tag = tag
        delivery.redelivered = redelivered
        delivery.received = received
        delivery.now_ms = self._now_ms
        delivery.attempt = self.history.attempt_of(received.body)
        if delivery.attempt is not None:
            delivery.copy = self._copy_in(delivery.attempt, delivery.spec)
        delivery.queue_requeued = delivery.spec.name in self.history.requeued
        if redelivered:
            self.history.seen["redelivery"] += 1
        self._checkers.delivered(delivery)
        delivery.channel.record(delivery)

    def _copy_in(self, attempt: PublishAttempt, spec: QueueSpec) -> QueuedCopy | None:
        """The copy that was delivered; if it was dead-lettered by a queue that drops, the delivery shows it."""
        found = attempt.copies.get(spec.name)
        if not spec.surprising or (found is not None and found.ending != UNWRITTEN):
            return found
        for copy in list(attempt.copies.values()):
            if copy.state == GONE and copy.ending != "refused" and not copy.may_have_died:
                continue
            if spec in self._dead_letter_queues(copy):
                self.history.dead_letter(copy)
                return self.history.copy_into(attempt, spec, dead_letter=True)
        return found

    def _dead_letter_queues(self, copy: QueuedCopy) -> list[QueueSpec]:
        """The queues that its dead letter would go to."""
        exchange = copy.spec.dead_letter_exchange
        return self.routing.route(exchange, copy.spec.dead_letter_key or copy.attempt.routing_key) if exchange else []

    # -- confirms and returns

    def _answered(self, connection: ConnectionModel, channel: ChannelModel, method: BasicAck | BasicNack) -> None:
        self._checkers.answered(channel, method.delivery_tag, method.multiple)
        for number in answered_tags(method, channel.unanswered):
            attempt = channel.unanswered.pop(number, None)
            if attempt is None:
                continue
            self._checkers.settled(attempt)
            if isinstance(method, BasicAck):
                batch_no = attempt.stored_no if attempt.lasts() else 0
                promise = DurabilityClaim(f"message {attempt.number}", batch_no, attempts=(attempt,))
                connection.promises.append((connection.read_bytes, promise))
            else:
                attempt.state = REFUSED
                for copy in attempt.copies.values():
                    if copy.spec.refuses and copy.state == READY:
                        self.history.end(copy, "refused")

    def _returned(self, received: ReceivedMethod) -> None:
        attempt = self.history.attempt_of(received.body)
        self._checkers.returned(attempt)
        if attempt is not None:
            attempt.returned = True
