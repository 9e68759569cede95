"""Clients of a simulated cluster: publishers that remember the answers, and consumers that settle in every way.

A node of a cluster may close a channel because another node is down, or because the nodes could not agree; a client
then waits a little and starts again. A node does not close channels for other reasons.

Not here: clients that declare and delete queues (`sim.cluster.workload`), promises (`sim.cluster.ledger`).
"""

from collections import deque
from dataclasses import dataclass

from warren.sim.clients import CONFIRM
from warren.sim.cluster.ledger import CHANNEL, LOOSE
from warren.sim.cluster.world import ClusterWorld
from warren.sim.history import CONFIRMED, WITHDRAWN, PublishAttempt
from warren.sim.simulation import SimulatedClient, answered_tags
from warren.wire.frames import content_frames
from warren.wire.method_stream import ReceivedMethod
from warren.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
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
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
    Method,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxSelect,
)
from warren.wire.properties import Properties, encode_header_payload

WINDOW = 20
PAUSE_MS = 400
EXCUSES = ("is down or inaccessible", "could not agree", "partial tx completion", "no queue 'passing")
"""Why a node of a cluster may close the channel of a correct client."""


@dataclass(frozen=True)
class ClusterPublishTarget:
    """An exchange and a key, and the queues they lead to."""

    exchange: str
    routing_key: str
    queues: tuple[str, ...]


class ClusterClient(SimulatedClient):
    """One channel, opened again and again."""

    excuses: tuple[str, ...] = EXCUSES

    def __init__(self, world: ClusterWorld, name: str, topology: list[Method]) -> None:
        super().__init__(world, name, topology)
        self.world: ClusterWorld = world
        self.channel_open = False
        self.runs = 0
        self._open_at_ms = 0

    # -- for subclasses

    def channel_opened(self) -> None:
        """The channel is open; nothing was sent on it yet."""

    def forget_channel(self) -> None:
        """The channel is over."""

    def work(self) -> None:
        """Some time has passed, and there is a channel."""

    # -- the channel

    @property
    def who(self) -> str:
        """The name of this channel, unique among its reopenings."""
        return f"{self.name}/{self.runs}"

    def opened(self) -> None:
        self._open_channel()

    def act(self) -> None:
        if self.channel_open:
            self.work()
        elif self.world.now_ms >= self._open_at_ms:
            self._open_channel()

    def channel_ended(self, number: int) -> None:
        self._pause(self.chance.randint(1, PAUSE_MS))
        self._end_run()

    def cut_off(self) -> None:
        self._end_run()

    def close_channel(self) -> None:
        self._end_run()
        # until the answer is here
        self._open_at_ms = self.world.now_ms + 10**9
        self.send(CHANNEL, ChannelClose(reply_code=200, reply_text="enough"))

    def method_received(self, received: ReceivedMethod) -> None:
        if isinstance(received.method, ChannelCloseOk):
            self._pause(0)
        elif self.channel_open:
            self.channel_method_received(received)

    def channel_method_received(self, received: ReceivedMethod) -> None:
        """The node sent a method on the channel."""

    def _handle_method(self, received: ReceivedMethod) -> None:
        method = received.method
        self.world.seen[f"node says {method.name}"] += 1
        if isinstance(method, ChannelClose):
            self.world.seen[f"fault {method.reply_code}"] += 1
            if not any(excuse in method.reply_text for excuse in self.excuses):
                text = f"{self.name} was told {method.reply_code} {method.reply_text}"
                self.world.checkers.complain("no fault without cause", text)
        super()._handle_method(received)

    def _pause(self, duration_ms: int) -> None:
        self._open_at_ms = self.world.now_ms + duration_ms

    def _open_channel(self) -> None:
        self.runs += 1
        self._open_at_ms = 0
        self.send(CHANNEL, ChannelOpen())
        self.declare(CHANNEL)
        self.channel_open = True
        self.channel_opened()

    def _end_run(self) -> None:
        if self.channel_open:
            self.channel_open = False
            self.forget_channel()


