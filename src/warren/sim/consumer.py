"""A client that takes messages and settles them in every way there is.

It knows which delivery tags it holds, and settles only those: a fault of its own making is made on purpose. What it
holds when its channel ends is the node's again.

Not here: whether it was right to be given a message (`sim.checkers`).
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warren.sim.client import Client
from warren.sim.history import QueuePlan
from warren.wire.method_stream import Heard
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
    BasicQos,
    BasicRecover,
    BasicRecoverOk,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    Method,
    TxCommit,
    TxRollback,
    TxSelect,
)

if TYPE_CHECKING:
    from warren.sim.world import World

CHANNEL = 1
UNKNOWN_TAG = 1_000_000_000
WEIGHTS = (20.0, 30.0, 20.0, 10.0, 8.0, 4.0, 6.0, 1.0, 6.0, 3.0, 1.0, 0.5, 1.0)
"""How often each of a consumer's deeds is chosen."""


@dataclass(frozen=True, eq=False)
class Subscription:
    """A queue to read, and how."""

    plan: QueuePlan
    no_ack: bool = False
    priority: int = 0


class Consumer(Client):
    """Reads a few queues on one channel."""

    def __init__(
        self,
        world: "World",
        name: str,
        topology: list[Method],
        subscriptions: list[Subscription],
        prefetch: int,
        shared_prefetch: bool = False,
        transactional: bool = False,
    ) -> None:
        super().__init__(world, name, topology)
        self.world: World = world
        self.subscriptions = subscriptions
        self.prefetch = prefetch
        self.shared_prefetch = shared_prefetch
        self.transactional = transactional
        self.received_count = 0
        self._tags: dict[str, Subscription] = {}
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
        self.chance.choices(self.deeds(), WEIGHTS)[0]()
        if self.transactional and self.chance.random() < 0.5:
            self._end_transaction()

    def heard(self, heard: Heard) -> None:
        method = heard.method
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

    def get(self, plan: QueuePlan, no_ack: bool = False) -> None:
        """Ask for one message."""
        self._gets.append(no_ack)
        self.send(CHANNEL, BasicGet(plan.name, no_ack))

    # -- what it may do

    def deeds(self) -> tuple[Callable[[], None], ...]:
        """Everything it may do, in the order of `WEIGHTS`."""
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
            self._settle_one(BasicAck(self._pick()))

    def _ack_several(self) -> None:
        if self.held:
            self._settle_to(BasicAck(self._pick(), multiple=True))

    def _ack_all(self) -> None:
        if self.held:
            self._settle_to(BasicAck(self.held[-1], multiple=True))
        if self._settled:
            self._settled.clear()
            self.send(CHANNEL, TxCommit())

    def _nack_one(self) -> None:
        if self.held:
            self._settle_one(BasicNack(self._pick(), requeue=self.chance.random() < 0.7))

    def _nack_several(self) -> None:
        if self.held:
            self._settle_to(BasicNack(self._pick(), multiple=True, requeue=self.chance.random() < 0.7))

    def _reject_one(self) -> None:
        if self.held:
            self._settle_one(BasicReject(self._pick(), requeue=self.chance.random() < 0.5))

    def _recover(self) -> None:
        if not self.transactional:
            self._recovering += 1
            self.held.clear()
            self.send(CHANNEL, BasicRecover(requeue=True))

    def _get(self) -> None:
        self.get(self.chance.choice(self.subscriptions).plan, no_ack=self.chance.random() < 0.3)

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
        self.say_goodbye()

    # -- how it is done

    def _pick(self) -> int:
        return self.held[0] if self.chance.random() < 0.5 else self.chance.choice(self.held)

    def _settle_one(self, method: BasicAck | BasicNack | BasicReject) -> None:
        self.held.remove(method.delivery_tag)
        if self.transactional:
            self._settled.append(method.delivery_tag)
        self.send(CHANNEL, method)

    def _settle_to(self, method: BasicAck | BasicNack) -> None:
        settled = [tag for tag in self.held if tag <= method.delivery_tag]
        self.held = [tag for tag in self.held if tag > method.delivery_tag]
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

    def _subscribe(self, subscription: Subscription) -> None:
        self._tag_serial += 1
        tag = f"{self.name}-{self._tag_serial}"
        self._tags[tag] = subscription
        self.send(
            CHANNEL,
            BasicConsume(
                subscription.plan.name,
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
