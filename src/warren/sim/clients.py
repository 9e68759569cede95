"""Simulated clients of one node: publishers and consumers.

In confirm mode an attempt waits for its confirm; in a transaction for its commit; a plain publish is never answered. An
attempt without an answer when its connection or channel ended is uncertain, and is published again as another attempt.

A consumer settles only delivery tags that it holds, in every way AMQP has; its errors are made on purpose. When its
channel ends, the node requeues what it held.

Not here: the fate of an attempt (`sim.history`), whether a delivery was right (`sim.invariants`).
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from warren.sim.history import NUMBER_DIGITS, PublishAttempt, QueueSpec
from warren.sim.simulation import SimulatedClient, answered_tags
from warren.sim.world import NodeWorld
from warren.wire.frames import content_frames
from warren.wire.method_stream import ReceivedMethod
from warren.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicRecover,
    BasicRecoverOk,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
    Method,
    QueueBind,
    QueueUnbind,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxSelect,
)
from warren.wire.properties import Properties, encode_header_payload

CONFIRM = "confirm"
TRANSACTION = "transaction"
PLAIN = "plain"
CHANNEL = 1
WINDOW = 30


@dataclass(frozen=True)
class PublishTarget:
    """Where messages go, and their properties."""

    exchange: str
    routing_key: str
    expires: bool = False
    ranked: bool = False
    delayed: bool = False


class SimulatedPublisher(SimulatedClient):
    """Publishes to a few targets."""

    def __init__(
        self, world: NodeWorld, name: str, topology: list[Method], mode: str, targets: list[PublishTarget]
    ) -> None:
        super().__init__(world, name, topology)
        self.world: NodeWorld = world
        self.mode = mode
        self.targets = targets
        self.burst_max = self.chance.choice((1, 5, 15))
        self.large_bodies = self.chance.choice((0.0, 0.05, 0.3))
        self.persistent = self.chance.random() < 0.5
        self.mandatory_share = 0.3
        # exchange, key and queue of bindings that it adds and removes
        self.extra_bindings: tuple[tuple[str, str, str], ...] = ()
        self._incarnation = 0
        self._publish_no = 0
        # by publish number; in a transaction by a number of our own
        self._unanswered: dict[int, PublishTarget] = {}
        self._committing: deque[list[int]] = deque()
        self._uncommitted: list[int] = []
        self._again: deque[PublishTarget] = deque()
        self._channel_open = False

    def opened(self) -> None:
        self._open_channel()

    def act(self) -> None:
        if not self._channel_open:
            return
        fate = self.chance.random()
        if not self.calmed and fate < 0.01:
            self._channel_open = False
            self.send(CHANNEL, ChannelClose(reply_code=200, reply_text="enough"))
            return
        if not self.calmed and fate < 0.015:
            self.close_in_order()
            return
        if not self.calmed and fate < 0.03:
            self._change_bindings()
        self._publish_some()
        if self._uncommitted and (self.calmed or self.chance.random() < 0.5):
            self._end_transaction()

    def method_received(self, received: ReceivedMethod) -> None:
        method = received.method
        if isinstance(method, BasicAck | BasicNack):
            for number in answered_tags(method, self._unanswered):
                self._unanswered.pop(number, None)
        elif isinstance(method, TxCommitOk):
            for number in self._committing.popleft():
                self._unanswered.pop(number, None)
        elif isinstance(method, ChannelCloseOk):
            self._forget_channel()
            self._open_channel()

    def channel_ended(self, number: int) -> None:
        self._forget_channel()
        self._open_channel()

    def cut_off(self) -> None:
        self._channel_open = False
        self._forget_channel()

    def done(self) -> bool:
        return not self._unanswered and not self._again

    def waiting_for(self) -> str:
        return f"{len(self._unanswered)} answers, {len(self._again)} to be sent again"

    def publish(self, target: PublishTarget) -> PublishAttempt:
        """Publish one message, regardless of the window."""
        filler_bytes = self.chance.randint(0, 100) // NUMBER_DIGITS * NUMBER_DIGITS
        if self.chance.random() < self.large_bodies:
            filler_bytes = self.chance.choice((3_000, 9_000, 20_000))
        who = f"{self.name}/{self.connections}/{self._incarnation}"
        attempt = self.world.history.attempt(who, filler_bytes)
        attempt.exchange, attempt.routing_key = target.exchange, target.routing_key
        properties = Properties(delivery_mode=2 if self.persistent else None)
        if target.ranked:
            attempt.priority = self.chance.randint(0, 7)
            properties.priority = attempt.priority
        if target.expires:
            attempt.expiration_ms = self.chance.choice((None, 0, 5, 50, 400))
            if attempt.expiration_ms is not None:
                properties.expiration = str(attempt.expiration_ms)
        if target.delayed:
            attempt.delay_ms = self.chance.choice((1, 20, 300))
            properties.headers = {"x-delay": attempt.delay_ms}
        attempt.persistent = self.persistent
        attempt.mandatory = not target.delayed and self.chance.random() < self.mandatory_share
        if self.mode != PLAIN:
            self._publish_no += 1
            self._unanswered[self._publish_no] = target
            if self.mode == TRANSACTION:
                self._uncommitted.append(self._publish_no)
        header = encode_header_payload(properties, len(attempt.body))
        content = content_frames(header, attempt.body, CHANNEL, self.frame_max)
        method = BasicPublish(target.exchange, target.routing_key, mandatory=attempt.mandatory)
        self.send(CHANNEL, method, attempt, content)
        return attempt

    def _publish_some(self) -> None:
        for _ in range(self.chance.randint(1, self.burst_max)):
            if len(self._unanswered) >= WINDOW:
                return
            if self._again:
                self.publish(self._again.popleft())
            elif not self.calmed:
                self.publish(self.chance.choice(self.targets))

    def _change_bindings(self) -> None:
        """Bind one more queue, or remove that binding."""
        if self.extra_bindings:
            exchange, key, queue = self.chance.choice(self.extra_bindings)
            if self.chance.random() < 0.5:
                self.send(CHANNEL, QueueBind(queue, exchange, key))
            else:
                self.send(CHANNEL, QueueUnbind(queue, exchange, key))

    def _end_transaction(self) -> None:
        numbers, self._uncommitted = self._uncommitted, []
        if not self.calmed and self.chance.random() < 0.25:
            self.send(CHANNEL, TxRollback())
            for number in numbers:
                del self._unanswered[number]
            return
        self.send(CHANNEL, TxCommit())
        self._committing.append(numbers)

    def _open_channel(self) -> None:
        self._incarnation += 1
        self.send(CHANNEL, ChannelOpen())
        self.declare(CHANNEL)
        if self.mode == CONFIRM:
            self.send(CHANNEL, ConfirmSelect())
        elif self.mode == TRANSACTION:
            self.send(CHANNEL, TxSelect())
        self._channel_open = True

    def _forget_channel(self) -> None:
        """Publish unanswered messages again."""
        self._again.extend(self._unanswered.values())
        self._unanswered.clear()
        self._uncommitted.clear()
        self._committing.clear()
        self._publish_no = 0


UNKNOWN_TAG = 1_000_000_000
WEIGHTS = (20.0, 30.0, 20.0, 10.0, 8.0, 4.0, 6.0, 1.0, 6.0, 3.0, 1.0, 0.5, 1.0)
"""The weight of each consumer action."""


@dataclass(frozen=True, eq=False)
class PlannedSubscription:
    """A queue to consume, and how."""

    spec: QueueSpec
    no_ack: bool = False
    priority: int = 0


class SimulatedConsumer(SimulatedClient):
    """Consumes a few queues on one channel."""

    def __init__(
        self,
        world: NodeWorld,
        name: str,
        topology: list[Method],
        subscriptions: list[PlannedSubscription],
        prefetch: int,
        shared_prefetch: bool = False,
        transactional: bool = False,
    ) -> None:
        super().__init__(world, name, topology)
        self.world: NodeWorld = world
        self.subscriptions = subscriptions
        self.prefetch = prefetch
        self.shared_prefetch = shared_prefetch
        self.transactional = transactional
        self.received_count = 0
        self._tags: dict[str, PlannedSubscription] = {}
        self._tag_serial = 0
        # delivery tags it holds, oldest first; those settled in an open transaction
        self.held: list[int] = []
        self._settled: list[int] = []
        self._gets: deque[bool] = deque()
        self._recovering = 0
        self._channel_open = False

    def opened(self) -> None:
        self._open_channel()

    def act(self) -> None:
        if not self._channel_open:
            return
        if self.calmed:
            self._ack_all()
            return
        self.chance.choices(self.actions(), WEIGHTS)[0]()
        if self.transactional and self.chance.random() < 0.5:
            self._end_transaction()

    def method_received(self, received: ReceivedMethod) -> None:
        method = received.method
        if isinstance(method, BasicDeliver):
            self.received_count += 1
            subscription = self._tags[method.consumer_tag]
            if not subscription.no_ack and not self._recovering:
                self.held.append(method.delivery_tag)
        elif isinstance(method, BasicGetOk):
            if not self._gets.popleft() and not self._recovering:
                self.held.append(method.delivery_tag)
        elif isinstance(method, BasicGetEmpty):
            self._gets.popleft()
        elif isinstance(method, BasicRecoverOk):
            self._recovering -= 1
        elif isinstance(method, BasicCancel | BasicCancelOk):
            self._tags.pop(method.consumer_tag, None)
        elif isinstance(method, ChannelCloseOk):
            self._open_channel()

    def channel_ended(self, number: int) -> None:
        self._open_channel()

    def cut_off(self) -> None:
        self._channel_open = False
        self._forget()

    def done(self) -> bool:
        return not self.held and not self._settled

    def waiting_for(self) -> str:
        return f"it holds {len(self.held)} deliveries"

    def get(self, spec: QueueSpec, no_ack: bool = False) -> None:
        """Ask for one message."""
        self._gets.append(no_ack)
        self.send(CHANNEL, BasicGet(spec.name, no_ack))

    # -- its actions

    def actions(self) -> tuple[Callable[[], None], ...]:
        """Its actions, in the order of `WEIGHTS`."""
        return (
            self._nothing,
            self._ack_one,
            self._ack_several,
            self._ack_all,
            self._nack_one,
            self._nack_several,
            self._reject_one,
            self._recover,
            self._get,
            self._cancel_or_subscribe,
            self._close_channel,
            self._err,
            self._leave,
        )

    def _nothing(self) -> None:
        pass

    def _ack_one(self) -> None:
        if self.held:
            self._settle(BasicAck(self._pick()))

    def _ack_several(self) -> None:
        if self.held:
            self._settle(BasicAck(self._pick(), multiple=True))

    def _ack_all(self) -> None:
        if self.held:
            self._settle(BasicAck(self.held[-1], multiple=True))
        if self._settled:
            self._settled.clear()
            self.send(CHANNEL, TxCommit())

    def _nack_one(self) -> None:
        if self.held:
            self._settle(BasicNack(self._pick(), requeue=self.chance.random() < 0.7))

    def _nack_several(self) -> None:
        if self.held:
            self._settle(BasicNack(self._pick(), multiple=True, requeue=self.chance.random() < 0.7))

    def _reject_one(self) -> None:
        if self.held:
            self._settle(BasicReject(self._pick(), requeue=self.chance.random() < 0.5))

    def _recover(self) -> None:
        if not self.transactional:
            self._recovering += 1
            self.held.clear()
            self.send(CHANNEL, BasicRecover(requeue=True))

    def _get(self) -> None:
        self.get(self.chance.choice(self.subscriptions).spec, no_ack=self.chance.random() < 0.3)

    def _cancel_or_subscribe(self) -> None:
        if self._tags and self.chance.random() < 0.5:
            self.send(CHANNEL, BasicCancel(next(iter(self._tags))))
        elif len(self._tags) < 4:
            self._subscribe(self.chance.choice(self.subscriptions))

    def _close_channel(self) -> None:
        self._channel_open = False
        self.send(CHANNEL, ChannelClose(reply_code=200, reply_text="enough"))

    def _err(self) -> None:
        self._channel_open = False
        self.send(CHANNEL, BasicAck(UNKNOWN_TAG), provokes=True)

    def _leave(self) -> None:
        self._channel_open = False
        self.close_in_order()

    # -- carrying them out

    def _pick(self) -> int:
        return self.held[0] if self.chance.random() < 0.5 else self.chance.choice(self.held)

    def _settle(self, method: BasicAck | BasicNack | BasicReject) -> None:
        settled = answered_tags(method, self.held)
        self.held = [tag for tag in self.held if tag not in settled]
        if self.transactional:
            self._settled += settled
        self.send(CHANNEL, method)

    def _end_transaction(self) -> None:
        if not self._channel_open or not self._settled:
            return
        if self.chance.random() < 0.3:
            self.held = sorted(self.held + self._settled)
            self.send(CHANNEL, TxRollback())
        else:
            self.send(CHANNEL, TxCommit())
        self._settled.clear()

    def _subscribe(self, subscription: PlannedSubscription) -> None:
        self._tag_serial += 1
        tag = f"{self.name}-{self._tag_serial}"
        self._tags[tag] = subscription
        self.send(
            CHANNEL,
            BasicConsume(
                subscription.spec.name,
                tag,
                no_ack=subscription.no_ack,
                arguments={"x-priority": subscription.priority} if subscription.priority else {},
            ),
        )

    def _open_channel(self) -> None:
        self._forget()
        self.send(CHANNEL, ChannelOpen())
        self.declare(CHANNEL)
        if self.transactional:
            self.send(CHANNEL, TxSelect())
        self.send(CHANNEL, BasicQos(prefetch_count=self.prefetch, global_=self.shared_prefetch))
        for subscription in self.subscriptions:
            self._subscribe(subscription)
        self._channel_open = True

    def _forget(self) -> None:
        self._tags.clear()
        self.held.clear()
        self._settled.clear()
        self._gets.clear()
        self._recovering = 0