class ClusterPublisher(ClusterClient):
    """Publishes to a few targets, and expects an answer for each message, or for each transaction."""

    def __init__(
        self, world: ClusterWorld, name: str, topology: list[Method], mode: str, targets: list[ClusterPublishTarget]
    ) -> None:
        super().__init__(world, name, topology)
        self.mode = mode
        self.targets = targets
        self.burst_max = self.chance.choice((1, 3, 8))
        self.large_bodies = self.chance.choice((0.0, 0.05, 0.2))
        self.persistent_share = self.chance.choice((0.5, 1.0))
        self.mandatory_share = 0.5
        self._publish_no = 0
        self._unanswered: dict[int, PublishAttempt] = {}
        self._uncommitted: list[PublishAttempt] = []
        self._committing: deque[list[PublishAttempt]] = deque()

    def done(self) -> bool:
        return self.channel_open and not self._unanswered and not self._uncommitted and not self._committing

    def waiting_for(self) -> str:
        waiting = [attempt.number for attempt in self._unanswered.values()]
        return f"answers for {waiting}, {len(self._committing)} commits; its channel is open: {self.channel_open}"

    def channel_opened(self) -> None:
        self._publish_no = 0
        self.send(CHANNEL, ConfirmSelect() if self.mode == CONFIRM else TxSelect())

    def forget_channel(self) -> None:
        self._unanswered.clear()
        self._committing.clear()
        for attempt in self._uncommitted:
            attempt.state = WITHDRAWN
        self._uncommitted.clear()

    def work(self) -> None:
        if not self.calmed:
            fate = self.chance.random()
            if fate < 0.01:
                self.close_channel()
                return
            if fate < 0.015:
                self._end_run()
                self.close_in_order()
                return
            for _ in range(self.chance.randint(1, self.burst_max)):
                if len(self._unanswered) + len(self._uncommitted) < WINDOW and len(self._committing) < 3:
                    self.publish(self.chance.choice(self.targets))
        if self._uncommitted and (self.calmed or self.chance.random() < 0.5):
            self._end_transaction()

    def publish(self, target: ClusterPublishTarget, mandatory: bool | None = None) -> PublishAttempt:
        """Publish one message, regardless of the window."""
        filler_bytes = self.chance.randint(0, 60)
        if self.chance.random() < self.large_bodies:
            filler_bytes = self.chance.choice((3_000, 9_000))
        persistent = self.chance.random() < self.persistent_share
        if mandatory is None:
            mandatory = self.chance.random() < self.mandatory_share
        attempt = self.world.ledger.publish(self.who, self.link, target.queues, persistent, mandatory, filler_bytes)
        header = encode_header_payload(Properties(delivery_mode=2 if persistent else None), len(attempt.body))
        content = content_frames(header, attempt.body, CHANNEL, self.frame_max)
        if self.mode == CONFIRM:
            self._publish_no += 1
            self._unanswered[self._publish_no] = attempt
        else:
            self._uncommitted.append(attempt)
        method = BasicPublish(target.exchange, target.routing_key, mandatory=mandatory)
        self.send(CHANNEL, method, content=content)
        return attempt

    def channel_method_received(self, received: ReceivedMethod) -> None:
        method = received.method
        if isinstance(method, BasicAck | BasicNack):
            self._answered(method)
        elif isinstance(method, TxCommitOk):
            for attempt in self._committing.popleft():
                attempt.state = CONFIRMED
        elif isinstance(method, BasicReturn):
            self.world.ledger.returned(received.body)

    def _answered(self, method: BasicAck | BasicNack) -> None:
        for number in answered_tags(method, self._unanswered):
            attempt = self._unanswered.pop(number, None)
            if attempt is None:
                self.world.checkers.complain("confirms answer publishes", f"{self.who}: {number} answers nothing")
            elif isinstance(method, BasicAck):
                attempt.state = CONFIRMED

    def _end_transaction(self) -> None:
        attempts, self._uncommitted = self._uncommitted, []
        if not self.calmed and self.chance.random() < 0.25:
            for attempt in attempts:
                attempt.state = WITHDRAWN
            self.send(CHANNEL, TxRollback())
        else:
            self._committing.append(attempts)
            self.send(CHANNEL, TxCommit())


@dataclass(eq=False)
class HeldDelivery:
    """A delivery that a client holds."""

    attempt: PublishAttempt | None
    queue: str
    consumer: str


