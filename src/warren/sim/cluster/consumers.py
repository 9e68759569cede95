"""Clients of a cluster that consume, on whichever node they reach, and settle in every way there is.

Not here: what they have in common with publishers (`sim.cluster.clients`), what must hold of what they are given
(`sim.cluster.promises`).
"""

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warren.sim.cluster.clients import PAUSE_MS, ClusterClient
from warren.sim.cluster.promises import CHANNEL, LOOSE, Attempt
from warren.wire.method_stream import Heard
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
    BasicQos,
    BasicRecover,
    BasicRecoverOk,
    BasicReject,
    Method,
)

if TYPE_CHECKING:
    from warren.sim.cluster.world import ClusterWorld


@dataclass(eq=False)
class Held:
    """A delivery that a client has."""

    attempt: Attempt | None
    queue: str
    consumer: str


class ClusterConsumer(ClusterClient):
    """Reads a few queues, settles in every way there is, and comes back when it was cancelled."""

    def __init__(
        self, world: "ClusterWorld", name: str, topology: list[Method], queues: list[str], prefetch: int
    ) -> None:
        super().__init__(world, name, topology)
        self.queues = queues
        self.prefetch = prefetch
        self.may_reject = False
        self.diligent = False
        self.held: dict[int, Held] = {}
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
                self.world.promises.given_back(held.attempt, held.queue)
        for queue in self._consumers.values():
            self.world.promises.shaken(queue)
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
            self.say_goodbye()

    def hear(self, heard: Heard) -> None:
        method = heard.method
        if isinstance(method, BasicDeliver):
            self._delivered(heard, method)
        elif isinstance(method, BasicGetOk):
            self._take(heard, method.delivery_tag, method.redelivered, self._gets.popleft(), "")
        elif isinstance(method, BasicGetEmpty):
            self._gets.popleft()
        elif isinstance(method, BasicCancel | BasicCancelOk):
            self.world.promises.shaken(self._consumers.pop(method.consumer_tag, ""))
            self._subscribe_at_ms = self.world.now_ms + self.chance.randint(1, PAUSE_MS)
        elif isinstance(method, BasicRecoverOk):
            self._recovering -= 1
        elif isinstance(method, BasicConsumeOk):
            self.world.seen["consumer started"] += 1

    def _delivered(self, heard: Heard, method: BasicDeliver) -> None:
        consumer = method.consumer_tag
        queue = self._consumers.get(consumer)
        if queue is None:
            self.world.checkers.complain("nothing for closed channels", f"a delivery for {consumer}, which is over")
            return
        held = sum(1 for one in self.held.values() if one.consumer == consumer)
        if self.prefetch and held >= self.prefetch:
            text = f"{consumer} got tag {method.delivery_tag} and holds its {self.prefetch}"
            self.world.checkers.complain("unacked within prefetch", text)
        self._take(heard, method.delivery_tag, method.redelivered, queue, consumer)

    def _take(self, heard: Heard, tag: int, redelivered: bool, queue: str, consumer: str) -> None:
        assert self.link is not None, "it was heard over one"
        attempt = self.world.promises.delivered(
            consumer or self.who, self.link, queue, heard.body, redelivered, not self._recovering
        )
        if attempt is not None and queue == LOOSE and consumer:
            self.world.promises.settled(attempt, queue, True, False)
        elif not self._recovering:
            self.held[tag] = Held(attempt, queue, consumer)

    def _recover(self) -> None:
        """Give everything back, what is on its way included."""
        for held in self.held.values():
            if held.attempt is not None:
                self.world.promises.given_back(held.attempt, held.queue)
        self.held.clear()
        self._recovering += 1
        self.send(CHANNEL, BasicRecover(requeue=True))

    def _settle(self, method: BasicAck | BasicNack | BasicReject, acked: bool, requeued: bool) -> None:
        last = method.delivery_tag
        multiple = not isinstance(method, BasicReject) and method.multiple
        for tag in [tag for tag in self.held if tag == last or (multiple and tag < last)]:
            held = self.held.pop(tag)
            if held.attempt is not None:
                self.world.promises.settled(held.attempt, held.queue, acked, requeued)
        self.send(CHANNEL, method)

    def _subscribe(self, queue: str) -> None:
        self._serial += 1
        tag = f"{self.name}-{self._serial}"
        self._consumers[tag] = queue
        self.send(CHANNEL, BasicConsume(queue, tag, no_ack=queue == LOOSE))
