"""A client that publishes, and remembers what it was promised.

In confirm mode an attempt waits for its confirm; in a transaction for its commit; a plain publish is never answered.
What had no answer when a connection or channel ended is uncertain, and tried again as another attempt.

Not here: what became of an attempt in the node (`sim.history`).
"""

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warren.sim.client import Client
from warren.sim.history import Attempt
from warren.wire.frames import content_frames
from warren.wire.method_stream import Heard
from warren.wire.methods import (
    BasicAck,
    BasicNack,
    BasicPublish,
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

if TYPE_CHECKING:
    from warren.sim.world import World

CONFIRM = "confirm"
TRANSACTION = "transaction"
PLAIN = "plain"
CHANNEL = 1
WINDOW = 30


@dataclass(frozen=True)
class Target:
    """Where messages go, and what they carry."""

    exchange: str
    routing_key: str
    expires: bool = False
    ranked: bool = False
    delayed: bool = False


class Publisher(Client):
    """Publishes to a few targets."""

    def __init__(self, world: "World", name: str, topology: list[Method], mode: str, targets: list[Target]) -> None:
        super().__init__(world, name, topology)
        self.world: World = world
        self.mode = mode
        self.targets = targets
        self.burst_max = self.chance.choice((1, 5, 15))
        self.large_bodies = self.chance.choice((0.0, 0.05, 0.3))
        self.persistent = self.chance.random() < 0.5
        self.mandatory_share = 0.3
        # exchange, key and queue of bindings it may make and unmake
        self.extra_bindings: tuple[tuple[str, str, str], ...] = ()
        self._incarnation = 0
        self._publish_no = 0
        # by publish number; in a transaction by a number of our own
        self._unanswered: dict[int, Target] = {}
        self._committing: deque[list[int]] = deque()
        self._uncommitted: list[int] = []
        self._again: deque[Target] = deque()
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
            self.say_goodbye()
            return
        if not self.calmed and fate < 0.03:
            self._change_bindings()
        self._publish_some()
        if self._uncommitted and (self.calmed or self.chance.random() < 0.5):
            self._end_transaction()

    def heard(self, heard: Heard) -> None:
        method = heard.method
        if isinstance(method, BasicAck | BasicNack):
            last = method.delivery_tag
            numbers = [number for number in self._unanswered if number <= last] if method.multiple else [last]
            for number in numbers:
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

    def publish(self, target: Target) -> Attempt:
        """Publish one message, whatever the window says."""
        filler_bytes = self.chance.randint(0, 100)
        if self.chance.random() < self.large_bodies:
            filler_bytes = self.chance.choice((3_000, 9_000, 20_000))
        who = f"{self.name}/{self.connections}/{self._incarnation}"
        attempt = self.world.history.attempt(who, target.exchange, target.routing_key, filler_bytes)
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
        """Lead some messages to one more queue, or no longer."""
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
        """What was not answered is uncertain: it is sent again."""
        self._again.extend(self._unanswered.values())
        self._unanswered.clear()
        self._uncommitted.clear()
        self._committing.clear()
        self._publish_no = 0