class ClusterConsumer(ClusterClient):
    """Consumes a few queues, settles in every way, and subscribes again when it was cancelled."""

    def __init__(
        self, world: ClusterWorld, name: str, topology: list[Method], queues: list[str], prefetch: int
    ) -> None:
        super().__init__(world, name, topology)
        self.queues = queues
        self.prefetch = prefetch
        self.may_reject = False
        self.diligent = False
        self.held: dict[int, HeldDelivery] = {}
        self._consumers: dict[str, str] = {}
        self._subscribe_at_ms = 0
        self._serial = 0
        self._gets: deque[str] = deque()
        self._recovering = 0

    def done(self) -> bool:
        return not self.held and set(self.queues) == set(self._consumers.values())

    def waiting_for(self) -> str:
        return f"it holds {sorted(self.held)}, reads {sorted(self._consumers.values())} of {self.queues}"

    def channel_opened(self) -> None:
        self.send(CHANNEL, BasicQos(prefetch_count=self.prefetch))
        self._subscribe_at_ms = 0

    def forget_channel(self) -> None:
        for held in self.held.values():
            if held.attempt is not None:
                self.world.ledger.given_back(held.attempt, held.queue)
        for queue in self._consumers.values():
            self.world.ledger.shaken(queue)
        self.held.clear()
        self._consumers.clear()
        self._gets.clear()
        self._recovering = 0

    def work(self) -> None:
        missing = [queue for queue in self.queues if queue not in self._consumers.values()]
        if missing and self.world.now_ms >= self._subscribe_at_ms:
            self._subscribe(missing[0])
        if self.calmed or self.diligent:
            if self.held:
                self._settle(BasicAck(max(self.held), multiple=True), True, False)
        else:
            self._do_something()

    def _do_something(self) -> None:
        fate = self.chance.random()
        tag = self.chance.choice(list(self.held)) if self.held else 0
        requeue = not self.may_reject or self.chance.random() < 0.5
        if fate < 0.45 and tag:
            self._settle(BasicAck(tag), True, False)
        elif fate < 0.65 and tag:
            self._settle(BasicAck(tag, multiple=True), True, False)
        elif fate < 0.72 and tag:
            self._settle(BasicNack(tag, requeue=requeue), False, requeue)
        elif fate < 0.75 and tag:
            self._settle(BasicNack(tag, multiple=True, requeue=requeue), False, requeue)
        elif fate < 0.8 and tag:
            self._settle(BasicReject(tag, requeue=requeue), False, requeue)
        elif 0.8 <= fate < 0.86 and len(self._gets) < 3:
            queue = self.chance.choice(self.queues)
            self._gets.append(queue)
            self.send(CHANNEL, BasicGet(queue))
        elif 0.86 <= fate < 0.863 and self._consumers:
            self.send(CHANNEL, BasicCancel(next(iter(self._consumers))))
        elif 0.87 <= fate < 0.875:
            self._recover()
        elif 0.88 <= fate < 0.884:
            self.close_channel()
        elif 0.89 <= fate < 0.892:
            self._end_run()
            self.close_in_order()

    def channel_method_received(self, received: ReceivedMethod) -> None:
        method = received.method
        if isinstance(method, BasicDeliver):
            self._delivered(received, method)
        elif isinstance(method, BasicGetOk):
            self._take(received, method.delivery_tag, method.redelivered, self._gets.popleft(), "")
        elif isinstance(method, BasicGetEmpty):
            self._gets.popleft()
        elif isinstance(method, BasicCancel | BasicCancelOk):
            self.world.ledger.shaken(self._consumers.pop(method.consumer_tag, ""))
            self._subscribe_at_ms = self.world.now_ms + self.chance.randint(1, PAUSE_MS)
        elif isinstance(method, BasicRecoverOk):
            self._recovering -= 1
        elif isinstance(method, BasicConsumeOk):
            self.world.seen["consumer started"] += 1

    def _delivered(self, received: ReceivedMethod, method: BasicDeliver) -> None:
        consumer = method.consumer_tag
        queue = self._consumers.get(consumer)
        if queue is None:
            self.world.checkers.complain("nothing for closed channels", f"a delivery for {consumer}, which is over")
            return
        held = sum(1 for one in self.held.values() if one.consumer == consumer)
        if self.prefetch and held >= self.prefetch:
            text = f"{consumer} got tag {method.delivery_tag} and holds its {self.prefetch}"
            self.world.checkers.complain("unacked within prefetch", text)
        self._take(received, method.delivery_tag, method.redelivered, queue, consumer)

    def _take(self, received: ReceivedMethod, tag: int, redelivered: bool, queue: str, consumer: str) -> None:
        assert self.link is not None, "it was received over one"
        attempt = self.world.ledger.delivered(
            consumer or self.who, self.link, queue, received.body, redelivered, not self._recovering
        )
        if attempt is not None and queue == LOOSE and consumer:
            self.world.ledger.settled(attempt, queue, True, False)
        elif not self._recovering:
            self.held[tag] = HeldDelivery(attempt, queue, consumer)

    def _recover(self) -> None:
        """Requeue everything, deliveries in transit included."""
        for held in self.held.values():
            if held.attempt is not None:
                self.world.ledger.given_back(held.attempt, held.queue)
        self.held.clear()
        self._recovering += 1
        self.send(CHANNEL, BasicRecover(requeue=True))

    def _settle(self, method: BasicAck | BasicNack | BasicReject, acked: bool, requeued: bool) -> None:
        for tag in answered_tags(method, self.held):
            held = self.held.pop(tag)
            if held.attempt is not None:
                self.world.ledger.settled(held.attempt, held.queue, acked, requeued)
        self.send(CHANNEL, method)

    def _subscribe(self, queue: str) -> None:
        self._serial += 1
        tag = f"{self.name}-{self._serial}"
        self._consumers[tag] = queue
        self.send(CHANNEL, BasicConsume(queue, tag, no_ack=queue == LOOSE))
